# SPDX-License-Identifier: GPL-2.0-or-later
"""A device that fails, hangs, is reset or pulled: the driver gets it back by itself.

The tests change the device of node 2 through its registers in sysfs, behind the driver's back.
This needs a kernel in which a program can map a BAR that is in use.
"""
import re

from .bring_up import PULLABLE, all_active, restless
from .harness import DEV, PYVERBS_ENUMS, Group, need, tail, until
from .klog import SAID
from .life import losing
from .tools import watch, watched

GROUP = Group("faults", PULLABLE, prepare=restless)
GROUPS = [GROUP]

PCI = f"$(readlink -f /sys/class/infiniband/{DEV}/device)"
CTRL, AQ_DB = 0x18, 0x44
COMMAND_MS = 10000  # in place of 30 s
LESS = 1 << 7   # kind of lie: sizes that are smaller in the first answers
COMMAND, MEMORY, MASTER = 4, 2, 4

# A program that has one object of each kind until it is killed.
ALL = PYVERBS_ENUMS + """
import os, signal
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR, MW
from pyverbs.xrcd import XRCD, XRCDInitAttr
from pyverbs.qp import QP, QPInitAttr, QPInitAttrEx, QPCap
from pyverbs.srq import SRQ, SrqInitAttr, SrqAttr, SrqInitAttrEx
ctx = Context(name="ohca_0")
pd = PD(ctx)
cq = CQ(ctx, 100, None, CompChannel(ctx))
mr = MR(pd, 12345, e.IBV_ACCESS_LOCAL_WRITE)
mw = MW(pd, e.IBV_MW_TYPE_1)
srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=50)))
cap = QPCap(max_send_wr=20, max_recv_wr=10)
qps = [QP(pd, QPInitAttr(qp_type=t, scq=cq, rcq=cq, cap=cap, srq=s))
       for t in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD) for s in (None, srq)]
fd = os.open("/tmp/all.xrcd", os.O_RDONLY | os.O_CREAT)
xrcd = XRCD(ctx, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS,
                              os.O_CREAT, fd))
attr = SrqInitAttrEx(max_wr=10)
attr.srq_type, attr.pd, attr.xrcd, attr.cq = e.IBV_SRQT_XRC, pd, xrcd, cq
attr.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD |
                  e.IBV_SRQ_INIT_ATTR_XRCD | e.IBV_SRQ_INIT_ATTR_CQ)
xrc_srq = SRQ(ctx, attr)
qps.append(QP(ctx, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, xrcd=xrcd,
                                comp_mask=e.IBV_QP_INIT_ATTR_XRCD)))
qps.append(QP(ctx, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, pd=pd, scq=cq,
                                comp_mask=e.IBV_QP_INIT_ATTR_PD, cap=QPCap(max_recv_wr=0))))
print("held", flush=True)
signal.pause()
"""


def poke(b, register, value, node=2):
    """Writes a register of BAR 0 of a node."""
    b.sh(node, f"""python3 - {PCI}/resource0 <<'END'
import ctypes, mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
ctypes.c_uint32.from_buffer(mmap.mmap(f, 4096), {register}).value = {value}
END""")


def clear_command(b, bit, node=2):
    """Clears a bit of the function's command register."""
    b.sh(node, f"""python3 - {PCI}/config <<'END'
import os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
old, = struct.unpack("<H", os.pread(f, 2, {COMMAND}))
os.pwrite(f, struct.pack("<H", old & ~{bit}), {COMMAND})
END""")


def ask(b, name):
    """A property of node 2's device."""
    return b.qmp(2, "qom-get", path="/machine/peripheral/hca", property=f"x-{name}")


def tell(b, seed, kinds, one_of):
    """Makes the device of node 2 lie like that from now on; one_of 0: no more."""
    for name, value in (("lies-seed", seed), ("lies-kinds", kinds), ("lies", one_of)):
        b.qmp(2, "qom-set", path="/machine/peripheral/hca", property=f"x-{name}", value=value)


def rebind(b):
    """Binds the function anew, so that the driver counts its attempts from 0."""
    b.sh(2, f"d=$(basename {PCI}); cd /sys/bus/pci/drivers/ohca; echo $d >unbind; echo $d >bind")
    all_active(b)


def since(b, mark):
    """Lines of node 2's kernel after a position."""
    return b.kernel_said(2)[mark:]


