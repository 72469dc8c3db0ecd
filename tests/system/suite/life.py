# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading, unloading, killing, dying."""
import re
import time

from . import fabric as fabric_tests
from .bring_up import PAIR, all_active, fabric, start_sm
from .fabric import LISTENS
from .harness import DEV, Failure, Group, find, need, tail, until

GROUP = Group("life", PAIR, prepare=fabric)
DEATH = Group("death", ("-n", "3", "--no-sm"), debug=False, prepare=fabric)
# in one lab with three nodes: DEATH is the last to use it
GROUPS = [GROUP, fabric_tests.GROUP, DEATH]

def resources(b, node):
    """What rdma counts on a node."""
    text = b.sh(node, "rdma resource show")
    return {k: int(v) for k, v in re.findall(r"\b(pd|cq|qp|cm_id|mr|ctx|srq) (\d+)", text)}


def settle(b, node, want):
    """Waits until a node has no more resources than it had."""
    def done():
        now = resources(b, node)
        return all(now[k] <= want[k] for k in want)
    until(10 * b.slow, done, f"node{node} has {resources(b, node)} left, {want} before")


def leftovers(b):
    """What is in use while nobody uses anything, on both nodes."""
    if "idle" not in b.state:
        b.state["idle"] = {k: resources(b, k) for k in (1, 2)}
    return b.state["idle"]


KILLED = (
    ("write_client", "ib_write_bw -D 30 -s 65536", 2),
    ("write_server", "ib_write_bw -D 30 -s 65536", 1),
    ("read_client", "ib_read_bw -D 30 -s 65536", 2),
    ("read_server", "ib_read_bw -D 30 -s 65536", 1),
    ("send_client", "ib_send_bw -D 30 -s 4096 -q 4", 2),
    ("send_server", "ib_send_bw -D 30 -s 4096 -q 4", 1),
    ("atomic_client", "ib_atomic_bw -D 30", 2),
    ("ud_server", "ib_send_bw -c UD -D 30 -s 2048", 1),
)


def add_kill(name, command, victim):
    """kill -9 in mid-traffic; everything is given back, and the other side learns of it."""
    program = command.split()[0]

    @GROUP.test(name=f"kill_{name}", timeout=90, debug=name in ("write_client", "read_server"))
    def _(b):
        idle = leftovers(b)
        for node, host in ((1, ""), (2, "node1")):
            b.sh(node, f"nohup {command} -F -d {DEV} {host} >/tmp/{program}.log 2>&1 & " +
                 (LISTENS if node == 1 else
                  f"n=0; until [ $(rdma resource show qp | grep -c {program}) -gt 0 ]; do "
                  "n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.05; done"))
        time.sleep(1 * b.slow)
        for node in (1, 2):
            need(program in b.sh(node, "rdma resource show qp"), f"no traffic: {program} "
                 f"does not run on node{node}: " + tail(b.sh(node, f"cat /tmp/{program}.log")))
        b.sh(victim, f"pkill -KILL -x {program}")
        settle(b, victim, idle[victim])
        other = 3 - victim
        b.sh(other, f"n=0; while pgrep -x {program} >/dev/null; do n=$((n + 1)); "
                    f"[ $n -lt 15 ] || {{ pkill -KILL -x {program}; exit 0; }}; sleep 0.1; done")
        settle(b, other, idle[other])
        b.peer("stream 0.5")


for _k in KILLED:
    add_kill(*_k)


@GROUP.test(timeout=90)
def kill_many(b):
    """Ten programs at once on one node, all killed together."""
    idle = leftovers(b)
    b.sh(2, "for i in 1 2 3 4 5 6 7 8 9 10; do (nohup /share/ohca-peer hostile unmap "
            ">/dev/null 2>&1 &); done; sleep 0.7; pkill -KILL -x ohca-peer; true")
    settle(b, 2, idle[2])
    b.peer("stream 0.5")


@GROUP.test(debug=False)
def kill_rping(b):
    """A killed program's connection is ended by the connection manager."""
    idle = leftovers(b)
    for node, options, what in ((1, "-s -a 0.0.0.0", "cm_id | grep -q 'LISTEN.* comm rping '"),
                                (2, "-c -a node1-ib -C 100000000",
                                 "qp | grep -q 'state RTS .*comm rping'")):
        b.sh(node, f"nohup rping {options} >/tmp/rping.log 2>&1 & n=0; "
                   f"until rdma resource show {what}; do n=$((n + 1)); [ $n -lt 200 ] || "
                   "{ cat /tmp/rping.log; exit 1; }; sleep 0.05; done", 60)
    time.sleep(1)
    b.sh(2, "pkill -KILL -x rping")
    settle(b, 2, idle[2])
    b.sh(1, "n=0; while pgrep -x rping >/dev/null; do n=$((n + 1)); [ $n -lt 100 ] || "
            "exit 1; sleep 0.1; done")
    settle(b, 1, idle[1])


