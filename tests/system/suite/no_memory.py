# SPDX-License-Identifier: GPL-2.0-or-later
"""Every allocation fails once: in the driver, in functions that it calls, and in its callers."""
import re
import shlex
import time

from .bring_up import PAIR, all_active, restless
from .faults import CTRL, PCI
from .harness import DEV, Group, find, need, tail
from .klog import SAID
from .life import settle_pool, unpooled
from .storage import NQN, exported
from .tools import port_of, switch_lid

# The kernel logs the place of each failure, which makes the log long.
LAB = (*PAIR, "--append", "log_buf_len=16M", "--append", "iomem=relaxed")
KINDS = ("failslab", "fail_page_alloc")
SHARE = "/share/debug"

# In scenarios: {function}, {port} and {switch} are those of node 2.
DRIVER = "/sys/bus/pci/drivers/ohca"
TO_BIND, TO_UNBIND = f"{DRIVER}/bind={{function}}", f"{DRIVER}/unbind={{function}}"
BIND, UNBIND = f"echo {{function}} >{DRIVER}/bind", f"echo {{function}} >{DRIVER}/unbind"
BOUND = f"[ -e {DRIVER}/{{function}} ]"
REBIND = f"! {BOUND} || {UNBIND}; {BIND}"
NOT_BOUND = f"! {BOUND} || {UNBIND}"
LOADED = "[ -e /sys/module/ohca ]"
# within SECONDS CONDITION: whether it becomes true in time.
WITHIN = """within() {
	end=$(($(date +%s) + $1)); shift
	until eval "$*"; do [ $(date +%s) -lt $end ] || return 1; sleep 0.1; done
}
"""
THERE = f"[ -e /sys/class/infiniband/{DEV}/ports/1/state ]"
CARRIER = '[ "$(cat /sys/class/net/ib0/carrier 2>/dev/null)" = 1 ]'
UPS = "cat /sys/class/net/ib0/carrier_up_count"
NUMBER = f"stat -L -c %i /sys/class/infiniband/{DEV}/ports"
POKE = f"""python3 -c 'import ctypes, mmap, os
f = os.open("/sys/bus/pci/devices/{{function}}/resource0", os.O_RDWR)
ctypes.c_uint32.from_buffer(mmap.mmap(f, 4096), {CTRL}).value = 1'
"""
# Programs of node 1, with conditions that they are ready: one takes the link of node 2 down and up
# when a program connects to it, the other answers rping.
ASKED_PORT = 18700
ASKED = (f"""python3 -c '
import socket, subprocess
s = socket.create_server(("", {ASKED_PORT}))
while True:
    c, _ = s.accept()
    subprocess.run(["ibportstate", "{{switch}}", "{{port}}", "reset"], check=False)
    c.close()'""", f"ss -ltn | grep -q :{ASKED_PORT}")
BOUNCE = f"bash -c 'cat </dev/tcp/node1/{ASKED_PORT}'"
BOUNCED = f"was=$({UPS}); {BOUNCE}; within 20 '[ $({UPS}) -gt '$was' ] && {CARRIER}'"
ADDRESS = ("ip addr replace 10.78.0.1/24 dev ib0; sleep 86400", "ip addr | grep -q 10.78.0.1")
PONG = ("while :; do rping -s -P -a 0.0.0.0; done",
        "rdma resource show cm_id | grep -q 'LISTEN.* comm rping '")
# Without memory, uverbs loses a completion event, and a program that waits for it does not end.
PING = "timeout 30 rping -c -a node1-ib -C 1"
# Stacks of failures and warnings about large allocations. If the kernel could not make all entries
# of an interrupt's directory in /proc, it warns about the missing ones when it removes it.
TRACES = r"Call Trace|proc/generic\.c:\d+ remove_proc_entry"


def ready(b):
    """Brings up the fabric with a disk, and with a port whose link goes down and up often."""
    restless(b)
    exported(b)
    if "port" not in b.state:
        b.state.update(port=port_of(b, 2), switch=switch_lid(b), function=function_of(b, 2))


def function_of(b, node):
    """The name of a node's PCI function."""
    return b.sh(node, f"basename {PCI}").strip()


def words(b, script):
    """A scenario's script for this lab."""
    return re.sub(r"\{(function|port|switch)\}", lambda m: str(b.state[m[1]]), script)


def starve(b, node, do, undo, *options, seconds):
    """Runs prog/starve.py in a node; returns the number of failed allocations, and its output."""
    argv = [f"--seconds={seconds}", *options, do, undo]
    text = b.sh(node, "python3 /share/starve.py " + shlex.join(argv), seconds + 400)
    return int(find(r"^(\d+) of .* allocations failed", text)), text


GROUP = Group("memory", LAB, prepare=ready, campaign=True)
GROUPS = [GROUP]
# By scenario and kind: the number of failures, and the seconds.
FAILED, SPENT = {}, {}


