# SPDX-License-Identifier: GPL-2.0-or-later
"""Loading and unloading the driver, killing programs and machines."""
import contextlib
import json
import re

from ohca_lab import paths

from .bring_up import PAIR, PULLABLE, RESTLESS, all_active, restless, start_sm, stop_sm, swept
from .fabric import LISTENS, LOST
from .harness import DEV, Group, find, need, tail, until

GROUP = Group("life", PULLABLE, prepare=restless)
# a test for each kind of adapter, in the lab of another group
LOADS = Group("life", PAIR, prepare=restless)
# the last test of the last group that uses this lab; it needs no subnet
LAST = Group("life", PULLABLE)
GROUPS = [GROUP]


def resources(b, node):
    """The resources that rdma counts on a node."""
    text = b.sh(node, "rdma resource show")
    return {k: int(v) for k, v in re.findall(r"\b(pd|cq|qp|cm_id|mr|ctx|srq) (\d+)", text)}


def settle(b, node, want):
    """Waits until a node has no more resources than before."""
    def done():
        now = resources(b, node)
        return all(now[k] <= want[k] for k in want)
    until(10 * b.slow, done, f"node{node} has {resources(b, node)} left, {want} before")


def pool(b, node):
    """The number of users of each CQ in the pool of a node's device.

    rdma has one name too many in front of those of enum ib_poll_context: CQs that it shows as
    "DIRECT" and "SOFTIRQ" are polled from a softirq and a workqueue. "WORKQUEUE", an unbound
    workqueue, is the MAD layer's CQ, which is not in the pool.
    """
    rows = json.loads(b.sh(node, "rdma -j resource show cq"))
    return [r["users"] for r in rows
            if r.get("comm") == "ib_core" and r.get("poll-ctx") in ("DIRECT", "SOFTIRQ")]


def unpooled(b, node):
    """The resources that rdma counts on a node, without the CQs of the pool.

    ib_core adds a CQ if there is no room in the others, and keeps it until the device is removed.
    """
    now = resources(b, node)
    return {**now, "cq": now["cq"] - len(pool(b, node))}


def settle_pool(b, node, want):
    """Waits until a node has no more than unpooled() was, and the pool has no users."""
    until(10 * b.slow, lambda: not any(pool(b, node)), lambda: f"node{node}: CQs of the pool are "
          f"in use: {b.sh(node, 'rdma resource show qp; rdma resource show cm_id')}")
    settle(b, node, {**want, "cq": want["cq"] + len(pool(b, node))})


# how rping's server ends without its client
RPING_LOST = (0, 1, 255)


def leftovers(b):
    """The resources that are in use without any program, on both nodes."""
    if "idle" not in b.state:
        b.state["idle"] = {k: resources(b, k) for k in (1, 2)}
    return b.state["idle"]


@contextlib.contextmanager
def losing(b):
    """In this context, node 2 loses its device: its program with traffic gets an error and ends."""
    program = b.background(2, "/share/ohca-peer local lost").said("streaming")
    yield
    text = program.wait()
    need(int(find(r"lost the device after (\d+) blocks", text)) > 0, tail(text))


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


def moved(b, node):
    """Data that a node's port has sent and received."""
    return sum(int(x) for x in b.sh(node, "cd /sys/class/infiniband/%s/ports/1/counters && "
                                          "cat port_xmit_data port_rcv_data" % DEV).split())


def add_kill(name, command, victim):
    """kill -9 during traffic; everything is released, and the other side gets an error."""
    program = command.split()[0]

    @GROUP.test(name=f"kill_{name}", timeout=90, debug=False)
    def _(b):
        idle = leftovers(b)
        shows = f"rdma resource show qp | grep -q {program}"
        ends = {1: b.background(1, f"{command} -F -d {DEV}", LISTENS, ends=LOST),
                2: b.background(2, f"{command} -F -d {DEV} node1", shows, ends=LOST)}
        before = moved(b, 2)
        until(20 * b.slow, lambda: moved(b, 2) > before + (1 << 18), "no traffic")
        ends.pop(victim).kill()
        settle(b, victim, idle[victim])
        for other, p in ends.items():
            p.end(2)
            settle(b, other, idle[other])
        b.peer("stream 0.5")


for _k in KILLED:
    add_kill(*_k)


