#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls over HTTP: answers, errors, bounds, access, TLS, and 200 wrong requests."""
import argparse
import base64
import contextlib
import io
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import time
from unittest import mock

import rest
from ohca_ufm import calls, cli, fabric, reload, site, words
from ohca_ufm.partitions import QOS
from ohca_web import control, options, server as module
from ohca_web.shape import HttpError

G, H = "0011223344556677", "0011223344556688"
WRONG = 200
SEED = 7


def basic(user):
    """The Authorization header of a user with a password."""
    return {"Authorization": "Basic " + base64.b64encode(user.encode()).decode()}


def garbage(chance):
    """Bytes that are not JSON, or JSON that is not a request."""
    return chance.choice((
        lambda: chance.randbytes(chance.randrange(1, 300)),
        lambda: b"[" * chance.randrange(1, 200000),
        lambda: json.dumps(value(chance, 3)).encode() + b"}",
        lambda: json.dumps({"pkey": value(chance, 1), "guids": value(chance, 2)}).encode()))()


def value(chance, deep):
    """A JSON value that no request may have."""
    kind = chance.randrange(8 if deep else 6)
    if kind == 6:
        return [value(chance, deep - 1) for _ in range(chance.randrange(5))]
    if kind == 7:
        return {f"k{i}": value(chance, deep - 1) for i in range(chance.randrange(5))}
    return (None, True, chance.randrange(-9, 99), chance.random() * 1e300,
            "0" * chance.randrange(40),
            "".join(chr(chance.randrange(1, 0xD7FF)) for _ in range(9)))[kind]


def wrong_member(chance):
    """A body with one wrong member."""
    members = {"pkey": "0x22", "guids": [H], "index0": True, "ip_over_ib": True,
               "membership": "full"}
    name, wrong = chance.choice((
        ("pkey", chance.choice(("0x0", "0x8000", "0x7fff", "0xffff", "0x12345", "g", "", 34))),
        ("guids", chance.choice(([], [""], [H + "0"], H, [0], ["0" * 16], [H, None], {}))),
        ("index0", chance.choice((0, "true", [], {}))),
        ("ip_over_ib", chance.choice((1, "", "yes"))),
        ("membership", chance.choice(("", "FULL", None, 1, ["full"]))),
        ("memberships", chance.choice((["full"] * 2, "full", [None], ["none"]))),
        (f"x{chance.random()}", 1)))
    return json.dumps({**members, name: wrong}).encode()


def raw_request(chance):
    """A request with an error in front of its body, as bytes."""
    return chance.choice((
        chance.randbytes(60) + b"\r\n\r\n",
        b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"GET /ufmRest/%00 HTTP/1.1\r\n\r\n", b"POST /ufmRest\r\n\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 150 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + (b"A: " + b"b" * 20000 + b"\r\n") * 9 + b"\r\n",
        b"POST /ufmRest/resources/pkeys HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        *(b"POST /ufmRest/resources/pkeys HTTP/1.1\r\nContent-Length: " + n + b"\r\n\r\n"
          for n in (b"-1", b"x", b"", b"9" * 50, b"1\r\nContent-Length: 2", b"262145"))))


def wrong_request(chance):
    """A wrong request: (method, path, body), or bytes."""
    kind = chance.randrange(5)
    if kind == 0:
        return raw_request(chance)
    if kind == 1:
        return chance.choice(("POST", "PUT")), rest.PKEYS, wrong_member(chance)
    if kind == 2:
        return chance.choice((("POST", rest.PKEYS), ("PUT", rest.PKEYS), ("POST", rest.REMOVE),
                              ("POST", rest.PKEYS + "/add"))) + (garbage(chance),)
    if kind == 3:
        pkey = chance.choice(("0x0", "x", "0x8000", "%00", "..", "0x1%0a", "-", "1.0", "%ff"))
        return (chance.choice(("GET", "DELETE")), f"{rest.PKEYS}/{pkey}", None)
    return chance.choice((
        ("DELETE", rest.PKEYS, None), ("PATCH", rest.PKEYS, b"{}"), ("GET", rest.REMOVE, None),
        ("GET", "/", None), ("GET", "/ufmRest", None), ("GET", "/ufmRest/../etc/passwd", None),
        ("GET", "/ufmRestV4/app/ufm_version", None), ("DELETE", rest.PKEYS + "/0x33", None),
        ("GET", rest.PKEYS + "?guids_data=maybe", None),
        ("DELETE", f"{rest.PKEYS}/1/guids/x,", None),
        ("GET", rest.PKEYS + "?" + "&".join(f"a{i}=1" for i in range(99)), None),
        ("GET", "/ufmRest/resources/systems", None), ("OPTIONS", "*", None)))


