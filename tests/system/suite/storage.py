# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel consumers: storage and sockets over RDMA from Debian's own kernel.

They use what programs do not: fast registration, the shared DMA key, invalidation by the
peer, kernel CQs polled in all ways, queues that are drained.
"""
import re

from .bring_up import PAIR, all_active, fabric
from .harness import Group, need
from .tools import port_of, switch_lid

CONFIGFS = "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config"
NQN = "nqn.2026-01.org.openhca:disk"
# offset patterns find what arrives at the wrong place, checksums what arrives wrong
FIO = ("fio --name=v --filename={dev} --ioengine={engine} --direct=1 --rw=randwrite "
       "--bsrange={bs} --size={size} --io_size={size} --iodepth={depth} --randseed={seed} "
       "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --output-format=normal {more}")
SEED = 20260101


def fio(b, dev, size, bs="4k-1m", engine="libaio", depth=16, more="", timeout=200, node=2):
    """Writes blocks of many sizes, reads them back and compares; fails on any difference."""
    text = b.sh(node, FIO.format(dev=dev, size=size, bs=bs, engine=engine, depth=depth,
                                 seed=SEED, more=more), timeout)
    need(re.search(r"err= 0", text), "fio: " + text[-200:])
    need(re.search(r"^\s*READ: .*io=", text, re.M), "fio verified nothing")
    return text


def exported(b):
    """Brings the fabric up, and node 1's RAM disk onto it, if a test before has not."""
    fabric(b)
    if b.state.get("nvmf"):
        return
    b.state["nvmf"] = True
    b.sh(1, f"""set -e
modprobe brd rd_nr=1 rd_size=278528
modprobe -a nvmet nvmet-rdma
{CONFIGFS}
cd /sys/kernel/config/nvmet
mkdir subsystems/{NQN}
echo 1 >subsystems/{NQN}/attr_allow_any_host
mkdir subsystems/{NQN}/namespaces/1
echo /dev/ram0 >subsystems/{NQN}/namespaces/1/device_path
echo 1 >subsystems/{NQN}/namespaces/1/enable
mkdir ports/1
echo rdma >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo 10.77.0.1 >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{NQN} ports/1/subsystems/""")
    b.sh(2, "modprobe nvme-rdma")


NVMF = Group("nvmf", PAIR, prepare=exported)
GROUPS = [NVMF]


@NVMF.test
def discover(b):
    """The target names its subsystem."""
    text = b.sh(2, "nvme discover -t rdma -a 10.77.0.1 -s 4420", 40)
    need(NQN in text, "the subsystem is not discovered")


def connect(b, more=""):
    """Connects node 2, anew if it is connected; returns the block device."""
    b.sh(2, f"[ ! -e /dev/nvme0n1 ] || nvme disconnect -n {NQN}", 60)
    b.sh(2, f"nvme connect -t rdma -n {NQN} -a 10.77.0.1 -s 4420 --reconnect-delay=1 "
            f"--ctrl-loss-tmo=120 --keep-alive-tmo=5 {more}", 60)
    b.sh(2, "n=0; until [ -b /dev/nvme0n1 ]; do n=$((n + 1)); [ $n -lt 100 ] || exit 1; "
            "sleep 0.1; done")
    return "/dev/nvme0n1"


def disconnect(b):
    """And off again."""
    text = b.sh(2, f"nvme disconnect -n {NQN}", 60)
    need("disconnected 1" in text, text)


@NVMF.test(timeout=400)
def verify(b):
    """256 MiB in blocks of 4 KiB to 1 MiB, written, read back and compared."""
    dev = connect(b)
    size = int(b.sh(2, f"cat /sys/class/block/{dev[5:]}/size")) * 512
    need(size == 278528 * 1024, f"the disk has {size} bytes")
    fio(b, dev, "64m" if b.debug else "256m", timeout=350)
    text = b.sh(1, "rdma resource show mr; rdma resource show qp")
    need(len(re.findall("state RTS.*rdma_cm", text)) >= 2, "no QPs of the target")


