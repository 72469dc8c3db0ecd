# SPDX-License-Identifier: GPL-2.0-or-later
"""Random attacks from a seed, for a given time (tests/campaign)."""
import time

from .bring_up import PAIR, all_active, fabric
from .harness import Group, find, need
from .life import resources, settle

LIES = Group("lies", PAIR, prepare=fabric, campaign=True)
GROUPS = [LIES]


def lie(b, node, seed, calls, seconds):
    """Processes without rights lie to uverbs; all that they had is gone afterwards.

    Returns the number of calls, and how many of them were made by write().
    """
    idle = resources(b, node)
    text = b.sh(node, f"/share/ohca-liar {seed} {calls}", seconds)
    need(int(find(r"(\d+) taken", text)) > calls / 100, text)
    settle(b, node, idle)
    b.note(text)
    return int(find(r"(\d+) calls", text)), int(find(r"(\d+) writes", text))


@LIES.test(timeout=86400)
def process(b):
    """Runs lie() repeatedly for --seconds, each time from another seed."""
    opt, calls, writes, seed = b.run.opt, 0, 0, b.run.opt.seed
    end = time.monotonic() + opt.seconds
    while time.monotonic() < end:
        done = lie(b, 2, seed, 2000, 150)
        calls, writes, seed = calls + done[0], writes + done[1], seed + 1
    # a few processes may all have chosen ioctl()
    need(writes or calls < 20000, f"{calls} calls, none by write()")
    all_active(b)
    b.peer("verify rc")
    print(f"campaign: {calls} calls", flush=True)