def recovers(b, provoke, reason, program=True):
    """The driver detects what provoke() did, logs it, and the fabric works again."""
    mark = len(b.kernel_said(2))
    if program:
        watch(b, 2)
    provoke()
    until(60 * b.slow, lambda: re.search("recovered, attempt", since(b, mark)),
          lambda: f"the driver does not recover: {tail(since(b, mark))}")
    need(re.search(reason, since(b, mark)), f"{reason} is not in: {tail(since(b, mark))}")
    if program:
        until(10 * b.slow, lambda: "IBV_EVENT_DEVICE_FATAL" in watched(b, 2),
              "the program does not hear of it")
        b.sh(2, "pkill -x ibv_asyncwatch", status=None)
    all_active(b)
    b.peer("verify rc")
    b.sh(2, "ping -c 3 -i 0.2 node1-ib", 30)


@GROUP.test(timeout=120, reports=SAID)
def event(b):
    """The device itself reports that it failed: its admin queue overran."""
    rebind(b)
    recovers(b, lambda: poke(b, AQ_DB, 0x7fffffff), "reported a fatal error .reason 0x3")


@GROUP.test(timeout=120, reports=SAID, debug="first")
def no_dma(b):
    """The device cannot access memory any more, so no event reports the failure."""
    rebind(b)

    def provoke():
        clear_command(b, MASTER)
        b.status(2, f"cat /sys/class/infiniband/{DEV}/ports/1/hw_counters/*")
    recovers(b, provoke, r"ohca .*raised FATAL \(reason 0x[24]\)")


@GROUP.test(timeout=120, reports=SAID)
def reset_behind(b):
    """The device is reset behind the driver's back."""
    rebind(b)
    recovers(b, lambda: poke(b, CTRL, 1), "had a reset that the driver did not request")


@GROUP.test(timeout=120, reports=SAID, debug="first")
def objects(b):
    """Objects of each kind are removed with a failed device; the kernel keeps none of them."""
    rebind(b)
    b.sh(2, f"cat >/tmp/all.py <<'EOF'\n{ALL}EOF\n(python3 /tmp/all.py >/tmp/all.log 2>&1 &)")
    until(30 * b.slow, lambda: "held" in b.sh(2, "cat /tmp/all.log"),
          "the program does not start, see its /tmp/all.log")
    recovers(b, lambda: poke(b, CTRL, 1), "had a reset that the driver did not request", False)
    left = b.sh(2, "rdma resource show qp; rdma resource show srq; rdma resource show mr")
    need("python3" not in left, left)
    b.sh(2, "pkill -KILL -f '[a]ll[.]py'")


@GROUP.test(timeout=120, reports=SAID, debug="first")
def decodes_nothing(b):
    """The device does not answer in memory space, as if it were pulled."""
    rebind(b)
    recovers(b, lambda: clear_command(b, MEMORY), "the device is gone")


@GROUP.test(timeout=120, reports=SAID + "|not an OpenHCA device", debug="first")
def power(b):
    """The slot loses its power, which the driver tries to survive, and gets it again."""
    rebind(b)
    slot = b.sh(2, f"readlink -f {PCI}/..").strip()

    def switch(off):
        # Slot Control, in the port's PCI Express capability; the power indicator stays as it is
        b.sh(2, f"""python3 - {slot}/config {int(off)} <<'END'
import os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
at = os.pread(f, 256, 0)[0x34]
while os.pread(f, 1, at)[0] != 0x10:
    at = os.pread(f, 2, at)[1]
old, = struct.unpack("<H", os.pread(f, 2, at + 0x18))
os.pwrite(f, struct.pack("<H", old & ~0x400 | int(sys.argv[2]) << 10), at + 0x18)
END""")

    def provoke():
        mark = len(b.kernel_said(2))
        switch(True)
        until(40 * b.slow, lambda: "not an OpenHCA device" in since(b, mark),
              lambda: f"nobody tries without power: {tail(since(b, mark))}")
        switch(False)
    recovers(b, provoke, "the device is gone", False)


@GROUP.test(timeout=180, reports=SAID, debug="first")
def gives_up(b):
    """The driver gives up a device that fails repeatedly; binding it again is a new start."""
    rebind(b)
    for n in range(1, 6):
        mark = len(b.kernel_said(2))
        poke(b, CTRL, 1)
        until(40 * b.slow, lambda n=n, mark=mark: f"recovered, attempt {n}" in since(b, mark),
              lambda n=n, mark=mark: f"no attempt {n}: {tail(since(b, mark))}")
    where = b.sh(2, f"basename {PCI}").strip()
    mark = len(b.kernel_said(2))
    poke(b, CTRL, 1)
    until(40 * b.slow, lambda: "bind the driver" in since(b, mark), lambda: tail(since(b, mark)))
    need("recovered" not in since(b, mark), tail(since(b, mark)))
    b.sh(2, f"[ ! -e /sys/class/infiniband/{DEV} ] && cd /sys/bus/pci/drivers/ohca && "
            f"echo {where} >unbind && echo {where} >bind")
    all_active(b)
    b.peer("verify rc")


