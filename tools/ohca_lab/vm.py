# SPDX-License-Identifier: GPL-2.0-or-later
"""One virtual machine: its QEMU command line, process and directory."""
import ctypes
import os
import re
import signal
import subprocess
import time
from collections import namedtuple

from . import attach, gdb, paths, places
from .channel import CHANNELS

_libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
# String instructions move a byte at a time under TCG, ten times slower than a loop of moves. The
# kernel and the C library use them if the CPU claims that they are fast.
MAX = ",".join(["max", *(f"{x}=off" for x in ("erms", "fsrm", "fsrs", "fsrc", "fzrm"))])
# The differences between architectures: the machine and the CPU that QEMU emulates, the console,
# the bus of the virtio devices, words of the kernel's command line, properties of the adapter, and
# whether there are root ports. s390x has virtio without PCI. QEMU's PCI instructions of s390x
# cannot access a BAR that is memory, and each PCI device is in a domain of its own.
Machine = namedtuple("Machine",
                     "options cpu console serial bus no_rom append adapter root_ports")
MACHINES = {
    "x86_64": Machine("q35,sata=off,smbus=off,hpet=off", MAX, "ttyS0",
                      ("-serial", "chardev:con"), "pci", ",romfile=", ("no_timer_check",), "",
                      True),
    "aarch64": Machine("virt,gic-version=3", "neoverse-n1", "ttyAMA0",
                       ("-serial", "chardev:con"), "pci", ",romfile=", (), "", True),
    "s390x": Machine("s390-ccw-virtio", "max", "ttysclp0",
                     ("-device", "sclpconsole,chardev=con"), "ccw", "", (), ",dm=0", False),
}
# First numbers for root ports and for buses of NUMA nodes; users of --qemu can use lower ones.
FIRST_CHASSIS, FIRST_BUS = 100, 0x40
# Doorbell pages of each of several adapters: the window of each root port is a part of the 750 MiB
# below 4 GiB, and with 256 pages it has 32 MiB.
FEW_UARS = 256
# Jumbo frames: RoCE can use its largest MTU, 4096, and TCP sends fewer packets.
MTU = 9000
# The same as in tools/guest/init.
MOUNT_SHARE = "mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share /share"


