# SPDX-License-Identifier: GPL-2.0-or-later
"""What takes one machine only: device memory, sharing, fork, domains, kinds of memory."""
from .bring_up import fabric
from .harness import Group, need, tail
from .life import resources

GROUP = Group("local", ("-n", "1", "--no-sm"), prepare=fabric)
GROUPS = [GROUP]

SCENARIOS = {
    "dm": "device memory kept apart", "share": "objects outlived their owner",
    "fork": "children harmed nothing", "fork-init": "children harmed nothing",
    "domains": "queues lay in the allocator's memory", "moderation": "events moderated",
    "memory": "every kind of memory worked",
}


def add(scenario, says):
    """One scenario of prog/local.c and share.c; it leaves nothing behind."""
    @GROUP.test(name=scenario.replace("-", "_"), timeout=90)
    def _(b):
        if scenario == "memory":
            b.sh(1, "echo 8 >/proc/sys/vm/nr_hugepages")
        idle = resources(b, 1)
        text = b.sh(1, f"/share/ohca-peer local {scenario}", 60)
        need(says in text, tail(text))
        need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


for _s, _w in SCENARIOS.items():
    add(_s, _w)
