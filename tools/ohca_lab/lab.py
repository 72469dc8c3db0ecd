# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab: the fabric, the management network and the virtual machines."""
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from . import attach, clock, image, job, join, move, paths, places
from .channel import Channel, GuestGone, Timeout, keeper
from .vm import MOUNT_SHARE, VM, choose_accelerator, of_node, spawn, stop
from .words import LabError, say, write

MAX_LINE = 1 << 20  # bytes of output without the end of a line that are kept in memory
COMMAND_S = 600     # seconds that a command may run without --timeout
# The fabric runs for microseconds at a time, between virtual CPUs that may spin for milliseconds.
FABRIC_NICE = -10
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Run in every node before COMMAND: the driver and the user interfaces.
SETUP_OHCA = """
modprobe ohca || exit 1
modprobe -aq ib_umad ib_uverbs rdma_ucm ib_ipoib
n=0
until there=$(ls -A /sys/class/infiniband 2>/dev/null | wc -l) && [ "$there" -ge $HCAS ]; do
	n=$((n + 1)); [ $n -lt 100 ] ||
		{ echo "$there of $HCAS verbs devices appeared" >&2; exit 1; }
	sleep 0.05
done
"""
# OpenSM at the first port of the first adapter: it would take any that is up first.
OPENSM = """
guid=$(cut -d: -f5- /sys/class/infiniband/ohca_0/ports/1/gids/0 | tr -d :) &&
exec opensm -B -g 0x$guid -f /var/log/opensm.log {} >/dev/null
"""
# The same machines without our device: RoCE in software over the management network.
SETUP_RXE = """
modprobe rdma_rxe && modprobe -aq ib_uverbs ib_umad rdma_ucm &&
rdma link add rxe0 type rxe netdev eth0
"""
ACTIVE = """
deadline=$(($(cut -d. -f1 /proc/uptime) + WAIT))
while :; do
	bad=
	for s in /sys/class/infiniband/*/ports/*/state; do
		read -r state <"$s"
		[ "$state" = "4: ACTIVE" ] || bad="${s#/sys/class/infiniband/} $state"
	done
	[ -n "$bad" ] || break
	[ "$(cut -d. -f1 /proc/uptime)" -lt $deadline ] || { echo "not ACTIVE: $bad" >&2; exit 1; }
	sleep 0.05
done
for i in /sys/class/net/ib*; do
	[ -e "$i" ] || continue
	until [ "$(cat "$i/carrier" 2>/dev/null)" = 1 ]; do
		[ "$(cut -d. -f1 /proc/uptime)" -lt $deadline ] ||
			{ echo "${i##*/}: no carrier" >&2; exit 1; }
		sleep 0.05
	done
done
"""