class Calls(rest.Case):
    """Calls of a server without users."""

    def setUp(self):
        super().setUp()
        self.server = self.started()

    def call(self, *args, **more):
        """Sends a call to the server."""
        return self.server.call(*args, **more)

    def members(self, pkey):
        """{GUID: (membership, index0)}"""
        found = self.good(self.call("GET", f"{rest.PKEYS}/{pkey}?guids_data=true"))
        return {m["guid"]: (m["membership"], m["index0"]) for m in found["guids"]}

    def test_ib_kubernetes(self):
        """The three calls of ib-kubernetes, and the version."""
        self.assertEqual(list(self.good(self.call("GET", "/ufmRest/app/ufm_version"))),
                         ["ufm_release_version"])
        for pkey in "0x0001", "0x8002":
            self.good(self.call("POST", rest.PKEYS, {
                "pkey": pkey, "index0": True, "ip_over_ib": True, "membership": "full",
                "guids": [G, H]}))
        self.good(self.call("POST", rest.REMOVE, {"pkey": "0x0001", "guids": [G]}))
        self.assertEqual(self.members("0x1"), {H: ("full", False)})
        self.assertEqual(self.members("0x2"), {G: ("full", True), H: ("full", True)})
        text = self.server.text()
        self.assertIn(f"api_pkey_0x1=0x0001, ipoib : 0x{H}=full ;\n", text)
        self.assertIn(f"api_pkey_0x2=0x0002, ipoib, indx0 : 0x{G}=full, 0x{H}=full ;\n", text)
        # one that is no member, and one that is in no partition
        self.good(self.call("POST", rest.REMOVE, {"pkey": "0x0001", "guids": [G]}))
        self.good(self.call("POST", rest.REMOVE, {"pkey": "0x0111", "guids": [G]}))
        # at the start, and after each of the changes
        self.assertEqual(rest.read(os.path.join(self.dir, "reloads")), "\n" * 4)

    def test_shapes(self):
        """All P_Keys and one, with and without GUIDs and QoS; {} for one that does not exist."""
        self.good(self.call("POST", rest.PKEYS + "/add", {"pkey": "5", "ip_over_ib": False}))
        self.good(self.call("PUT", rest.PKEYS, {"pkey": "0x8001", "guids": [G, H],
                                               "memberships": ["full", "limited"]}))
        one = {"partition": "api_pkey_0x1", "ip_over_ib": True}
        guids = {"guids": [{"guid": G, "membership": "full", "index0": False},
                           {"guid": H, "membership": "limited", "index0": False}]}
        self.assertEqual(self.good(self.call("GET", rest.PKEYS + "/0x8001")), one)
        self.assertEqual(self.good(self.call("GET", rest.PKEYS + "/1?guids_data=true")),
                         {**one, **guids})
        both = "?guids_data=true&qos_conf=true"
        self.assertEqual(self.good(self.call("GET", f"{rest.PKEYS}/1{both}")),
                         {**one, **guids, "qos_conf": QOS})
        every = self.good(self.call("GET", rest.PKEYS + "/?guids_data=true"))
        self.assertEqual(every, {
            "0x7fff": {"partition": "management", "ip_over_ib": True, "guids": []},
            "0x1": {**one, **guids},
            "0x5": {"partition": "api_pkey_0x5", "ip_over_ib": False, "guids": []}})
        self.assertEqual(self.good(self.call("GET", rest.PKEYS))["0x1"], one)
        self.assertEqual(self.good(self.call("GET", rest.PKEYS + "/0x6")), {})
        self.good(self.call("DELETE", f"{rest.PKEYS}/0x1/guids/{G},{H}"))
        self.assertEqual(self.members("1"), {})
        self.good(self.call("DELETE", rest.PKEYS + "/0x8001"))
        self.bad(self.call("DELETE", rest.PKEYS + "/0x8001"), 404, "no P_Key 0x1")

    def test_set(self):
        """PUT replaces the members, POST adds to them."""
        self.good(self.call("POST", rest.PKEYS, {"pkey": "1", "guids": [G]}))
        self.good(self.call("POST", rest.PKEYS, {"pkey": "1", "guids": [H],
                                                 "membership": "limited"}))
        self.assertEqual(self.members("1"), {G: ("full", False), H: ("limited", False)})
        self.good(self.call("PUT", rest.PKEYS, {"pkey": "1", "guids": [H], "index0": True}))
        self.assertEqual(self.members("1"), {H: ("full", True)})

    def test_bounds(self):
        """Bounds of a body, of GUIDs, of connections; a closed connection frees its place."""
        many = [f"{n:016x}" for n in range(1, words.MAX_GUIDS + 2)]
        self.bad(self.call("POST", rest.PKEYS, {"pkey": "1", "guids": many}), 400, "too many")
        self.good(self.call("POST", rest.PKEYS, {"pkey": "1", "guids": many[1:]}))
        self.bad(self.call("POST", rest.PKEYS, b" " * (module.MAX_BODY + 1)), 413, "bytes")
        held = [self.server.connection() for _ in range(module.MAX_CONNECTIONS)]
        for c in held:
            self.good(rest.ask(c, "GET", rest.PKEYS + "/2"))
        self.bad(self.call("GET", rest.PKEYS), 503, "connections")
        for c in held:
            c.close()
        end = time.monotonic() + rest.PATIENCE
        while self.call("GET", rest.PKEYS)[0] != 200:
            self.assertLess(time.monotonic(), end)

    def test_browser(self):
        """A page of another site, and one whose name resolves to this host, change nothing."""
        body = {"pkey": "1", "guids": [G]}
        for headers, want in (({"Origin": "http://evil.example"}, "browsers"),
                              ({"Origin": "null", "Content-Type": "text/plain"}, "browsers"),
                              ({"Host": "evil.example:8080"}, "Host"), ({"Host": ""}, "Host"),
                              ({"Host": "localhost.evil.example"}, "Host"),
                              ({"Host": "[localhost]"}, "Host"), ({"Host": "1.2.3"}, "Host")):
            with self.subTest(headers=headers):
                self.bad(self.call("POST", rest.PKEYS, body, headers), 403, want)
                self.bad(self.call("GET", rest.PKEYS, headers=headers), 403, want)
        self.assertEqual(self.good(self.call("GET", rest.PKEYS + "/1")), {})
        for host in "localhost", "LocalHost:80", "127.0.0.1:1", "192.0.2.1", "[::1]", "[::1]:8080":
            self.good(self.call("GET", rest.PKEYS, headers={"Host": host}))

    def test_no_fabric(self):
        """Without --control there are no systems, ports and links."""
        for path in ("/ufmRest/resources/systems", "/ufmRest/resources/ports",
                     "/ufmRest/resources/links", "/metrics"):
            self.bad(self.call("GET", path), 503, "--control")
        self.bad(self.call("POST", "/metrics"), 405, "GET")
        for path in "/ufmRest/metrics", "/metrics/", "/ufmRest/", "/metricsx":
            self.bad(self.call("GET", path), 404)

    def raw(self, data):
        """The answer to these bytes."""
        with socket.create_connection((self.server.url.hostname, self.server.url.port),
                                      rest.PATIENCE) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            answer = b""
            while some := s.recv(1 << 16):
                answer += some
        head, _, text = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(text)

    def test_wrong(self):
        """Each wrong request gets an error in the right format; a valid one works after it."""
        chance = random.Random(SEED)
        good = self.server.connection()
        text = None
        for number in range(WRONG):
            request = wrong_request(chance)
            with self.subTest(number=number, request=request):
                status, found = (self.raw(request) if isinstance(request, bytes) else
                                 self.call(*request))
                self.assertIn(status // 100, (4, 5), found)
                self.assertNotEqual(status, 500)
                self.assertEqual(list(found), ["error"])
                self.assertTrue(found["error"])
            self.good(rest.ask(good, "POST", rest.PKEYS, {"pkey": "0x1", "guids": [G]}))
            text = text or self.server.text()
            self.assertEqual(self.server.text(), text)
        good.close()
        self.assertEqual(self.server.end(), (0, ""))


class Others(rest.Case):
    """Reload, users, TLS, options."""

    def test_reload(self):
        """A failed command is an error of its call; the change is kept, OpenSM gets it later."""
        server = self.started(how=("--reload", "test -e ready"))
        body = {"pkey": "1", "guids": [G]}
        self.bad(server.call("POST", rest.PKEYS, body), 500, "status of --reload is 1")
        self.assertIn(G, server.text())
        rest.write(os.path.join(self.dir, "ready"), "")
        self.good(server.call("POST", rest.PKEYS, body))
        self.assertIn("tries again", server.end()[1])

    def test_metrics(self):
        """The program's output, its error, and a program that is too slow or does not exist."""
        program = os.path.join(self.dir, "fabric")
        server = self.started("--control", "c", "--fabric", "./fabric")
        self.bad(server.call("GET", "/metrics"), 503, "No such file")
        for script, status, want in (
                ('echo "$@"', 200, "metrics --control c\n"),
                ("echo no fabric >&2; echo a; exit 1", 503, "no fabric"),
                ("kill -9 $$", 503, "does not answer")):
            rest.write(program, f"#!/bin/sh\n{script}\n", 0o700)
            with self.subTest(script=script):
                answer = server.call("GET", "/metrics")
                if status == 200:
                    self.assertEqual(answer, (200, (calls.OPENMETRICS, want)))
                else:
                    self.bad(answer, status, want)
        with mock.patch.object(control, "PATIENCE", 0.1):
            rest.write(program, "#!/bin/sh\nexec sleep 60\n", 0o700)
            with self.assertRaises(HttpError) as raised:
                fabric.Fabric("c", program).metrics()
        self.assertIn("timed out", raised.exception.text)

    def test_pid(self):
        """If the number in the file is not that of OpenSM, the process gets no signal."""
        with subprocess.Popen(["sleep", "100"]) as sleep:
            self.addCleanup(sleep.kill)
            pid = os.path.join(self.dir, "pid")
            server = self.started(how=("--opensm-pid", "pid"))
            body = {"pkey": "1", "guids": [G]}
            self.bad(server.call("POST", rest.PKEYS, body), 500, "does not have the number")
            rest.write(pid, f"{sleep.pid}\n")
            self.bad(server.call("POST", rest.PKEYS, body), 500, "not opensm")
            sleep.kill()
            self.assertEqual(sleep.wait(rest.PATIENCE), -signal.SIGKILL)

    def test_starting(self):
        """OpenSM that does not catch SIGHUP yet does not get it: the signal would end it."""
        opensm = os.path.join(self.dir, "opensm")
        shutil.copy("/bin/sleep", opensm)
        with subprocess.Popen([opensm, "100"]) as process:
            self.addCleanup(process.kill)
            rest.write(os.path.join(self.dir, "pid"), f"{process.pid}\n")
            server = self.started(how=("--opensm-pid", "pid"))
            self.good(server.call("POST", rest.PKEYS, {"pkey": "1", "guids": [G]}))
            process.kill()
            self.assertEqual(process.wait(rest.PATIENCE), -signal.SIGKILL)

    def test_name(self):
        """The one process named opensm gets SIGHUP; two are an error; none is no error."""
        pids = [str(2 ** 22 + n) for n in range(3)]
        names = dict.fromkeys(pids, "sleep")
        told = []
        with mock.patch.object(reload.os, "listdir", return_value=["self", "meminfo", *pids]), \
                mock.patch.object(reload, "name_of", side_effect=lambda pid: names[str(pid)]), \
                mock.patch.object(reload, "has_begun", return_value=True), \
                mock.patch.object(reload.os, "kill", side_effect=lambda *to: told.append(to)):
            reload.by_name()
            self.assertEqual(told, [])
            names[pids[1]] = "opensm"
            reload.by_name()
            self.assertEqual(told, [(int(pids[1]), signal.SIGHUP)])
            names[pids[2]] = "opensm"
            with self.assertRaises(HttpError) as e:
                reload.by_name()
        self.assertEqual((e.exception.status, len(told)), (500, 1))
        self.assertIn("2 processes", e.exception.text)

    def test_users(self):
        """A user at /ufmRest, a token at the others; no other access."""
        rest.write(os.path.join(self.dir, "users"), "# who\nadmin:12:34\nb:x\n")
        rest.write(os.path.join(self.dir, "tokens"), "sesame\n")
        server = self.started("--users", "users", "--tokens", "tokens")
        version = "/app/ufm_version"
        self.good(server.call("GET", "/ufmRest" + version, headers=basic("admin:12:34")))
        for prefix in "/ufmRestV2", "/ufmRestV3":
            for kind in "Basic", "Bearer":
                header = {"Authorization": f"{kind} sesame"}
                self.good(server.call("GET", prefix + version, headers=header))
            self.bad(server.call("GET", prefix + version, headers=basic("admin:12:34")), 401)
        for header in basic("b:x"), {"Authorization": "Bearer sesame"}:
            self.bad(server.call("GET", "/metrics", headers=header), 503, "--control")
        for wrong in ({}, basic("b:y"), {"Authorization": "Bearer b:x"},
                      {"Authorization": "Basic sesame"}):
            self.bad(server.call("GET", "/metrics", headers=wrong), 401, "wrong")
        for wrong in ({}, basic("admin:12"), basic("c:x"), basic(""), basic("admin"),
                      {"Authorization": "Basic sesame"}, {"Authorization": "Basic \xe4"},
                      {"Authorization": ""}):
            self.bad(server.call("GET", "/ufmRest" + version, headers=wrong), 401, "wrong")
            self.bad(server.call("DELETE", rest.PKEYS + "/0x1", headers=wrong), 401, "wrong")

    def test_unknown_closed(self):
        """A request without a password gets an error before its body is sent, and is closed."""
        rest.write(os.path.join(self.dir, "users"), "b:x\n")
        server = self.started("--users", "users")
        with socket.create_connection((server.url.hostname, server.url.port), rest.PATIENCE) as s:
            s.sendall(b"POST /ufmRest/resources/pkeys HTTP/1.1\r\nHost: ufm.example\r\n"
                      b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
            answer = b""
            while some := s.recv(1 << 16):
                answer += some
        self.assertTrue(answer.startswith(b"HTTP/1.1 401 "), answer)
        self.assertIn(b"\r\nConnection: close\r\n", answer)
        # with users, a name in Host is allowed; a page is not
        named = {**basic("b:x"), "Host": "ufm.example"}
        self.good(server.call("GET", rest.PKEYS, headers=named))
        self.bad(server.call("GET", rest.PKEYS, headers={**named, "Origin": "http://a"}), 403)

    def test_hosts(self):
        """One other host can use some of the connections; this host and others the rest."""
        with module.Server(("127.0.0.1", 0), site.Site(None, site.Access({}, []))) as server:
            def connected(address):
                ours, theirs = socket.socketpair()
                self.addCleanup(ours.close)
                ours.settimeout(rest.PATIENCE)
                server.process_request(theirs, (address, 1))
                return ours
            for number in range(module.MAX_OF_HOST):
                connected(f"2001:db8::{number}")
                last = connected(("192.0.2.1", "::ffff:192.0.2.1")[number % 2])
            for address in "192.0.2.1", "2001:db8::ffff":
                self.assertIn(b"of this host", connected(address).recv(1 << 16))
            for _ in range(module.MAX_CONNECTIONS - 2 * module.MAX_OF_HOST):
                connected("127.0.0.1")
            self.assertIn(b"already 32 connections", connected("192.0.2.2").recv(1 << 16))
            last.close()
            end = time.monotonic() + rest.PATIENCE
            while server.take("") is not None:
                self.assertLess(time.monotonic(), end)

    def test_tls(self):
        """With a certificate; a client without TLS does no harm."""
        names = [os.path.join(self.dir, x) for x in ("key", "cert")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=ufm", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", names[0], "-out", names[1]],
                       check=True, capture_output=True, timeout=rest.PATIENCE)
        server = self.started("--certificate", "cert", "--key", "key")
        self.assertEqual(server.url.scheme, "https")
        with socket.create_connection((server.url.hostname, server.url.port)) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            s.settimeout(rest.PATIENCE)
            try:
                while s.recv(100):
                    pass
            except ConnectionResetError:
                pass
        context = ssl.create_default_context(cafile=names[1])
        self.good(server.call("POST", rest.PKEYS, {"pkey": "1", "guids": [G]}, context=context))
        self.assertEqual(server.end(), (0, ""))

    def test_options(self):
        """Options without protection, or with wrong files, are refused at the start."""
        rest.write(os.path.join(self.dir, "open"), "a:b\n", 0o644)
        rest.write(os.path.join(self.dir, "none"), "# nobody\n")
        rest.write(os.path.join(self.dir, "bad"), "ab\n")
        with open(os.path.join(self.dir, "bytes"), "wb") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(b"a:\xff\n")
        for args, want in ((("--listen", "0.0.0.0:0"), "--users"),
                           (("--users", "bytes"), "UTF-8"), (("--tokens", "bytes"), "UTF-8"),
                           (("--users", "open"), "chmod 600"), (("--users", "none"), "must have"),
                           (("--users", "bad"), "USER:PASSWORD"), (("--tokens", "gone"), "No such"),
                           (("--key", "bad"), "--certificate"), (("--certificate", "bad"), "bad: "),
                           (("--listen", "here:1"), "use numbers"),
                           (("--state", "gone/x"), "No such file")):
            said = io.StringIO()
            with self.subTest(args=args), contextlib.chdir(self.dir), \
                    contextlib.redirect_stderr(said), \
                    mock.patch.object(cli.sys, "argv", ["", "--partitions", "p.conf", *args]):
                try:
                    self.assertEqual(cli.main(), 1)
                except SystemExit as e:
                    self.assertEqual(e.code, 2)
                self.assertIn(want, said.getvalue())

    def test_listen(self):
        """An IPv6 address is without a port, or in brackets."""
        for text, want in (("8", ("127.0.0.1", 8)), ("192.0.2.1", ("192.0.2.1", 8080)),
                           ("192.0.2.1:0", ("192.0.2.1", 0)), ("::1", ("::1", 8080)),
                           ("[::1]", ("::1", 8080)), ("[1::2]:3", ("1::2", 3)),
                           ("1::2:3", ("1::2:3", 8080))):
            self.assertEqual(options.address_of(text), want)
        for text in ("", ":", ":1", "[::1]:", "[::1", "::1]:1", "[192.0.2.1]:1", "192.0.2.1:65536",
                     "192.0.2.1:-1", "\u0661", "65536", "[[::1]]:1", "1::2::3", "localhost"):
            with self.assertRaises(argparse.ArgumentTypeError):
                options.address_of(text)


if __name__ == "__main__":
    rest.main()
