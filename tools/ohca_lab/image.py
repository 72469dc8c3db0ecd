# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes from disk images with cloud-init (--image): their disk, their seed, the driver in them.

Such a node boots with its own boot loader and kernel. A second disk, the seed, has what cloud-init
looks for (NoCloud) and the agent, by which the lab runs commands in this node as in any other.
"""
import base64
import glob
import json
import os
import re
import shlex
import stat
import struct
import subprocess
import tarfile
import tempfile

from . import paths
from .vm import MOUNT_SHARE, VM, of_node
from .words import LabError, say

QCOW2 = b"QFI\xfb"
EXTERNAL_DATA = 1 << 2          # the bit among the incompatible features of qcow2
CONVERT = "qemu-img convert -O qcow2 {} NEW.qcow2"
INSTALL_S = 1800                # for apt and DKMS, whose compiler QEMU may emulate
READY_S = 600                   # until cloud-init is done

# What cloud-init of each image is told. bootcmd runs at each boot, before the network is set up.
USER_DATA = {
    "bootcmd": [["sh", "-ec", "mkdir -p /run/ohca-seed; mount -o ro LABEL=CIDATA /run/ohca-seed; "
                              "sh /run/ohca-seed/image-init"]],
    "manage_etc_hosts": False,
    "disable_root": False,
    "ssh_genkeytypes": ["ed25519"],
}
READY = """
! command -v cloud-init >/dev/null || cloud-init status --wait >/dev/null 2>&1 || [ $? != 1 ] ||
	echo "cloud-init says that it failed: see /var/log/cloud-init.log" >&2
"""
SHARE = """
modprobe -aq 9pnet_virtio 9p
mkdir -p /share && {} || { echo "its kernel has no file system 9p for --share" >&2; exit 1; }
"""
# The keys of one node, which are made where there are none.
KEYS = """
command -v ssh-keygen >/dev/null || exit 0
cd / && mkdir -p -m 700 root/.ssh
[ -f root/.ssh/id_ed25519 ] ||
	ssh-keygen -q -t ed25519 -N '' -C ohca-lab -f root/.ssh/id_ed25519 >/dev/null
