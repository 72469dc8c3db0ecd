# SPDX-License-Identifier: GPL-2.0-or-later
"""A device that lies to its driver and to all consumers, at random, from a seed (tests/campaign).

The device of node 2 lies. Whatever its driver makes of that, and whatever becomes of who uses
it: when the device tells the truth again and is reset, all is as before.
"""
import random
import re
import time

from .bring_up import all_active, restless
from .faults import CTRL, LAB, PCI
from .harness import Group, need, tail, until
from .klog import REPORT
from .life import resources, settle

GROUP = Group("device", LAB, prepare=restless, campaign=True)
GROUPS = [GROUP]

# What the driver says of a device that it does not believe.
SAID = r"ohca .*(fatal|gone|reset behind|does not answer|no answer|timed out|refused|no OpenHCA)"
RESULT, NAME, EVENT, OUTPUT, STATUS, ANSWER, REGISTER = (1 << n for n in range(7))
# Kinds of lies, how many chances there are for one, and whether the driver begins under them.
MANNERS = (
    (RESULT, 2, False),
    (RESULT | NAME, 40, False),
    (EVENT, 3, False),
    (OUTPUT, 5, True),
    (STATUS, 20, True),
    (ANSWER, 40, True),
    (REGISTER, 3, True),
    (127, 50, True),
)
# None of them forks with a doorbell page mapped: ib_core takes its disassociation_lock within
# mmap_lock then, and the other way round where the device goes. By
# hw_destroy_rwsem the two cannot meet, but lockdep is off afterwards.
CONSUMERS = (
    "forever pair '/share/ohca-peer stream 2'",
    "forever pair 'ib_send_bw -F -d ohca_0 -s 64 -D 2'",
    "forever pair '/share/ohca-peer verify ud'",
    "forever peer",
    "forever ping -q -f -w 3 -s 3000 node1-ib",
    "forever sh -c 'insmod /share/{kernel}/ohca_verbs_test.ko; rmmod ohca_verbs_test'",
)
# Nice, so that the node still answers.
SHELL = """renice -n 19 $$ >/dev/null
forever() {{ while :; do "$@"; sleep 0.1; done >/dev/null 2>&1 & }}
pair() {{ $1 & sleep 0.5; $1 127.0.0.1; kill $!; wait $!; }}
peer() {{ for x in 'srq resize' 'resize qp' 'queues resize' 'local dm' 'local windows' \
		'local memory' 'local mcast' 'paged odp'; do /share/ohca-peer $x; done; }}
{consumers}
wait
"""
BUSY = "pgrep -ax 'ohca-peer|ib_send_bw|insmod|rmmod'; true"


def ask(b, name):
    """A property of node 2's device."""
    return b.qmp(2, "qom-get", path="/machine/peripheral/hca", property=f"x-lies{name}")


def tell(b, seed, kinds, one_of):
    """From now on the device of node 2 lies like that; one_of 0: not any more."""
    for name, value in (("-seed", seed), ("-kinds", kinds), ("", one_of)):
        b.qmp(2, "qom-set", path="/machine/peripheral/hca", property=f"x-lies{name}", value=value)


def bind(what):
    """Shell: the driver leaves node 2's function, or comes to it."""
    return f"cd /sys/bus/pci/drivers/ohca && echo $(cat /tmp/hca) >{what}"


def begin(b):
    """A driver that knows only the truth, and what is in use then."""
    b.sh(2, f"[ -e /tmp/hca ] || basename {PCI} >/tmp/hca")
    b.sh(2, f"{bind('unbind')}; {bind('bind')}", 60)
    all_active(b)
    return {node: resources(b, node) for node in (1, 2)}


def end(b, consumers):
    """The device tells the truth and is reset: what was waited for comes, all is given back."""
    tell(b, 0, 0, 0)
    b.sh(2, f"""python3 - /sys/bus/pci/devices/$(cat /tmp/hca)/resource0 <<'END'
import ctypes, mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
ctypes.c_uint32.from_buffer(mmap.mmap(f, 4096), {CTRL}).value = 1
END""")
    consumers.kill()
    # the driver looks every 2 s
    until(20 * b.slow, lambda: not b.sh(2, BUSY), lambda: f"still there: {tail(b.sh(2, BUSY))}")
    b.sh(2, f"{bind('unbind')}; {bind('bind')}", 90)
    all_active(b)


def lie(b, idle, seed, manner, consumers, seconds):
    """One round. Returns the number of lies."""
    kinds, one_of, anew = manner
    before, mark = ask(b, "-told"), len(b.kernels[2].lines)
    script = SHELL.format(consumers="\n".join(consumers).format(kernel=b.run.opt.kernel))
    program = b.background(2, script)
    if not anew:    # they are at it
        time.sleep(seconds / 4)
    tell(b, seed, kinds, one_of)
    if anew:
        b.background(2, f"{bind('unbind')}; {bind('bind')}; true")
    time.sleep(seconds)
    end(b, program)
    for node in idle:
        settle(b, node, idle[node])
    b.kernel_said(2)
    found = [x for x in b.kernels[2].lines[mark:] if REPORT.search(x) and not re.search(SAID, x)]
    need(not found, f"seed {seed}: {found[:1]}")
    return ask(b, "-told") - before


@GROUP.test(timeout=86400, reports=SAID)
def at_random(b):
    """Again and again for --seconds, each time from another seed and in another manner."""
    opt, told = b.run.opt, 0
    rng = random.Random(opt.seed)
    idle = begin(b)
    stop = time.monotonic() + opt.seconds
    while time.monotonic() < stop:
        seed, manner = rng.randrange(1 << 32), rng.choice(MANNERS)
        n = lie(b, idle, seed, manner, rng.sample(CONSUMERS, 2), rng.uniform(10, 30))
        told += n
        print(f"campaign: {told} lies, the last {n} of kinds {manner[0]:#x}, seed {seed}",
              flush=True)
    b.peer("verify rc")
    print(f"campaign: {told} lies", flush=True)
