# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel consumers: storage and sockets over RDMA from Debian's own kernel.

They use what programs do not: fast registration, the shared DMA key, invalidation by the
peer, kernel CQs polled in all ways, pools of CQs and of regions, queues that are drained.
NVMe is also run by the debug kernel, which has no others of these.
"""
import re

from . import movable
from .bring_up import PAIR, all_active, fabric
from .harness import DEV, Group, find, need
from .tools import port_of, switch_lid

CONFIGFS = "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config"
NQN = "nqn.2026-01.org.openhca:disk"
# offset patterns detect data at a wrong place, checksums wrong data
FIO = ("fio --name=v --filename={dev} --ioengine={engine} --direct=1 --rw=randwrite "
       "--bsrange={bs} --size={size} --io_size={size} --iodepth={depth} --randseed={seed} "
       "--verify=crc32c --verify_fatal=1 --verify_state_save=0 --output-format=normal {more}")
SEED = 20260101
SIZE = 272 << 20


def fio(b, dev, size, bs="4k-1m", engine="libaio", depth=16, more="", timeout=200, node=2):
    """Writes blocks of many sizes, reads them and compares; fails on any difference."""
    text = b.sh(node, FIO.format(dev=dev, size=size, bs=bs, engine=engine, depth=depth,
                                 seed=SEED, more=more), timeout)
    need(re.search(r"err= 0", text), "fio: " + text[-200:])
    need(re.search(r"^\s*READ: .*io=", text, re.M), "fio verified nothing")
    return text


def export(b, address):
    """A file in node 1's memory becomes a disk that is exported at an address of node 1."""
    b.sh(1, f"""set -e
mkdir -p /srv/disk
mount -t tmpfs -o size=300m none /srv/disk
truncate -s {SIZE} /srv/disk/image
modprobe -a nvmet nvmet-rdma
{CONFIGFS}
cd /sys/kernel/config/nvmet
mkdir subsystems/{NQN}
echo 1 >subsystems/{NQN}/attr_allow_any_host
mkdir subsystems/{NQN}/namespaces/1
echo /srv/disk/image >subsystems/{NQN}/namespaces/1/device_path
echo 1 >subsystems/{NQN}/namespaces/1/buffered_io
echo 1 >subsystems/{NQN}/namespaces/1/enable
mkdir ports/1
echo rdma >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo {address} >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{NQN} ports/1/subsystems/""", 60)


def exported(b):
    """Brings the fabric up and exports node 1's disk, unless a test before has."""
    fabric(b)
    if b.state.get("nvmf"):
        return
    b.sh(2, "modprobe nvme-rdma", 60)
    export(b, "10.77.0.1")
    b.state["nvmf"] = True


NVMF = Group("nvmf", PAIR, prepare=exported)
SCSI = Group("scsi", PAIR, prepare=fabric, debug=False)
NFS = Group("nfs", PAIR, prepare=fabric, debug=False)
RDS = Group("rds", PAIR, prepare=fabric, debug=False)
# A device without on-demand paging has a lab of its own.
GROUPS = [NVMF, SCSI, NFS, RDS, movable.PINNING]


@NVMF.test
def discover(b):
    """The target lists its subsystem."""
    text = b.sh(2, "nvme discover -t rdma -a 10.77.0.1 -s 4420", 40)
    need(NQN in text, "the subsystem is not discovered")


def connect(b, more=""):
    """Connects node 2, again if it is connected; returns the block device."""
    b.sh(2, f"[ ! -e /dev/nvme0n1 ] || nvme disconnect -n {NQN}", 60)
    b.sh(2, f"nvme connect -t rdma -n {NQN} -a 10.77.0.1 -s 4420 --reconnect-delay=1 "
            f"--ctrl-loss-tmo=120 --keep-alive-tmo=5 {more}", 60)
    b.sh(2, "n=0; until [ -b /dev/nvme0n1 ]; do n=$((n + 1)); [ $n -lt 100 ] || exit 1; "
            "sleep 0.1; done")
    return "/dev/nvme0n1"


def disconnect(b):
    """Disconnects node 2."""
    text = b.sh(2, f"nvme disconnect -n {NQN}", 60)
    need("disconnected 1" in text, text)


@NVMF.test(timeout=400)
def verify(b):
    """256 MiB in blocks of 4 KiB to 1 MiB, written, read and compared."""
    dev = connect(b)
    size = int(b.sh(2, f"cat /sys/class/block/{dev[5:]}/size")) * 512
    need(size == SIZE, f"the disk has {size} bytes")
    fio(b, dev, "256m", timeout=350)
    text = b.sh(1, "rdma resource show mr; rdma resource show qp")
    need(len(re.findall("state RTS.*rdma_cm", text)) >= 2, "no QPs of the target")


