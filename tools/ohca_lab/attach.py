# SPDX-License-Identifier: GPL-2.0-or-later
"""Adapters of nodes that run Debian's QEMU: each is a process, ohca-vfio-user."""
import json
import os

from . import paths, places
from .words import LabError


def wrong(opt):
    """Why a lab with these options cannot have such adapters, or None."""
    if opt.attach != "vfio-user":
        return None
    for what, given, why in (
            (f"--fabric {opt.fabric}", opt.fabric != "ohca", "its nodes have no adapter"),
            ("libvirt", opt.what == "libvirt", "use it with run, up and node"),
            ("--guest", any(paths.Guest(g).machine != "x86_64" for g in opt.guest),
             "it works with guests of amd64 only"),
            ("--image", opt.image, "it works with the guests of this project only"),
            ("--device", opt.device, "--device sets properties of -device ohca")):
        if given:
            return f"--attach vfio-user cannot be combined with {what}: {why}"
    return None


def name(vm, hca):
    """The name of the adapter's process."""
    return f"vfio-user-{vm.k}.{hca}"


def _socket(vm, hca):
    """The socket to which QEMU connects."""
    return os.path.join(vm.lab.dir, name(vm, hca))


def process(vm, hca, place, uars):
    """The command line of an adapter's process; uars: doorbell pages, or None."""
    lab = vm.lab
    words = [paths.VFIO_USER, "--fabric", f"{lab.dir}/fabric", "--socket", _socket(vm, hca),
             "--node-desc", place.name, "--ports", str(lab.opt.ports)]
    if place.guid:
        words += ["--guid", place.guid]
        words += [x for k, v in places.rate(place).items() for x in (f"--{k}", v)]
    return words + (["--uars", str(uars)] if uars else [])


def device(vm, hca, bus):
    """The value of QEMU's -device for the adapter; bus: further properties of it."""
    return json.dumps({"driver": "vfio-user-pci", **bus,
                       "socket": {"type": "unix", "path": _socket(vm, hca)}})


def no_migration(opt, vm):
    """Raises LabError if the node's adapters cannot migrate."""
    if opt.attach == "vfio-user":
        raise LabError(f"{vm.name} does not migrate: adapters of --attach vfio-user cannot")
