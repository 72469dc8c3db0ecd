# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line of ohca-lab."""
import argparse
import fcntl
import json
import os
import re
import select
import signal
import struct
import sys
import termios
import time
import traceback
import tty

from . import (attach, course, doctor, gdb, image, job, join, labfile, libvirt, move, paths,
               prepare, traffic)
from .channel import SIZE, Channel, GuestGone, Timeout
from .document import FileError
from .lab import (COMMAND_S, Lab, command_argv, connect_console, environment_of, finish, labs,
                  node_dir, sweep)
from .places import MAX_HCAS
from .vm import numa_node, of_node
from .words import LabError, say, write

MAX_NODES = 64  # as ohca-hub has
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,30}"     # as in lab.schema.json; paths of sockets are short

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)     # that end a lab
LATE = "the node did not answer, or the command did not end, in time"


class Stopped(BaseException):
    """A signal that ends the lab has arrived."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def on_signal(number, _frame):
    """Turns the first signal into an exception; later ones must not stop the teardown."""
    for s in SIGNALS:
        signal.signal(s, signal.SIG_IGN)
    raise Stopped(number)


def catch_signals():
    """Ctrl-C, termination and a closed terminal all tear the lab down."""
    for s in SIGNALS:
        signal.signal(s, on_signal)


def cmd_run(opt):
    """ohca-lab run: boot, run one command on every node, tear down."""
    if not opt.command and not opt.commands:
        raise LabError("run: give a command after --" +
                       (f", or 'commands' in {opt.file}" if opt.file else ""))
    catch_signals()
    lab = Lab(f"r{os.getpid()}", opt)
    try:
        lab.start()
        if opt.gdb:
            say(f"'ohca-lab gdb --name {lab.name} 1' debugs node1's kernel, "
                "with 'fabric' in place of 1 the adapters")
            if sys.stdin.isatty():
                input("ohca-lab: press Enter to start the command ")
        if opt.command:
            return lab.run(opt.command, opt.timeout)
        return job.run_job(lab, opt.timeout)
    finally:
        finish(lab, opt)


def cmd_node(opt):
    """ohca-lab node: one node of another lab's fabric, for a command or until a signal."""
    if not opt.join:
        raise LabError("node: give --join HOST:PORT, the address of a lab ('up --listen')")
    if opt.nodes != 1:
        raise LabError("node: -n must be 1; for several nodes use 'up --join'")
    if opt.commands or opt.after:
        raise LabError("node: it does not run 'commands' and 'after' of a file; 'run --join' does")
    catch_signals()
    lab = Lab(opt.name or f"r{os.getpid()}", opt)
    try:
        lab.start()
        if opt.command:
            return lab.run(opt.command, opt.timeout)
        lab.wait()
        return 1        # its machine has ended
    finally:
        finish(lab, opt)


def cmd_up(opt):  # pylint: disable=inconsistent-return-statements  # the child exits
    """ohca-lab up: boot and stay, in the background."""
    lab = Lab(opt.name, opt)
    rfd, wfd = os.pipe()
    # While the lab starts, a signal for the parent ends the lab, too, also directly after the fork.
    catch_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            os.close(wfd)
            # a signal directly before a call that waits does not end the call
            while not select.select([rfd], [], [], 0.5)[0]:
                pass
            answer = os.read(rfd, 100)
        except Stopped:
            os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            raise
        if answer != b"up":
            os.waitpid(pid, 0)
            return 1
        say(f"lab {opt.name} is up: ohca-lab exec|ssh|console|status|down")
        return 0

    def ready():
        # not earlier: sudo, for --package, asks for its password on this terminal
        os.setsid()
        os.write(wfd, b"up")
        os.close(wfd)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)

    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.close(rfd)
        lab.start()
        lab.wait(ready)
        status = 0
    except Stopped:
        status = 0
    except (LabError, GuestGone) as e:
        say(opt.located(str(e)))
    except Timeout as e:
        say(str(e) or LATE)
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    finally:
        finish(lab, opt)
        os._exit(status)


