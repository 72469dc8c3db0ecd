# SPDX-License-Identifier: GPL-2.0-or-later
"""Adapters of nodes whose QEMU is not ours: each is an ohca-vfio-user, to which QEMU connects."""
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
            ("libvirt", opt.what == "libvirt", "it is for run, up and node"),
            ("--guest", any(paths.Guest(g).machine != "x86_64" for g in opt.guest),
             "only nodes of amd64 have that QEMU"),
            ("--image", opt.image, "it is for the guests of this project"),
            ("--device", opt.device, "these are properties of -device ohca")):
        if given:
            return f"--attach vfio-user does not go with {what}: {why}"
    return None


def name(vm, hca):
    """What the adapter's process is called."""
    return f"vfio-user-{vm.k}.{hca}"


def _socket(vm, hca):
    """Where QEMU connects."""
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
    """QEMU's argument for it; bus: its properties beside those that it has in any case."""
    return json.dumps({"driver": "vfio-user-pci", **bus,
                       "socket": {"type": "unix", "path": _socket(vm, hca)}})


def no_migration(opt, vm):
    """Ends 'migrate' before it begins."""
    if opt.attach == "vfio-user":
        raise LabError(f"{vm.name} does not migrate: its adapters are of --attach vfio-user")
