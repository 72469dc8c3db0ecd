# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes from disk images with cloud-init (--image): their disk, their seed, the driver in them.

Such a node boots with its own boot loader and kernel. A second disk, the seed, contains the files
of cloud-init's data source NoCloud, and the agent that runs the lab's commands.
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
EXTERNAL_DATA = 1 << 2          # a bit of the incompatible features of qcow2
CONVERT = "qemu-img convert -O qcow2 {} NEW.qcow2"
INSTALL_S = 1800                # for apt and DKMS; the compiler may run under TCG
READY_S = 600                   # until cloud-init is done

# The configuration for cloud-init. bootcmd runs at each boot, before the network is set up.
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
# Prints the ssh keys of a node; makes them first if there are none.
KEYS = """
command -v ssh-keygen >/dev/null || exit 0
cd / && mkdir -p -m 700 root/.ssh
[ -f root/.ssh/id_ed25519 ] ||
	ssh-keygen -q -t ed25519 -N '' -C ohca-lab -f root/.ssh/id_ed25519 >/dev/null
[ -f etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -A >/dev/null
tar -c root/.ssh/id_ed25519* etc/ssh/ssh_host_ed25519_key* | base64
"""
# Installs the same keys in each node, so that every node trusts every other one.
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
# Reads a tar with the packages of all releases. apt decides which provider fits libibverbs1.
INSTALL = """
command -v apt-get >/dev/null ||
	{ echo "the image has no apt: build driver and provider in it yourself" >&2; exit 1; }
d=$(mktemp -d) && chmod 755 "$d" && tar -x -C "$d" && cd "$d" || exit 1
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
for p in ./libibverbs-ohca_*.deb; do
	! apt-get install -s "$p" >/dev/null 2>&1 || break
	p=
done
[ -n "$p" ] || {
	echo "none of the packages fits libibverbs1 $(dpkg-query -W -f '${Version}' libibverbs1 2>&1):" \\
		./libibverbs-ohca_*.deb "('make deb GUEST=...' makes the package of a release)" >&2
	exit 1
}
v=${p#./libibverbs-ohca}
begin=$(cut -d. -f1 /proc/uptime)
apt-get install -y -q --no-install-recommends "$p" ./openhca-dkms"${v%_amd64.deb}"_all.deb \\
	>apt.log 2>&1 || { tail -n 20 apt.log >&2; exit 1; }
modinfo ohca >/dev/null 2>&1 || {
	tail -n 5 apt.log >&2
	echo "DKMS built no driver: install linux-headers-$(uname -r), or read /var/lib/dkms" >&2
	exit 1
}
rm -rf "$d"
echo "driver built and installed with the provider, $(($(cut -d. -f1 /proc/uptime) - begin)) s"
"""
NO_PACKAGES = "'make deb' makes the packages" if paths.CHECKOUT else (
    "'make deb' of a checkout of OpenHCA makes openhca-dkms and libibverbs-ohca; install them in "
    "the image")


def of_nodes(opt):
    """The image of each node, or None. The last --image for a node has precedence."""
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
    """qcow2 or raw. Raises LabError if the file is no image, or refers to other files."""
    try:
        # without O_NONBLOCK the open of a FIFO waits for a writer
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
                       f"convert other formats by {convert}")
    version, backing = struct.unpack_from(">IQ", head, 4)
    crypt, = struct.unpack_from(">I", head, 32)
    features, = struct.unpack_from(">Q", head, 72)
    # with these, an image could make any file of this host readable in the guest
    if backing or version > 2 and features & EXTERNAL_DATA:
        raise LabError("it is an overlay of another file, which ohca-lab does not open: "
                       f"make one image of both by {convert}")
    if crypt:
        raise LabError(f"it is encrypted: make an image without encryption by {convert}")
    return "qcow2"