def cmd_libvirt(opt):
    """ohca-lab libvirt: the fabric of a lab, whose machines libvirt runs."""
    catch_signals()
    lab = libvirt.LibvirtLab(opt.name, opt)
    try:
        lab.start()
        say(f"lab {opt.name} is up: ohca-lab exec|ssh|status; Ctrl-C ends its fabric")
        lab.wait()
    finally:
        finish(lab, opt)


def state_of(name):
    """The contents of a running lab's state file."""
    where = os.path.join(paths.runtime(), name)
    try:
        with open(os.path.join(where, "state"), encoding="ascii") as f:
            return json.load(f)
    except OSError:
        raise LabError(f"lab {name} is starting: try again when 'ohca-lab status' lists its nodes"
                       if os.path.isdir(where) else f"no lab named {name} is up") from None


def number_of(state, node):
    """The index, from 1, of the node with a number or a name; fails if there is no such node."""
    first = state["first"]
    if node in state["names"]:
        return state["names"].index(node) + 1
    if node.isdecimal() and first <= int(node) < first + state["nodes"]:
        return int(node) - first + 1
    names = [n for k, n in enumerate(state["names"], first) if n != f"node{k}"]
    raise LabError(f"there is no node '{node}': use {first} to {first + state['nodes'] - 1}" +
                   (f", or {', '.join(names)}" if names else ""))


def check_own(state, k, instead):
    """Refuses a node that libvirt runs."""
    if not state["vms"][k - 1]:
        raise LabError(f"libvirt runs this node: {instead}")


def copy_out(is_err, data):
    """Passes a guest's output on unchanged."""
    write(sys.stderr.buffer if is_err else sys.stdout.buffer, data)


def cmd_exec(opt):
    """ohca-lab exec NODE COMMAND: output as it is, the command's status."""
    state = state_of(opt.name)
    node = number_of(state, opt.node)
    if not opt.command:
        raise LabError("exec: no command given")
    deadline = time.monotonic() + opt.timeout if opt.timeout else None
    ch = Channel(node_dir(opt.name, node), time.monotonic() + 30)
    use_stdin = opt.stdin or not sys.stdin.isatty() and opt.stdin is not False
    try:
        return ch.run(command_argv(opt.command), environment_of(state, node),
                      copy_out, deadline, 0 if use_stdin else None)
    finally:
        ch.close()


def window():
    """Rows and columns of the terminal."""
    data = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
    return struct.unpack("HHHH", data)[:2]


def cmd_ssh(opt):
    """ohca-lab ssh NODE [COMMAND]: a shell on a terminal in the node."""
    state = state_of(opt.name)
    node = number_of(state, opt.node)
    ch = Channel(node_dir(opt.name, node), time.monotonic() + 30)
    argv = command_argv(opt.command) if opt.command else ["/bin/bash", "-l"]
    env = environment_of(state, node)
    if not sys.stdin.isatty():
        try:
            return ch.run(argv, env, copy_out, None, 0)
        finally:
            ch.close()
    catch_signals()     # so that the terminal gets its settings back
    saved = termios.tcgetattr(0)

    def resized(_number, _frame):
        ch.send(SIZE, struct.pack("<HH", *window()))

    try:
        tty.setraw(0)
        signal.signal(signal.SIGWINCH, resized)
        return ch.run(argv, env, copy_out, None, 0, window())
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
        ch.close()


def cmd_console(opt):
    """ohca-lab console NODE: the serial console; Ctrl-] ends the connection."""
    state = state_of(opt.name)
    node = number_of(state, opt.node)
    check_own(state, node,
              "use 'virsh -c qemu:///session console "
              f"ohca-{opt.name}-{state['names'][node - 1]}'")
    try:
        s = connect_console(opt.name, node)
    except OSError as e:
        raise LabError(f"the console of {state['names'][node - 1]} does not answer: {e.strerror}; "
                       "'ohca-lab status' says whether its machine runs") from None
    catch_signals()     # so that the terminal gets its settings back
    saved = termios.tcgetattr(0) if sys.stdin.isatty() else None
    say("this is the serial console; Ctrl-] ends the connection")
    try:
        if saved:
            tty.setraw(0)
        while True:
            ready, _, _ = select.select([0, s], [], [])
            if s in ready:
                data = s.recv(65536)
                if not data:
                    return 0
                copy_out(False, data)
            if 0 in ready:
                data = os.read(0, 4096)
                if not data or b"\x1d" in data:
                    return 0
                s.sendall(data)
    finally:
        if saved:
            termios.tcsetattr(0, termios.TCSADRAIN, saved)


