# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes that libvirt runs: their domains, and the lab around them."""
import os
import shlex
import xml.etree.ElementTree as ET

from . import paths
from .channel import CHANNELS
from .lab import Lab
from .vm import VM, of_node

QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"

LAST_SLOT = 0x1e    # the next slot is that of the chip set


def element(parent, tag, text=None, **attributes):
    """Adds an element below parent; returns it."""
    e = ET.SubElement(parent, tag, attributes)
    e.text = text
    return e


def addressed(argv):
    """Yields QEMU's arguments, with a PCI address for each device, from the end of the bus.

    QEMU creates these devices before those of libvirt. Without addresses, they would get the first
    ones of the bus, which libvirt uses.
    """
    slot, option = LAST_SLOT, None
    for word in argv:
        if option == "-device" and "addr=" not in word:
            word = f"{word},addr={slot:#x}"
            slot -= 1
        option = word
        yield word


class Domain(VM):
    """A node that the user starts with virsh."""
    BOOT_S = 86400      # the user may start it later

    def xml(self, emulator):
        """The domain. Devices for which libvirt has no elements are arguments of QEMU."""
        opt, lab = self.lab.opt, self.lab
        ET.register_namespace("qemu", QEMU)
        domain = ET.Element("domain", type="kvm" if lab.accel == "kvm" else "qemu")
        element(domain, "name", f"ohca-{lab.name}-{self.name}")
        element(domain, "memory", str(of_node(opt.memory, self.k)), unit="MiB")
        backing = element(domain, "memoryBacking")
        element(backing, "source", type="memfd")
        element(backing, "access", mode="shared")
        element(domain, "vcpu", str(of_node(opt.cpus, self.k)))
        boot = element(domain, "os")
        element(boot, "type", "hvm", arch="x86_64", machine="q35")
        element(boot, "kernel", self.kernel())
        element(boot, "initrd", self.guest.initrd)
        element(boot, "cmdline", self.cmdline())
        features = element(domain, "features")
        element(features, "acpi")
        element(features, "apic")
        element(domain, "cpu", mode="host-passthrough" if lab.accel == "kvm" else "maximum")
        clock = element(domain, "clock", offset="utc")
        element(clock, "timer", name="hpet", present="no")
        # a guest that ends stays ended, as in other labs
        for event in ("on_poweroff", "on_reboot", "on_crash"):
            element(domain, event, "destroy")
        self._devices(element(domain, "devices"), emulator)
        arguments = element(domain, f"{{{QEMU}}}commandline")
        for word in addressed(self.further()):
            element(arguments, f"{{{QEMU}}}arg", value=word)
        ET.indent(domain)
        return ET.tostring(domain, encoding="unicode") + "\n"

    def _devices(self, devices, emulator):
        element(devices, "emulator", emulator)
        for i, layer in enumerate(self.lab.layers[self.guest.name]):
            disk = element(devices, "disk", type="file", device="disk")
            element(disk, "driver", name="qemu", type="raw")
            element(disk, "source", file=layer)
            element(disk, "target", dev=f"vd{chr(ord('a') + i)}", bus="virtio")
            element(disk, "readonly")
        element(devices, "controller", type="usb", model="none")
        element(element(devices, "serial", type="pty"), "target", port="0")
        for i in range(CHANNELS):
            channel = element(devices, "channel", type="unix")
            element(channel, "source", mode="bind", path=f"{self.dir}/cmd{i}")
            element(channel, "target", type="virtio", name=f"org.openhca.cmd.{i}")
        element(devices, "memballoon", model="none")

    def start(self):
        """Writes the domain, and prints how to start it."""
        os.makedirs(self.dir, mode=0o700)
        path = os.path.join(self.lab.dir, f"{self.name}.xml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(self.xml(self.lab.emulator()))
        print(shlex.join(["virsh", "-c", "qemu:///session", "create", path]), flush=True)

    def alive(self):
        """Always True: only libvirt can tell."""
        return True


class LibvirtLab(Lab):
    """A lab whose nodes are domains of libvirt. It runs the fabric and the hub itself."""
    MACHINE = Domain

    def emulator(self):
        """A script that starts QEMU: libvirt needs one program without arguments."""
        path = os.path.join(self.dir, "qemu")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as f:
                f.write(f'#!/bin/sh\nexec {shlex.join(paths.qemu())} "$@"\n')
            os.chmod(path, 0o700)
        return path