def wrong(opt):
    """Why the options about images are wrong, or None."""
    if not opt.image:
        return None
    for text in opt.image:
        k, path = split(text)
        if k is not None and not 1 <= k <= opt.nodes:
            return f"--image {text}: this lab has nodes 1 to {opt.nodes}"
        try:
            format_of(path)
        except LabError as e:
            return f"--image {text}: {e}"
    own = of_nodes(opt)
    for name, given, why in (
            ("libvirt", opt.what == "libvirt", "use 'up', or virt-install with the image and the "
             "adapter's arguments"),
            ("--kernel debug", opt.kernel == "debug", "an image boots its own kernel"),
            ("--append", opt.append, "the boot loader in the image sets its kernel's command "
             "line"),
            ("--package", opt.package, "install packages in the image yourself"),
            ("--gdb", opt.gdb and all(own), "ohca-lab has no symbols of an image's kernel; "
             "'ohca-lab gdb --qemu' works without --gdb")):
        if given and why:
            return f"{name}: it does not work with --image: {why}"
    usual = {of_node(opt.guest, k) for k, x in enumerate(own, 1) if not x}
    for name in opt.guest[:opt.nodes]:
        if name != paths.GUESTS[0] and name not in usual:
            return (f"--guest {name}: no node would use it, because the nodes boot images: leave "
                    "it out, or give the image to one node, as in --image 1:FILE")
    return None


def parts():
    """The files that a lab with images needs: {path: the target that makes it}."""
    if not paths.CHECKOUT and not os.path.exists(paths.xorriso()[-1]):
        raise LabError("--image: it needs xorriso, which is not installed: run 'apt install "
                       "xorriso'")
    return {paths.qemu()[3]: f"qemu QEMU={paths.QEMU}", paths.xorriso()[-1]: "buildroot",
            **{path: "image" for path in paths.guest_files()}}


class ImageVM(VM):
    """A node that boots a disk image. QEMU writes to a temporary file, not to the image."""
    BOOT_S = 600

    def __init__(self, lab, k):
        super().__init__(lab, k)
        self.guest = paths.Guest(paths.GUESTS[0])   # the machine is that of the default guest
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
        """The files of the seed: {name: text}."""
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
        """Makes the seed: a file system with the label that cloud-init looks for."""
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
            raise LabError(f"{self.name}: xorriso could not make the seed for cloud-init: "
                           f"{done.stdout.decode(errors='replace').strip()[-500:]}")

    def start(self):
        """Starts QEMU."""
        os.makedirs(self.dir, mode=0o700, exist_ok=True)
        self.write_seed()
        super().start()


def nodes(lab):
    """The nodes that boot images."""
    return [vm for vm in lab.vms if vm.image]


def each(lab, script, timeout, what):
    """Runs a shell script in all nodes that boot images."""
    lab.sh_all(lambda vm: script if vm.image else ":", timeout * lab.slow, what)


def ready(lab):
    """Waits until cloud-init is done; mounts /share and installs the ssh keys."""
    if not nodes(lab):
        return
    each(lab, READY, READY_S, "cloud-init has not finished")
    if lab.opt.share:
        each(lab, SHARE.replace("{}", MOUNT_SHARE), 60, "/share could not be mounted")
    if lab.images_kept:
        return      # no keys in an image that is kept: anyone who can read its file could use them
    keeper = next((vm for vm in lab.vms if not vm.image), lab.vms[0])
    status, keys = lab.capture(keeper.k, KEYS, 120 * lab.slow)
    if status:
        raise LabError(f"{keeper.name}: it could not make keys for ssh: {keys.strip()}")
    if keys:
        each(lab, TRUST.replace("{}", in_base64(keeper, keys)), 120,
             "the keys for ssh could not be installed")


def in_base64(vm, text):
    """Decodes and encodes a node's base64 text again: it becomes part of a shell script."""
    try:
        data = base64.b64decode(text.replace("\n", ""), validate=True)
    except ValueError:
        raise LabError(f"{vm.name}: it printed no keys for ssh, but: {text[:500].strip()}"
                       ) from None
    return base64.encodebytes(data).decode()


def packages():
    """The packages of driver and provider, for all releases for which they were built."""
    return sorted(f for name in ("openhca-dkms", "libibverbs-ohca") for f in
                  glob.glob(os.path.join(paths.BUILD, "deb", "*", f"{name}_*.deb")))


def install(lab, again=False):
    """Installs driver and provider in the nodes that boot images and lack them.

    With again it installs them in all nodes that boot images.
    """
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
