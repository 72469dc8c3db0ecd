# SPDX-License-Identifier: GPL-2.0-or-later
"""Resources in the kernel: lists, counters of single QPs, limits, namespaces."""
import json
import re

from .bring_up import PAIR, all_active, fabric, stop_sm
from .harness import DEV, PYVERBS_ENUMS, Failure, Group, find, need, tail, until
from .life import LOADS

GROUP = Group("resources", PAIR, prepare=fabric)
GROUPS = [GROUP, LOADS]

# A program that holds one resource of each kind until it is asked to end. Prints the numbers.
HOLD = PYVERBS_ENUMS + """
import sys
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPInitAttr, QPCap, QPAttr
from pyverbs.srq import SRQ, SrqInitAttr, SrqAttr
ctx = Context(name="ohca_0")
pd = PD(ctx)
cq = CQ(ctx, 100)
mr = MR(pd, 12345, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=50)))
qps = []
for i in range(int(sys.argv[1])):
    cap = QPCap(max_send_wr=20, max_recv_wr=10)
    qps.append(QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap,
                                 srq=srq if i else None)))
a = QPAttr(port_num=1)
a.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
for q in qps[:2]:
    q.to_init(a)
print(mr.lkey, [q.qp_num for q in qps], flush=True)
sys.stdin.read()
"""


def start(b, qps=2):
    """Starts the holder on node 1 and waits for its numbers."""
    b.sh(1, f"cat >/tmp/hold.py <<'EOF'\n{HOLD}EOF\nrm -f /tmp/hold; mkfifo /tmp/hold; "
            # the output of an earlier one must not count as its own
            ": >/tmp/held; "
            f"(python3 /tmp/hold.py {qps} </tmp/hold >/tmp/held 2>&1 &) ; "
            "(sleep 600 >/tmp/hold & echo $! >/tmp/hold.pid)", 20)
    until(30 * b.slow, lambda: "]" in b.sh(1, "cat /tmp/held"), "the holder does not start")
    lkey, numbers = re.match(r"(\d+) \[(.*)\]", b.sh(1, "cat /tmp/held")).groups()
    return int(lkey), [int(x) for x in numbers.split(",")]


def stop(b):
    """Ends the holder."""
    b.sh(1, "kill $(cat /tmp/hold.pid); n=0; while pgrep -f '[h]old[.]py' >/dev/null; do "
            "n=$((n + 1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done")


def show(b, what, options="-dd"):
    """A list of resources on node 1; only python3's if they have an owner's name."""
    rows = json.loads(b.sh(1, f"rdma -j {options} resource show {what}"))
    return rows if options == "-r" else [r for r in rows if r.get("comm", "") == "python3"]


def driver(row, name):
    """The driver's attributes of a resource."""
    for key in (name, f"drv_{name}"):
        if key in row:
            return int(str(row[key]), 0)
    raise Failure(f"no {name} in {row}")


@GROUP.test(timeout=120)
def details(b):
    """rdma resource show -dd: each kind, with numbers that are known."""
    lkey, numbers = start(b)
    try:
        qps = {r["lqpn"]: r for r in show(b, "qp")}
        need(sorted(qps) == sorted(numbers), f"QPs {sorted(qps)}, not {numbers}")
        for n in numbers:
            need(driver(qps[n], "handle") == n, "handle")
            need(driver(qps[n], "max_send_wr") >= 20, "size of the send queue")
        need(driver(qps[numbers[0]], "max_recv_wr") >= 10, "size of the receive queue")
        need(driver(qps[numbers[1]], "max_recv_wr") == 0, "a QP of an SRQ has a receive queue")
        mrs = show(b, "mr")
        need(len(mrs) == 1 and int(str(mrs[0]["lkey"]), 16) == lkey, "MR")
        need(driver(mrs[0], "access") & 3 == 3, "access")
        need(mrs[0]["mrlen"] == 12345, "length")
        cqs = show(b, "cq")
        need(len(cqs) == 1 and driver(cqs[0], "vector") == 1, "CQ")
        need(len(show(b, "srq")) == 1 and driver(show(b, "srq")[0], "wqes") >= 1, "SRQ")
        for kind in ("pd", "ctx", "cm_id"):
            show(b, kind)
        need(show(b, "pd") and show(b, "ctx"), "PD or context")
    finally:
        stop(b)