@GROUP.test
def unload_refused(b):
    """The module stays while a program uses the device."""
    b.sh(2, "nohup ib_write_bw -F >/dev/null 2>&1 & " + LISTENS)
    status, text = b.status(2, "rmmod ohca")
    need(status and "in use" in text, f"rmmod ended with {status}: {tail(text)}")
    b.sh(2, "pkill -KILL -x ib_write_bw")
    until(10 * b.slow, lambda: not b.status(2, "rdma resource show qp | grep ib_write_bw")[1],
          "the program is still there")
    b.peer("stream 0.5")


@GROUP.test(timeout=240)
def load_unload(b):
    """modprobe and modprobe -r, again and again, the fabric up each time."""
    times = 6 if b.debug else 50
    b.sh(2, f"""i=0
while [ $i -lt {times} ]; do
	i=$((i + 1))
	modprobe -r ohca || {{ echo "cannot unload, round $i"; exit 1; }}
	[ ! -e /sys/class/infiniband/{DEV} ] || {{ echo "the device stays"; exit 1; }}
	modprobe ohca || {{ echo "cannot load, round $i"; exit 1; }}
	n=0
	# every tenth round waits for the subnet manager, the others for the device
	if [ $((i % 10)) = 0 ]; then want=ACTIVE; else want=:; fi
	until grep -q $want /sys/class/infiniband/{DEV}/ports/1/state 2>/dev/null; do
		n=$((n + 1)); [ $n -lt 300 ] || {{ echo "no port, round $i"; exit 1; }}; sleep 0.1
	done
done""", 220)
    all_active(b, 40)
    b.state.pop("idle", None)
    b.peer("verify rc")
    b.sh(2, "ping -c 3 -i 0.2 node1-ib", 30)


@GROUP.test(timeout=120)
def unload_in_traffic(b):
    """IPoIB does not keep the module: unloading under load is clean, loading works."""
    b.sh(1, "(ping -f -w 20 node2-ib >/dev/null 2>&1 &)")
    for _ in range(2 if b.debug else 5):
        time.sleep(0.3 * b.slow)
        b.sh(2, "modprobe -r ohca && modprobe ohca")
    b.sh(1, "pkill -x ping", status=None)
    all_active(b, 40)
    b.peer("stream 0.5")


@GROUP.test(timeout=120)
def unbind_used(b):
    """The PCI function goes away under a program: it gets an error, the rest is clean."""
    b.sh(2, "nohup ib_write_bw -F >/tmp/used.log 2>&1 & " + LISTENS)
    b.sh(2, "d=$(basename $(readlink /sys/class/infiniband/ohca_0/device)); "
            "echo $d >/sys/bus/pci/drivers/ohca/unbind; pkill -KILL -x ib_write_bw; "
            "echo $d >/sys/bus/pci/drivers/ohca/bind", 60)
    all_active(b, 40)
    b.state.pop("idle", None)
    b.peer("stream 0.5")


@GROUP.test(timeout=120, debug=False)
def sm_restart(b):
    """OpenSM is killed and started again; traffic does not stop."""
    command = "/share/ohca-peer stream 4"
    b.sh(1, f"(nohup {command} >/tmp/stream.log 2>&1 &)")
    b.sh(2, f"(nohup {command} node1 >/tmp/stream.log 2>&1 &); sleep 1")
    b.sh(1, "pkill -KILL -x opensm; sleep 0.5")
    start_sm(b)
    for node in (1, 2):
        b.sh(node, "n=0; while pgrep -x ohca-peer >/dev/null; do n=$((n + 1)); "
                   "[ $n -lt 400 ] || exit 1; sleep 0.1; done", 60)
        text = b.sh(node, "cat /tmp/stream.log")
        need("moved" in text and "FAILED" not in text, f"node{node}: {tail(text)}")
    all_active(b)
    b.sh(1, "n=0; until grep -q 'SUBNET UP' /var/log/opensm.log; do n=$((n + 1)); "
            "[ $n -lt 100 ] || exit 1; sleep 0.1; done")