def how(status):
    """The meaning of a part's exit status, as the end of a sentence."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return "has ended" + (f" with status {status}" if status else
                          "; a machine also ends when it panics, reboots or powers off")


def labs():
    """The names of all labs with a directory: they are up, starting, or were killed."""
    return sorted(n for n in os.listdir(paths.runtime()) if not n.startswith("."))


@contextlib.contextmanager
def alone():
    """Holds the lock under which launchers make and remove labs: a new lab has no lock yet."""
    with open(os.path.join(paths.runtime(), ".lock"), "wb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def sweep():
    """Removes the directories of labs whose launcher was killed."""
    with alone():
        _sweep()


def _sweep():
    base = paths.runtime()
    for name in labs():
        d = os.path.join(base, name)
        try:
            with open(os.path.join(d, "lock"), "rb") as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(d, ignore_errors=True)
        except FileNotFoundError:
            # its launcher was killed before it had made the lock, or while it removed the directory
            shutil.rmtree(d, ignore_errors=True)
        except (BlockingIOError, NotADirectoryError):
            pass


def node_dir(name, k):
    """The directory of node k of the running lab called name."""
    return os.path.join(paths.runtime(), name, f"n{k}")


def command_argv(command):
    """The argv of a command: one word is a shell's command line, more are a program's argv."""
    return job.shell(command[0]) if len(command) == 1 else list(command)


def environment(k, nodes):
    """The environment of a command on node k."""
    return {"OHCA_NODE": str(k), "OHCA_NODES": str(nodes), "HOME": "/root", "USER": "root",
            "PATH": PATH, "LANG": "C.UTF-8", "TERM": os.environ.get("TERM", "dumb")}


def environment_of(state, node):
    """The same for a node of a running lab, from its state; node counts from 1."""
    return environment(state["first"] + node - 1, state["nodes"])


class Lab:
    """One lab. It ends with the process that made it."""
    MACHINE = VM
    first = 1       # the number of its first node
    images_kept = False     # whether nodes write to their disk images

    def __init__(self, name, opt):
        self.name, self.opt, self.first = name, opt, opt.number or self.first
        self.dir = os.path.join(paths.runtime(), name)
        self.helpers, self.vms, self.clocks = [], [], {}
        self.lock = None
        self.ending = False
        self.print_lock = threading.Lock()
        self.images = image.of_nodes(opt)
        self._check_parts()
        self.places = self._places()
        self.accel, self.reason = choose_accelerator(
            opt.accel, qemu=paths.qemu(attach=opt.attach))
        self.tsc_khz = clock.tsc_khz() if self.accel == "tcg" else None
        self.slow = (4 if opt.kernel == "debug" else 1) * (1 + opt.nodes / 4)

    def _check_parts(self):
        opt = self.opt
        need = {paths.HUB: "lab"}
        if opt.fabric == "ohca":
            need[paths.FABRIC] = "lab"
            if opt.attach == "vfio-user":
                need[paths.VFIO_USER] = "lab ATTACH=vfio-user"
        for guest in self.guests():
            need[paths.qemu_program(paths.qemu(guest.machine, opt.attach))] = (
                guest.target() if guest.machine != "x86_64" else
                "lab ATTACH=vfio-user" if opt.attach == "vfio-user" else f"qemu QEMU={paths.QEMU}")
            need[guest.vmlinux] = guest.target()
            if opt.fabric == "ohca":
                need[guest.layer] = guest.target()
            if opt.kernel == "debug":
                need.update({paths.VMLINUX_DEBUG: "debug-layer", guest.layer_debug: "debug-layer"})
        need.update(image.parts() if any(self.images) else {})
        for path, target in need.items():
            if not os.path.exists(path):
                raise LabError(f"{path} is missing: {paths.remedy(target)}")
        if opt.share and not os.path.isdir(opt.share):
            raise LabError(f"--share: {opt.share} is not a directory")
        try:
            if opt.log:
                os.makedirs(opt.log, exist_ok=True)
        except OSError as e:
            raise LabError(f"--log: {opt.log} cannot be made: {e.strerror}") from None
        if opt.log and not os.access(opt.log, os.W_OK):
            raise LabError(f"--log: {opt.log} cannot be written: give another directory")
        if opt.share and "," in opt.share:
            raise LabError("--share: a comma in the path is not supported")

    def guest(self, k):
        """The guest of node k."""
        return paths.Guest(of_node(self.opt.guest, k))

    def guests(self):
        """The guests of all nodes that do not boot images, each one once."""
        return [paths.Guest(name) for name in dict.fromkeys(
            of_node(self.opt.guest, k) for k, own in enumerate(self.images, 1) if not own)]

    def machine(self, k):
        """An object for node k; it does not start the node."""
        return (image.ImageVM if self.images[k - 1] else self.MACHINE)(self, k)

    def environment(self, k):
        """The environment of a command on node k."""
        return environment(self.first + k - 1, self.opt.nodes)

    def mgmt_role(self, k):
        """QEMU's options for the management network: node 1 of two listens, else the hub does."""
        return "server=on" if (k, self.opt.nodes) == (1, 2) else "server=off,reconnect-ms=50"

    def _places(self):
        """The adapters of each node."""
        if self.opt.fabric != "ohca":
            return [[]] * self.opt.nodes
        try:
            return places.choose(self.opt)
        except places.PlaceError as e:
            raise LabError(str(e)) from None

    def _layers(self, guest):
        layers = [guest.base]
        if os.path.exists(guest.layer):
            layers.append(guest.layer)
        if self.opt.package and not paths.CHECKOUT:
            raise LabError("--package works in a checkout of OpenHCA only: 'make lab' there makes "
                           "the root into which apt installs")
        if self.opt.package:
            made = subprocess.run([os.path.join(paths.TOP, "tools", "mkpackages"), guest.name,
                                   *self.opt.package], stdout=subprocess.PIPE, check=False)
            if made.returncode:
                raise LabError("--package: the packages could not be installed")
            layers.append(made.stdout.decode().strip())
        return layers

    def start(self):
        """Boots everything and returns when every node is ready for commands."""
        begin = time.monotonic()
        with alone():
            _sweep()
            try:
                os.mkdir(self.dir, mode=0o700)
            except FileExistsError:
                raise LabError(f"a lab named {self.name} is already up: end it by 'ohca-lab down "
                               f"--name {self.name}', or give another --name") from None
            self.lock = open(os.path.join(self.dir, "lock"), "wb")
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        say(f"{self.accel.upper()}: {self.reason}")
        self.layers = {guest.name: self._layers(guest) for guest in self.guests()}
        if self.opt.nodes != 2:
            self._helper([paths.HUB, f"{self.dir}/mgmt"], "hub")
        if self.opt.fabric == "ohca":
            self.start_fabric()
        self.vms = [self.machine(k + 1) for k in range(self.opt.nodes)]
        for vm in self.vms:
            for name, argv in vm.processes().items():
                self._helper(argv, "vfio-user", name)
            vm.start()
        self._write_state()
        self.each(lambda vm: Channel(vm.dir, time.monotonic() + vm.BOOT_S * self.slow,
                                     vm.alive).close(), "did not boot")
        self.clocks = {vm.k: clock.Clock() for vm in self.vms}
        self.read_clocks()
        say(f"{self.opt.nodes} nodes up in {time.monotonic() - begin:.1f} s")
        image.ready(self)
        job.name_nodes(self)
        job.copy_files(self)
        self._fabric()
        self.check_clocks()
        if job.run_commands(self, self.opt.before, COMMAND_S):
            raise LabError("a command of 'before' has failed")
        job.play_faults(self)

    def read_clocks(self):
        """Adds a reading of the clock of each node whose machine runs."""
        def get(k):
            status, text = self.capture(k, "date +%s%N", 20 * self.slow)
            if status:
                raise GuestGone(text)
            try:
                return int(text)
            except ValueError:
                raise LabError(f"node{self.first + k - 1}: its 'date +%s%N' printed no number: "
                               f"{text[:100].strip()!r}") from None

        for k, guest in self.clocks.items():
            if self.vms[k - 1].alive():
                guest.read(lambda k=k: get(k))

    def check_clocks(self):
        """Raises LabError if a node's clock certainly runs at another rate than the host's."""
        self.read_clocks()
        for k, guest in self.clocks.items():
            if wrong := guest.verdict():
                raise LabError(f"node{self.first + k - 1}: {wrong}")

    def stood_still(self, k):
        """Discards the readings of a node's clock, after its machine was stopped for a while."""
        self.clocks[k] = clock.Clock()

    def migrate(self, k):
        """Moves a node to another QEMU. Its programs continue, except for commands of ohca-lab."""
        vm = self.vms[k - 1]
        attach.no_migration(self.opt, vm)
        if not vm.process:
            raise LabError(f"libvirt runs {vm.name}: use 'virsh migrate'")
        if vm.image:
            raise LabError(f"{vm.name} does not migrate: it boots an image, and another QEMU "
                           "cannot read what it has written to its disk")
        # QEMU does not move a machine that has a directory of the host mounted
        status, said = self.capture(k, "umount /share") if self.opt.share else (0, "")
        if status:
            raise LabError(f"{vm.name} does not migrate: /share cannot be unmounted: end the "
                           f"programs there that use it ({said.strip() or status})")
        wrong = []
        try:
            told = move.migrate(vm)
        except (LabError, OSError) as e:
            wrong = [str(e)]
        finally:
            self.stood_still(k)
        if self.opt.share:
            status, said = self.capture(k, MOUNT_SHARE)
            if status:
                wrong += [f"{vm.name} could not mount /share again: {said.strip() or status}"]
        self._write_state()
        if wrong:
            raise LabError("; ".join(wrong))
        return told

    def start_fabric(self):
        """Starts ohca-fabric."""
        self._helper([paths.FABRIC, "serve", *places.fabric_options(self.opt),
                      "--listen", f"{self.dir}/fabric", "--control", f"{self.dir}/control",
                      *(x for p in self.opt.trace for x in ("--trace", p)),
                      *join.serve(self.opt), *self.opt.serve],
                     "fabric", nice=FABRIC_NICE)
        if self.opt.listen:
            say(f"labs of other hosts join by '--join {join.address(self)}'")

    def stop_fabric(self):
        """Kills ohca-fabric; the nodes' adapters lose their links, or are removed."""
        fabric = next(p for p in self.helpers if p.what == "fabric")
        stop(fabric)
        self.helpers.remove(fabric)

    def _helper(self, argv, name, what=None, nice=0):
        """Starts a program and waits until its log says that it is ready.

        name is the program's, what that of this process if there are several. A socket's file
        exists before the program listens, so it does not show readiness.
        """
        what = what or name
        path = os.path.join(self.dir, f"{what}.log")
        with open(path, "ab") as log, open(path, "rb") as written:
            written.seek(0, os.SEEK_END)
            process = spawn(argv, nice, stdout=log, stderr=subprocess.STDOUT)
            process.what, said = what, b""
            self.helpers.append(process)
            for _ in range(3000):
                ended = process.poll() is not None
                said += written.read()
                if ended:
                    raise LabError(f"ohca-{what} ended: "
                                   f"{said[-500:].decode(errors='replace').strip()}")
                if f"ohca-{name}: ready".encode() in said:
                    return
                time.sleep(0.01)
        raise LabError(f"ohca-{what} is not ready after 30 s: {path} has its log")

    def _fabric(self):
        opt = self.opt
        if opt.fabric == "rxe":
            self.sh_all(SETUP_RXE, 30 * self.slow, "RoCE (rxe) could not be set up")
        if opt.fabric == "ohca" and not opt.no_driver:
            self.bring_up()

    def bring_up(self):
        """Loads the driver on all nodes, starts OpenSM and waits for ACTIVE ports."""
        image.install(self)
        opt, begin = self.opt, time.monotonic()
        self.sh_all(lambda vm: f"HCAS={len(self.places[vm.k - 1])}\n{SETUP_OHCA}", 30 * self.slow,
                    "the driver could not be set up")
        if opt.no_sm and not opt.no_driver:
            return
        wait = int(30 * self.slow)
        if opt.join:
            wait += join.JOIN_S
        else:
            job.write_partitions(self)
            self.start_opensm()
        join.active(self, lambda: self.sh_all(f"WAIT={wait}\n{ACTIVE}", wait + 30,
                                              "its ports did not become ACTIVE"))
        join.routes(self)
        say(f"all ports ACTIVE, IPoIB up, {time.monotonic() - begin:.1f} s after boot")

    def start_opensm(self):
        """Starts OpenSM on node 1."""
        words = shlex.join(x for arg in self.opt.opensm for x in arg.split(" "))
        status = self.sh(self.vms[0], OPENSM.replace("{}", words), 30 * self.slow)
        if status:
            raise LabError(f"{self.vms[0].name}: OpenSM did not start (status {status})")

    def _write_state(self):
        state = {"pid": os.getpid(), "nodes": self.opt.nodes, "first": self.first,
                 "accel": self.accel,
                 "fabric": self.opt.fabric, "kernel": self.opt.kernel,
                 "names": [vm.name for vm in self.vms],
                 "vms": [vm.process and vm.process.pid for vm in self.vms],
                 "guests": [vm.guest.name for vm in self.vms], "images": self.images,
                 "places": [[h.name for h in hcas] for hcas in self.places],
                 "topology": self.opt.topology, "numa": self.opt.numa,
                 "helpers": {p.what: p.pid for p in self.helpers}}
        with open(os.path.join(self.dir, "state.new"), "w", encoding="ascii") as f:
            json.dump(state, f)
        os.rename(os.path.join(self.dir, "state.new"), os.path.join(self.dir, "state"))

    def each(self, work, what):
        """Runs work(vm) for all nodes at once; the first failure ends the lab."""
        failed = []

        def one(vm):
            try:
                work(vm)
            except Timeout:
                failed.append((vm, f"{what} in time"))
            except (GuestGone, LabError, OSError) as e:
                failed.append((vm, str(e) or what))
            except Exception as e:  # pylint: disable=broad-exception-caught
                # without a record, the node would count as done
                failed.append((vm, f"{what}: {e!r}"))

        threads = [threading.Thread(target=one, args=(vm,), daemon=True) for vm in self.vms]
        for t in threads:
            t.start()
        for t in threads:
            while t.is_alive():
                t.join(0.1)
        if failed:
            vm, why = failed[0]
            words = "\n".join(f"  {line}" for line in vm.last_words())
            raise LabError(f"{vm.name}: {why}\n{words}")

    def capture(self, k, script, timeout=60):
        """Runs a shell script on node k; returns its status and all its output as text."""
        vm = self.vms[k - 1]
        deadline = time.monotonic() + timeout
        parts = []
        try:
            ch = Channel(vm.dir, deadline, vm.alive)
        except Timeout:
            return 124, "the node does not answer"
        except GuestGone as e:
            return 255, str(e)
        try:
            status = ch.run(["/bin/sh", "-c", script], self.environment(k),
                            keeper(parts), deadline)
        except Timeout:
            status = 124
        except GuestGone as e:
            status = 255
            parts.append(str(e).encode())
        finally:
            ch.close()
        return status, b"".join(parts).decode(errors="replace")

    def pair(self, server, client, port=None, timeout=60, on=(1, 2)):
        """Runs a server on one node and, once it is ready, its client on another.

        Ready means that the server listens: at a TCP port, or with "cm" at the
        connection manager. Without either it gets a second. Returns the worse status
        and both outputs.
        """
        result = {}
        name = server.split()[0].rpartition("/")[2][:15]

        def serve():
            result["s"] = self.capture(on[0], server, timeout)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        if port == "cm":
            ready = f"rdma resource show cm_id | grep -q 'LISTEN.* comm {name} '"
        elif port:
            ready = "grep -qi ':%04X 0.*:0000 0A' /proc/net/tcp /proc/net/tcp6" % port
        else:
            ready = None
            time.sleep(1)
        end = time.monotonic() + timeout
        while ready and thread.is_alive() and time.monotonic() < end:
            status, _ = self.capture(on[0], f"n=0; until {ready}; do n=$((n + 1)); "
                                     "[ $n -lt 50 ] || exit 1; sleep 0.02; done", timeout)
            if not status:
                break
        c_status, c_out = self.capture(on[1], client, timeout)
        thread.join(timeout + 5 if not c_status else 3)
        if thread.is_alive():
            self.capture(on[0], f"pkill -KILL -x {name}", 10)
            thread.join(10)
        s_status, s_out = result.get("s", (124, ""))
        return c_status or s_status, s_out, c_out

    def sh(self, vm, script, timeout, stdin=None):
        """Runs a shell script in one node and prints its output; returns its status.

        stdin is a descriptor that the script reads, or None.
        """
        deadline = time.monotonic() + timeout
        ch = Channel(vm.dir, deadline, vm.alive)
        try:
            out = self.printer(vm)
            status = ch.run(["/bin/sh", "-c", script],
                            self.environment(vm.k), out, deadline, stdin)
            out(False, None)
            return status
        finally:
            ch.close()

    def sh_all(self, script, timeout, what):
        """Runs a shell script, or script(vm), in all nodes at once; any failure ends the lab."""

        def one(vm):
            status = self.sh(vm, script(vm) if callable(script) else script, timeout)
            if status:
                raise LabError(f"{what} (status {status})")

        self.each(one, what)

    def printer(self, vm):
        """A function for Channel.run that prints whole lines after the node's name.

        Lines that are longer than MAX_LINE are cut.
        """
        parts = {False: b"", True: b""}
        prefix = f"{vm.name}: ".encode()

        def out(is_err, data):
            streams = (False, True) if data is None else (is_err,)
            with self.print_lock:
                for e in streams:
                    lines = (parts[e] + (data or b"")).split(b"\n")
                    parts[e] = b"" if data is None or len(lines[-1]) > MAX_LINE else lines.pop()
                    write(sys.stderr.buffer if e else sys.stdout.buffer,
                          b"".join(prefix + line + b"\n" for line in lines
                                   if data is not None or line))

        return out

    def run(self, command, timeout, grace=10):
        """Runs a command on every node at once; returns the first nonzero status."""
        return self.wrong_status(command_argv(command), timeout, grace=grace) or 0

    def wrong_status(self, argv, timeout, on=None, expected=(0,), grace=10):
        """Runs a program with its arguments on nodes, by their numbers, or on all, at once.

        Returns the first status that is not one of the expected, or None. After a failure the
        other nodes get grace seconds to finish. If a node ends, its status is 255; if the program
        does not finish in time, it is 124. Both count as failures, whatever is expected.
        """
        begin = time.monotonic()
        limit = [begin + timeout]
        vms = [vm for vm in self.vms if on is None or vm.k in on]
        # for each node that has finished: None, or its status if that is not expected
        statuses = []
        changed = threading.Condition()
        channels = {}

        def status_of(vm, out):
            status = 255
            try:
                ch = channels[vm.k] = Channel(vm.dir, limit[0], vm.alive)
                status = ch.run(argv, self.environment(vm.k), out, begin + timeout)
                status = None if status in expected else status
            except Timeout:
                status = 124
                say(f"{vm.name}: the command did not end within {timeout} s")
            except (GuestGone, OSError):
                if self.ending:
                    return status
                say(f"{vm.name}: the virtual machine ended")
                for line in vm.last_words():
                    say(f"{vm.name}: {line}")
            out(False, None)
            return status

        def one(vm):
            try:
                status = status_of(vm, self.printer(vm))
            except LabError as e:
                status = 1
                say(f"{vm.name}: {e}")
            with changed:
                statuses.append(status)
                changed.notify()

        for vm in vms:
            threading.Thread(target=one, args=(vm,), daemon=True).start()
        with changed:
            while len(statuses) < len(vms):
                changed.wait(0.2)
                failed = any(s is not None for s in statuses)
                if failed:
                    limit[0] = min(limit[0], time.monotonic() + grace)
                if time.monotonic() > limit[0] + 2:
                    missing = len(vms) - len(statuses)
                    say(f"{missing} node(s) did not finish" +
                        (f" within {grace} s after another had failed" if failed else " in time"))
                    statuses.append(124)
                    break
            return next((s for s in statuses if s is not None), None)

    def wait(self, ready=lambda: None):
        """Waits until all machines have ended; calls ready() when it can move nodes on request."""
        with move.Requests(self) as requests:
            ready()
            while any(vm.alive() for vm in self.vms):
                requests.answer(1)

    def save_logs(self, where):
        """Copies consoles, kernel messages and logs of the parts to a directory."""
        os.makedirs(where, exist_ok=True)
        for vm in self.vms:
            for name in ("console.log", "qemu.log"):
                src = os.path.join(vm.dir, name)
                if os.path.exists(src):
                    shutil.copy(src, os.path.join(where, f"{vm.name}-{name}"))
            if vm.alive():
                self._save_output(vm, ["dmesg"], os.path.join(where, f"{vm.name}-dmesg"))
        for p in self.helpers:
            shutil.copy(os.path.join(self.dir, f"{p.what}.log"), where)
        if self.vms and self.vms[0].alive() and self.opt.fabric == "ohca" and not (
                self.opt.no_sm or self.opt.join):
            self._save_output(self.vms[0], ["cat", "/var/log/opensm.log"],
                              os.path.join(where, "opensm.log"))

    def parts(self):
        """The processes of the lab by their names."""
        return {**{vm.name: vm.process for vm in self.vms if vm.process},
                **{p.what: p for p in self.helpers}}

    def logs(self):
        """{name: path of the log} of each part, also of those that have ended."""
        files = {vm.name: os.path.join(vm.dir, "qemu.log") for vm in self.vms}
        for name in sorted(os.listdir(self.dir)):
            if name.endswith(".log"):
                files[name[:-4]] = os.path.join(self.dir, name)
        return files

    def ended(self):
        """{name: how it has ended} of each part that does not run any more."""
        return {name: how(p.returncode) for name, p in self.parts().items()
                if p.poll() is not None}

    def end(self, patience):
        """Sends SIGTERM to all parts, first to the machines, and waits patience seconds for each.

        Returns (name, what is wrong, "crash" or "time") of each part that had ended before, or
        did not end correctly.
        """
        self.ending = True
        wrong = [(name, what, "crash") for name, what in self.ended().items()]
        for names in ([vm.name for vm in self.vms], [p.what for p in self.helpers]):
            asked = {n: p for n, p in self.parts().items() if n in names and p.poll() is None}
            for p in asked.values():
                p.terminate()
            for name, p in asked.items():
                try:
                    status = p.wait(patience)
                except subprocess.TimeoutExpired:
                    wrong.append((name, f"has not ended within {patience} s", "time"))
                    continue
                # the hub has nothing to clean up
                if status and (name, status) != ("hub", -signal.SIGTERM):
                    wrong.append((name, how(status), "crash"))
        return wrong

    def _save_output(self, vm, argv, path):
        deadline = time.monotonic() + 10
        try:
            ch = Channel(vm.dir, deadline, vm.alive)
            with open(path, "wb") as f:
                ch.run(argv, self.environment(vm.k), lambda e, d: f.write(d), deadline)
            ch.close()
        except (GuestGone, Timeout, OSError):
            pass

    def teardown(self):
        """Ends every process of the lab and removes its directory. Never fails."""
        self.ending = True
        for p in [vm.process for vm in self.vms] + self.helpers:
            stop(p)
        if self.lock:
            # Alone: a directory without a lock counts as one that a killed launcher left.
            with contextlib.suppress(OSError), alone():
                shutil.rmtree(self.dir, ignore_errors=True)
            self.lock.close()
            self.lock = None


def finish(lab, opt):
    """Saves the logs that were asked for, then ends the lab."""
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    try:
        if opt.log and lab.lock:
            lab.save_logs(opt.log)
    except OSError as e:
        say(f"--log: {e}")
    finally:
        lab.teardown()


def connect_console(name, k):
    """The serial console of a node of a running lab."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.connect(os.path.join(node_dir(name, k), "console"))
    return s
