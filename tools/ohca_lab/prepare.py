# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab prepare: copies a disk image and installs driver and provider in the copy."""
import argparse
import os
import shlex
import stat
import subprocess
import tempfile
import time

from . import image
from .channel import GuestGone, Timeout
from .lab import Lab, finish, how
from .words import LabError, say

POWEROFF_S = 300    # for the machine to end its services

ENDS = "systemctl poweroff --no-block"


def check(opt):
    """Raises LabError if FILE is no image, NEW exists, or there are no packages."""
    try:
        image.format_of(opt.source)
    except LabError as e:
        raise LabError(f"prepare: {opt.source}: {e}") from None
    if os.path.exists(opt.new):
        raise LabError(f"prepare: {opt.new} already exists: give the name of a new file")
    if not image.packages():
        raise LabError("prepare: there are no packages of driver and provider: "
                       f"{image.NO_PACKAGES}")


def power_off(lab):
    """Shuts the node down, so that its disk is complete."""
    vm = lab.vms[0]
    try:
        status = lab.sh(vm, ENDS, 60 * lab.slow)
    except (GuestGone, Timeout):
        status = 0      # the agent may end before it has sent the status, or
    if 0 < status < 128:    # the command itself, by a signal
        raise LabError(f"{vm.name}: '{ENDS}' has failed (status {status})")
    try:
        vm.process.wait(POWEROFF_S * lab.slow)
    except subprocess.TimeoutExpired:
        raise LabError(f"{vm.name} does not power off") from None
    if vm.process.returncode:
        raise LabError(f"{vm.name}: QEMU {how(vm.process.returncode)}: its disk may be incomplete")


def copy(source, part):
    """Copies an image to an existing file, with the same mode but writable for the owner."""
    subprocess.run(["cp", "--reflink=auto", "--sparse=always", "--no-preserve=mode", "--", source,
                    part], check=True)
    os.chmod(part, os.stat(source).st_mode & 0o777 | stat.S_IWUSR)


def run(opt, options):
    """Makes opt.new from opt.source; options(argv) returns a lab's options or raises LabError.

    The copy has another name until it is complete.
    """
    check(opt)
    argv = ["up", "-n", "1", "--fabric", "none", "--image", f"1:{opt.source}", "--memory",
            str(opt.memory), "--cpus", str(opt.cpus)]
    if opt.accel:
        argv += ["--accel", opt.accel]
    of_lab = options(argv)
    lab = part = None
    try:
        begin = time.monotonic()
        where, name = os.path.split(opt.new)
        handle, part = tempfile.mkstemp(dir=where or ".", prefix=f"{name}.")
        os.close(handle)
        of_lab.image = [f"1:{part}"]
        copy(opt.source, part)
        lab = Lab(f"p{os.getpid()}", of_lab)
        lab.images_kept = True
        lab.start()
        image.install(lab, again=True)
        power_off(lab)
        os.link(part, opt.new)      # replaces nothing
        say(f"{opt.new} is ready after {time.monotonic() - begin:.0f} s: ohca-lab run --image "
            f"{shlex.quote(opt.new)} ...")
        return 0
    except FileExistsError:
        raise LabError(f"prepare: another program has made {opt.new} meanwhile; that file is "
                       "unchanged: give another name") from None
    except (subprocess.CalledProcessError, OSError) as e:
        raise LabError(f"prepare: {opt.new} cannot be made: {e}") from None
    finally:
        if lab:
            finish(lab, opt)
        if part:
            os.remove(part)


def number(text):
    """The type of an option: 1 or more."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def add_parser(sub, work):
    """The command line of 'ohca-lab prepare'; sub has the subparsers, work runs it."""
    p = sub.add_parser("prepare", help="copy a disk image and install driver and provider in it",
                       description="Boots a copy of a disk image, builds the driver there with "
                                   "DKMS, installs driver and provider, and keeps the copy for "
                                   "'run' and 'up' --image. FILE does not change.")
    p.add_argument("--memory", type=number, default=2048, metavar="M",
                   help="MiB of memory of the machine that builds (2048)")
    p.add_argument("--cpus", type=number, default=2, metavar="N",
                   help="processors of that machine (2)")
    p.add_argument("--accel", choices=("kvm", "tcg"), help="as in 'run'")
    p.add_argument("--log", metavar="DIR",
                   help="keep that machine's console and kernel messages in DIR")
    p.add_argument("source", metavar="FILE", help="the image, qcow2 or raw")
    p.add_argument("new", metavar="NEW", help="the file to make; it must not exist")
    p.set_defaults(work=work)
