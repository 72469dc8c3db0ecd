# SPDX-License-Identifier: GPL-2.0-or-later
"""Root of a node sends wrong MADs to the fabric; the state of other nodes must not change."""
import time

from .bring_up import PATIENT, all_active, fabric, start_sm, stop_sm
from .harness import Group, find, need, until
from .hostile import Neighbour

# Node 3's device sends no SMPs; node 2's does, and M_Keys protect the others.
LYING = Group("lying", ("-n", "3", "--no-sm", "--device", "3:smp=off", PATIENT), prepare=fabric,
              campaign=True)
GROUPS = [LYING]

M_KEY = 0x4f70656e48434131
KEYS = (f"m_key {M_KEY:#x}\\nm_key_protection_level 2\\nsm_key {M_KEY + 1:#x}\\n"
        f"sa_key {M_KEY + 2:#x}")


def protect(b):
    """The subnet manager sets M_Keys at all ports."""
    stop_sm(b)
    start_sm(b, setting=KEYS)
    until(60 * b.slow, lambda: sweeps(b), "OpenSM does not say SUBNET UP")
    all_active(b)
    b.state["key"] = M_KEY


def sweeps(b):
    """How often OpenSM has brought the subnet up."""
    return int(b.sh(1, "grep -s 'SUBNET UP' /var/log/opensm.log | wc -l"))


def manages(b):
    """OpenSM on node 1 is still the master: only the master sweeps when it is asked to."""
    before = sweeps(b)
    b.sh(1, "pkill -HUP -x opensm")
    until(60 * b.slow, lambda: sweeps(b) > before, "OpenSM does not sweep")


def others(b, liar):
    """The state of the nodes that do not lie, line by line."""
    return b.sh(1, f"/share/ohca-fabliar state {b.state.get('key', 0):#x} node{liar}",
                120).splitlines()


def differences(before, after):
    """Lines that differ, and groups that have lost members."""
    def split(lines):
        groups = dict(x.split()[1:] for x in lines if x.startswith("group "))
        return {x for x in lines if not x.startswith("group ")}, groups

    (old, groups), (new, now) = split(before), split(after)
    return sorted(old ^ new) + [f"group {k}: {v} to {now.get(k)}" for k, v in groups.items()
                                if int(v, 16) & ~int(now.get(k, "0"), 16)]


def lie(b, liar, seed, count):
    """A node lies to the others, which have traffic meanwhile. Returns the number of MADs."""
    honest = tuple(k for k in (1, 2, 3) if k != liar)
    before = others(b, liar)
    need(len(before) > 20, f"{len(before)} blocks")
    with Neighbour(b, 3 * b.slow, honest):
        text = b.sh(liar, f"/share/ohca-fabliar lie {seed} {count} sm", 120)
        changed = differences(before, others(b, liar))
        need(not changed, f"seed {seed}: {changed}")
    manages(b)
    sent, refused = (int(find(rf"(\d+) {x}", text)) for x in ("MADs", "refused"))
    need(refused < sent / 2, text)
    b.note(text)
    return sent


@LYING.test(timeout=86400, name="fabric")
def fabric_lies(b):
    """Runs lie() repeatedly for --seconds, each time from another seed; half of it with M_Keys."""
    opt, mads, seed = b.run.opt, 0, b.run.opt.seed
    # IPoIB leaves a group that it only sends to when it has not sent for twice as long
    for node in (1, 2, 3):
        b.sh(node, "echo 100000 >/proc/sys/net/ipv4/neigh/default/gc_interval")
    for liar in (3, 2):
        if liar == 2:
            protect(b)
        end = time.monotonic() + opt.seconds / 2
        while time.monotonic() < end:
            mads += lie(b, liar, seed, 4000)
            seed += 1
    all_active(b)
    b.peer("verify rc")
    print(f"campaign: {mads} MADs", flush=True)
