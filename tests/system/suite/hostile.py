# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that write garbage to their own queues, beside others that must not be disturbed."""
import threading

from .bring_up import PULLABLE, fabric
from .harness import PEER_PORT, Failure, Group, find, need, tail

GROUP = Group("hostile", PULLABLE, prepare=fabric, debug=False)
GROUPS = [GROUP]

SCENARIOS = {
    "wqe": "malformed WQEs refused", "noise": "errors from noise",
    "indices": "bad indices refused", "doorbells": "bad doorbells refused",
    "cq_overrun": "CQ overrun reported", "cq_record": "bad consumer index reported",
    "unmap": "unmapped memory stayed pinned", "crash": "crashing",
}


class Neighbour:
    """Verified traffic between two nodes, at least during a 'with'."""

    def __init__(self, bench, seconds, on=(1, 2)):
        self.b, self.seconds, self.on = bench, seconds, on
        self.error = self.blocks = None

    def _run(self):
        try:
            command = f"/share/ohca-peer stream {self.seconds}"
            status, s_out, c_out = self.b.lab.pair(command, f"{command} node{self.on[0]}",
                                                   PEER_PORT, 90 * self.b.slow, self.on)
            if status:
                raise Failure(f"neighbour: {tail(c_out)} / {tail(s_out)}")
            self.blocks = int(find(r"moved (\d+) blocks", c_out))
        except Failure as e:
            self.error = e

    def __enter__(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.thread.join(150 * self.b.slow)
        if kind:
            return
        if self.error:
            raise self.error
        need(self.blocks, "the neighbour moved nothing")
        self.b.note(f"neighbour moved {self.blocks} blocks")


def add(scenario, says):
    """Adds a scenario of prog/hostile.c on node 2, beside traffic of both nodes."""
    @GROUP.test(name=scenario, timeout=90)
    def _(b):
        with Neighbour(b, 3):
            b.sh(2, "n=0; until pgrep -x ohca-peer >/dev/null; do n=$((n + 1)); "
                    "[ $n -lt 100 ] || exit 1; sleep 0.1; done")
            text = b.sh(2, f"/share/ohca-peer hostile {scenario}", 60)
            need(says in text, tail(text))


for _s, _w in SCENARIOS.items():
    add(_s, _w)


@GROUP.test
def nothing_left(b):
    """The kernel has released everything."""
    text = b.sh(2, "rdma resource show qp; rdma resource show mr; rdma resource show pd")
    need("ohca-peer" not in text, tail(text))
    b.peer("verify rc")