@GROUP.test(timeout=120)
def details_of_anybody(b):
    """An unprivileged user's list has no address and no contents of the device."""
    start(b)
    try:
        text = b.sh(1, "for what in qp cq srq mr; do setpriv --reuid 65534 --regid 65534 "
                       "--clear-groups rdma -dd resource show $what; done")
        need("drv_access" in text and "drv_max_send_wr" in text, tail(text))
        need("iova" not in text and "drv_hw" not in text, tail(text))
    finally:
        stop(b)


def word(row, offset):
    """32 bits of a context of the device (firmware-if/ohca_context.h)."""
    return int.from_bytes(bytes(row["data"][offset:offset + 4]), "little")


@GROUP.test(timeout=120)
def raw(b):
    """rdma resource show -r: the device's own contexts."""
    lkey, numbers = start(b, 3)
    try:
        qps = {word(r, 0): r for r in show(b, "qp", "-r")}
        for n in numbers:
            need(n in qps and len(qps[n]["data"]) == 128, f"QP {n} is not in {list(qps)}")
        # types and states: RC in INIT, RC in RESET
        need(qps[numbers[1]]["data"][76:78] == [2, 1], "type and state of the second QP")
        need(qps[numbers[2]]["data"][76:78] == [2, 0], "type and state of the third QP")
        mrs = {word(r, 0): r for r in show(b, "mr", "-r")}
        need(lkey in mrs and word(mrs[lkey], 16) == 12345, "MR")
        for kind, size in (("cq", 64), ("srq", 64)):
            rows = show(b, kind, "-r")
            need(rows and all(len(r["data"]) == size for r in rows), kind)
    finally:
        stop(b)


def counter(b, qp=None):
    """A counter of node 1's port, or of the set in which a QP counts."""
    what = "qp show link" if qp else "show link"
    rows = json.loads(b.sh(1, f"rdma -j statistic {what} {DEV}/1") or "[]")
    rows = [r for r in rows if r and (not qp or qp in lqpns(r))]
    if not rows:
        raise Failure(f"no counters of {qp or 'the port'}")
    return rows[0]


def lqpns(row):
    """The QP numbers of a counter set, in any format of rdma."""
    return [int(x) for x in re.findall(r"\d+", json.dumps(row.get("lqpn", row.get("LQPN", ""))))]


def sysfs(b, where):
    """rx_pkts in sysfs."""
    return int(b.sh(1, f"cat /sys/class/infiniband/{DEV}/{where}hw_counters/rx_pkts"))


def traffic(b, count):
    """Packets from node 2 to node 1, at least 16 for each message."""
    b.pair(f"ib_write_bw -F -d {DEV} -s 65536 -n {count}",
           f"ib_write_bw -F -d {DEV} -s 65536 -n {count} node1", 18515)


