# SPDX-License-Identifier: GPL-2.0-or-later
"""UFM's calls and /metrics: methods, paths, queries, bodies and answers."""
import re
from urllib.parse import parse_qs, unquote

from ohca_web.shape import HttpError, Text, object_of

from .fabric import View
from .words import Members, check_names, flag_of, guids_of, pkey_of, pkey_to_change

RELEASE = "6.22.1"              # the release of UFM that has these calls
MAX_QUERY = 32                  # most names in a query
METRICS = "/metrics"            # has no prefix: Prometheus requests this path
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def is_true(query, name):
    """Whether a query has NAME=true."""
    value = query.get(name, "false").lower()
    if value not in ("true", "false"):
        raise HttpError(400, f"{name} must be true or false")
    return value == "true"


class Calls:
    """The calls of a server, which use a Store and a Fabric."""

    def __init__(self, store, fabric):
        self.store, self.fabric = store, fabric
        self.routes = [(re.compile(path), methods) for path, methods in (
            # METRICS has no prefix, so its path has no slash here
            (METRICS[1:], {"GET": self.metrics}),
            (r"/app/ufm_version", {"GET": self.version}),
            (r"/resources/pkeys/?", {"GET": self.get_all, "POST": self.add, "PUT": self.set}),
            (r"/resources/pkeys/add/?", {"POST": self.create}),
            (r"/resources/pkeys/([^/]+)/guids/([^/]+)", {"DELETE": self.remove_path}),
            (r"/resources/pkeys/([^/]+)", {"GET": self.get_one, "DELETE": self.delete}),
            (r"/actions/remove_guids_from_pkey/?", {"POST": self.remove}),
            (r"/resources/systems(?:/([^/]+))?/?", {"GET": self.systems}),
            (r"/resources/ports(?:/([^/]+))?/?", {"GET": self.ports}),
            (r"/resources/links/?", {"GET": self.links}))]

    def answer(self, method, path, query, body):
        """Answers a call by a JSON value or a Text. @path: without its prefix; @body: bytes"""
        for pattern, methods in self.routes:
            match = pattern.fullmatch(path)
            if not match:
                continue
            if method not in methods:
                raise HttpError(405, f"this call has the methods {', '.join(methods)}")
            words = (word and unquote(word) for word in match.groups())
            return methods[method](query_of(query), body, *words)
        raise HttpError(404, "there is no such call")

    @staticmethod
    def version(_query, _body):
        """GET app/ufm_version"""
        return {"ufm_release_version": RELEASE}

    def metrics(self, _query, _body):
        """GET /metrics"""
        return Text(self.fabric.metrics(), OPENMETRICS)

    def get_all(self, query, _body):
        """GET resources/pkeys"""
        return self.store.partitions.shown(is_true(query, "guids_data"),
                                           is_true(query, "qos_conf"))

    def get_one(self, query, _body, pkey):
        """GET resources/pkeys/PKEY; an empty object if there is no such P_Key"""
        return self.store.partitions.shown_one(pkey_of(pkey), is_true(query, "guids_data"),
                                               is_true(query, "qos_conf"))

    def put(self, body, replace):
        """Adds members to a P_Key, or replaces its members; makes the P_Key if it is new."""
        m = Members(body)
        self.store.change(lambda now: now.with_pkey(m.pkey, m.ip_over_ib, m.index0, m.full,
                                                    replace))
        return {}

    def add(self, _query, body):
        """POST resources/pkeys"""
        return self.put(body, False)

    def set(self, _query, body):
        """PUT resources/pkeys"""
        return self.put(body, True)

    def create(self, _query, body):
        """POST resources/pkeys/add: a P_Key without members"""
        found = object_of(body)
        check_names(found, "pkey", "index0", "ip_over_ib")
        pkey = pkey_to_change(found.get("pkey"))
        flag_of(found, "index0", False)     # checked, but without effect: there are no members
        ip_over_ib = flag_of(found, "ip_over_ib", None)
        self.store.change(lambda now: now.with_pkey(pkey, ip_over_ib))
        return {}

    def remove_guids(self, pkey, guids):
        """Removes GUIDs from a P_Key; it is no error if a GUID is no member"""
        pkey, guids = pkey_to_change(pkey), guids_of(guids)
        self.store.change(lambda now: now.without(pkey, guids))
        return {}

    def remove(self, _query, body):
        """POST actions/remove_guids_from_pkey"""
        found = object_of(body)
        check_names(found, "pkey", "guids")
        return self.remove_guids(found.get("pkey"), found.get("guids"))

    def remove_path(self, _query, _body, pkey, guids):
        """DELETE resources/pkeys/PKEY/guids/GUID,..."""
        return self.remove_guids(pkey, guids.split(","))

    def delete(self, _query, _body, pkey):
        """DELETE resources/pkeys/PKEY"""
        pkey = pkey_to_change(pkey)
        self.store.change(lambda now: now.without_pkey(pkey))
        return {}

    def systems(self, query, _body, name=None):
        """GET resources/systems, of one name, type or role if the query has it"""
        view = View(self.fabric.nodes())
        found = [s for s in view.systems()
                 if name in (None, s["name"], s["system_name"]) and
                 query.get("type", s["type"]).lower() == s["type"] and
                 query.get("role", s["role"]) == s["role"]]
        if name and not found:
            raise HttpError(404, "there is no such system")
        if is_true(query, "ports"):
            by_name = {p["name"]: p for p in view.ports()}
            for system in found:
                system["ports"] = [by_name[port] for port in system["ports"]]
        return found

    def ports(self, query, _body, names=None):
        """GET resources/ports, those of some names, of a system or its type, or Active ones"""
        wanted = names.split(",") if names else []
        active = is_true(query, "active")
        found = [p for p in View(self.fabric.nodes()).ports()
                 if (not wanted or p["name"] in wanted) and
                 query.get("system", p["systemID"]) in (p["systemID"], p["system_name"]) and
                 query.get("sys_type", p["sys_type"]).lower() == p["sys_type"].lower() and
                 (not active or p["logical_state"] == "Active")]
        if wanted and len(found) < len(set(wanted)):
            raise HttpError(404, "there is no such port")
        return found

    def links(self, query, _body):
        """GET resources/links, of one system if the query has it"""
        view = View(self.fabric.nodes())
        system = query.get("system")
        guids = {s["guid"] for s in view.systems() if system in (s["name"], s["system_name"])}
        found = []
        for link in view.links():
            ends = link.pop("systems")
            if system is None or guids & set(ends):
                found.append(link)
        return found


def query_of(text):
    """{name: its last value} of a query"""
    try:
        return {name: values[-1] for name, values in
                parse_qs(text, keep_blank_values=True, max_num_fields=MAX_QUERY).items()}
    except ValueError:
        raise HttpError(400, f"a query has at most {MAX_QUERY} names") from None
