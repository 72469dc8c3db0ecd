# SPDX-License-Identifier: GPL-2.0-or-later
"""The rate that honest traffic loses to a process that keeps the device busy (tests/campaign).

The attacker shares the node's only processor with the honest programs. So the traffic is compared
with the traffic beside a process that uses the processor as much, but no device.
"""
import json
import statistics
import time

from .bring_up import PAIR, fabric
from .harness import PEER_PORT, Group, find, need

GROUP = Group("attacked", PAIR, debug=False, prepare=fabric, campaign=True)
GROUPS = [GROUP]

SECONDS = 5         # of one measurement
KEPT = 0.8          # of the rate that is left beside the process without a device
MOST = 20           # rounds
ATTACKS = ("err", "index")


def verified(b):
    """Blocks of verified RC traffic from node 2 to node 1 in a second."""
    command = f"/share/ohca-peer stream {SECONDS}"
    _, text = b.pair(command, f"{command} node1", PEER_PORT)
    return int(find(r"moved (\d+) blocks", text)) / SECONDS


def ipoib(b):
    """Bits of one TCP stream over IPoIB from node 2 to node 1 in a second."""
    _, text = b.pair("iperf3 -s -1", f"iperf3 -c 10.77.0.1 -J -t {SECONDS}", 5201)
    return json.loads(text[text.index("{"):])["end"]["sum_received"]["bits_per_second"]


def beside(b, attack, rate):
    """The rate while node 2 is attacked."""
    attacker = b.background(2, f"/share/ohca-peer attack {attack} {SECONDS * 4} "
                               ">/tmp/attack 2>&1", "grep -q attacking /tmp/attack", ends=(0, 143))
    try:
        return rate(b)
    finally:
        need(b.sh(2, "cat /tmp/attack").strip() == "attacking", "the attack has ended too early")
        b.sh(2, "pkill -x ohca-peer")
        attacker.wait()


@GROUP.test(timeout=86400)
def rates(b):
    """Verified RC traffic and IPoIB keep most of their rate, in the median of the rounds."""
    kept = {(a, rate.__name__): [] for a in ATTACKS for rate in (verified, ipoib)}
    end = time.monotonic() + b.run.opt.seconds
    rounds = 0
    while rounds < 3 or (time.monotonic() < end and rounds < MOST):
        for rate in (verified, ipoib):
            alone = beside(b, "spin", rate)
            for attack in ATTACKS:
                kept[attack, rate.__name__].append(beside(b, attack, rate) / alone)
        rounds += 1
    for (attack, rate), found in kept.items():
        print(f"attacked: {rate} beside {attack}: {statistics.median(found):.2f} of its rate, "
              f"{min(found):.2f} to {max(found):.2f}", flush=True)
    need(all(statistics.median(found) >= KEPT for found in kept.values()),
         f"less than {KEPT} is left: {kept}")
    print(f"campaign: {rounds} rounds", flush=True)
