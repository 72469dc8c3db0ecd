# SPDX-License-Identifier: GPL-2.0-or-later
"""From power-on to a working subnet."""
import hashlib
import random
import re
import tempfile
import time

from ohca_lab.channel import Channel, Timeout

from .harness import DEV, Failure, Group, find, need, tail, until

# A node with its QEMU may be stopped for seconds; the switch keeps its packets meanwhile.
PATIENT = "--serve=--hoq-scale=64"
PAIR = ("-n", "2", "--no-sm", PATIENT)
# Below a root port, because only there a device can be pulled, and errors can be reported. Groups
# that need no such device use the same lab, so that its machines boot once. Datagrams are not
# acknowledged, so IPoIB's receive queue is larger than the data that TCP has in flight.
PULLABLE = (*PAIR, "--append", "iomem=relaxed", "--append", "ib_ipoib.recv_queue_size=1024",
            "--qemu", "-device pcie-root-port,id=rp,chassis=1,slot=1", "--device", "bus=rp",
            "--device", "id=hca")
BEGIN = "/tmp/opensm.begin"


def active(bench, node):
    """Whether the port of a node is ACTIVE and IPoIB has its carrier."""
    text = bench.lab.capture(node, f"cat /sys/class/infiniband/{DEV}/ports/1/state; "
                             "cat /sys/class/net/ib0/carrier", 20 * bench.slow)[1]
    return "ACTIVE" in text and text.strip().endswith("1")


def all_active(bench, seconds=30):
    """Waits until the fabric works."""
    until(seconds * bench.slow,
          lambda: all(active(bench, k) for k in bench.living()),
          "a port does not become ACTIVE")


def start_sm(bench, node=1, setting=""):
    """Starts OpenSM on a node, with a line for its configuration, and without a delay of its log.

    It sends a request four times, so that a node that is stopped for 2 s is not lost.
    """
    bench.state["setting"] = setting
    bench.sh(node, "rm -f /var/log/opensm.log; printf 'force_log_flush TRUE\\n"
                   f"transaction_timeout 1000\\n{setting}\\n' >/tmp/opensm.conf; "
                   f"date +%s.%N > {BEGIN}; "
                   "opensm -B -F /tmp/opensm.conf -f /var/log/opensm.log >/dev/null")


def stop_sm(bench, node=1, signal="TERM"):
    """Ends OpenSM; it has ended when this returns."""
    bench.sh(node, f"pkill -{signal} -x opensm", status=None)
    until(20 * bench.slow, lambda: bench.status(node, "pgrep -x opensm")[0],
          f"node{node}: OpenSM does not end")


def swept(bench, node=1):
    """Waits until OpenSM has swept the whole subnet, whose ports may be ACTIVE already."""
    def said():
        text = bench.sh(node, "pgrep -x opensm; tail -n 20 /var/log/opensm.log; "
                              "grep -qs 'SUBNET UP' /var/log/opensm.log && echo up", status=None)
        need(re.match(r"\d+\n", text), f"OpenSM has ended: {tail(text)}")
        return text.endswith("\nup\n")

    until(60 * bench.slow, said, "OpenSM does not say SUBNET UP")


def take_over(bench, node, old=1):
    """Starts OpenSM on a node with a higher priority than that of node old, which hands over to it.

    OpenSM 3.3.23 drops a HANDOVER that arrives while it discovers the subnet. Then both are standby
    and stay so (for 30 s at least), and the new one is started again.
    """
    def state(k):
        states = re.findall(r"Entering (\w+) state", bench.sh(k, "cat /var/log/opensm.log"))
        return states[-1] if states else ""

    def settled():
        return state(node) == "MASTER" or state(node) == state(old) == "STANDBY"

    for _ in range(5):
        start_sm(bench, node, "sm_priority 13")
        until(60 * bench.slow, settled, f"OpenSM on node {node} is not handed the subnet")
        try:
            # a HANDOVER that is not finished
            until(5 * bench.slow, lambda: state(node) == "MASTER", "both stand by")
            return
        except Failure as e:
            bench.note(f"OpenSM on node {node} starts again: {e}")
            stop_sm(bench, node)
    raise Failure(f"OpenSM on node {node} has been handed the subnet in none of five attempts")


def fabric(bench):
    """Brings the fabric up unless a test before has, with an OpenSM that sweeps as usual."""
    calm = bench.state.get("setting") != RESTLESS
    if bench.state.get("fabric") and calm:
        return
    if not calm:
        stop_sm(bench)
    if "--no-sm" in bench.group.lab:
        start_sm(bench)
        swept(bench)
    all_active(bench)
    bench.state["fabric"] = True


# For a port that goes down and comes back many times in a few seconds: every sweep of OpenSM, one
# in 10 s, is a heavy one. OpenSM ignores a trap 128 after ten with less than 5 s between any two
# (osm_trap_rcv.c). Then nothing announces a change that happens after it has read PortInfo and
# before it clears PortStateChange (osm_state_mgr.c), and a light sweep does not find it.
RESTLESS = "force_heavy_sweep TRUE"


def restless(bench):
    """Brings up a fabric with a port that goes down and comes back many times."""
    if bench.state.get("fabric") and bench.state.get("setting") == RESTLESS:
        return
    stop_sm(bench)
    start_sm(bench, setting=RESTLESS)
    swept(bench)
    all_active(bench)
    bench.state["fabric"] = True