@GROUP.test(timeout=90, debug="first")
def kill_many(b):
    """Ten programs at once on one node (four on the debug kernel), all killed together."""
    idle, many = leftovers(b), 4 if b.debug else 10
    programs = [b.background(2, "/share/ohca-peer local lost") for _ in range(many)]
    for p in programs:
        p.said("streaming")
    now = resources(b, 2)
    need(now["qp"] >= idle[2]["qp"] + many, f"{now} in use by {many}, {idle[2]} before")
    # the first that is killed must find the last running: all are ended at once
    text = b.sh(2, "pgrep -xc ohca-peer; pkill -KILL -x ohca-peer")
    need(int(text) == many, f"{text.strip()} programs were killed")
    for p in programs:
        p.killed = True
    settle(b, 2, idle[2])
    b.peer("stream 0.5")


@GROUP.test(debug=False)
def kill_rping(b):
    """The connection manager ends the connection of a killed program."""
    idle = leftovers(b)
    server = b.background(1, "rping -s -a 0.0.0.0",
                          "rdma resource show cm_id | grep -q 'LISTEN.* comm rping '",
                          ends=RPING_LOST)
    client = b.background(2, "rping -c -a node1-ib -C 100000000",
                          "rdma resource show qp | grep -q 'state RTS .*comm rping'")
    before = moved(b, 2)
    until(20 * b.slow, lambda: moved(b, 2) > before + 1000, "no traffic")
    client.kill()
    settle(b, 2, idle[2])
    server.wait()
    settle(b, 1, idle[1])


@GROUP.test
def unload_refused(b):
    """The module cannot be unloaded while a program uses the device."""
    server = b.background(2, "ib_write_bw -F", LISTENS)
    status, text = b.status(2, "rmmod ohca")
    need(status and "in use" in text, f"rmmod ended with {status}: {tail(text)}")
    server.kill()
    until(10 * b.slow, lambda: not b.status(2, "rdma resource show qp | grep ib_write_bw")[1],
          "the program is still there")
    b.peer("stream 0.5")


@LOADS.test(timeout=240, debug="first")
def load_unload(b):
    """modprobe and modprobe -r, repeatedly; the fabric comes up each time."""
    # repetition is for one kernel
    times = 6 if b.debug else 50 if tuple(b.run.opt.guest) == paths.GUESTS[:1] else 10
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


@GROUP.test(timeout=120, debug="first")
def unload_in_traffic(b):
    """IPoIB does not hold the module: unloading under load works, and loading again."""
    # -f: a datagram without an answer is followed by the next one after ten milliseconds
    b.background(1, "ping -q -f node2-ib")
    packets = f"cat /sys/class/infiniband/{DEV}/ports/1/counters/port_rcv_packets"
    for n in range(2 if b.debug else 5):
        all_active(b, 40)
        b.sh(2, f"begin=$({packets}); n=0; until [ $({packets}) -gt $((begin + 50)) ]; do "
                f"n=$((n + 1)); [ $n -lt 600 ] || {{ echo no traffic in round {n}; exit 124; }}; "
                "sleep 0.1; done; modprobe -r ohca && modprobe ohca", 80)
    all_active(b, 40)
    b.peer("stream 0.5")


@GROUP.test(timeout=120)
def unbind_used(b):
    """The PCI function is unbound under a program: the program gets an error, the rest works."""
    with losing(b):
        where = b.sh(2, f"d=$(basename $(readlink /sys/class/infiniband/{DEV}/device)); "
                        "echo $d >/sys/bus/pci/drivers/ohca/unbind; echo $d", 60).strip()
    b.sh(2, f"[ ! -e /sys/class/infiniband/{DEV} ] && echo {where} >/sys/bus/pci/drivers/ohca/bind",
         60)
    all_active(b, 40)
    b.state.pop("idle", None)
    b.peer("stream 0.5")


@GROUP.test(timeout=120, debug=False)
def sm_restart(b):
    """OpenSM is killed and started again; traffic continues."""
    command = f"/share/ohca-peer stream {3 + b.slow}"
    ends = [b.background(1, command), b.background(2, f"{command} node1")]
    ends[1].said("streaming")
    stop_sm(b, signal="KILL")
    b.sh(1, "pgrep -x ohca-peer || { echo the traffic was over before; exit 124; }")
    start_sm(b, setting=RESTLESS)
    for end in ends:
        find("^moved", end.wait())
    all_active(b)
    swept(b)


@LAST.test(debug="only", timeout=120)
def unloaded(b):
    """The driver is unloaded when the lab looks for leaks at its end."""
    stop_sm(b)
    b.state["fabric"] = False
    for node in (2, 1):
        b.sh(node, "modprobe -r ohca", 30)