@NVMF.test(timeout=200, debug="first")
def small_and_inline(b):
    """Blocks that are sent in the command capsule, and flushes among them."""
    fio(b, connect(b), "8m", bs="4k-16k", more="--fsync=16", timeout=150)


@NVMF.test(timeout=120, debug="first")
def disconnect_connect(b):
    """Queues are removed and made again; the data stays."""
    connect(b)
    b.sh(2, "dd if=/dev/urandom of=/tmp/block bs=64k count=16 2>/dev/null; "
            "dd if=/tmp/block of=/dev/nvme0n1 bs=64k count=16 oflag=direct 2>/dev/null")
    for _ in range(3):
        disconnect(b)
        b.sh(2, "[ ! -e /dev/nvme0n1 ]")
        dev = connect(b)
        b.sh(2, f"dd if={dev} bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/block")


@NVMF.test(timeout=200, debug=False)
def polled(b):
    """Queues that the waiting task polls, without an event: IB_POLL_DIRECT."""
    dev = connect(b, "--nr-poll-queues=1 --nr-io-queues=1")

    def interrupts():
        text = b.sh(2, "grep ohca /proc/interrupts")
        return sum(int(x) for line in text.splitlines() for x in line.split()[1:] if x.isdigit())

    took = {}
    for way, more in (("woken", ""), ("polled", "--hipri")):
        before = interrupts()
        text = fio(b, dev, "8m", bs="4k-256k", engine="io_uring", depth=1, more=more, timeout=150)
        requests = sum(int(x) for x in re.search(r"issued rwts: total=(\d+),(\d+),", text).groups())
        took[way] = (interrupts() - before) / requests
    # one request at a time: each that is not polled needs an interrupt of its own
    b.note(f"interrupts by request: {took}")
    need(took["woken"] > 0.5 and took["polled"] < 0.1, f"interrupts by request: {took}")


@NVMF.test(timeout=240, debug="first")
def link_bounce(b):
    """The link is cut during I/O; the host connects again, and no data is lost."""
    dev = connect(b)
    port, sw = port_of(b, 2), switch_lid(b)
    b.sh(2, "(" + FIO.format(dev=dev, size="24m", bs="4k-256k", engine="libaio", depth=8,
                             seed=SEED, more="--rate=6m") + ") >/tmp/fio.log 2>&1 & "
            # Linux before 6.3 counts at the path, nvme0c0n1, alone
            "n=0; until [ $(cat /sys/class/block/nvme*n1/stat | awk '{w += $5} END {print w}') "
            "-gt 8 ]; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.05; done")
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


# If a command arrives before its connection is reported as established, nvmet handles it in the
# CM's handler, where it looks up its subsystem under nvmet_config_sem. A port is removed under that
# lock, and its listener destroyed under the handler's lock. The handlers belong to two connections,
# which lockdep cannot know. The report depends on which node is faster.
NVMET_ORDER = (r"in reverse order\) is:[^#]*"
               r"-> #1 \(nvmet_config_sem\).* nvmet_rdma_cm_handler\+.*"
               r"-> #0 \(&id_priv->handler_mutex\).* nvmet_rdma_remove_port\+")


def withdraw(b):
    """Removes the export of node 1's disk."""
    b.sh(1, f"""set -e
cd /sys/kernel/config/nvmet
rm ports/1/subsystems/{NQN}
rmdir ports/1
echo 0 >subsystems/{NQN}/namespaces/1/enable
rmdir subsystems/{NQN}/namespaces/1 subsystems/{NQN}
cd /
modprobe -r nvmet-rdma nvmet
umount /srv/disk""", 60)


@NVMF.test(timeout=120, lock_order=NVMET_ORDER)
def unload(b):
    """All parts are removed, and leave no resources in the device."""
    connect(b)
    disconnect(b)
    withdraw(b)
    b.sh(2, "modprobe -r nvme-rdma", 60)
    for node in (1, 2):
        text = b.sh(node, "rdma resource show qp; rdma resource show mr")
        need("rdma_cm" not in text and "nvme" not in text, f"node{node} still has {text}")
    b.state.pop("nvmf")


TARGET = "/sys/kernel/config/target"
IQN = "iqn.2026-01.org.openhca"
RAM = 16384     # pages of a RAM disk


def lun(where, disk):
    """A command of the shell: a RAM disk becomes LUN 0 of a target's portal group."""
    return f"""core={TARGET}/core/rd_mcp_{disk}/disk
mkdir -p $core
echo rd_pages={RAM} >$core/control
echo 1 >$core/enable
mkdir -p {where}/lun/lun_0
ln -s $core {where}/lun/lun_0/disk
"""