def share(b):
    """Seconds for the next kind of a scenario: others leave their unused time to the rest.

    A round may take longer than its share; the last kinds still have time for one round.
    """
    runs = len(b.group.tests) * len(KINDS)
    if len(SPENT) == runs:   # --repeat
        SPENT.clear()
    return max(1, (b.run.opt.seconds - sum(SPENT.values())) / (runs - len(SPENT)))


def scenario(name, do, undo, *options, before="true", after="true", helper=None, reports=TRACES):
    """A test: each allocation that do needs fails once, in random order, in its share of the time.
    After a failure there is no device, or everything that do makes, or a state that undo can undo;
    at the end everything works. helper: a program of node 1, and a condition that it is ready.
    """
    @GROUP.test(name=name, timeout=86400, debug="only", reports=reports)
    def _(b):
        idle = unpooled(b, 2)
        if helper:
            b.background(1, words(b, helper[0]), helper[1])
        b.sh(2, words(b, WITHIN + before), 90)
        said = ""
        for kind in KINDS:
            begin = time.monotonic()
            FAILED[name, kind], text = starve(b, 2, words(b, do), words(b, undo),
                                              f"--kind={kind}", f"--seed={b.run.opt.seed}",
                                              *options, seconds=share(b))
            SPENT[name, kind] = time.monotonic() - begin
            said += text
        need(len(re.findall("^0 of 0 allocations", said, re.M)) < len(KINDS),
             f"no allocation is the driver's: {tail(said)}")
        b.sh(2, words(b, WITHIN + after), 90)
        all_active(b, 60)
        settle_pool(b, 2, idle)
        b.peer("verify rc")
        b.sh(2, "ping -c 3 -i 0.2 node1-ib", 30)
        print(f"campaign: {sum(FAILED.values())} failed allocations", flush=True)


# The first kind: by calls near the driver, which are few; the other: by all callers in ib_core.
scenario("probe", TO_BIND, NOT_BOUND, "--depth=14", before=UNBIND, after=BIND)
scenario("register", TO_BIND, NOT_BOUND, before=UNBIND, after=BIND)
scenario("remove", TO_UNBIND, f"{BOUND} || {BIND}")
scenario("load", "modprobe ohca", f"! {LOADED} || modprobe -r ohca", "--code=do_init_module",
         "--depth=14", before="modprobe -r ohca", after="modprobe ohca")
# After a reset, a client of ib_core may be missing; so the function is bound anew at the end.
scenario("reset", f"{WITHIN}echo 1 >/sys/bus/pci/devices/{{function}}/reset; within 20 '{THERE}'",
         THERE, "--depth=14", before="echo flr >/sys/bus/pci/devices/{function}/reset_method",
         after=REBIND)
# Each failure is an attempt of the driver; it makes five until the function is bound anew.
scenario("recover", f"{WITHIN}was=$({NUMBER})\n{POKE}"
         f"within 20 '{THERE} && [ $({NUMBER}) != '$was' ]'", REBIND, "--depth=14",
         reports=f"{TRACES}|{SAID}")
# IPoIB joins again after as much as 16 s. An interface that is there has its QP and CQs already;
# so datagram mode is that of another one.
scenario("ipoib_datagram", f"{WITHIN}ip link add link ib0 name ib9 type ipoib pkey 0xffff mode "
         "datagram && ip addr add 10.78.0.2/24 dev ib9 && ip link set ib9 up && "
         f"within 20 '{CARRIER.replace('ib0', 'ib9')}' && ping -c 1 -w 20 10.78.0.1",
         "[ ! -e /sys/class/net/ib9 ] || ip link del ib9", helper=ADDRESS)
scenario("ipoib_connected", f"{WITHIN}echo connected >/sys/class/net/ib0/mode; "
         f"ip link set ib0 up && within 20 '{CARRIER}' && ping -c 1 -w 20 node1-ib && "
         "rdma resource show qp | grep 'type RC state RTS'",
         "ip link set ib0 down", before="ip link set ib0 down",
         after="echo datagram >/sys/class/net/ib0/mode; ip link set ib0 up")
scenario("nvme", f"{WITHIN}nvme connect -t rdma -n {NQN} -a 10.77.0.1 -s 4420 -i 2 && "
         "within 10 '[ -b /dev/nvme0n1 ]'",
         f"{WITHIN}nvme disconnect -n {NQN}; within 10 '[ ! -e /dev/nvme0n1 ]'")
scenario("cm", PING, f"{WITHIN}within 20 '{PING}'", helper=PONG)
# The driver's allocations are the same for each way of polling.
scenario("kernel_verbs", f"insmod {SHARE}/ohca_verbs_test.ko ways=1",
         "! [ -e /sys/module/ohca_verbs_test ] || rmmod ohca_verbs_test")
# If an event is lost for lack of memory, IPoIB has no carrier until the next one.
scenario("events", WITHIN + BOUNCED, f"{WITHIN}within 10 '{CARRIER}' || {{ {BOUNCED}; }}",
         after=BOUNCED, helper=ASKED)
scenario("odp", "/share/ohca-peer paged odp", "true")
