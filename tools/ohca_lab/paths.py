# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths of the built parts: in BUILD of a checkout, or in PREFIX/lib/openhca (tools/install)."""
import os
import shutil
import stat
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKOUT = os.path.exists(os.path.join(TOP, "Makefile"))
BUILD = os.environ.get("OHCA_BUILD") or os.path.join(TOP, "build") if CHECKOUT else TOP
ROOT = os.path.join(BUILD, "root")
VMLINUX_DEBUG = os.path.join(BUILD, "debug-kernel", "bzImage")
FABRIC = os.path.join(BUILD, "fabric", "ohca-fabric") if CHECKOUT else os.path.abspath(
    os.path.join(TOP, "..", "..", "bin", "ohca-fabric"))
VFIO_USER = os.path.join(os.path.dirname(FABRIC), "ohca-vfio-user")
HUB = os.path.join(BUILD, "fabric" if CHECKOUT else "lab", "ohca-hub")
# the build of QEMU: 10.0, or the QEMU of 'make qemu QEMU=...'
QEMU = os.environ.get("OHCA_QEMU") or "10.0"
QEMU_DIR = os.path.join(BUILD, "qemu" if QEMU == "10.0" else
                        "qemu-" + os.path.basename(QEMU.rstrip("/")).removeprefix("qemu-"))
# The loader and the libraries of the build root, or those that are installed with QEMU.
LOADER = (os.path.join(ROOT, "lib64", "ld-linux-x86-64.so.2") if CHECKOUT
          else os.path.join(QEMU_DIR, "lib", "ld.so"))
LIBRARIES = (os.path.join(ROOT, "usr", "lib", "x86_64-linux-gnu") if CHECKOUT
             else os.path.join(QEMU_DIR, "lib"))


def remedy(target):
    """The command that makes a missing part; target is a target of make."""
    return f"run 'make {target}'" if CHECKOUT else "install the packages of one release again"


def guests():
    """The table of guests by name: release, architecture, triplet, driver, provider."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guests")
    with open(path, encoding="ascii") as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    return {name: more for name, *more in lines}


# The guests that 'make lab GUEST=NAME' makes; the first one is the default.
TABLE = guests()
GUESTS = tuple(TABLE)


class Guest:
    """The files of a guest. The attributes are paths; driver and provider are names in BUILD.

    arch is Debian's name of the architecture, triplet the compiler's, machine QEMU's.
    """

    def __init__(self, name):
        self.name = name
        _, self.arch, self.triplet, self.driver, self.provider = TABLE[name]
        # QEMU's name of the architecture, which is the compiler's
        self.machine = self.triplet.partition("-")[0]
        out = BUILD if name == GUESTS[0] else os.path.join(BUILD, "guests", name)
        self.root = os.path.join(out, "guest")
        self.kver = os.path.join(out, "kver")
        self.vmlinux = os.path.join(out, "image", "vmlinux")
        self.initrd = os.path.join(out, "image", "initrd.cpio")
        self.base = os.path.join(out, "image", "base.squashfs")
        self.layer = os.path.join(out, "layer", "ohca.squashfs")
        # exists if the layer has the debug kernel's modules
        self.layer_debug = os.path.join(out, "layer", "debug")

    def modules(self, kernel):
        """The name of a kernel for tools/build-modules; kernel is stock or debug."""
        return "debug" if kernel == "debug" else self.driver.removeprefix("modules-")

    def target(self):
        """The target of make that builds this guest."""
        return "lab" if self.name == GUESTS[0] else f"lab GUEST={self.name}"


def in_root(program):
    """The command line that runs a program of the build root with the root's libraries.

    It works without the host's libraries and without privileges.
    """
    return [LOADER, "--library-path", LIBRARIES, program]


def xorriso():
    """The beginning of a command line of xorriso, which makes the seeds of images."""
    return (in_root(os.path.join(ROOT, "usr", "bin", "xorriso")) if CHECKOUT
            else [shutil.which("xorriso") or "/usr/bin/xorriso"])


def guest_files():
    """The files of the lab's own guests that the seed of an image contains."""
    where = os.path.join(TOP, "tools", "guest") if CHECKOUT else os.path.join(BUILD, "lab", "guest")
    agent = os.path.join(BUILD if CHECKOUT else where, "ohca-agent")
    return [*(os.path.join(where, x) for x in ("image-init", "hotplug", "hosts")), agent]


def stock_qemu():
    """The beginning of a command line of Debian's QEMU, from its root, or of the host's own."""
    if not CHECKOUT:
        return [shutil.which("qemu-system-x86_64") or "/usr/bin/qemu-system-x86_64"]
    root = os.path.join(BUILD, "stock-qemu", "root")
    lib, share = (os.path.join(root, "usr", x) for x in ("lib/x86_64-linux-gnu", "share"))
    return ["/usr/bin/env", f"QEMU_MODULE_DIR={lib}/qemu",
            os.path.join(root, "usr", "lib64", "ld-linux-x86-64.so.2"), "--library-path", lib,
            os.path.join(root, "usr", "bin", "qemu-system-x86_64"),
            "-L", f"{share}/qemu", "-L", f"{share}/seabios"]


def qemu_program(command):
    """The file of QEMU in a command line of it."""
    return next(x for x in command if os.path.basename(x).startswith("qemu-system-"))


def qemu(machine="x86_64", attach="qemu"):
    """The beginning of a command line of QEMU for a machine and a value of --attach."""
    if attach == "vfio-user":
        return stock_qemu()
    out = QEMU_DIR if machine == "x86_64" else os.path.join(BUILD, "qemu-foreign")
    return [*in_root(os.path.join(out, f"qemu-system-{machine}")),
            "-L", os.path.join(out, "firmware")]


def runtime():
    """The directory of the running labs; its path is short, since paths of UNIX sockets must be."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    # an option of QEMU ends at a comma
    if not base or not os.access(base, os.W_OK) or len(base) > 40 or "," in base:
        base = "/tmp"
    path = os.path.join(base, f"ohca-lab-{os.getuid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    st = os.lstat(path)
    # a link of another user could lead to any directory of this one
    if st.st_uid != os.getuid() or not stat.S_ISDIR(st.st_mode):
        sys.exit(f"ohca-lab: {path} is not a directory of yours: set XDG_RUNTIME_DIR to one")
    os.chmod(path, 0o700)
    return path
