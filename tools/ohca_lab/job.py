# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts of a lab file that are not options: names, files, partitions, faults, commands."""
import io
import os
import re
import subprocess
import tarfile
import tempfile

from . import paths
from .labfile import DEFAULT_PKEY
from .words import LabError, say

# Adds the names of the lab file to the hosts file: NAME for nodeK, NAME-ib1 for nodeK-ib1.
NAMES = """
while read -r k name; do
	sed -E "s/ node$k(-ib[0-9]*)?( |\\$)/ $name\\1&/" /etc/hosts >/run/hosts &&
		cat /run/hosts >/etc/hosts || exit 1
	[ "$k" != "$OHCA_NODE" ] || echo "$name" | tee /etc/hostname >/proc/sys/kernel/hostname || exit 1
done <<'END'
{}
END
"""
GUIDS = """
for gid in /sys/class/infiniband/ohca_*/ports/*/gids/0; do
	cut -d: -f5- "$gid" | tr -d :
done
"""
PARTITIONS = "/etc/opensm/partitions.conf"
SCRIPT_S = 60   # seconds in which the fabric must accept a script of faults


def name_nodes(lab):
    """Gives the nodes their names in the lab file."""
    if lines := "\n".join(f"{vm.number} {vm.name}" for vm in lab.vms
                          if vm.name != f"node{vm.number}"):
        lab.sh_all(NAMES.replace("{}", lines), 30 * lab.slow, "its name could not be set")


def owned_by_root(info):
    """Makes root the owner of a member of a tar."""
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


def archive(files, out):
    """Writes a tar of the files for one node to an open file."""
    with tarfile.open(fileobj=out, mode="w") as tar:
        for f in files:
            to = f.to.lstrip("/")
            if f.source is not None:
                tar.add(os.path.realpath(f.source), to, filter=owned_by_root)
                continue
            data, info = f.text.encode(), tarfile.TarInfo(to)
            info.size, info.mode = len(data), 0o755 if f.executable else 0o644
            tar.addfile(info, io.BytesIO(data))
    out.seek(0)


def copy_files(lab):
    """Copies the files of the lab file to the nodes."""
    for vm in lab.vms:
        files = [f for f in lab.opt.files if f.on is None or vm.k in f.on]
        if not files:
            continue
        with tempfile.TemporaryFile() as out:
            try:
                archive(files, out)
            except OSError as e:
                # some errors have no strerror or no file name
                what = f"{e.filename}: " if e.filename else ""
                raise LabError(f"{files[0].where}: files: {what}{e.strerror or e}") from None
            status = lab.sh(vm, "tar -x -C / --no-overwrite-dir", 120 * lab.slow, out.fileno())
        if status:
            raise LabError(f"{files[0].where}: {vm.name}: the files could not be written "
                           f"(status {status})")


def partitions_text(partitions, guids):
    """The text of OpenSM's partitions.conf; guids: {node's number: its PortGUIDs}."""
    lines = []
    if all(p.pkey != DEFAULT_PKEY for p in partitions):
        lines.append(f"Default={DEFAULT_PKEY:#x},ipoib:ALL=full;")
    for p in partitions:
        members = [f"{who}={kind}" for node, kind in p.members
                   for who in (guids[node] if isinstance(node, int) else [node])]
        flags = (",ipoib" if p.ipoib else "") + (f",sl={p.sl}" if p.sl is not None else "")
        # OpenSM limits the length of a line, so each line has at most 32 members
        lines += [f"{p.name}={p.pkey:#x}{flags}:{','.join(members[i:i + 32])};"
                  for i in range(0, len(members), 32)]
    return "\n".join(lines) + "\n"


def write_partitions(lab):
    """Writes the partitions of the file for OpenSM on node 1. The drivers must be loaded."""
    if not lab.opt.partitions:
        return
    guids = {}
    for k in sorted({k for p in lab.opt.partitions for k, _ in p.members if isinstance(k, int)}):
        status, text = lab.capture(k, GUIDS, 30 * lab.slow)
        guids[k] = [f"0x{word}" for word in text.split()]
        if status or not all(re.fullmatch(r"0x[\da-f]{16}", g) for g in guids[k]):
            raise LabError(f"{lab.vms[k - 1].name}: its PortGUIDs could not be read: "
                           f"{text.strip()}")
    text = partitions_text(lab.opt.partitions, guids)
    if status := lab.sh(lab.vms[0], f"cat >{PARTITIONS} <<'END'\n{text}END\n", 30 * lab.slow):
        raise LabError(f"OpenSM's partitions could not be written (status {status})")


def play_faults(lab):
    """Passes the script of faults to the fabric."""
    if not lab.opt.faults:
        return
    try:
        done = subprocess.run([paths.FABRIC, "script", "-", "--control", f"{lab.dir}/control"],
                              input=lab.opt.faults.text.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=SCRIPT_S)
    except subprocess.TimeoutExpired:
        raise LabError(f"{lab.opt.faults.where(1)}: the fabric has not accepted the script of "
                       f"faults within {SCRIPT_S} s") from None
    if done.returncode:
        raise LabError(re.sub(r"^-:(\d+):", lambda m: lab.opt.faults.where(int(m[1])) + ":",
                              done.stdout.decode(errors="replace").strip(), flags=re.M))


def shell(text):
    """The argv of a shell that runs a command line."""
    return ["/bin/sh", "-c", text]


def command_text(run):
    """A command in one line of at most 60 characters."""
    text = " ".join((run if isinstance(run, str) else " ".join(run)).split())
    return text if len(text) <= 60 else text[:57] + "..."


def run_commands(lab, commands, timeout):
    """Runs commands one after the other until one fails; returns 0, or an exit status.

    It is the status of the command that failed, or 1 if 0 was not an expected status. timeout is
    for commands without one of their own.
    """
    for c in commands:
        argv = shell(c.run) if isinstance(c.run, str) else c.run
        status = lab.wrong_status(argv, c.timeout or timeout, c.on, c.expect)
        if status is not None:
            say(f"{c.where}: '{command_text(c.run)}' ends with status {status}; expected is "
                f"{' or '.join(map(str, c.expect))}")
            return status or 1
    return 0


def run_job(lab, timeout):
    """Runs 'commands', then 'after' of the file; returns the exit status."""
    status = run_commands(lab, lab.opt.commands, timeout)
    last = run_commands(lab, lab.opt.after, timeout)
    return status or last