@GROUP.test(timeout=120, debug="first")
def counters_of_types(b):
    """Sets for QPs of one type: the port includes their counts, during their life and after."""
    before, device = sysfs(b, "ports/1/"), sysfs(b, "")
    need(counter(b)["rx_pkts"] >= before, "rdma and sysfs differ")
    b.sh(1, f"rdma statistic qp set link {DEV}/1 auto type on")
    try:
        need("auto type on" in b.sh(1, f"rdma statistic qp mode link {DEV}/1"), "mode")
        b.sh(1, f"(ib_write_bw -F -d {DEV} -D 8 >/tmp/server.log 2>&1 &) ; n=0; "
                "until grep -qi ':4853 0.*:0000 0A' /proc/net/tcp*; do n=$((n + 1)); "
                "[ $n -lt 200 ] || exit 1; sleep 0.05; done")
        b.sh(2, f"(ib_write_bw -F -d {DEV} -D 8 node1 >/tmp/client.log 2>&1 &)")

        def counting():
            # both during its life, which is short
            what = f"statistic qp show link {DEV}/1"
            text, _, rows = b.sh(1, f"rdma {what}; echo; echo JSON; rdma -j {what}").partition(
                "JSON\n")
            return (any(r.get("rx_pkts", 0) > 1000 for r in json.loads(rows or "[]")) and
                    "qp-type RC" in text and re.search(r"LQPN: <\d+>", text))
        until(20 * b.slow, counting, "no QP counts in a set")
        b.sh(1, "n=0; while pgrep -x ib_write_bw >/dev/null; do n=$((n + 1)); "
                "[ $n -lt 300 ] || exit 1; sleep 0.1; done", 40)
        got = sysfs(b, "ports/1/") - before
        need(got > 1000, f"the port has {got} packets")
        need(abs(sysfs(b, "") - device - got) < 200, "the device's and the port's sums differ")
    finally:
        b.sh(1, f"rdma statistic qp set link {DEV}/1 auto off")
    need(not b.sh(1, f"rdma statistic qp show link {DEV}/1").strip(), "a set is left")


@GROUP.test(timeout=120)
def counters_by_hand(b):
    """A set for two named QPs; a set for each QP; unbinding."""
    _, (one, two, reset) = start(b, 3)
    try:
        b.sh(1, f"rdma statistic qp bind link {DEV}/1 lqpn {one}")
        row = counter(b, one)
        number = row["cntn"]
        need(row["rx_pkts"] == 0 and row["cmds"] == 0, "a new set is not 0")
        b.sh(1, f"rdma statistic qp bind link {DEV}/1 lqpn {two} cntn {number}")
        need(sorted(lqpns(counter(b, two))) == [one, two], "both are in it")
        sets = {word(r, 0): word(r, 28) for r in show(b, "qp", "-r")}
        need({n: sets[n] for n in (one, two, reset)} == {one: number, two: number, reset: 0},
             f"the device says otherwise: {sets}")
        # a second time; a QP without a port; one that does not exist; a set that does not exist
        for args in (f"lqpn {one}", f"lqpn {reset} cntn {number}", "lqpn 16777214",
                     f"lqpn {reset} cntn 4000"):
            status, _ = b.status(1, f"rdma statistic qp bind link {DEV}/1 {args}")
            need(status != 0, f"bind {args} worked")
        b.sh(1, f"rdma statistic qp unbind link {DEV}/1 cntn {number} lqpn {one}")
        need(lqpns(counter(b, two)) == [two], "one is left")
    finally:
        stop(b)
    need(not b.sh(1, f"rdma statistic qp show link {DEV}/1").strip(), "a set is left")


READERS = """
import os, sys, threading, time
times = 0
def read(name):
    global times
    while not os.path.exists("/tmp/enough"):
        try:
            with open(sys.argv[1] + "/" + name) as f:
                times += len(f.read()) > 0
        except OSError:
            pass
        time.sleep(0.02)
threads = [threading.Thread(target=read, args=(x,)) for x in os.listdir(sys.argv[1])]
for t in threads:
    t.start()
print("reading", flush=True)
for t in threads:
    t.join()
print("read", times, "times")
"""


