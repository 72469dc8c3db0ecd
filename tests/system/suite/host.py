# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors of QEMU and the switch for wrong arguments and for unexpected peers."""
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time

from ohca_lab import paths
from ohca_lab.vm import spawn, stop

from .harness import DEV, Group, find, need

GROUP = Group("host", debug=False)
VERSION = Group("version", ("-n", "2", "--no-driver", "--device", "1:x-version=0x20000",
                            "--device", "2:x-version=0x10007", "--device", "2:x-vendor-id=0x15b3"),
                debug=False)
GROUPS = [GROUP, VERSION]

HELLO = struct.Struct("<IHHII")     # struct ohca_wire_hdr: magic, version, type, len, reserved
MAGIC = 0x4C43484F
FRONT = 0x4643484F                  # of struct ohca_front_hdr, which begins the same


def qemu(device, seconds=60):
    """Starts QEMU with a device and no guest; returns (exit status or None, messages)."""
    process = spawn([*paths.qemu(), "-M", "q35,memory-backend=ram", "-accel", "tcg", "-m", "64",
                     "-object", "memory-backend-memfd,id=ram,size=64M,share=on", "-nodefaults",
                     "-display", "none", "-S", "-device", device],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        out, _ = process.communicate(timeout=seconds)
        return process.returncode, out.decode(errors="replace")
    except subprocess.TimeoutExpired:
        stop(process)
        return None, process.stdout.read().decode(errors="replace")


def refused(b, device, pattern):
    """QEMU must end with an error that matches."""
    status, text = qemu(device)
    b.note(f"-device {device}: {status}\n{text}")
    need(status == 1, f"-device {device}: exit status {status}")
    find(pattern, text)


class Directory:
    """A temporary directory with a short path."""

    def __enter__(self):
        # a name of a lab does not begin with a dot: launchers leave the directory alone
        self.path = tempfile.mkdtemp(prefix=".", dir=paths.runtime())
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


@GROUP.test(timeout=300)
def bad_socket(b):
    """With a fabric socket that cannot be used, QEMU does not start and prints why."""
    with Directory() as d:
        device = f"ohca,fabric={d}"
        refused(b, f"{device}/none", r"no fabric socket .*is ohca-fabric running")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(f"{d}/stale")
        refused(b, f"{device}/stale", r"no process listens .*is ohca-fabric running")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.bind(f"{d}/stream")
            s.listen()
            refused(b, f"{device}/stream", r"not a fabric socket")
        with open(f"{d}/file", "w", encoding="ascii"):
            pass
        refused(b, f"{device}/file", r"no process listens|not a fabric socket|cannot connect")
        refused(b, f"{device}/{'x' * 120}", r"the limit is \d+|must have 1 to \d+ characters")


@GROUP.test(timeout=300)
def bad_properties(b):
    """Values that the device does not allow."""
    for prop, pattern in (("ports=3", "ports must be"), ("vls=3", "vls must be"),
                          ("mtu=1500", "mtu must be"), ("speed=warp", "speed must be"),
                          ("width=5x", "width must be"), ("x-vectors=0", "x-vectors must be"),
                          ("x-vendor-id=0xffff", "x-vendor-id must be"),
                          ("x-uars=1", "x-uars must be"), ("x-uars=96", "x-uars must be"),
                          ("x-uars=2048", "x-uars must be"),
                          ("x-log-max-qp=2", "x-log-max-qp must be"),
                          ("x-log-max-mr=21", "x-log-max-mr 2 to 20"),
                          ("ports=2,fabric-port=254", "fabric-port must be at most 253"),
                          (f"node-desc={'x' * 64}", "node-desc has more than")):
        refused(b, f"ohca,fabric=/nonexistent,{prop}", pattern)
    refused(b, "ohca", "fabric= is missing")


def stranger(path, answer):
    """Listens once on a SEQPACKET socket and gives an answer to the HELLO."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(path)
    s.listen()

    def serve():
        s.settimeout(60)
        try:
            c, _ = s.accept()
            c.settimeout(60)
            hello = c.recv(4096)
            c.send(answer(hello))
            time.sleep(1)
            c.close()
        except OSError:
            pass
        s.close()

    threading.Thread(target=serve, daemon=True).start()


@GROUP.test(timeout=300)
def front_version(b):
    """A fabric with another version of the protocol of HCAs, or with a wrong answer."""
    def other_version(hello):
        fields = list(HELLO.unpack_from(hello))
        fields[1] += 1
        return HELLO.pack(*fields) + hello[HELLO.size:]

    with Directory() as d:
        stranger(f"{d}/v", other_version)
        refused(b, f"ohca,fabric={d}/v",
                r"ohca-fabric uses version \d+ of the protocol of HCAs, QEMU uses \d+: use ")
        stranger(f"{d}/g", lambda hello: b"\x17" * 64)
        refused(b, f"ohca,fabric={d}/g", r"does not use the protocol of HCAs")
        stranger(f"{d}/l", lambda hello: hello[:40])
        refused(b, f"ohca,fabric={d}/l", r"a message of 40 bytes whose length is")


@GROUP.test(timeout=300)
def fabric_meets_stranger(b):
    """The fabric refuses a peer that is no HCA of our version, logs it, and continues."""
    with Directory() as d:
        with open(f"{d}/log", "w+b") as log:
            fabric = spawn([paths.FABRIC, "serve", "--generate", "star:4", "--hosts-off",
                            "--listen", f"{d}/f"], stdout=log, stderr=subprocess.STDOUT)
            try:
                end = time.monotonic() + 30
                while not os.path.exists(f"{d}/f") and time.monotonic() < end:
                    time.sleep(0.02)
                for number, message in enumerate((
                        b"GET / HTTP/1.0\r\n\r\n" + b" " * 64,
                        HELLO.pack(MAGIC, 999, 1, 256, 0) + bytes(256 - HELLO.size),
                        HELLO.pack(MAGIC, 1, 1, 4096, 0) + bytes(200),
                        HELLO.pack(FRONT, 999, 1, 256, 0) + bytes(256 - HELLO.size), b"")):
                    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                        s.connect(f"{d}/f")
                        if message:
                            s.send(message)
                            need(select.select([s], [], [], 30)[0], f"no answer to {number}")
                            b.note(repr(s.recv(4096)))
                status, text = qemu(f"ohca,fabric={d}/f,id=h", 3)
                need(status is None, f"a good HCA is refused afterwards: {status} {text}")
                need(fabric.poll() is None, "the fabric ended")
            finally:
                stop(fabric)
            log.seek(0)
            text = log.read().decode(errors="replace")
            b.note(text)
            find(r"does not use the OpenHCA link protocol", text)
            find(r"refused 'a peer': the peer uses version 999 of the link protocol, this ",
                 text)
            find(r"QEMU uses version 999 of the protocol of HCAs", text)


@GROUP.test(timeout=300)
def fabric_bad_arguments(b):
    """ohca-fabric refuses wrong arguments."""
    with Directory() as d:
        for args, pattern in ((["--generate", "star:0", "--listen", f"{d}/f"], r"star:N"),
                              (["--listen", f"{d}/f"], r"--topology or --generate"),
                              (["--generate", "star:4", "--listen", f"{d}/no/such"],
                               r"cannot listen"),
                              (["--generate", "star:4", "--listen", d], r"not a socket")):
            done = subprocess.run([paths.FABRIC, "serve", *args], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=60, check=False)
            text = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
            b.note(f"{args}: {done.returncode}\n{text}")
            need(done.returncode not in (0, -6, -11), f"{args}: {done.returncode}")
            need(re.search(pattern, text, re.I), f"{args}: {text}")


@VERSION.test(reports="ohca")
def other_major(b):
    """The driver refuses a device of another major version with a message."""
    b.status(1, "modprobe ohca")
    find(r"ohca .*device has interface version 2\.0, driver is for 1\.x", b.kernel_said(1))
    need(not b.status(1, f"ls /sys/class/infiniband/{DEV}")[0] == 0, "it registered all the same")
    b.sh(1, "modprobe -r ohca && modprobe ohca && modprobe -r ohca")


@VERSION.test()
def other_minor(b):
    """A later minor version of the same major one adds only what a driver may ignore: it works."""
    b.sh(2, "modprobe ohca")
    find(r"ohca_0: OpenHCA 1\.7, ", b.kernel_said(2))
    need("1.7" in b.sh(2, "cat /sys/kernel/debug/ohca/*/device"), "debugfs has another version")
    b.sh(2, "ibv_devinfo | grep 'hca_id:.*ohca_0'")


@VERSION.test()
def other_rdma_core(b):
    """The provider for rdma-core 45 and later refuses to work with 44, with a message."""
    b.sh(2, "modprobe ohca")
    said = b.sh(2, "mkdir -p /tmp/44 && cd /tmp/44 && "
                "cp -L /usr/lib/x86_64-linux-gnu/libibverbs.so.1 libibverbs.so.1.14.44.0 && "
                "ln -sf libibverbs.so.1.14.44.0 libibverbs.so.1 && "
                "LD_LIBRARY_PATH=/tmp/44 ibv_devices")
    find(r"^libohca: ohca_0: libibverbs is of rdma-core 44, this library is for 56: install", said)
    need("\n    ohca_0 " not in said, "the device is listed all the same")
    find(r"\n    ohca_0 ", b.sh(2, "ibv_devices"))