def cmd_gdb(opt):
    """ohca-lab gdb NODE|fabric: this process becomes gdb."""
    state = state_of(opt.name)
    try:
        if opt.node == "fabric" and "fabric" in state["helpers"]:
            gdb.run([f"attach {state['helpers']['fabric']}"], opt.command)
        node = number_of(state, opt.node)
        if opt.qemu:
            check_own(state, node, "attach gdb to its QEMU yourself")
            commands = gdb.qemu_commands(state["vms"][node - 1])
        else:
            if state["images"][node - 1]:
                raise gdb.GdbError("ohca-lab has no symbols of an image's kernel; --qemu works "
                                   "for all nodes")
            guest = paths.Guest(state["guests"][node - 1])
            commands = gdb.kernel_commands(node_dir(opt.name, node), guest, state["kernel"])
        gdb.run(commands, opt.command)
    except gdb.GdbError as e:
        raise LabError(f"gdb: {e}") from None


def cmd_migrate(opt):
    """ohca-lab migrate NODE: moves the running node to another QEMU."""
    state = state_of(opt.name)
    node = number_of(state, opt.node)
    check_own(state, node, "use 'virsh migrate'")
    say(f"{state['names'][node - 1]} runs in another QEMU; the move stopped it for "
        f"{move.ask(opt.name, node)} ms")
    return 0


def running(pid):
    """Whether a process exists."""
    try:
        os.kill(pid, 0)
        return True
    except OSError:
        return False


def cmd_status(opt):
    """ohca-lab status: the labs that are up and the state of their parts."""
    sweep()
    names = [n for n in labs() if opt.name in (None, n)]
    for name in names:
        try:
            state = state_of(name)
        except LabError:
            print(f"{name}: starting")
            continue
        print(f"{name}: {state['nodes']} nodes, {state['kernel']} kernel, {state['accel']}, "
              f"fabric {state['fabric']}, pid {state['pid']}")
        for k, pid in enumerate(state["vms"], 1):
            hcas = state["places"][k - 1]
            place = f", at '{hcas[0]}'" if len(hcas) == 1 and state["topology"] else ""
            how = (f"{'running' if running(pid) else 'ended'}, pid {pid}" if pid
                   else "run by libvirt")
            called = state["names"][k - 1]
            own = f"node{state['first'] + k - 1}"
            also = f" ({called})" if called != own else ""
            system = state["images"][k - 1] or state["guests"][k - 1]
            print(f"  {own}{also}: {how}, {system}{place}")
            for i, what in enumerate(hcas if len(hcas) > 1 else []):
                numa = (f", NUMA node {numa_node(i, len(hcas), state['numa'])}" if state["numa"]
                        else "")
                print(f"    ohca_{i}: at '{what}'{numa}")
        for what, pid in state["helpers"].items():
            print(f"  {what}: {'running' if running(pid) else 'ended'}, pid {pid}")
        if state["fabric"] == "ohca":
            print(f"  control socket of the fabric: {paths.runtime()}/{name}/control")
    if not names:
        print("no lab is up")
    return 0 if names or opt.name is None else 1


def cmd_down(opt):
    """ohca-lab down: ends a lab and waits until all its parts are removed."""
    where = os.path.join(paths.runtime(), opt.name)
    left = os.path.isdir(where)
    sweep()
    if left and not os.path.isdir(where):
        return 0        # its launcher was killed, and its parts with it
    state = state_of(opt.name)

    def lock():
        """What identifies the lab's lock: another lab may soon have the same name."""
        try:
            st = os.stat(os.path.join(where, "lock"))
            return st.st_ino, st.st_mtime_ns
        except OSError:
            return None

    def kill(number):
        try:
            os.kill(state["pid"], number)
        except ProcessLookupError:
            pass

    held = lock()
    kill(signal.SIGTERM)
    for step in range(150):
        if lock() != held or not held:
            return 0
        if step == 100:
            kill(signal.SIGKILL)
        time.sleep(0.1)
        if step > 100:
            sweep()
    raise LabError(f"lab {opt.name} has not ended within 15 s, although SIGKILL was sent to "
                   f"process {state['pid']}")


