# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab prepare: a disk image once more, with driver and provider in it."""
import os
import subprocess
import time

from . import image
from .lab import Lab
from .words import LabError, say

POWEROFF_S = 300    # until the machine has ended its services

ENDS = "systemctl poweroff --no-block"


def check(opt):
    """Raises LabError if there is no image, or what is to be made is there."""
    try:
        image.format_of(opt.source)
    except LabError as e:
        raise LabError(f"prepare: {opt.source}: {e}") from None
    if os.path.exists(opt.new):
        raise LabError(f"prepare: {opt.new} is there already: name a file that is to be made")
    if not image.packages():
        raise LabError("prepare: there are no packages of driver and provider: "
                       f"{image.NO_PACKAGES}")


def power_off(lab):
    """Has the one node end in order, so that its disk is whole."""
    vm = lab.vms[0]
    if lab.sh(vm, ENDS, 60 * lab.slow):
        raise LabError(f"{vm.name}: systemd does not power it off")
    try:
        vm.process.wait(POWEROFF_S * lab.slow)
    except subprocess.TimeoutExpired:
        raise LabError(f"{vm.name} does not power off") from None


def run(opt, options):
    """Makes opt.new of opt.source; options(argv) parses the options of a lab of one node.

    The copy is under another name until it is whole.
    """
    check(opt)
    part = f"{opt.new}.part"
    argv = ["up", "-n", "1", "--fabric", "none", "--image", f"1:{part}", "--memory",
            str(opt.memory), "--cpus", str(opt.cpus)]
    if opt.accel:
        argv += ["--accel", opt.accel]
    lab = None
    try:
        begin = time.monotonic()
        subprocess.run(["cp", "--reflink=auto", "--sparse=always", "--no-preserve=mode", opt.source,
                        part], check=True)
        lab = Lab(f"p{os.getpid()}", options(argv))
        lab.images_kept = True
        lab.start()
        image.install(lab, again=True)
        power_off(lab)
        os.rename(part, opt.new)
        say(f"{opt.new} is ready after {time.monotonic() - begin:.0f} s: ohca-lab run --image "
            f"{opt.new} ...")
        return 0
    except (subprocess.CalledProcessError, OSError) as e:
        raise LabError(f"prepare: {opt.new} cannot be made: {e}") from None
    finally:
        if lab:
            if opt.log and lab.lock:
                lab.save_logs(opt.log)
            lab.teardown()
        if os.path.exists(part):
            os.remove(part)


def add_parser(sub, work):
    """The command line of 'ohca-lab prepare'; sub has the subparsers, work runs it."""
    p = sub.add_parser("prepare", help="a disk image once more, with driver and provider in it",
                       description="Boots a copy of a disk image, has DKMS build the driver there, "
                                   "installs it with the provider, and keeps the copy, for run and "
                                   "up --image. FILE stays as it is.")
    p.add_argument("--memory", type=int, default=2048, metavar="M", help="MiB of it (2048)")
    p.add_argument("--cpus", type=int, default=2, metavar="N", help="its processors (2)")
    p.add_argument("--accel", choices=("kvm", "tcg"), help="as in 'run'")
    p.add_argument("--log", metavar="DIR", help="keep its console and kernel's messages there")
    p.add_argument("source", metavar="FILE", help="the image, qcow2 or raw")
    p.add_argument("new", metavar="NEW", help="the file that is made")
    p.set_defaults(work=work)
