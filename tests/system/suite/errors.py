# SPDX-License-Identifier: GPL-2.0-or-later
"""Every completion error that two machines can cause on each other, and events of queues."""
from .bring_up import PAIR, fabric
from .harness import Group, need

GROUP = Group("errors", PAIR, prepare=fabric)
GROUPS = [GROUP]

SCENARIOS = (
    "rem_access_key", "rem_access_pd", "rem_access_right", "rem_access_bounds",
    "rem_access_read", "rem_inv_req_align", "rem_inv_req_length", "rem_op", "rnr_retry",
    "rnr_late", "retry", "loc_prot_key", "loc_prot_pd", "loc_prot_bounds", "loc_prot_right",
    "loc_len", "flush", "qkey", "loc_qp_op", "mw_bind", "bad_resp", "loc_access", "rem_abort",
    "comm_est", "sq_drained", "moderation", "cq_err", "qp_fatal", "srq", "path_mig",
    "path_mig_err", "tags",
)


def add(scenario):
    """One scenario of prog/errors.c."""
    @GROUP.test(name=scenario, debug=False)
    def _(b):
        for text in b.peer(f"error {scenario}"):
            need(f"done {scenario}" in text, text[-200:])


for _s in SCENARIOS:
    add(_s)


@GROUP.test(name="all", debug="only", timeout=130)
def every(b):
    """All of them in one process."""
    for text in b.peer("error all", 110):
        for scenario in SCENARIOS:
            need(f"done {scenario}" in text, f"{scenario}: {text[-200:]}")