def guest_names(text):
    """The guests that --guest names."""
    names = text.split(",")
    for name in names:
        if name not in paths.GUESTS:
            raise argparse.ArgumentTypeError(f"'{name}' is no guest: use one of "
                                             f"{', '.join(paths.GUESTS)}")
    return names


def guests_of(text):
    """The guests of Debian 13 of the architectures that --arch names."""
    release = paths.TABLE[paths.GUESTS[0]][0]
    # backports differs in its kernel alone: choose the first guest, which has Debian's own
    found = {more[1]: name for name, more in reversed(paths.TABLE.items()) if more[0] == release}
    for arch in text.split(","):
        if arch not in found:
            raise argparse.ArgumentTypeError(f"'{arch}' is no guest's architecture: use one of "
                                             f"{', '.join(sorted(found))}")
    return [found[arch] for arch in text.split(",")]


def numbers(text):
    """Whole numbers with commas between them, one for each node."""
    found = [int(x) for x in text.split(",")]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': the least value is 1")
    return found


def script(path):
    """The script of faults that --faults names."""
    try:
        return labfile.faults_of(path)
    except (OSError, UnicodeDecodeError) as e:
        raise argparse.ArgumentTypeError(f"{path}: {getattr(e, 'strerror', e)}") from None


def lab_options(p, said):
    """The options that describe a lab, for run, up and libvirt; said: {dest: what a file says}."""
    p.add_argument("-f", "--file", metavar="LAB.yaml",
                   help="a file that describes the lab; options override it")
    p.add_argument("-n", "--nodes", type=int, default=2, metavar="N", help="1 to 64 nodes (2)")
    p.add_argument("--kernel", choices=("stock", "debug"), default="stock",
                   help="the kernel; debug has KASAN, lockdep and so on, and 'make debug-layer' "
                        "builds it (stock)")
    system = p.add_mutually_exclusive_group()
    system.add_argument("--guest", type=guest_names, default=paths.GUESTS[:1],
                        metavar="NAME[,NAME...]",
                        help="the system of each node; the last one is for all further nodes, "
                             "too: debian12, debian13, debian14, backports (Debian 13 with the "
                             "kernel of its backports), arm64 or s390x; 'make lab GUEST=NAME' "
                             "builds it (debian13)")
    system.add_argument("--arch", type=guests_of, dest="guest", default=argparse.SUPPRESS,
                        metavar="ARCH[,ARCH...]",
                        help="the architecture of each node, with Debian 13; the last one is for "
                             "all further nodes, too: amd64, arm64 or s390x; 'make lab "
                             "GUEST=arm64' builds the guest of arm64 (amd64)")
    p.add_argument("--image", action="append", default=[], metavar="[K:]FILE",
                   help="a disk image with cloud-init, qcow2 or raw; all nodes, or node K alone, "
                        "boot it; FILE does not change")
    p.add_argument("--accel", choices=("kvm", "tcg"),
                   help="how processors run (kvm if a guest boots under KVM, else tcg)")
    p.add_argument("--package", action="append", default=[], metavar="NAME",
                   help="a Debian package to add to the guests")
    p.add_argument("--share", type=os.path.abspath, metavar="DIR",
                   help="a directory that all nodes mount at /share")
    p.add_argument("--memory", type=numbers, metavar="M[,M...]",
                   help="MiB of memory of each node; the last value is for all further nodes, too "
                        "(1024; with --kernel debug 2048)")
    p.add_argument("--cpus", type=numbers, metavar="N[,N...]",
                   help="processors of each node; the last value is for all further nodes, too "
                        "(1, or one for each NUMA node)")
    p.add_argument("--no-sm", action="store_true",
                   help="do not start OpenSM, do not wait for ACTIVE ports")
    p.add_argument("--no-driver", action="store_true",
                   help="do not load the driver (implies --no-sm)")
    p.add_argument("--log", metavar="DIR", help="keep consoles, kernel messages and logs in DIR")
    p.add_argument("--fabric", choices=("ohca", "rxe", "none"), default="ohca",
                   help="ohca: adapters of OpenHCA; rxe: RoCE in software over the management "
                        "network; none: neither (ohca)")
    p.add_argument("--attach", choices=("qemu", "vfio-user"), default="qemu",
                   help="qemu: adapters are -device ohca of our QEMU; vfio-user (experimental): "
                        "they are processes, ohca-vfio-user, for Debian's QEMU, which 'make lab "
                        "ATTACH=vfio-user' installs (qemu)")
    p.add_argument("--hcas", type=int, metavar="N",
                   help="adapters of each node, 1 to 16, each at the leaf switch of its rail (1; "
                        "with --topology: as many as the host has)")
    p.add_argument("--ports", type=int, choices=(1, 2), default=1,
                   help="ports of each adapter (1)")
    p.add_argument("--numa", type=int, metavar="N",
                   help="NUMA nodes of each node; its memory, processors and adapters are spread "
                        "over them")
    p.add_argument("--device", action="append", default=[], metavar="[K[.I]:]NAME=VALUE",
                   help="a property of -device ohca: of all nodes, of node K, or of its adapter "
                        "ohca_I")
    p.add_argument("--topology", metavar="FILE|SPEC",
                   help="the fabric: a topology file, or a SPEC that ohca-fabric generates "
                        "(one switch)")
    p.add_argument("--place", action="append", default=[], metavar="nodeK=NAME",
                   help="put node K in the place of host NAME with all adapters of that host, or "
                        "in the place of one adapter; repeat it for further adapters (a free "
                        "host, at different switches first)")
    p.add_argument("--serve", action="append", default=[], metavar="ARG",
                   help="an argument for ohca-fabric serve")
    p.add_argument("--opensm", action="append", default=[], metavar="ARGS",
                   help="arguments for OpenSM, separated by single spaces")
    p.add_argument("--faults", type=script, metavar="FILE",
                   help="a script of faults; the fabric starts it when the lab is ready")
    p.add_argument("--append", action="append", default=[], metavar="WORD",
                   help="a word for the kernels' command lines")
    p.add_argument("--trace", action="append", default=[], metavar="PATTERN",
                   help="events that the fabric writes to its log; 'ohca_*' matches all")
    p.add_argument("--gdb", action="store_true",
                   help="nodes accept 'ohca-lab gdb' on a socket; with run, COMMAND starts after "
                        "Enter")
    p.add_argument("--qemu", action="append", default=[], metavar="ARGS",
                   help="arguments for QEMU, separated by single spaces")
    p.set_defaults(names=[], partitions=[], files=[], before=[], commands=[], after=[],
                   listen=None, join=None, number=None, token=None)
    p.set_defaults(**said)


