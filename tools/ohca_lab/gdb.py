# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb for a node of a running lab: for its kernel with the driver's symbols, or for its QEMU."""
import os
import re
import shutil
import subprocess
import time

from . import paths
from .channel import Channel, GuestGone, Timeout, keeper

LIMIT = 30      # seconds in which the guest must print the addresses of its symbols
# Prints the addresses of the kernel's functions, then those of the sections of the driver.
SYMBOLS = """
echo 0 >/proc/sys/kernel/kptr_restrict 2>/dev/null
grep -v '\\[' /proc/kallsyms | grep -i ' t '
echo
cd /sys/module/ohca/sections 2>/dev/null && grep . .text* .rodata* .data* .bss || :
"""


class GdbError(Exception):
    """Why gdb cannot be started."""


def stub(node_dir):
    """The socket of QEMU's gdb stub."""
    return os.path.join(node_dir, "gdb")


def _ask(node_dir):
    """The addresses that the guest prints: two texts, of the kernel and of the driver."""
    parts = []
    deadline = time.monotonic() + LIMIT
    try:
        channel = Channel(node_dir, deadline)
        channel.run(["/bin/sh", "-c", SYMBOLS], {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                    keeper(parts), deadline)
        channel.close()
    except (GuestGone, Timeout, OSError) as e:
        raise GdbError("the node does not answer: has another gdb stopped it?") from e
    kernel, _, driver = b"".join(parts).decode().partition("\n\n")
    return kernel, driver


def _kernel_file(node_dir, text):
    """Writes an ELF file with the addresses of the kernel's functions; returns its path.

    The kernel's package has no symbols. text has lines of /proc/kallsyms.
    """
    found = {}
    for line in text.splitlines():
        address, _, name = line.split()[:3]
        found.setdefault(name, int(address, 16))
    if not found or not all(found.values()):
        raise GdbError("the guest's /proc/kallsyms has no addresses")
    first, last = min(found.values()), max(found.values())
    out = os.path.join(node_dir, "kernel")
    with open(f"{out}.s", "w", encoding="ascii") as f:
        f.write(f'.section .text,"ax",@nobits\nfirst:\n.space {last - first + 1}\n')
        for name, address in found.items():
            f.write(f'.type "{name}", @function\n.set "{name}", first + {address - first}\n')
    bin_dir = os.path.join(paths.ROOT, "usr", "bin")
    for command in (["as", "-o", f"{out}.o", f"{out}.s"],
                    ["ld", f"-Ttext={first:#x}", "-e", "first", "-o", f"{out}.elf", f"{out}.o"]):
        done = subprocess.run([*paths.in_root(os.path.join(bin_dir, command[0])), *command[1:]],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise GdbError(f"{command[0]}: {done.stderr.strip()}")
    return f"{out}.elf"


def kernel_commands(node_dir, guest, kernel):
    """gdb's commands for the kernel of a node with this guest; kernel is stock or debug."""
    if guest.arch != "amd64":
        raise GdbError(f"the host's gdb cannot debug programs of {guest.arch}; --qemu works for "
                       "all nodes")
    if not os.path.exists(stub(node_dir)):
        raise GdbError("the lab was started without --gdb: start it again with --gdb")
    functions, sections = _ask(node_dir)
    commands = [f"file {_kernel_file(node_dir, functions)}"]
    places = dict(re.findall(r"(?m)^(\.[\w.]+):(0x[0-9a-f]+)$", sections))
    if ".text" in places:
        module = os.path.join(paths.BUILD, f"modules-{guest.modules(kernel)}", "kernel",
                              "ohca.ko")
        where = " ".join(f"-s {name} {address}" for name, address in places.items())
        commands.append(f"add-symbol-file {module} {where}")
    return [*commands, f"target remote {stub(node_dir)}"]


def qemu_commands(pid):
    """gdb's commands for QEMU. gdb does not find the symbols itself, because ld.so started QEMU."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
            text = f.read()
    except OSError as e:
        raise GdbError(f"QEMU, process {pid}, cannot be read: {e.strerror}; 'ohca-lab status' says "
                       "whether it runs") from None
    m = re.search(r"(?m)^([0-9a-f]+)-\S+ \S+ 0+ \S+ \d+ +(/.*/qemu-system-\w+)$", text)
    if not m:
        raise GdbError(f"QEMU was built again after process {pid} had started: start the lab again")
    # with KVM, QEMU interrupts its virtual CPUs with SIGUSR1
    return [f"attach {pid}", f"add-symbol-file {m[2]} -o 0x{m[1]}",
            "handle SIGUSR1 nostop noprint"]


def run(commands, arguments):
    """Replaces this process by gdb, which runs the commands and then its own arguments."""
    program = shutil.which("gdb")
    if not program:
        raise GdbError("there is no gdb on this host: run 'apt install gdb'")
    argv = [program, "-q", "-iex", "set confirm off", "-iex", "set debuginfod enabled off"]
    for command in commands:
        argv += ["-ex", command]
    os.execv(program, [*argv, *arguments])
