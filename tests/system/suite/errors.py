# SPDX-License-Identifier: GPL-2.0-or-later
"""Every completion error that two machines can cause on each other, and events of queues."""
import os
import re

from ohca_lab import paths

from .bring_up import PULLABLE, fabric
from .harness import Group, find, need

GROUP = Group("errors", PULLABLE, prepare=fabric)
GROUPS = [GROUP]

SCENARIOS = (
    "rem_access_key", "rem_access_pd", "rem_access_right", "rem_access_bounds",
    "rem_access_read", "rem_inv_req_align", "rem_inv_req_length", "rem_op", "rnr_retry",
    "rnr_late", "retry", "loc_prot_key", "loc_prot_pd", "loc_prot_bounds", "loc_prot_right",
    "loc_len", "flush", "qkey", "loc_qp_op", "mw_bind", "bad_resp", "bad_invalidate",
    "loc_access", "rem_abort", "comm_est", "sq_drained", "moderation", "cq_err", "qp_fatal",
    "srq", "path_mig", "path_mig_err", "tags",
)


def values(enum):
    """The names of an enum in the header that programs are compiled with, in their order."""
    with open(os.path.join(paths.ROOT, "usr/include/infiniband/verbs.h"), encoding="utf-8") as f:
        body = find(rf"^enum {enum} {{([^}}]*)}}", f.read())
    names = re.findall(r"^\s*(\w+),$", body, re.M)
    # no value is given explicitly, and there is no form that this does not parse
    need(names and len(names) == body.count(","), f"enum {enum}: {body}")
    return names


def look(b, texts):
    """Records the statuses and events that programs report."""
    for kind, enum in (("status", "ibv_wc_status"), ("event", "ibv_event_type")):
        names = values(enum)
        for text in texts:
            b.seen |= {names[int(x)] for x in re.findall(rf"^seen {kind} (\d+)", text, re.M)}


def everything(b):
    """All scenarios in one process."""
    texts = b.peer("error all", 110)
    for text in texts:
        for scenario in SCENARIOS:
            need(f"done {scenario}" in text, f"{scenario}: {text[-200:]}")
    look(b, texts)


@GROUP.test(name="all", timeout=130)
def every(b):
    """All scenarios of prog/errors.c in one process; each counts."""
    everything(b)
    for scenario in SCENARIOS:
        b.sub(scenario, "PASS")