def cmd_course(opt):
    """ohca-lab course: lessons and the checks of their tasks."""
    return course.run(opt, state_of)


def cmd_traffic(opt):
    """ohca-lab traffic: what nodes sent by each transport."""
    return traffic.run(opt, state_of)


def cmd_prepare(opt):
    """ohca-lab prepare: a disk image with the driver in it."""
    def options_of(argv):
        lab = complete(options(argv))
        if why := wrong_lab(lab):
            raise LabError(f"prepare: {why}")
        return lab

    catch_signals()
    return prepare.run(opt, options_of)


def add_gdb(sub):
    """The command line of 'ohca-lab gdb'."""
    gdb_ = sub.add_parser("gdb", help="debug the kernel of one node, its QEMU, or the adapters "
                                      "with gdb",
                          description="Runs the host's gdb with the symbols of the kernel, and of "
                                      "the driver if the guest has them. ARGs are gdb's.")
    gdb_.add_argument("--name", default="default")
    gdb_.add_argument("--qemu", action="store_true", help="debug the node's QEMU, which has the "
                      "PCI device")
    gdb_.add_argument("node", help="the node's number, or its name in the lab file; fabric: the "
                      "process with all adapters and switches")
    gdb_.add_argument("command", nargs=argparse.REMAINDER, metavar="ARG")
    gdb_.set_defaults(work=cmd_gdb)