[ -f etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -A >/dev/null
tar -c root/.ssh/id_ed25519* etc/ssh/ssh_host_ed25519_key* | base64
"""
# All nodes are one machine to each other.
TRUST = """
cd / && base64 -d <<'END' | tar -x || exit 1
{}END
cd root/.ssh && umask 077
cat id_ed25519.pub >>authorized_keys
printf '* %s\\n' "$(cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub)" >>known_hosts
! systemctl -q is-active ssh sshd 2>/dev/null || systemctl restart ssh 2>/dev/null ||
	systemctl restart sshd
"""
INSTALLED = "modinfo ohca >/dev/null 2>&1 && [ -e /etc/libibverbs.d/ohca.driver ]"
# Reads the packages of all releases as a tar. apt says which provider fits the libibverbs1 here.
INSTALL = """
command -v apt-get >/dev/null ||
	{ echo "it has no apt: build driver and provider in the image yourself" >&2; exit 1; }
d=$(mktemp -d) && chmod 755 "$d" && tar -x -C "$d" && cd "$d" || exit 1
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
for p in ./libibverbs-ohca_*.deb; do
	! apt-get install -s "$p" >/dev/null 2>&1 || break
	p=
done
[ -n "$p" ] || {
	echo "none of the packages fits libibverbs1 $(dpkg-query -W -f '${Version}' libibverbs1 2>&1):" \\
		./libibverbs-ohca_*.deb "('make deb GUEST=...' makes that of a release)" >&2
	exit 1
}
v=${p#./libibverbs-ohca}
begin=$(cut -d. -f1 /proc/uptime)
apt-get install -y -q --no-install-recommends "$p" ./openhca-dkms"${v%_amd64.deb}"_all.deb \\
	>apt.log 2>&1 || { tail -n 20 apt.log >&2; exit 1; }
modinfo ohca >/dev/null 2>&1 || {
	tail -n 5 apt.log >&2
	echo "DKMS built no driver: the image lacks linux-headers-$(uname -r), or see /var/lib/dkms" >&2
	exit 1
}
rm -rf "$d"
echo "driver built and installed with the provider, $(($(cut -d. -f1 /proc/uptime) - begin)) s"
"""
NO_PACKAGES = "'make deb' makes the packages" if paths.CHECKOUT else (
    "'make deb' of a checkout of OpenHCA makes openhca-dkms and libibverbs-ohca; install them in "
    "the image")


def of_nodes(opt):
    """The image of each node, or None: the last --image that is for it counts."""
    found = [None] * opt.nodes
    for text in opt.image:
        k, path = split(text)
        for i in range(opt.nodes):
            if k in (None, i + 1):
                found[i] = path
    return found


def split(text):
    """(K, FILE) of [K:]FILE; K is None for all nodes."""
    m = re.fullmatch(r"(\d+):(.*)", text, re.A | re.S)
    return (int(m[1]), m[2]) if m else (None, text)


def format_of(path):
    """qcow2 or raw. Raises LabError if the file is no image, or one that leads to other files."""
    try:
        # a FIFO would wait for somebody who writes to it
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as f:
            mode = os.fstat(f.fileno()).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
                raise LabError("it is neither a file nor a block device")
            head = f.read(512)
    except OSError as e:
        raise LabError(f"it cannot be read: {e.strerror}") from None
    convert = CONVERT.format(shlex.quote(path))
    if head[:4] != QCOW2 or len(head) < 104:
        if len(head) == 512 and head[510:] == b"\x55\xaa":
            return "raw"
        raise LabError("this is neither a qcow2 image nor a raw disk with a partition table: "
                       f"make one of other formats by {convert}")
    version, backing = struct.unpack_from(">IQ", head, 4)
    crypt, = struct.unpack_from(">I", head, 32)
    features, = struct.unpack_from(">Q", head, 72)
    # the guest would see whatever file of this host they name
    if backing or version > 2 and features & EXTERNAL_DATA:
        raise LabError("it is an overlay of another file, which is not opened: "
                       f"make one image of both by {convert}")
    if crypt:
        raise LabError(f"it is encrypted: make one that is not by {convert}")
    return "qcow2"


def wrong(opt):
    """Why the options about images cannot be had, or None."""
    if not opt.image:
        return None
    for text in opt.image:
        k, path = split(text)
        if k is not None and not 1 <= k <= opt.nodes:
            return f"--image {text}: this lab's nodes count from 1 to {opt.nodes}"
        try:
            format_of(path)
        except LabError as e:
            return f"--image {text}: {e}"
    own = of_nodes(opt)
    for name, given, why in (
            ("libvirt", opt.what == "libvirt", "give virt-install the image and the adapter's "
             "arguments, or take 'up'"),
            ("--kernel debug", opt.kernel == "debug", "an image boots its own kernel"),
            ("--append", opt.append, "an image has its kernel's command line from its boot "
             "loader"),
            ("--package", opt.package, "install packages in the image"),
            ("--gdb", opt.gdb and all(own), "the kernel of an image is not known here; "
             "'ohca-lab gdb --qemu' needs no --gdb")):
        if given and why:
            return f"{name}: not with --image: {why}"
    usual = {of_node(opt.guest, k) for k, x in enumerate(own, 1) if not x}
    for name in opt.guest[:opt.nodes]:
        if name != paths.GUESTS[0] and name not in usual:
            return (f"--guest {name}: no node would have it: an image is a node's whole system. "
                    "Leave it out, or give the image to one node, as in --image 1:FILE")
    return None


def parts():
    """What a lab with images needs: paths, and what makes them."""
    if not paths.CHECKOUT and not os.path.exists(paths.xorriso()[-1]):
        raise LabError("--image: the node's seed is made by xorriso, which is not installed: "
                       "apt install xorriso")
    return {paths.qemu()[3]: f"qemu QEMU={paths.QEMU}", paths.xorriso()[-1]: "buildroot",
            **{path: "image" for path in paths.guest_files()}}


class ImageVM(VM):
    """A node that boots a disk image, which stays as it is: QEMU writes to a file of its own."""
    BOOT_S = 600

    def __init__(self, lab, k):
        super().__init__(lab, k)
        self.guest = paths.Guest(paths.GUESTS[0])   # its machine is that of the lab's own guests
        self.image = os.path.abspath(lab.images[k - 1])

    def boot(self):
        """Nothing: the BIOS starts the boot loader of the first disk."""
        return []

    def disks(self):
        """The image, and the seed."""
        name = self.image.replace(",", ",,")
        own = "" if self.lab.images_kept else ",snapshot=on"
        return ["-drive", f"if=none,id=disk,file={name},format={format_of(self.image)},"
                          f"discard=unmap{own}",
                "-device", "virtio-blk-pci,drive=disk,bootindex=0",
                "-drive", f"if=none,id=seed,file={self.dir}/seed.iso,format=raw,readonly=on",
                "-device", "virtio-blk-pci,drive=seed"]

    def seed(self):
        """The files of the seed by their names, as text."""
        mac, number = f"52:54:00:0c:a0:{self.k:02x}", self.number
        network = {"version": 2, "ethernets": {"eth0": {
            "match": {"macaddress": mac}, "set-name": "eth0",
            "addresses": [f"10.76.0.{number}/24"]}}}
        # JSON is YAML
        return {"meta-data": json.dumps({"instance-id": f"ohca-node{number}",
                                         "local-hostname": self.name}),
                "user-data": "#cloud-config\n" + json.dumps(USER_DATA),
                "network-config": json.dumps(network),
                "ohca.env": f"OHCA_NODE={number}\nOHCA_NODES={self.lab.opt.nodes}\n"}

    def write_seed(self):
        """Makes the seed: a file system that has the label by which cloud-init finds it."""
        with tempfile.TemporaryDirectory(dir=self.dir) as work:
            for name, text in self.seed().items():
                with open(os.path.join(work, name), "w", encoding="utf-8") as f:
                    f.write(text)
            done = subprocess.run(
                [*paths.xorriso(), "-as", "mkisofs", "-quiet", "-volid", "CIDATA", "-joliet",
                 "-rock", "-o", os.path.join(self.dir, "seed.iso"), work, *paths.guest_files()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=False)
        if done.returncode:
            raise LabError(f"{self.name}: xorriso made no seed: "
                           f"{done.stdout.decode(errors='replace').strip()[-500:]}")

    def start(self):
        """Starts QEMU."""
        os.makedirs(self.dir, mode=0o700, exist_ok=True)
        self.write_seed()
        super().start()


def nodes(lab):
    """The nodes that are images."""
    return [vm for vm in lab.vms if vm.image]


def each(lab, script, timeout, what):
    """Runs a shell script in all nodes that are images."""
    lab.sh_all(lambda vm: script if vm.image else ":", timeout * lab.slow, what)


def ready(lab):
    """Waits until cloud-init is done, and makes the nodes what those of the lab's guests are."""
    if not nodes(lab):
        return
    each(lab, READY, READY_S, "cloud-init is not done")
    if lab.opt.share:
        each(lab, SHARE.replace("{}", MOUNT_SHARE), 60, "it has no /share")
    if lab.images_kept:
        return      # no keys in an image that is kept: whoever reads its file could use them
    keeper = next((vm for vm in lab.vms if not vm.image), lab.vms[0])
    status, keys = lab.capture(keeper.k, KEYS, 120 * lab.slow)
    if status:
        raise LabError(f"{keeper.name}: it has no keys for ssh: {keys.strip()}")
    if keys:
        each(lab, TRUST.replace("{}", in_base64(keeper, keys)), 120,
             "it did not take the keys for ssh")


def in_base64(vm, text):
    """What a node says is in base64, once more: it becomes a part of what a shell reads."""
    try:
        data = base64.b64decode(text.replace("\n", ""), validate=True)
    except ValueError:
        raise LabError(f"{vm.name}: it has no keys for ssh, but says: {text[:500].strip()}"
                       ) from None
    return base64.encodebytes(data).decode()


def packages():
    """The packages of driver and provider, of all releases for which they were made."""
    return sorted(f for name in ("openhca-dkms", "libibverbs-ohca") for f in
                  glob.glob(os.path.join(paths.BUILD, "deb", "*", f"{name}_*.deb")))


def install(lab, again=False):
    """Installs driver and provider in the nodes that are images and lack them, or again."""
    def one(vm):
        if not vm.image or not again and not lab.sh(vm, INSTALLED, 60 * lab.slow):
            return
        found = packages()
        if not found:
            raise LabError(f"the image lacks driver and provider: {NO_PACKAGES}")
        say(f"{vm.name}: DKMS builds the driver, which takes minutes without KVM; "
            "'ohca-lab prepare' does it once")
        with tempfile.TemporaryFile() as out:
            with tarfile.open(fileobj=out, mode="w") as tar:
                for path in found:
                    tar.add(path, os.path.basename(path))
            out.seek(0)
            status = lab.sh(vm, INSTALL, INSTALL_S * lab.slow, out.fileno())
        if status:
            raise LabError(f"driver and provider could not be installed (status {status})")

    if nodes(lab):
        lab.each(one, "the driver is not installed")