def prefer(nice):
    """Gives this process and its session another nice value, if the user may do that.

    The kernel compares sessions first, which it calls autogroups, and then processes of one.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        with open("/proc/self/autogroup", "w", encoding="ascii") as f:
            f.write(f"{nice}\n")
    except OSError:
        pass


def spawn(argv, nice=0, **kwargs):
    """Starts a process that the kernel kills when this one ends, for whatever reason.

    It has a session of its own, so that Ctrl-C signals only this process. Call it
    from the main thread: the kernel kills the child when the calling thread ends.
    """
    parent = os.getpid()

    def child():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        if nice:
            prefer(nice)

    # pylint: disable-next=subprocess-popen-preexec-fn  # called from the main thread alone
    return subprocess.Popen(argv, preexec_fn=child, start_new_session=True,
                            stdin=subprocess.DEVNULL, **kwargs)


def stop(process):
    """Kills a process and waits for it."""
    if process and process.poll() is None:
        process.kill()
    if process:
        process.wait()


def choose_accelerator(wanted=None, probe=True, qemu=None):
    """Returns (name, reason): what was asked for, else kvm if a guest kernel boots under it.

    Without probe it does not boot a kernel to find out.
    """
    if wanted:
        return wanted, "chosen by --accel"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        flags = next((line.split() for line in f if line.startswith("flags")), [])
    if "vmx" not in flags and "svm" not in flags:
        return "tcg", "the CPU has neither vmx nor svm"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "/dev/kvm cannot be opened"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    cache = os.path.join(paths.runtime(), ".kvm-probe")
    try:
        with open(cache, encoding="ascii") as f:
            known, result = f.read().split()
        if known == boot:
            return (("kvm", "a guest kernel booted in it") if result == "yes"
                    else ("tcg", "a guest kernel does not boot under KVM here"))
    except (OSError, ValueError):
        pass
    if not probe:
        return "kvm", "the first lab will try whether a guest kernel boots in it"
    guest = paths.Guest(paths.GUESTS[0])
    process = spawn([*(qemu or paths.qemu()), "-M", "q35", "-accel", "kvm", "-cpu", "host",
                   "-m", "256",
                   "-nodefaults", "-display", "none", "-no-reboot",
                   "-kernel", guest.vmlinux, "-initrd", guest.initrd,
                   "-append", "quiet panic=-1 lab.probe"],
                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begin = time.monotonic()
    try:
        works = process.wait(20) == 0 and time.monotonic() - begin > 0.2
    except subprocess.TimeoutExpired:
        works = False
    stop(process)
    try:
        with open(cache, "w", encoding="ascii") as f:
            f.write(f"{boot} {'yes' if works else 'no'}\n")
    except OSError:
        pass
    return (("kvm", "a guest kernel booted in it") if works
            else ("tcg", "a guest kernel does not boot under KVM here"))


def own_properties(properties, k, hca):
    """Yields the properties of ohca_HCA of node k; K: is for node K, K.I: for its ohca_I."""
    for x in properties:
        m = re.fullmatch(r"(\d+)(?:\.(\d+))?:(.*)", x, re.A | re.S)
        if not m:
            yield x
        elif int(m[1]) == k and (m[2] is None or int(m[2]) == hca):
            yield m[3]


def numa_node(i, of, nodes):
    """The NUMA node of the i-th of several parts, which are spread evenly over the NUMA nodes."""
    return i * nodes // of


def of_node(values, k):
    """The value of an option for node k: the last value is for all further nodes, too."""
    return values[min(k, len(values)) - 1]


class VM:
    """Node number k of a lab; its sockets and logs are in lab.dir/nK."""
    BOOT_S = 60         # seconds that the boot may take
    incoming = ()       # QEMU's arguments for the target of a migration
    image = None        # the disk image that it boots (image.py)

    def __init__(self, lab, k):
        self.lab = lab
        self.k, self.number = k, lab.first + k - 1
        self.name = (lab.opt.names[k - 1:k] or [f"node{self.number}"])[0]
        self.guest = lab.guest(k)
        self.dir = os.path.join(lab.dir, f"n{k}")
        self.process = None

    def kvm(self):
        """Whether the node runs under KVM; nodes of other architectures do not."""
        return self.lab.accel == "kvm" and self.guest.machine == "x86_64"

    def kernel(self):
        """The kernel's file."""
        return paths.VMLINUX_DEBUG if self.lab.opt.kernel == "debug" else self.guest.vmlinux

    def cmdline(self):
        """The kernel's command line."""
        opt, lab, machine = self.lab.opt, self.lab, MACHINES[self.guest.machine]
        words = [f"console={machine.console}", "quiet", "loglevel=5", "panic=-1", "apparmor=0",
                 "audit=0", "mitigations=off", "random.trust_cpu=on", "nokaslr",
                 "cryptomgr.notests", *machine.append, f"lab.node={self.number}",
                 f"lab.nodes={opt.nodes}"]
        if opt.kernel == "debug":
            # The driver's unit tests run in tests/system/kunit only.
            words.append("kunit.enable=0")
        if not self.kvm() and self.guest.machine == "x86_64":
            words.append("tsc=reliable")
            if lab.tsc_khz:
                words.append(f"tsc_early_khz={lab.tsc_khz}")
        if opt.no_driver:
            words.append("modprobe.blacklist=ohca")
        words += opt.append
        if opt.share:
            words.append("lab.share")
        return " ".join(words)

    def argv(self):
        """The QEMU command line."""
        lab, d, machine = self.lab, self.dir, MACHINES[self.guest.machine]
        a = [*paths.qemu(self.guest.machine, lab.opt.attach), "-name", f"{lab.name}-{self.name}",
             "-machine", machine.options,
             "-accel", "kvm" if self.kvm() else "tcg,thread=multi",
             "-cpu", "host" if self.kvm() else machine.cpu, *self.memory(),
             "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             *self.boot(),
             "-chardev", f"socket,id=con,path={d}/console,server=on,wait=off,"
                         f"logfile={d}/console.log,logappend=on",
             *machine.serial,
             "-qmp", f"unix:{d}/qmp,server=on,wait=off",
             "-device", f"virtio-serial-{machine.bus},max_ports=16"]
        a += self.disks()
        for i in range(CHANNELS):
            a += ["-chardev", f"socket,id=cmd{i},path={d}/cmd{i},server=on,wait=off",
                  "-device", f"virtserialport,chardev=cmd{i},name=org.openhca.cmd.{i}"]
        return a + self.further()

    def boot(self):
        """QEMU's arguments for kernel and initrd."""
        return ["-kernel", self.kernel(), "-initrd", self.guest.initrd, "-append", self.cmdline()]

    def disks(self):
        """QEMU's arguments for the layers of the root file system, each on a disk."""
        bus, a = MACHINES[self.guest.machine].bus, []
        for i, layer in enumerate(self.lab.layers[self.guest.name]):
            a += ["-drive", f"if=none,id=layer{i},file={layer},format=raw,readonly=on",
                  "-device", f"virtio-blk-{bus},drive=layer{i}"]
        return a

    def memory(self):
        """Processors and memory, evenly in all NUMA nodes; the first one has the remainder."""
        opt, nodes = self.lab.opt, self.lab.opt.numa or 1
        of, memory = of_node(opt.cpus, self.k), of_node(opt.memory, self.k)
        a = ["-smp", f"{of},sockets={nodes}" if opt.numa else str(of), "-m", str(memory)]
        for n in range(nodes):
            size = memory // nodes + (0 if n else memory % nodes)
            a += ["-object", f"memory-backend-memfd,id=ram{n},size={size}M,share=on"]
            cpus = [c for c in range(of) if numa_node(c, of, nodes) == n]
            a += (["-numa", f"node,nodeid={n},cpus={cpus[0]}-{cpus[-1]},memdev=ram{n}"]
                  if opt.numa else ["-machine", f"memory-backend=ram{n}"])
        return a

    def has_ports(self):
        """Whether each adapter is at a root port."""
        machine, of = MACHINES[self.guest.machine], len(self.lab.places[self.k - 1])
        return bool(self.lab.opt.numa) or machine.root_ports and of > 1

    def processes(self):
        """{name: command line} of the processes to which QEMU connects with --attach vfio-user."""
        if self.lab.opt.attach != "vfio-user":
            return {}
        return {attach.name(self, i): attach.process(self, i, place,
                                                     FEW_UARS if self.has_ports() else None)
                for i, place in enumerate(self.lab.places[self.k - 1])}

    def adapters(self):
        """QEMU's arguments for the adapters, with a root port for each if has_ports()."""
        opt, lab, machine = self.lab.opt, self.lab, MACHINES[self.guest.machine]
        places_, a = lab.places[self.k - 1], []
        # QEMU's ACPI tables list the last bus first; Linux numbers the adapters in that order
        for i in reversed(range(len(places_) if opt.numa else 0)):
            # leaves numbers for the root port's bus, and for more below a switch
            a += ["-device", f"pxb-pcie,id=pxb{i},bus=pcie.0,bus_nr={FIRST_BUS + 8 * i},"
                             f"numa_node={numa_node(i, len(places_), opt.numa)}"]
        for i, place in enumerate(places_):
            bus, name = f",bus=pxb{i}" if opt.numa else "", place.name.replace(",", ",,")
            if self.has_ports():
                a += ["-device", f"pcie-root-port,id=rail{i}{bus},chassis={FIRST_CHASSIS + i}"]
                bus = f"id=ohca_{i},bus=rail{i},addr=0x0,x-uars={FEW_UARS},"
            if opt.attach == "vfio-user":
                a += ["-device", attach.device(self, i, {"id": f"ohca_{i}", "bus": f"rail{i}"}
                                               if self.has_ports() else {})]
                continue
            identity = f"guid={place.guid},{places.rate_properties(place)}" if place.guid else ""
            extra = "".join(f",{x}" for x in own_properties(opt.device, self.k, i))
            a += ["-device", f"ohca,{bus}fabric={lab.dir}/fabric,ports={opt.ports},{identity}"
                             f"node-desc={name}{machine.adapter}{extra}"]
        return a

    def further(self):
        """Further arguments, also for a QEMU that libvirt starts: networks, options, adapters."""
        opt, lab, k, machine = self.lab.opt, self.lab, self.k, MACHINES[self.guest.machine]
        a = ["-netdev", f"stream,id=mgmt,addr.type=unix,addr.path={lab.dir}/mgmt,"
                        f"{lab.mgmt_role(k)}",
             "-device", f"virtio-net-{machine.bus},netdev=mgmt,host_mtu={MTU},"
                        f"mac=52:54:00:0c:a0:{k:02x}{machine.no_rom}"]
        if opt.share:
            a += ["-fsdev", f"local,id=share,path={opt.share},security_model=none,"
                            "multidevs=remap",
                  "-device", f"virtio-9p-{machine.bus},fsdev=share,mount_tag=share"]
        if opt.gdb:
            a += ["-gdb", f"unix:{gdb.stub(self.dir)},server=on,wait=off"]
        a += [x for arg in opt.qemu for x in arg.split(" ")]
        return a + self.adapters()

    def start(self):
        """Starts QEMU."""
        os.makedirs(self.dir, mode=0o700, exist_ok=True)
        self.stderr = open(os.path.join(self.dir, "qemu.log"), "ab")
        self.process = spawn([*self.argv(), *self.incoming], stdout=self.stderr,
                             stderr=subprocess.STDOUT)

    def alive(self):
        """Whether QEMU runs."""
        return self.process is not None and self.process.poll() is None

    def last_words(self, lines=15):
        """The last lines of QEMU's log and of the guest's console."""
        text = []
        for name in ("qemu.log", "console.log"):
            try:
                with open(os.path.join(self.dir, name), encoding="utf-8", errors="replace") as f:
                    text += [line.rstrip() for line in f.readlines()[-lines:]]
            except OSError:
                pass
        return text