def parser(said=()):
    """All of the command line; said: {dest: value} of a lab file."""
    said = dict(said)
    p = argparse.ArgumentParser(prog="ohca-lab", description="Virtual machines on one "
                                "InfiniBand fabric.")
    sub = p.add_subparsers(dest="what", required=True, metavar="COMMAND")
    run = sub.add_parser("run", help="boot N nodes, run a command on all of them, end them")
    run.add_argument("--timeout", type=float, default=COMMAND_S, metavar="S",
                     help=f"seconds that the command may run ({COMMAND_S})")
    lab_options(run, said)
    join.options(run)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    run.set_defaults(work=cmd_run)
    up = sub.add_parser("up", help="boot N nodes and return")
    up.add_argument("--name", default="default")
    lab_options(up, said)
    join.options(up)
    up.set_defaults(work=cmd_up)
    node = sub.add_parser("node", help="boot one node that joins the fabric of another host's lab",
                          description="The node ends when COMMAND ends or, without COMMAND, at a "
                                      "signal.")
    node.add_argument("--name", help="the lab's name, for exec, ssh, console and down")
    node.add_argument("--timeout", type=float, default=COMMAND_S, metavar="S",
                      help=f"seconds that the command may run ({COMMAND_S})")
    lab_options(node, said)
    join.options(node)
    node.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    node.set_defaults(work=cmd_node, nodes=1)
    virt = sub.add_parser("libvirt", help="start a fabric for N nodes that libvirt runs",
                          description="Starts the fabric, writes a domain for each node, prints "
                                      "the commands that start the domains, and brings the nodes "
                                      "up as 'up' does. It ends at a signal.")
    virt.add_argument("--name", default="default")
    lab_options(virt, said)
    virt.set_defaults(work=cmd_libvirt)
    for name, work, text in (
            ("exec", cmd_exec, "run a command on one node"),
            ("ssh", cmd_ssh, "run a shell, or a command, on a terminal on one node"),
            ("console", cmd_console, "connect to the serial console of one node"),
            ("migrate", cmd_migrate, "move one running node to another QEMU")):
        s = sub.add_parser(name, help=text)
        s.add_argument("--name", default="default")
        if name == "exec":
            s.add_argument("--timeout", type=float, metavar="S")
            s.add_argument("--stdin", action=argparse.BooleanOptionalAction,
                           help="pass standard input to the command (if it is no terminal)")
        s.add_argument("node", help="the node's number, or its name in the lab file")
        if name in ("exec", "ssh"):
            s.add_argument("command", nargs=argparse.REMAINDER)
        s.set_defaults(work=work)
    add_gdb(sub)
    prepare.add_parser(sub, cmd_prepare)
    status = sub.add_parser("status", help="list the labs that are up")
    status.add_argument("--name")
    status.set_defaults(work=cmd_status)
    doctor_ = sub.add_parser("doctor", help="check the parts of a lab and say what is missing")
    doctor_.set_defaults(work=doctor.run)
    course.add_parser(sub, cmd_course)
    traffic.add_parser(sub, cmd_traffic)
    down = sub.add_parser("down", help="end a lab")
    down.add_argument("--name", default="default")
    down.set_defaults(work=cmd_down)
    return p


