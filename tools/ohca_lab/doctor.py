# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab doctor: checks the parts of a lab and whether they fit, and says what to do.

A line has a state, a part and a description of it. 'ok' and 'note' are no problem. A part that is
'stale' works, but is older than its source. With a part that is 'missing' or 'differs' no lab runs.
"""
import os
import re
import shutil
import subprocess
import sys

from . import paths
from .paths import remedy
from .vm import choose_accelerator

OK, NOTE, STALE, MISSING, DIFFERS = "ok", "note", "stale", "missing", "differs"
NODE_MIB = 1024         # memory of a node without --memory
BUILD_MIB = 12000       # disk space that a whole build needs; tools/deps has the same figure


def lines_of(argv):
    """The standard output of a program, or None if it does not run or fails."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10,
                              check=False, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def read(path):
    """The bytes of a file, or b"" if it cannot be read."""
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def found(pattern, text, default=None):
    """The first group of the first match, as text."""
    match = re.search(pattern, text)
    if not match:
        return default
    group = match.group(1)
    return group.decode(errors="replace") if isinstance(group, bytes) else group


def changed(part):
    """A source of a part that has changed since the part was built, or None."""
    stamps = os.path.join(paths.BUILD, "stamp")
    known = {}
    try:
        with open(os.path.join(stamps, f"{part}.files"), encoding="utf-8") as f:
            for line in f:
                name, size, time = line.rstrip("\n").rsplit(" ", 2)
                known[name] = int(size), int(float(time))
    except (OSError, ValueError):
        return None
    for name, then in known.items():
        try:
            st = os.stat(os.path.join(paths.TOP, name))
        except OSError:
            return name
        if (st.st_size, int(st.st_mtime)) != then:
            return name
    kinds = {(os.path.dirname(n), n[-2:]) for n in known if n.endswith((".c", ".h"))}
    for where, kind in sorted(kinds):
        for name in sorted(os.listdir(os.path.join(paths.TOP, where))):
            path = os.path.join(where, name)
            if name.endswith(kind) and path not in known:
                return path
    return None


def part_line(part, target, name, text):
    """The line of a part that exists: ok or stale."""
    source = changed(part)
    if source:
        return STALE, name, f"{text}; {source} has changed: {remedy(target)}"
    return OK, name, text


def in_layer(guest, name, what):
    """The line of a part that is only in the guest's layer, as in an installation."""
    if paths.CHECKOUT:
        return NOTE, name, f"in {guest.layer}; the {what} itself is not in {paths.BUILD}"
    return OK, name, f"in {guest.layer}"