GROUP = Group("bring_up", PAIR)
GROUPS = [GROUP]


@GROUP.test(debug=False)
def devices(b):
    """A node has the devices that shells need."""
    text = b.sh(1, "echo a >/tmp/a; bash -c 'diff /tmp/a <(echo a) && echo b | cat /dev/stdin "
                   ">/dev/stdout && echo c >/dev/stderr'")
    need(text.split() == ["b", "c"], text)


@GROUP.test(debug=False)
def stdin(b):
    """A command that reads no input ends in time beside others; one that reads gets all of it."""
    # more than the bytes that can be unacknowledged and those in two pipes
    data = random.Random(1).randbytes(1 << 18)
    want = hashlib.sha256(data).hexdigest()
    vm, got = b.lab.vms[0], bytearray()
    with tempfile.TemporaryFile() as f:
        f.write(data)
        f.seek(0)
        ch = Channel(vm.dir, time.monotonic() + 30 * b.slow, vm.alive)
        try:
            ch.run(["sleep", "600"], {}, lambda *_: None, time.monotonic() + 1, f.fileno())
            raise Failure("sleep 600 has ended")
        except Timeout:
            need(b.sh(1, "echo meanwhile").split() == ["meanwhile"], "another command")
        finally:
            ch.close()
        f.seek(0)
        # the same port, whose command has left input unread; cat writes more than a pipe holds
        try:
            ch = Channel(vm.dir, time.monotonic() + 30 * b.slow, vm.alive)
        except Timeout:
            raise Failure("the port of sleep 600 has not answered", "time") from None
        try:
            ch.run(["cat"], {}, lambda _, part: got.extend(part), time.monotonic() + 30 * b.slow,
                   f.fileno())
        except Timeout:
            raise Failure(f"cat has written {len(got)} of {len(data)} bytes", "time") from None
        finally:
            ch.close()
    need(hashlib.sha256(got).hexdigest() == want, f"cat wrote {len(got)} other bytes")


@GROUP.test
def modinfo(b):
    """The module describes itself."""
    text = b.sh(1, "modinfo ohca")
    for field in ("description", "author", "license", "version", "alias"):
        find(rf"^{field}: +\S", text)
    find(r"alias: +pci:v00001234d00000CA0", text)


@GROUP.test
def probe_message(b):
    """One line on probe."""
    for node in (1, 2):
        lines = re.findall(r"^.*\bohca .*$", b.kernel_said(node), re.M)
        need(len(lines) == 1 and f"{DEV}: OpenHCA" in lines[0],
             f"node{node} says {lines!r} on probe")


@GROUP.test
def link_up_without_sm(b):
    """Without a subnet manager, ports are in INIT and links are up."""
    def shows(node):
        return b.sh(node, f"cd /sys/class/infiniband/{DEV}/ports/1; cat state phys_state")

    for node in (1, 2):
        until(20 * b.slow, lambda n=node: shows(n) == "2: INIT\n5: LinkUp\n",
              lambda n=node: f"node{n}: {shows(n).split()!r}")


def seconds_to_subnet_up(b):
    """Seconds from the start of OpenSM to its message, from its log."""
    start_sm(b)
    swept(b)
    begin = float(b.sh(1, f"cat {BEGIN}"))
    h, m, s, us = (int(x) for x in re.search(
        r"(\d+):(\d+):(\d+) (\d+) \[\w+\] 0x\w+ -> SUBNET UP",
        b.sh(1, "grep 'SUBNET UP' /var/log/opensm.log | head -1")).groups())
    took = (h * 3600 + m * 60 + s + us / 1e6 - begin) % 86400
    b.note(f"SUBNET UP after {took:.3f} s")
    return took


@GROUP.test(timeout=120)
def subnet_up(b):
    """OpenSM logs SUBNET UP within 3 s after its start; with the debug kernel, at any time.

    A busy host may stop the nodes for a while. So there are three tries, each from ports without a
    subnet manager.
    """
    limit, took = 120 if b.debug else 3, []
    while not took or took[-1] > limit:
        need(len(took) < 3, f"SUBNET UP {took} s after the start, {limit} allowed")
        if took:
            stop_sm(b)
            for node in (1, 2):
                b.sh(node, "modprobe -r ohca && modprobe ohca && "
                           "modprobe -aq ib_umad ib_uverbs rdma_ucm ib_ipoib", 60)
        took.append(seconds_to_subnet_up(b))
    all_active(b)
    b.state["fabric"] = True


# A program that has waited for a second sends its request again. While OpenSM's answer to the first
# request is being sent, the kernel refuses the same answer to the second one (user_mad.c).
TWICE = re.compile(r"osm_vendor_send: ERR 5430: .*, Method 0x81, .*\(Invalid argument\)|"
                   r"osm_sa_send: ERR 4C04: osm_vendor_send failed")


@GROUP.test
def no_opensm_errors(b):
    """OpenSM logs no error."""
    fabric(b)
    errors = [x for x in b.sh(1, "cat /var/log/opensm.log").splitlines() if re.search(
        r"\bERR\b|error|timeout", x, re.I)]
    others = [x for x in errors if not TWICE.search(x)]
    need(not others, f"{len(others)} errors: {others[:2]}")
    if errors:
        raise Failure(f"OpenSM answered so late that it was asked again: {errors[0]}", "time")