def total_memory():
    """MiB of the host."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def complete(opt):
    """Fills in what follows from the options of run and up."""
    opt.no_sm = opt.no_sm or opt.no_driver
    opt.memory = [m or (2048 if opt.kernel == "debug" else 1024) for m in opt.memory or [None]]
    opt.cpus = [n or opt.numa or 1 for n in opt.cpus or [None]]
    return opt


def wrong_machine(opt):
    """Why a node cannot have the adapters and the NUMA nodes that the options ask for, or None."""
    if opt.hcas is not None and not 1 <= opt.hcas <= MAX_HCAS:
        return f"--hcas: give 1 to {MAX_HCAS} adapters for each node"
    if opt.hcas is not None and opt.fabric != "ohca":
        return f"--hcas: nodes have no adapter with --fabric {opt.fabric}: leave one of them out"
    if opt.numa is None:
        return None
    if opt.what == "libvirt":
        return "--numa: use it with run or up; domains of libvirt get no NUMA nodes"
    if any(paths.Guest(g).machine != "x86_64" for g in opt.guest):
        return "--numa: only guests of amd64 have NUMA nodes: leave out --numa or other guests"
    if not 1 <= opt.numa <= MAX_HCAS or any(n % opt.numa for n in opt.cpus):
        return (f"--numa: give 1 to {MAX_HCAS} NUMA nodes, and --cpus {opt.numa} or a multiple of "
                "it")
    return None


def wrong_lab(opt):
    """Why a lab with these options is impossible, or None."""
    if not 1 <= opt.nodes <= MAX_NODES:
        return f"-n: give 1 to {MAX_NODES} nodes"
    if why := image.wrong(opt):
        return why
    if opt.kernel == "debug" and set(opt.guest) != {paths.GUESTS[0]}:
        return f"--kernel debug: only {paths.GUESTS[0]} has a debug kernel"
    if opt.what == "libvirt" and any(paths.Guest(g).arch != "amd64" for g in opt.guest):
        return "libvirt: only guests of amd64 can be its domains: use --arch amd64"
    for x in opt.device:
        k = re.match(r"(\d+)(?:\.\d+)?:", x, re.A)
        if k and not 1 <= int(k[1]) <= opt.nodes:
            return f"--device {x}: this lab has nodes 1 to {opt.nodes}"
    memory = sum(of_node(opt.memory, k) for k in range(1, opt.nodes + 1))
    if memory > total_memory():
        return (f"--memory: {opt.nodes} nodes need {memory} MiB in all, this machine has "
                f"{total_memory()} MiB: use a smaller --memory or fewer nodes")
    return wrong_machine(opt) or wrong_fabric(opt) or attach.wrong(opt) or join.wrong(opt)


def wrong_fabric(opt):
    """Why the options for OpenSM or faults are impossible, or None."""
    # --no-driver implies --no-sm
    why = next((name for name, given in (
        (f"--fabric {opt.fabric}", opt.fabric != "ohca"), ("--no-driver", opt.no_driver),
        ("--no-sm", opt.no_sm)) if given), None)
    for name, given in (("--opensm", opt.opensm), ("partitions", opt.partitions)):
        if given and why:
            return f"{name}: OpenSM does not run with {why}: leave one of them out"
    if opt.faults and opt.fabric != "ohca":
        return f"--faults: only --fabric ohca runs a script: leave out --fabric {opt.fabric}"
    return None


def options(argv=None):
    """The options of the command line, and of the file that it names.

    The method located() of the result adds to an error text the place in the file, if it has one.
    """
    opt = parser().parse_args(argv)
    if not getattr(opt, "file", None):
        opt.located = str
        return opt
    described = labfile.LabFile(opt.file)
    opt = parser(described.values).parse_args(argv)
    described.merge(opt)
    opt.located = described.located
    return opt


def complete_streams():
    """Opens /dev/null for standard streams that are closed: no other file may get their numbers."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", encoding="utf-8"))


def main():
    """Runs one ohca-lab command and returns its exit status."""
    complete_streams()
    try:
        opt = options()
    except FileError as e:
        print(e, file=sys.stderr)
        return 2
    if getattr(opt, "command", None) and opt.command[0] == "--":
        opt.command = opt.command[1:]
    if opt.what in ("run", "up", "node", "libvirt"):
        if why := wrong_lab(complete(opt)):
            say(opt.located(why))
            return 2
    name = getattr(opt, "name", None)
    if opt.what != "status" and name is not None and not re.fullmatch(NAME, name, re.A):
        say(f"--name {name}: give at most 31 letters, digits, '-', '_' and '.'; '-' and '.' are "
            "not the first")
        return 2
    try:
        return opt.work(opt)
    except Stopped as e:
        return 128 + e.number
    except KeyboardInterrupt:
        return 130
    except Timeout as e:
        say(str(e) or LATE)
        return 124
    except GuestGone as e:
        say(f"the connection to the node is lost: {e}")
        return 255
    except LabError as e:
        say(opt.located(str(e)))
        return 1