def no_lun(where, disk):
    """A command of the shell that removes the LUN."""
    return f"""rm {where}/lun/lun_0/disk
rmdir {where}/lun/lun_0
""", f"rmdir {TARGET}/core/rd_mcp_{disk}/disk {TARGET}/core/rd_mcp_{disk}\n"


def appeared(b):
    """Waits for node 2's SCSI disk."""
    b.sh(2, "n=0; until [ -b /dev/sda ]; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; sleep 0.1; "
            "done")
    size = int(b.sh(2, "cat /sys/block/sda/size")) * 512
    need(size == RAM * 4096, f"the disk has {size} bytes")


def vanished(b):
    """Waits until the disk is removed."""
    b.sh(2, "n=0; while [ -e /sys/block/sda ]; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; "
            "sleep 0.1; done")


@SCSI.test(timeout=200)
def iser(b):
    """iSCSI: a session by open-iscsi, blocks written, read back and compared, twice.

    The largest are 2 MiB: regions of 512 pages by fast registration.
    """
    tpg = f"{TARGET}/iscsi/{IQN}:disk/tpgt_1"
    portal = f"{tpg}/np/10.77.0.1:3260"
    b.sh(1, f"""set -e
{CONFIGFS}
modprobe -a iscsi_target_mod ib_isert
mkdir -p {tpg}
{lun(tpg, 0)}
mkdir {portal}
echo 1 >{portal}/iser
cd {tpg}/attrib
echo 0 >authentication
echo 1 >generate_node_acls
echo 1 >cache_dynamic_acls
echo 0 >demo_mode_write_protect
echo 1 >../enable""", 60)
    node = f"iscsiadm -m node -T {IQN}:disk -p 10.77.0.1:3260"
    b.sh(2, f"""set -e
modprobe sd_mod
modprobe ib_iser max_sectors=4096
echo InitiatorName={IQN}:node2 >/etc/iscsi/initiatorname.iscsi
mkdir -p /run/lock/iscsi
iscsid
{node},1 -I iser -o new""", 60)
    for _ in range(2):
        b.sh(2, f"{node} -I iser --login", 60)
        appeared(b)
        need("Iface Transport: iser" in b.sh(2, "iscsiadm -m session -P 1"), "not over iSER")
        whole = b.sh(2, """set -e
echo 2048 >/sys/block/sda/queue/max_sectors_kb
awk '{print $5}' /sys/block/sda/stat
dd if=/dev/urandom of=/tmp/block bs=2M count=4 2>/dev/null
dd if=/tmp/block of=/dev/sda bs=2M oflag=direct 2>/dev/null
dd if=/dev/sda bs=2M count=4 iflag=direct 2>/dev/null | cmp - /tmp/block
awk '{print $5}' /sys/block/sda/stat""", 60).split()
        need(int(whole[1]) - int(whole[0]) == 4, f"2 MiB are not one request: {whole}")
        fio(b, "/dev/sda", "32m", bs="4k-2m", timeout=120)
        b.sh(2, f"{node} -I iser --logout", 60)
        vanished(b)
    off, gone = no_lun(tpg, 0)
    b.sh(2, f"{node} -I iser -o delete; iscsiadm -k 0; modprobe -r ib_iser", 60)
    b.sh(1, f"set -e\necho 0 >{tpg}/enable\nrmdir {portal}\n{off}rmdir {tpg} "
            f"{TARGET}/iscsi/{IQN}:disk {TARGET}/iscsi\n{gone}modprobe -r ib_isert", 60)