@GROUP.test(timeout=150, reports=SAID, debug="first")
def command_timeout(b):
    """A command gets no answer: the driver resets the device and continues."""
    # the driver reads the limit when it starts
    limit = {"path": "/machine/peripheral/hca", "property": "x-command-ms"}
    b.qmp(2, "qom-set", **limit, value=COMMAND_MS)
    rebind(b)
    b.qmp(2, "qom-set", **limit, value=0)

    def provoke():
        b.qmp(2, "qom-set", path="/machine/peripheral/hca", property="x-deaf", value=True)
        b.background(2, f"cat /sys/class/infiniband/{DEV}/ports/1/hw_counters/*", ends=(0, 1))
    # the counters, or another command that the kernel sends at that time
    recovers(b, provoke, r"[A-Z]\w+ timed out \(reason 0x0\)")


@GROUP.test(timeout=240, reports=SAID, debug="first")
def smaller_sizes(b):
    """Tables that are smaller when their sizes are first read: the driver has one size of each.

    A size that ib_core allocates by and another that it fills by is a report of KASAN.
    """
    where = b.sh(2, f"basename {PCI}").strip()
    told = ask(b, "lies-told")
    for seed in range(6):
        tell(b, seed, LESS, 1)
        b.sh(2, f"""cd /sys/bus/pci/drivers/ohca; echo {where} >unbind; echo {where} >bind
cd /sys/class/infiniband/{DEV}/ports 2>/dev/null && cat */gids/* */pkeys/* >/dev/null; true""", 60)
        tell(b, 0, 0, 0)
        # the manager's events have ib_core read all tables again
        b.sh(2, f"[ ! -e /sys/class/infiniband/{DEV} ] || ibportstate -D 0 1 reset; true", 60)
    need(ask(b, "lies-told") > told + 6, "the device did not lie")
    b.sh(2, f"cd /sys/bus/pci/drivers/ohca; echo {where} >unbind; echo {where} >bind", 60)
    all_active(b)
    b.peer("verify rc")


@GROUP.test(timeout=120, debug="first")
def function_reset(b):
    """FLR: the port comes back to ACTIVE, also with a program that uses the device."""
    for _ in range(2):
        mark = len(b.kernel_said(2))
        with losing(b):
            b.sh(2, f"d={PCI}; grep -q flr $d/reset_method && echo flr >$d/reset_method && "
                    "echo 1 >$d/reset", 60)
        all_active(b)
        found = re.findall(r"ohca .*: OpenHCA", since(b, mark))
        need(len(found) == 1, f"the device came {len(found)} times: {tail(since(b, mark))}")
    b.peer("verify rc")
    b.sh(2, "ping -c 3 -i 0.2 node1-ib", 30)


@GROUP.test(timeout=120)
def remove_rescan(b):
    """The PCI function is removed from the kernel under a program, and is found again."""
    with losing(b):
        function = b.sh(2, f"p={PCI}; echo 1 >$p/remove; echo $p", 60).strip()
    b.sh(2, f"[ ! -e /sys/class/infiniband/{DEV} ] && [ ! -e {function} ]")
    b.sh(2, f"echo 1 >/sys/bus/pci/rescan; [ -e {function} ]", 60)
    all_active(b)
    b.peer("verify rc")


@GROUP.test(timeout=120, debug=False)
def hot_plug(b):
    """The card is pulled under a program, and another one is plugged in."""
    guid = b.sh(2, f"cat /sys/class/infiniband/{DEV}/node_guid")
    with losing(b):
        b.qmp(2, "device_del", id="hca")
        until(40 * b.slow, lambda: b.status(2, f"[ -e /sys/class/infiniband/{DEV} ]")[0],
              "the device is still there")
    until(40 * b.slow, lambda: "hca" not in
          [d["name"] for d in b.qmp(2, "qom-list", path="/machine/peripheral")],
          "QEMU still has the device")
    b.plug(2, bus="rp", id="hca", **{"node-desc": "node2"})
    until(40 * b.slow, lambda: not b.status(2, f"[ -e /sys/class/infiniband/{DEV} ]")[0],
          "the new device is not found")
    need(b.sh(2, f"cat /sys/class/infiniband/{DEV}/node_guid") != guid, "it is the same card")
    all_active(b)
    b.peer("verify rc")
    b.sh(2, "ping -c 3 -i 0.2 node1-ib", 30)
