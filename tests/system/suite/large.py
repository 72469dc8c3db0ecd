# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenSM in a machine brings up a fabric of 11,664 hosts (tests/campaign)."""
import os
import re
import time

from .bring_up import start_sm
from .harness import Group, need, tail, until

SPEC, NODES = "fat-tree:36,3", 11664 + 1620
LAB = ("-n", "1", "--no-sm", "--memory", "2048", "--topology", SPEC)
SHARE = 0.05     # of a processor, for the fabric
MEMORY = 64      # MB, of the fabric with all tables that OpenSM writes
GROUP = Group("large", LAB, debug=False, campaign=True)
GROUPS = [GROUP]


def used(pid):
    """Processor seconds and resident MB of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def errors(b):
    """Lines of OpenSM's log that report an error."""
    return b.sh(1, "grep -c -e 'ERR ' -e 'timeout' /var/log/opensm.log; true", 60).strip()


@GROUP.test(timeout=86400)
def sweep(b):
    """No SMP is lost, no error is logged, and the fabric uses little of a processor."""
    pid = next(p.pid for p in b.lab.helpers if p.what == "fabric")
    begin, (cpu, loaded) = time.monotonic(), used(pid)
    # 13,284 nodes answer one machine, whose processor does other work: late answers are not lost.
    # A lost SMP is a timeout some seconds later in any case.
    start_sm(b, setting="transaction_timeout 10000")
    until(3600 * b.slow,
          lambda: b.status(1, "grep -q 'SUBNET UP' /var/log/opensm.log")[0] == 0,
          "OpenSM does not bring the subnet up")
    took, (now, full) = time.monotonic() - begin, used(pid)
    share = (now - cpu) / took
    text = b.sh(1, "grep -e 'ERR ' -e timeout -e 'SUBNET UP' /var/log/opensm.log | tail -20; "
                   "smpquery -D nodeinfo 0,1 | head -3", 60)
    b.note(text)
    print(f"SUBNET UP after {took:.0f} s, the fabric had {share:.1%} of a processor, "
          f"{loaded:.0f} MB before and {full:.0f} MB after", flush=True)
    need(errors(b) == "0", tail(text))
    need(share <= SHARE, f"the fabric had {share:.1%} of a processor")
    need(full <= MEMORY, f"the fabric has {full:.0f} MB")
    links = b.sh(1, "sminfo", 60)
    need(re.search(r"state 3 SMINFO_MASTER", links), links)
    print(f"campaign: {NODES} nodes", flush=True)