@SCSI.test(timeout=200)
def srp(b):
    """SRP: a login by the IB connection manager, blocks written, read and compared, twice."""
    gid, peer = (b.sh(node, f"tr -d : </sys/class/infiniband/{DEV}/ports/1/gids/0").strip()
                 for node in (1, 2))
    tpg = f"{TARGET}/srpt/0x{gid}/0x{gid}"
    acl = f"{tpg}/acls/0x{0:016x}{peer[16:]}"   # the initiator's port
    b.sh(1, f"set -e\n{CONFIGFS}\nmodprobe ib_srpt\nmkdir -p {tpg}\n{lun(tpg, 1)}"
            f"mkdir {acl}\nmkdir {acl}/lun_0\nln -s {tpg}/lun/lun_0 {acl}/lun_0/disk\n"
            f"echo 1 >{tpg}/enable", 60)
    ioc = int(b.sh(1, "cat /sys/module/ib_srpt/parameters/srpt_service_guid"), 0)
    b.sh(2, "modprobe -a ib_srp sd_mod", 60)
    for _ in range(2):
        # the kernel may still have the earlier one when its disk is removed
        b.sh(2, f"n=0; until echo id_ext={ioc:016x},ioc_guid={ioc:016x},dgid={gid},pkey=ffff,"
                f"service_id={ioc:016x} >/sys/class/infiniband_srp/srp-{DEV}-1/add_target; do "
                "n=$((n + 1)); [ $n -lt 50 ] || exit 1; sleep 0.1; done", 60)
        appeared(b)
        fio(b, "/dev/sda", "32m", timeout=120)
        b.sh(2, "for f in /sys/class/srp_remote_ports/*/delete; do echo 1 >$f; done", 60)
        vanished(b)
    off, gone = no_lun(tpg, 1)
    b.sh(2, "modprobe -r ib_srp", 60)
    b.sh(1, f"set -e\necho 0 >{tpg}/enable\nrm {acl}/lun_0/disk\nrmdir {acl}/lun_0 {acl}\n{off}"
            f"rmdir {tpg} {TARGET}/srpt/0x{gid} {TARGET}/srpt\n"
            f"{gone}modprobe -r ib_srpt", 60)


@NFS.test(timeout=240)
def version_4(b):
    """A file system of node 1 over RPC over RDMA: files written, read and compared."""
    # The nfsd of Linux 7 needs nfsdcld to identify its clients.
    b.sh(1, """set -e
mkdir -p /srv/export /var/lib/nfs/nfsdcld /run/rpcbind /run/rpc_pipefs
mount -t tmpfs none /srv/export
modprobe -a nfsd rpcrdma
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs sunrpc /run/rpc_pipefs
nfsdcld
echo '/srv/export *(rw,no_root_squash,fsid=0,insecure,no_subtree_check)' >/etc/exports
exportfs -ra
rpc.mountd -N 3
rpc.nfsd -N 3 --rdma=20049 4
grep -q '^rdma 20049' /proc/fs/nfsd/portlist""", 60)
    b.sh(2, """set -e
modprobe -a nfsv4 rpcrdma
mkdir -p /mnt/nfs
mount -t nfs4 -o proto=rdma,port=20049 10.77.0.1:/ /mnt/nfs
grep 'proto=rdma' /proc/mounts""", 60)
    b.sh(2, """set -e
dd if=/dev/urandom of=/tmp/file bs=64k count=64 2>/dev/null
cp /tmp/file /mnt/nfs/file
sync
echo 3 >/proc/sys/vm/drop_caches
cmp /tmp/file /mnt/nfs/file""", 60)
    b.sh(1, f"echo '{b.sh(2, 'sha256sum </tmp/file').split()[0]}  /srv/export/file' | sha256sum -c")
    fio(b, "/mnt/nfs/disk", "32m", timeout=150)
    b.sh(2, "set -e; umount /mnt/nfs; rm /tmp/file", 60)
    b.sh(1, "set -e; rpc.nfsd 0; pkill -x rpc.mountd; pkill -x nfsdcld; n=0; "
            "while pgrep -x 'rpc.mountd|nfsdcld' >/dev/null; do "
            "n=$((n + 1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done; exportfs -ua; "
            "umount /proc/fs/nfsd; umount /run/rpc_pipefs; umount /srv/export", 60)


RDS_ENDS = """
import random, socket
def end(address):
    s = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
    s.bind((address, 4000))
    s.settimeout(60)
    return s
data = random.Random(9)
messages = [data.randbytes(data.choice((1, 100, 5000, 65536))) for _ in range(100)]
"""


@RDS.test(timeout=120)
def echo(b):
    """Reliable datagrams of the kernel: messages of 1 byte to 64 KiB, compared at both ends."""
    server = RDS_ENDS + """
s = end("10.77.0.1")
listener = socket.create_server(("0.0.0.0", 7779))
for m in messages:
    got, who = s.recvfrom(1 << 17)
    assert got == m, (len(got), len(m))
    s.sendto(got, who)
"""
    client = RDS_ENDS + """
s = end("10.77.0.2")
for m in messages:
    s.sendto(m, ("10.77.0.1", 4000))
    got, who = s.recvfrom(1 << 17)
    assert got == m and who == ("10.77.0.1", 4000), (len(got), len(m), who)
print("echoed", len(messages))
"""
    for node in (1, 2):
        b.sh(node, "modprobe rds_rdma")
    _, text = b.pair(f"python3 -c '{server}'", f"python3 -c '{client}'", 7779)
    need("echoed 100" in text, text)
    for node in (1, 2):
        find("RDS/IB.*connected", b.kernel_said(node))
        b.sh(node, "modprobe -r rds_rdma rds")
