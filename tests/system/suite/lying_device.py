# SPDX-License-Identifier: GPL-2.0-or-later
"""A device that lies to its driver and to all consumers, at random, from a seed (tests/campaign).

The device of node 2 lies. Its driver and the programs that use it may fail in any way. When the
device is honest again and is reset, everything works as before.
"""
import random
import re
import time
from collections import Counter

from .bring_up import PULLABLE, all_active, restless
from .faults import CTRL, LESS, PCI, ask, tell
from .harness import DEV, Failure, Group, need, tail, until
from .klog import REPORT
from .life import resources, settle
from .storage import NQN, NVMET_ORDER, export


def with_disk(b):
    """Brings up a fabric, and a target on node 1."""
    restless(b)
    if b.state.get("nvmf"):
        return
    b.sh(2, "modprobe nvme-rdma", 60)
    export(b, "10.77.0.1")
    b.state["nvmf"] = True


GROUP = Group("device", PULLABLE, prepare=with_disk, campaign=True)
GROUPS = [GROUP]

# Messages of the driver about wrong values of a device.
SAID = r"ohca .*(fatal|gone|did not request|did not complete|timed out|refused|not an OpenHCA)"
RESULT, NAME, EVENT, OUTPUT, STATUS, ANSWER, REGISTER = (1 << n for n in range(7))
# Kinds of lies, the average number of chances for one, and the seconds after which the driver is
# bound again under them, each time; None: only if it has given the device up.
MANNERS = {
    "results": (RESULT, 2, None),
    "names": (RESULT | NAME, 10, None),
    "events": (EVENT, 2, None),
    "outputs": (OUTPUT, 2, 8),
    "statuses": (STATUS, 3, 8),
    "answers": (ANSWER, 4, 8),
    "registers": (REGISTER, 3, 0.2),
    "sizes": (LESS, 1, 0.2),
    "all": (255, 30, 5),
}
# The longest wait of the driver for a lost answer; the device itself announces 30 s.
COMMAND_MS = 1000
# None of them forks with a doorbell page mapped: ib_core then takes its disassociation_lock within
# mmap_lock, and in the reverse order when the device is removed. hw_destroy_rwsem prevents a
# deadlock, but lockdep is off after its report.
CONSUMERS = (
    "pair '/share/ohca-peer stream 2'",
    "pair 'ib_send_bw -F -d ohca_0 -s 64 -D 2'",
    "pair '/share/ohca-peer verify ud'",
    "peer",
    "ping -q -f -w 3 -s 3000 node1-ib",
    "disk",
    "sh -c 'insmod /share/{kernel}/ohca_verbs_test.ko; rmmod ohca_verbs_test'",
)
# Runs two of these, a process and a kernel module that no lie stops, as often as possible. They are
# nice, so that the node still answers.
SHELL = """renice -n 19 $$ >/dev/null
forever() {{ while :; do "$@"; sleep 0.1; done >/dev/null 2>&1 & }}
pair() {{ $1 & sleep 0.5; $1 127.0.0.1; kill $!; wait $!; }}
peer() {{ for x in 'srq resize' 'resize qp' 'queues resize' 'local dm' 'local windows' \
		'local memory' 'local mcast' 'paged odp'; do /share/ohca-peer $x; done; }}
disk() {{ nvme connect -t rdma -n {nqn} -a 10.77.0.1 -s 4420 --nr-io-queues=1 \
		--nr-poll-queues=1 --reconnect-delay=1 --ctrl-loss-tmo=4 --keep-alive-tmo=4
	for i in 1 2 3 4 5 6 7 8; do [ -b /dev/nvme0n1 ] || sleep 0.5; done
	fio --name=v --filename=/dev/nvme0n1 --ioengine=io_uring --hipri --direct=1 --rw=randrw \
		--bsrange=4k-256k --size=8m --iodepth=4 --allow_file_create=0 \
		--time_based --runtime=5
	nvme disconnect -n {nqn}; }}
anew() {{ sleep {pause}; {condition} || {{ {unbind}; {bind}; }}; }}
insmod /share/{kernel}/ohca_deceived.ko
forever anew
forever /share/ohca-peer deceived 100
{consumers}
wait
"""
BUSY = "pgrep -ax 'ohca-peer|ib_send_bw|nvme|fio|insmod|rmmod'; true"


