# SPDX-License-Identifier: GPL-2.0-or-later
"""Effects of the fabric on its nodes, and of a node on the fabric."""
import contextlib
import re

from .bring_up import all_active, fabric, start_sm, stop_sm
from .harness import DEV, PERF_PORT, Group, find, need, tail, until
from .klog import SAID
from .tools import counters, switch_lid, watch, watched

GROUP = Group("fabric", ("-n", "3", "--no-sm"), debug=False, prepare=fabric)

# true when perftest's server has its device and waits for a client
LISTENS = "grep -qi ':%04X 0.*:0000 0A' /proc/net/tcp*" % PERF_PORT
# how perftest's programs end without their peer: with any status, but by no signal
LOST = range(128)
# QEMU's message if the fabric's process has ended
LOSES = "lost its HCA"


def states(b):
    """PortState of each node."""
    return [b.lab.capture(vm.k, f"cat /sys/class/infiniband/{DEV}/ports/1/state", 20)[1].strip()
            for vm in b.lab.vms]


def blocks(b, seconds, on=(1, 2)):
    """Blocks that two nodes exchange in a second."""
    s_out, _ = b.peer(f"stream {seconds}", seconds + 60, on)
    return int(find(r"moved (\d+) blocks", s_out)) / seconds


def outlived(b):
    """By node: packets for which HOQLife ended at the switch's port that leads to it."""
    sw, text = switch_lid(b), b.sh(1, "ibnetdiscover")
    ports = {k: find(rf'^\[(\d+)\]\s+"H-.*# "node{k}', text) for k in (1, 2, 3)}
    return {k: counters(b, sw, port, "-D")["PortSwHOQLifetimeLimitDiscards"]
            for k, port in ports.items()}


@GROUP.test(timeout=240)
def paused(b):
    """A node is stopped while one writes to it: the others continue, and it comes back."""
    command = f"ib_write_bw -F -d {DEV} -s 65536 -D 60"
    server = b.background(3, command, LISTENS, ends=LOST)
    client = b.background(2, f"{command} node3",
                          "rdma resource show qp | grep -q 'state RTS.*ib_write_bw'", ends=LOST)
    # ports also discarded packets before they were Active: those do not count
    b.sh(1, "ibqueryerrors -k", 60, status=None)
    before = outlived(b)
    with b.stopped(3):
        # the same input of the switch: node 2 sends to both; if one held up the other, then
        # each packet would wait as long as HOQLife, which is a second
        now = blocks(b, 6)
        text = client.wait()
    find("[Cc]ompletion with error|Failed status 12", text)
    # the switch's port to it discarded its packets; packets for others that wait behind these may
    # have been at the switch for longer than LifeTimeValue, but are never discarded as too old
    text = b.sh(1, "ibqueryerrors -r", 60, status=None)
    ports = re.findall(r"port \d+: \[.*PortXmitDiscards == \d+.*\n +Link info:.*==> .*\"(.*)\"",
                       text)
    need("node3" in ports, f"XmitDiscards counted at ports that lead to {ports}")
    after = outlived(b)
    old = [k for k in after if after[k] != before[k]]
    need(old == [3], f"HOQLife ended packets for {old}: {before}, {after}")
    b.note(f"{now:.1f} blocks/s while node3 stood still")
    need(now > 10, f"{now:.1f} blocks/s while a node stood still")
    server.finish()
    all_active(b)
    b.peer("verify rc", on=(1, 3))
    b.peer("stream 0.5", on=(3, 2))


@contextlib.contextmanager
def without_switch(b):
    """In this context, the switch does not run, and the HCAs are away."""
    marks = {vm.k: len(b.kernel_said(vm.k)) for vm in b.lab.vms}

    def said(what):
        return all(what in b.kernel_said(k)[mark:] for k, mark in marks.items())
    b.lab.stop_fabric()
    until(20 * b.slow, lambda: said("the device is away"), "a device is not away")
    yield
    b.lab.start_fabric()
    until(20 * b.slow, lambda: said("recovered, after it was away"), "a device does not come back")
    # its port is another one now; one that waits for answers does not end
    stop_sm(b, signal="KILL")
    start_sm(b)
    until(20 * b.slow, lambda: not any("DOWN" in x for x in states(b)),
          "a port does not find the new switch")


def works_again(b):
    """OpenSM has swept a new switch, and all nodes reach each other."""
    all_active(b, 40)
    for on in ((1, 2), (3, 1)):
        b.peer("verify rc", on=on)
    text = b.sh(2, "n=0; until ping -c 1 -W 1 node1-ib; do n=$((n + 1)); [ $n -lt 20 ] || exit 1; "
                   "done", 60)
    need(" 0% packet loss" in text, tail(text))


@GROUP.test(timeout=240, says=LOSES, reports=SAID)
def switch_restart(b):
    """The switch goes away, and a new one comes: OpenSM sweeps, all works again.

    The second time it is away for longer than a driver tries with a device that failed.
    """
    recover = "/sys/kernel/tracing/events/ohca/ohca_recover/enable"
    b.peer("verify rc")
    with without_switch(b):
        pass
    works_again(b)
    watch(b, 2)
    b.sh(2, f"echo >/sys/kernel/tracing/trace; echo 1 >{recover}")
    with without_switch(b):
        until(40 * b.slow, lambda: b.sh(2, "cat /sys/kernel/tracing/trace").count(", ret -112") > 5,
              "the driver does not look for it")
    text = b.sh(2, f"echo 0 >{recover}; cat /sys/kernel/tracing/trace")
    need(set(re.findall(r" attempt (\d+), ", text)) == {"0"}, tail(text))
    need("IBV_EVENT_DEVICE_FATAL" in watched(b, 2), "the program does not hear of it")
    works_again(b)