class Doctor:
    """Checks the parts one after the other; self.lines has the results."""

    def __init__(self):
        self.lines = []
        self.front = {}         # version of the protocol of HCAs that each program uses
        self.interface = None   # major version, of the device
        self.abi = None         # of the last driver

    def add(self, state, name, text):
        """Adds a line."""
        self.lines.append((state, name, text))

    def qemu(self):
        """QEMU and its device."""
        command = paths.qemu()
        binary = next((x for x in command if "qemu" in os.path.basename(x)), command[0])
        if not all(os.path.exists(x) for x in (command[0], binary)):
            stock = paths.CHECKOUT and os.path.exists(paths.qemu_program(paths.stock_qemu()))
            self.add(NOTE if stock else MISSING, "QEMU", f"no {binary}: {remedy('qemu')}" +
                     ("; labs run with --attach vfio-user" if stock else ""))
            return
        text = lines_of([*command, "-device", "help"])
        version = found(r"version (\S+)", lines_of([*command, "--version"]) or "")
        if text is None or version is None:
            self.add(MISSING, "QEMU", f"{binary} does not run: {remedy('qemu')}")
            return
        device = found(r'name "ohca".*, (interface .*)"', text)
        if device is None:
            self.add(MISSING, "QEMU", f"{version} has no device ohca that reports its version: "
                     f"{remedy('qemu')}")
            return
        self.front["QEMU"] = found(r"front protocol (\d+)", device)
        self.interface = found(r"interface (\d+)\.", device)
        self.add(*part_line("qemu", "qemu", "QEMU",
                            f"{version}, device ohca with {device}, {binary}"))

    def fabric(self):
        """ohca-fabric, and ohca-hub."""
        text = lines_of([paths.FABRIC, "--version"])
        if text is None or not os.path.exists(paths.HUB):
            which = paths.HUB if text else paths.FABRIC
            self.add(MISSING, "fabric", f"no {which}: {remedy('fabric')}")
            return
        self.front["ohca-fabric"] = found(r"front protocol (\d+)", text)
        self.add(*part_line("fabric", "fabric", "fabric", f"{text.strip()}, {paths.FABRIC}"))
        if len(set(self.front.values())) > 1:
            self.add(DIFFERS, "front", ", ".join(f"{k} has version {v} of the protocol of HCAs"
                                                for k, v in self.front.items()) +
                     f": {remedy('qemu fabric')}")

    def guest(self, guest):
        """Image, kernel and layer of a guest; those of the default guest must exist."""
        name = f"guest {guest.name}"
        gone = next((p for p in (guest.vmlinux, guest.initrd, guest.base, guest.layer)
                     if not os.path.exists(p)), None)
        if gone:
            if guest.name == paths.GUESTS[0]:
                self.add(MISSING, name, f"no {gone}: {remedy(guest.target())}")
            elif os.path.exists(guest.base):
                self.add(NOTE, name, f"no {gone}: {remedy(guest.target())}")
            return
        kernel = found(rb"Linux version (\S+) \(", read(guest.vmlinux), "unknown")
        self.add(*part_line("image", guest.target(), name, f"Linux {kernel}"))
        self.driver(guest, kernel)
        self.provider(guest)

    def driver(self, guest, kernel):
        """ohca.ko of a guest."""
        path = os.path.join(paths.BUILD, guest.driver, "kernel", "ohca.ko")
        info = read(path)
        if not info:
            self.add(*in_layer(guest, "driver", "module"))
            return
        say = {key: found(rb"\0" + key.encode() + rb"=([^\0]*)\0", info, "unknown")
               for key in ("version", "interface", "uverbs_abi", "vermagic")}
        vermagic = say["vermagic"].split(" ")[0]
        text = (f"ohca.ko {say['version']} for Linux {vermagic}, interface {say['interface']}, "
                f"uverbs ABI {say['uverbs_abi']}")
        self.abi = say["uverbs_abi"]
        if vermagic != kernel:
            self.add(DIFFERS, "driver", f"{text}, but {guest.name} has Linux {kernel}: "
                     f"{remedy(guest.target())}")
        elif self.interface not in (None, say["interface"]):
            self.add(DIFFERS, "driver", f"{text}, but QEMU's device has interface "
                     f"{self.interface}: {remedy('lab')}")
        elif os.path.getmtime(path) > os.path.getmtime(guest.layer):
            self.add(STALE, "driver", f"{text}; the layer of {guest.name} has an older one: "
                     f"{remedy(guest.target())}")
        else:
            self.add(*part_line("modules", guest.target(), "driver", text))

    def provider(self, guest):
        """libohca of a guest."""
        where = os.path.join(paths.BUILD, guest.provider)
        names = sorted(n for n in (os.listdir(where) if os.path.isdir(where) else [])
                       if n.startswith("libohca-rdmav"))
        if not names:
            self.add(*in_layer(guest, "provider", "library"))
            return
        path = os.path.join(where, names[0])
        text = found(rb"libohca: (interface \d+, uverbs ABI \d+, rdma-core \d+)", read(path),
                     "unknown")
        abi, text = found(r"uverbs ABI (\d+)", text), f"{names[0]}, {text}"
        if None not in (abi, self.abi) and abi != self.abi:
            self.add(DIFFERS, "provider", f"{text}, but the driver has uverbs ABI {self.abi}: "
                     f"{remedy(guest.target())}")
        elif os.path.getmtime(path) > os.path.getmtime(guest.layer):
            self.add(STALE, "provider", f"{text}; the layer of {guest.name} has an older one: "
                     f"{remedy(guest.target())}")
        else:
            self.add(*part_line("provider", guest.target(), "provider", text))

    def host(self):
        """Accelerator, memory, disk and tools of the host."""
        accel, reason = choose_accelerator(probe=False)
        self.add(OK, "CPU", f"{accel.upper()}: {reason}; {os.cpu_count()} processors")
        free = int(found(r"MemAvailable: *(\d+) kB", read("/proc/meminfo").decode(), "0")) >> 10
        if free < NODE_MIB:
            self.add(MISSING, "memory", f"{free} MiB are free, a node needs {NODE_MIB}: end "
                     "other programs, or use a smaller --memory")
        else:
            self.add(OK, "memory", f"{free} MiB are free: {free // NODE_MIB} nodes of {NODE_MIB}")
        where = paths.BUILD
        while not os.path.exists(where):
            where = os.path.dirname(where)
        disk = shutil.disk_usage(where).free >> 20
        built = os.path.exists(os.path.join(paths.BUILD, "kver"))
        short = not built and disk < BUILD_MIB
        self.add(MISSING if short else OK, "disk", f"{disk} MiB are free in {where}" +
                 (f", a build needs {BUILD_MIB}: set OHCA_BUILD to a directory with more"
                  if short else ""))
        builds = (("make", "builds"), ("mmdebstrap", "builds"),
                  ("sudo" if os.getuid() else "sh", "builds without root"))
        for tool, what in (*(builds if paths.CHECKOUT else ()), ("gdb", "ohca-lab gdb")):
            if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
                self.add(NOTE, "tools", f"no {tool}, which {what} needs: 'apt install {tool}'")

    def look(self):
        """Checks everything; returns the lines."""
        self.host()
        self.qemu()
        self.fabric()
        for name in paths.GUESTS:
            self.guest(paths.Guest(name))
        return self.lines


def run(_opt):
    """Prints a line for each part; the status is 0 if none is missing or differs."""
    lines = Doctor().look()
    for state, name, text in lines:
        print(f"{state:8} {name:16} {text}")
    bad = sum(state in (MISSING, DIFFERS) for state, _, _ in lines)
    sys.stdout.flush()
    attach = " --attach vfio-user" if (NOTE, "QEMU") in [line[:2] for line in lines] else ""
    print("not all labs can run yet" if bad else
          f"labs can run: try 'ohca-lab run{attach} -n 2 -- ibstat'")
    return 1 if bad else 0