@GROUP.test(debug="only", timeout=120)
def leaks(b):
    """kmemleak finds nothing after the driver is gone."""
    b.sh(1, "pkill -x opensm; sleep 1", status=None)
    b.state["fabric"] = False
    for node in (2, 1):
        b.sh(node, "modprobe -r ohca", 30)
        b.sh(node, "echo scan >/sys/kernel/debug/kmemleak; sleep 6; "
                   "echo scan >/sys/kernel/debug/kmemleak", 90)
        text = b.sh(node, "cat /sys/kernel/debug/kmemleak")
        mine = [x for x in text.split("unreferenced object") if "ohca" in x]
        need(not mine, f"node{node}: {len(mine)} leaks of ours: {tail(''.join(mine[:1]), 600)}")
        need(not text.strip(), f"node{node}: leaks: {tail(text, 600)}")
        b.sh(node, "modprobe ohca", 30)


def die_while_sending(b, sender, how):
    """Node 3 dies by how() while the sender writes to it; the others go on."""
    b.sh(3, "(nohup /share/ohca-peer until-error 60 >/tmp/d.log 2>&1 &)")
    b.sh(sender, "(nohup /share/ohca-peer until-error 60 node3 >/tmp/d.log 2>&1 &); "
                 "n=0; until grep -q streaming /tmp/d.log; do n=$((n + 1)); [ $n -lt 200 ] || "
                 "exit 1; sleep 0.05; done")
    other = 3 - sender
    command = f"/share/ohca-peer stream {5 * b.slow}"
    b.sh(other, f"(nohup {command} >/tmp/s.log 2>&1 &)")
    b.sh(sender, f"(nohup {command} node{other} >/tmp/s.log 2>&1 &); "
                 "n=0; until grep -q streaming /tmp/s.log; do n=$((n + 1)); [ $n -lt 200 ] || "
                 "exit 1; sleep 0.05; done")
    how()
    b.sh(sender, "n=0; until grep -q 'error after' /tmp/d.log; do n=$((n + 1)); "
                 "[ $n -lt 300 ] || exit 1; sleep 0.1; done", 40)
    text = b.sh(sender, "cat /tmp/d.log")
    took = int(find(r"error after \d+ blocks, (\d+) ms: transport retry counter exceeded", text))
    need(took < 15000 * b.slow, f"the error came after {took} ms")
    for node in (1, 2):
        b.sh(node, "n=0; until grep -q moved /tmp/s.log || grep -q FAILED /tmp/s.log; do "
                   "n=$((n + 1)); [ $n -lt 400 ] || exit 1; sleep 0.1; done; "
                   "grep moved /tmp/s.log", 60)


@DEATH.test(timeout=120)
def killed(b):
    """The QEMU of a node is killed; the switch's port goes down, OpenSM notices."""
    guid = b.sh(3, f"cat /sys/class/infiniband/{DEV}/node_guid").strip().replace(":", "")
    need(guid in b.sh(1, "ibnetdiscover"), "node3 is not on the fabric")
    b.sh(1, "ibqueryerrors -k", 60, status=None)
    die_while_sending(b, 2, b.lab.vms[2].process.kill)
    need(guid not in b.sh(1, "ibnetdiscover"), "a dead node is still discovered")
    up = b.sh(1, "iblinkinfo --switches-only").count("Active/  LinkUp")
    need(up == 2, f"{up} links are up after a node died")
    until(20 * b.slow, lambda: "node3" not in b.sh(1, "saquery NR"),
          "OpenSM still knows the dead node")
    b.peer("verify rc")
    b.state["dead"] = True


@DEATH.test(timeout=60)
def stays_down(b):
    """Sending to the LID of the dead node ends in an error, soon; the fabric works on."""
    if not b.state.get("dead"):
        raise Failure("needs the test before")
    b.sh(2, "ping -c 3 -i 0.2 node1-ib")
    status, _ = b.status(2, "ping -c 2 -W 2 node3-ib")
    need(status, "a dead node answers")
    # the switch noticed that one link went down; what was on its way was dropped there
    bad = re.findall(r"^ *GUID \S+ port \d+: .*LinkDownedCounter == (\d+)",
                     b.sh(1, "ibqueryerrors", 60, status=None), re.M)
    need(bad == ["1"], f"LinkDowned of the ports that count it: {bad}")