@GROUP.test(timeout=120)
def debugfs(b):
    """State in /sys/kernel/debug/ohca: correct, and removed with the device, also with readers."""
    base = b.sh(1, "echo /sys/kernel/debug/ohca/*").strip()
    pci = base.rsplit("/", 1)[1]
    _, numbers = start(b)
    try:
        table = {}
        for kind in ("eq", "cq", "qp", "srq"):
            lines = b.sh(1, f"cat {base}/{kind}").splitlines()
            columns = lines[0].split()
            table[kind] = [dict(zip(columns, x.split())) for x in lines[1:]]
            need(all(len(x.split()) == len(columns) for x in lines), f"columns of {kind}")
        qps = {int(r["handle"]): r for r in table["qp"]}
        need(qps[0]["owner"] == "kernel" and qps[1]["hw_state"] == "3", "QP0 and QP1")
        need(qps[numbers[0]]["owner"] == "user" and qps[numbers[0]]["hw_state"] == "1", "RC QP")
        need(all(r["hw_flags"].startswith("ok") for r in table["cq"]), "a CQ in error")
        kinds = [r["hw_flags"].partition(",")[0] for r in table["eq"]]
        need(kinds[:2] == ["async", "fault"] and set(kinds[2:]) == {"comp"}, f"EQs: {kinds}")
        need("alive" in b.sh(1, f"cat {base}/device"), "device")
        need(re.search(r"stray 0\n", b.sh(1, f"cat {base}/aq")), "aq")
    finally:
        stop(b)
    # the columns have names also without entries; the debug kernel has IPoIB built in
    if not b.debug:
        text = b.sh(1, f"modprobe -r ib_ipoib; cat {base}/srq; modprobe ib_ipoib")
        need(text.split("\n") == ["srqn owner size head hw_ci hw_limit hw_qps hw_flags", ""], text)
    # readers in a loop while the device is removed and added; with a low priority, because on a
    # slow host they would use all processor time
    b.sh(1, f"cat >/tmp/readers.py <<'EOF'\n{READERS}EOF")
    readers = b.background(1, f"nice -n 19 python3 /tmp/readers.py {base}").said("reading")
    b.sh(1, f"""cd /sys/bus/pci/drivers/ohca; for i in 1 2 3; do
	echo {pci} >unbind; [ ! -e {base} ] || exit 1; echo {pci} >bind; cat {base}/qp >/dev/null
done; touch /tmp/enough""", 60)
    need(int(find(r"read (\d+) times", readers.wait())) > 10, "nobody has read")
    b.sh(1, "rm /tmp/enough; ip addr replace 10.77.0.1/24 dev ib0; ip link set ib0 up")
    # its port is another one now; one that waits for answers does not end
    stop_sm(b, signal="KILL")
    b.state.pop("fabric", None)


# Registers argv[1] regions with the right argv[2] beside the local one; all of the same page.
CHARGED = PYVERBS_ENUMS + """
import ctypes, mmap, sys
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.mr import MR
pd = PD(Context(name="ohca_0"))
page = mmap.mmap(-1, 4096)
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
access = e.IBV_ACCESS_LOCAL_WRITE | getattr(e, sys.argv[2])
def slab():
    with open("/sys/fs/cgroup/charged/memory.stat") as f:
        return int(dict(x.split() for x in f)["slab"])
before = slab()
mrs = [MR(pd, 4096, access, at) for _ in range(int(sys.argv[1]))]
print("charged", slab() - before)
"""


# the debug kernel has no memory cgroups
@GROUP.test(timeout=120, debug=False)
def charged(b):
    """Memory of regions is charged to the process, which may have a million of them."""
    group = "/sys/fs/cgroup/charged"
    regions = 4000      # the kernel counts in batches of 256 KiB
    b.sh(1, f"echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir {group}; "
            f"cat >/tmp/charged.py <<'EOF'\n{CHARGED}EOF")
    try:
        # struct ohca_mr, of which ib_mr is the larger part; and ohca_paged, by itself
        for access, least in (("IBV_ACCESS_REMOTE_WRITE", 150), ("IBV_ACCESS_ON_DEMAND", 400)):
            text = b.sh(1, f"sh -c 'echo $$ >{group}/cgroup.procs; "
                           f"exec python3 /tmp/charged.py {regions} {access}'", 60)
            got = int(find(r"charged (-?\d+)", text)) // regions
            need(got >= least, f"{got} bytes charged for a region ({access})")
    finally:
        b.sh(1, f"rmdir {group}")