@NVMF.test(timeout=200)
def small_and_inline(b):
    """Blocks that travel in the command capsule, and flushes among them."""
    fio(b, connect(b), "4m", bs="512-4k", more="--fsync=16", timeout=150)


@NVMF.test(timeout=120)
def disconnect_connect(b):
    """Queues go and come; the data stays."""
    connect(b)
    b.sh(2, "dd if=/dev/urandom of=/tmp/block bs=64k count=16 2>/dev/null; "
            "dd if=/tmp/block of=/dev/nvme0n1 bs=64k count=16 oflag=direct 2>/dev/null")
    for _ in range(3):
        disconnect(b)
        b.sh(2, "[ ! -e /dev/nvme0n1 ]")
        dev = connect(b)
        b.sh(2, f"dd if={dev} bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/block")


@NVMF.test(timeout=200)
def polled(b):
    """Queues that are polled by who waits, without an event: IB_POLL_DIRECT."""
    dev = connect(b, "--nr-poll-queues=1 --nr-io-queues=1")
    before = b.sh(2, "grep ohca /proc/interrupts")
    fio(b, dev, "8m", bs="4k-256k", engine="pvsync2", depth=1, more="--hipri", timeout=150)
    b.note(before + b.sh(2, "grep ohca /proc/interrupts"))


@NVMF.test(timeout=240)
def link_bounce(b):
    """The link goes while blocks are under way; the host connects anew, nothing is lost."""
    dev = connect(b)
    port, sw = port_of(b, 2), switch_lid(b)
    b.sh(2, "(" + FIO.format(dev=dev, size="24m", bs="4k-256k", engine="libaio", depth=8,
                             seed=SEED, more="--rate=6m") + ") >/tmp/fio.log 2>&1 & "
            f"n=0; until [ $(awk '{{print $5}}' /sys/class/block/{dev[5:]}/stat) -gt 8 ]; do "
            "n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.05; done")
    b.sh(1, f"ibportstate {sw} {port} disable")
    state = "cat /sys/class/nvme/nvme0/state"
    b.sh(2, f"n=0; while [ $({state}) = live ]; do n=$((n + 1)); [ $n -lt 600 ] || exit 1; "
            "sleep 0.1; done", 80)
    b.sh(1, f"ibportstate {sw} {port} enable")
    all_active(b, 40)
    b.sh(2, f"n=0; until [ $({state}) = live ]; do n=$((n + 1)); [ $n -lt 900 ] || exit 1; "
            "sleep 0.1; done", 100)
    b.sh(2, "n=0; while pgrep -x fio >/dev/null; do n=$((n + 1)); [ $n -lt 900 ] || exit 1; "
            "sleep 0.1; done", 100)
    text = b.sh(2, "cat /tmp/fio.log")
    need(re.search(r"err= 0", text) and re.search(r"^\s*READ: .*io=", text, re.M), text[-300:])


@NVMF.test(timeout=120)
def unload(b):
    """All of it comes down, and leaves nothing behind in the device."""
    connect(b)
    disconnect(b)
    b.sh(1, f"""set -e
cd /sys/kernel/config/nvmet
rm ports/1/subsystems/{NQN}
rmdir ports/1
echo 0 >subsystems/{NQN}/namespaces/1/enable
rmdir subsystems/{NQN}/namespaces/1 subsystems/{NQN}
cd /
modprobe -r nvmet-rdma nvmet
modprobe -r brd""", 60)
    b.sh(2, "modprobe -r nvme-rdma", 60)
    for node in (1, 2):
        text = b.sh(node, "rdma resource show qp; rdma resource show mr")
        need("rdma_cm" not in text and "nvme" not in text, f"node{node} still has {text}")
    b.state.pop("nvmf")
