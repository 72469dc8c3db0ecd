# SPDX-License-Identifier: GPL-2.0-or-later
"""Live migration of a node to another QEMU on this host."""
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
BACK_S = 30         # how long the first QEMU may take to end a migration that has failed


class Requests:
    """The socket by which 'ohca-lab migrate' asks the launcher, which started the lab."""

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
        """Waits for a request for that many seconds, and handles it."""
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
            except Exception as e:  # pylint: disable=broad-exception-caught
                # a wrong request or answer of QEMU must not end the lab
                said = repr(e)
            try:
                peer.sendall(said.encode())
            except OSError:
                pass


def ask(name, node):
    """Asks the launcher of the lab called name to move a node; returns its downtime in ms."""
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(paths.runtime(), name, "launcher"))
            s.sendall(str(node).encode())
            said = s.makefile(encoding="utf-8").read()
    except FileNotFoundError:
        raise LabError(f"lab {name} moves no nodes: 'run' has started it, or it is still starting: "
                       "use 'up' or 'node'") from None
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
    """Makes the other QEMU wait for the state, as soon as its monitor listens.

    The file of the monitor's socket exists before QEMU listens, so this tries again until then.
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
    """Waits until the machine runs in the other QEMU."""
    while True:
        at = _say(vm, "query-migrate")
        if at.get("status") in ("failed", "cancelled"):
            raise LabError(f"{vm.name} does not migrate: {at.get('error-desc', at['status'])}")
        if at.get("status") == "completed" and _say(there, "query-status")["running"]:
            return at
        if not there.alive():
            raise LabError(f"{vm.name} does not migrate: {' '.join(there.last_words(3))}")
        if time.monotonic() > deadline:
            raise LabError(f"{vm.name} has not migrated within {MIGRATE_S} s")
        time.sleep(0.02)


def _back(vm, seconds=BACK_S):
    """Continues the machine in the first QEMU, as soon as that has ended the migration.

    Returns None, or why it does not run any more.
    """
    status, deadline = "finish-migrate", time.monotonic() + seconds
    try:
        while status == "finish-migrate" and time.monotonic() < deadline:
            time.sleep(0.02)
            status = _say(vm, "query-status")["status"]
        if status == "postmigrate":
            _say(vm, "cont")
    except LabError as e:
        return str(e)
    return (f"QEMU has not ended the migration in {seconds} s" if status == "finish-migrate"
            else None)


def migrate(vm):
    """Moves a node; returns QEMU's answer to query-migrate. If it fails, the node stays."""
    there = copy.copy(vm)
    there.process = there.stderr = None
    there.dir, there.incoming = f"{vm.dir}.next", ("-incoming", "defer")
    for left in (there.dir, f"{vm.dir}.old"):
        shutil.rmtree(left, ignore_errors=True)
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
    except BaseException as e:
        # it uses the same HCA, so it must end before the first one continues
        stop(there.process)
        why = _back(vm)
        if why and isinstance(e, LabError):
            raise LabError(f"{e}; now it does not run any more: {why}") from None
        raise
    stop(vm.process)
    vm.process, vm.stderr = there.process, there.stderr
    # Processes that have the node's sockets and logs open can still use them. Others may make locks
    # in the directory until it has another name.
    old = f"{vm.dir}.old"
    os.rename(vm.dir, old)
    os.rename(there.dir, vm.dir)
    shutil.rmtree(old, ignore_errors=True)
    return told