MANY = HOLD.replace("sys.stdin.read()", "").replace('int(sys.argv[1])', "40")


@GROUP.test(timeout=120)
def cgroup(b):
    """rdma.max: handles and objects are limited, charged, and released."""
    group = "/sys/fs/cgroup/limited"
    b.sh(1, f"echo +rdma >/sys/fs/cgroup/cgroup.subtree_control; mkdir {group}; "
            f"cat >/tmp/many.py <<'EOF'\n{MANY}EOF")
    run = f"sh -c 'echo $$ >{group}/cgroup.procs; exec %s'"

    def limit(handles, objects):
        b.sh(1, f"echo '{DEV} hca_handle={handles} hca_object={objects}' >{group}/rdma.max")

    def used():
        return b.sh(1, f"cat {group}/rdma.current").strip()

    try:
        limit("max", "max")
        text = b.sh(1, run % "python3 /tmp/many.py")
        need("]" in text, text)
        need(used() == f"{DEV} hca_handle=0 hca_object=0", used())
        limit("max", 20)
        status, text = b.status(1, run % "python3 /tmp/many.py")
        need(status and "]" not in text, "40 QPs with a limit of 20 objects")
        need(used() == f"{DEV} hca_handle=0 hca_object=0", used())
        limit(0, "max")
        status, text = b.status(1, run % f"ibv_devinfo -d {DEV}")
        need(status and "open" in text, "a context with a limit of 0")
        need(used() == f"{DEV} hca_handle=0 hca_object=0", used())
        limit(1, "max")
        b.sh(1, run % f"ibv_devinfo -d {DEV}")
        b.sh(1, f"ibv_devinfo -d {DEV}")        # processes outside the group have no limit
    finally:
        b.sh(1, f"rmdir {group}")


@GROUP.test(timeout=120)
def netns(b):
    """Exclusive mode: the device is in one network namespace, and only there."""
    b.sh(2, "rdma system set netns exclusive; ip netns add box; rdma system show")
    try:
        need("exclusive" in b.sh(2, "rdma system show"), "mode")
        need(DEV not in b.sh(2, "ip netns exec box rdma dev show"), "seen in the other one")
        b.sh(2, f"rdma dev set {DEV} netns box")
        need(DEV not in b.sh(2, "rdma dev show; ibv_devices"), "still seen here")
        need(DEV in b.sh(2, "ip netns exec box rdma dev show"), "not seen there")
        b.sh(2, "ip netns exec box ip link set lo up")
        text = b.sh(2, f"ip netns exec box sh -c '(ibv_rc_pingpong -d {DEV} -n 200 >/dev/null "
                       "2>&1 &) ; n=0; until grep -q :4853 /proc/net/tcp*; do n=$((n + 1)); "
                       "[ $n -lt 100 ] || exit 1; sleep 0.1; done; "
                       f"ibv_rc_pingpong -d {DEV} -n 200 localhost'")
        need("200 iters" in text, text)
        status, _ = b.status(2, f"ibv_devinfo -d {DEV}")
        need(status, "a program outside opened it")
    finally:
        # when its namespace is removed, the device comes back
        b.sh(2, "ip netns del box; n=0; until rdma dev show | grep -q ohca; do n=$((n + 1)); "
                "[ $n -lt 100 ] || exit 1; sleep 0.1; done; n=0; "
                "until rdma system set netns shared; do n=$((n + 1)); [ $n -lt 50 ] || exit 1; "
                "sleep 0.1; done", 40)
    need(DEV in b.sh(2, "rdma dev show"), "it did not come back")
    all_active(b)
