# SPDX-License-Identifier: GPL-2.0-or-later
"""A node that goes on in another QEMU, without a stop that anybody but its clock notices."""
import copy
import os
import select
import shutil
import socket
import time

from . import paths
from .qmp import QmpError, qmp
from .vm import stop
from .words import LabError

MIGRATE_S = 120     # how long it may take


class Requests:
    """What 'ohca-lab migrate' asks the process for that has started the lab, and its nodes."""

    def __init__(self, lab):
        self.lab = lab
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(os.path.join(lab.dir, "launcher"))
        self.socket.listen()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def answer(self, seconds):
        """Waits so long for one, and does it."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return
        peer, _ = self.socket.accept()
        with peer:
            try:
                peer.settimeout(5)
                node = int(peer.recv(16))
                said = f"pause {self.lab.migrate(node)['downtime']}"
            except (LabError, OSError, ValueError) as e:
                said = str(e)
            try:
                peer.sendall(said.encode())
            except OSError:
                pass


def ask(name, node):
    """Has a node of the running lab called name moved; returns for how many ms it stood still."""
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(paths.runtime(), name, "launcher"))
            s.sendall(str(node).encode())
            said = s.makefile(encoding="utf-8").read()
    except OSError as e:
        raise LabError(f"lab {name} does not answer: {e}") from None
    if not said.startswith("pause "):
        raise LabError(said or f"lab {name} has ended")
    return int(said.split()[1])


def _say(vm, command, **arguments):
    try:
        return qmp(os.path.join(vm.dir, "qmp"), command, **arguments)
    except (QmpError, OSError, ValueError) as e:
        raise LabError(f"{vm.name}: {e}") from None


def _incoming(vm, there, uri, deadline):
    """Has the other QEMU wait for the state, as soon as its monitor listens.

    The file of the monitor's socket does not tell: it is there before QEMU listens.
    """
    while True:
        try:
            return qmp(os.path.join(there.dir, "qmp"), "migrate-incoming", uri=uri)
        except (ConnectionRefusedError, FileNotFoundError):
            pass
        except (QmpError, OSError, ValueError) as e:
            raise LabError(f"{vm.name}: {e}") from None
        if not there.alive() or time.monotonic() > deadline:
            raise LabError(f"{vm.name}: {' '.join(there.last_words(3))}")
        time.sleep(0.02)


def _wait(vm, there, deadline):
    """Until the machine runs at the other QEMU."""
    while True:
        at = _say(vm, "query-migrate")
        if at.get("status") in ("failed", "cancelled"):
            raise LabError(f"{vm.name} does not migrate: {at.get('error-desc', at['status'])}")
        if at.get("status") == "completed" and _say(there, "query-status")["running"]:
            return at
        if not there.alive():
            raise LabError(f"{vm.name} does not migrate: {' '.join(there.last_words(3))}")
        if time.monotonic() > deadline:
            raise LabError(f"{vm.name} does not migrate within {MIGRATE_S} s")
        time.sleep(0.02)


def _back(vm, deadline):
    """Has the machine go on at the first QEMU, once that has given the other one up."""
    status = "finish-migrate"
    try:
        while status == "finish-migrate" and time.monotonic() < deadline:
            time.sleep(0.02)
            status = _say(vm, "query-status")["status"]
        if status == "postmigrate":
            _say(vm, "cont")
    except LabError:
        # it has ended: why it does not migrate is what matters
        pass


def migrate(vm):
    """Moves a node of a lab; returns what QEMU says of it. After a failure it is where it was."""
    there = copy.copy(vm)
    there.process = there.stderr = None
    there.dir, there.incoming = f"{vm.dir}.next", ("-incoming", "defer")
    shutil.rmtree(there.dir, ignore_errors=True)
    os.makedirs(there.dir, mode=0o700)
    for name in ("console.log", "qemu.log"):
        shutil.copy(os.path.join(vm.dir, name), there.dir)
    deadline = time.monotonic() + MIGRATE_S
    try:
        there.start()
        uri = f"unix:{there.dir}/state"
        _incoming(vm, there, uri, deadline)
        _say(vm, "migrate-set-parameters", **{"max-bandwidth": 1 << 40, "downtime-limit": 1000})
        _say(vm, "migrate", uri=uri)
        told = _wait(vm, there, deadline)
    except BaseException:
        # its HCA is that of the first one, as long as that has not ended
        stop(there.process)
        _back(vm, deadline)
        raise
    stop(vm.process)
    # what has the node's sockets and logs open does not mind
    shutil.rmtree(vm.dir, ignore_errors=True)
    os.rename(there.dir, vm.dir)
    vm.process, vm.stderr = there.process, there.stderr
    return told