def lies(b, seed, kinds, one_of):
    """Makes the device of node 2 lie like that from now on; one_of 0: no more."""
    b.qmp(2, "qom-set", path="/machine/peripheral/hca", property="x-command-ms",
          value=COMMAND_MS if one_of else 0)
    tell(b, seed, kinds, one_of)


def bind(what):
    """A command of the shell that unbinds the driver of node 2's function, or binds it."""
    return f"cd /sys/bus/pci/drivers/ohca && echo $(cat /tmp/hca) >{what}"


def begin(b):
    """Loads the driver with an honest device, and records what is in use then."""
    b.sh(2, f"[ -e /tmp/hca ] || basename {PCI} >/tmp/hca")
    b.sh(2, f"{bind('unbind')}; {bind('bind')}", 60)
    all_active(b)
    idle = {node: resources(b, node) for node in (1, 2)}
    idle[1].pop("cq")   # ib_core keeps the CQs that nvmet uses from the device's pool
    return idle


def end(b, consumers):
    """The device is honest again and is reset: all waits end, and everything is released."""
    lies(b, 0, 0, 0)
    b.sh(2, f"""python3 - /sys/bus/pci/devices/$(cat /tmp/hca)/resource0 <<'END'
import ctypes, mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
ctypes.c_uint32.from_buffer(mmap.mmap(f, 4096), {CTRL}).value = 1
END""")
    consumers.kill()
    # the driver checks every 2 s
    until(20 * b.slow, lambda: not b.sh(2, BUSY), lambda: f"still there: {tail(b.sh(2, BUSY))}")
    b.sh(2, "! grep -q '^ohca_verbs_test ' /proc/modules || rmmod ohca_verbs_test", 60)
    b.sh(2, f"rmmod ohca_deceived; nvme disconnect -n {NQN} >/dev/null 2>&1; true", 60)
    b.sh(2, f"{bind('unbind')}; {bind('bind')}", 90)
    all_active(b)


def program(b, pause, consumers):
    """The shell script that uses the device."""
    return SHELL.format(
        nqn=NQN, kernel=b.run.opt.kernel, pause=pause or 2,
        condition="false" if pause else f"[ -e /sys/class/infiniband/{DEV} ]",
        bind=bind("bind"), unbind=bind("unbind"),
        consumers="\n".join(f"forever {x}" for x in consumers).format(kernel=b.run.opt.kernel))


def lie(b, idle, seed, manner, consumers, seconds):
    """Runs one round. Returns the number of lies."""
    kinds, one_of, pause = MANNERS[manner]
    before, marks = ask(b, "lies-told"), {k: len(b.kernels[k].lines) for k in (1, 2)}
    p = b.background(2, program(b, pause, consumers))
    time.sleep(seconds / 5)     # they are running
    lies(b, seed, kinds, one_of)
    time.sleep(seconds)
    end(b, p)
    for node in idle:
        settle(b, node, idle[node])
    b.peer("verify rc")
    for node, mark in marks.items():
        b.kernel_said(node)
        found = [x for x in b.kernels[node].lines[mark:]
                 if REPORT.search(x) and not re.search(SAID, x)]
        need(not found, f"node{node}: {found[:1]}")
    return ask(b, "lies-told") - before


@GROUP.test(timeout=86400, reports=SAID, lock_order=NVMET_ORDER)
def at_random(b):
    """Runs lie() repeatedly for --seconds, each time from another seed and in another manner."""
    opt, told, manners = b.run.opt, Counter(), []
    rng = random.Random(opt.seed)
    idle = begin(b)
    stop = time.monotonic() + opt.seconds
    while time.monotonic() < stop:
        manners = manners or rng.sample(list(MANNERS), len(MANNERS))
        seed, manner = rng.randrange(1 << 32), manners.pop()
        consumers = rng.sample(CONSUMERS, 2)
        begun = time.monotonic()
        try:
            n = lie(b, idle, seed, manner, consumers, rng.uniform(10, 30))
        except Failure as e:
            raise Failure(f"{manner}, seed {seed}, {consumers}: {e}", e.kind) from None
        told[manner] += n
        print(f"campaign: {told.total()} lies, the last {n} of {manner}, seed {seed}, in "
              f"{time.monotonic() - begun:.0f} s", flush=True)
    b.note(str(told))
    print(f"campaign: {told.total()} lies", flush=True)
