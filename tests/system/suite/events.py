# SPDX-License-Identifier: GPL-2.0-or-later
"""Events of a port and of the device, and that no status and no event was forgotten.

Subnet managers and cables change node 2's port as in a machine room; its programs, for example
ibv_asyncwatch, must get the events. Statuses and events of queues are in errors.py.
"""
import re

from .bring_up import PULLABLE, all_active, fabric, start_sm, stop_sm, take_over
from .errors import everything, values
from .faults import AQ_DB, poke, rebind, recovers
from .harness import DEV, Group, find, need, until
from .klog import SAID
from .tools import port_of, switch_lid, watch, watched
from .tree import control

GROUP = Group("events", PULLABLE, prepare=fabric)
GROUPS = [GROUP]

# Events that never arrive. If a device does raise one, events.every fails: remove it from the list.
NEVER = {
    "IBV_WC_LOC_EEC_OP_ERR": "of end-to-end contexts, reliable datagrams: no HCA has them, "
                             "nor has libibverbs a type of QP for them",
    "IBV_WC_LOC_RDD_VIOL_ERR": "reliable datagrams",
    "IBV_WC_REM_INV_RD_REQ_ERR": "reliable datagrams",
    "IBV_WC_INV_EECN_ERR": "reliable datagrams",
    "IBV_WC_INV_EEC_STATE_ERR": "reliable datagrams",
    "IBV_WC_FATAL_ERR": "not InfiniBand's (volume 1, 11.6.2); when this device is dead, work "
                        "requests are flushed",
    "IBV_WC_RESP_TIMEOUT_ERR": "not InfiniBand's: the kernel's MAD layer says so of a request "
                               "without an answer, to other parts of the kernel",
    "IBV_WC_GENERAL_ERR": "not InfiniBand's: for what a device has no name for",
    "IBV_EVENT_WQ_FATAL": "of work queues without a QP, for raw Ethernet packets",
}
# ib_core reads its GIDs again, and reports only RoCE's changes to programs (Linux 6.12, cache.c).
SILENT = {"IBV_EVENT_GID_CHANGE"}
# Linux 7 raises it, and rdma-core 65 has a name for it.
SPEED = "IBV_EVENT_DEVICE_SPEED_CHANGE"

PORT = f"/sys/class/infiniband/{DEV}/ports/1"
PROVOKED = []

# Writes GUIDInfo of the port at a LID, as an SM does: block 0 becomes argv[2], the rest stays.
SET_GUID = """
import ctypes, sys
mad = ctypes.CDLL("libibmad.so.5")
mad.mad_rpc_open_port.restype = ctypes.c_void_p
mad.smp_query_via.restype = mad.smp_set_via.restype = ctypes.c_void_p
port = mad.mad_rpc_open_port(None, 0, (ctypes.c_int * 1)(1), 1)
assert port
to = (ctypes.c_int * 128)(int(sys.argv[1]))	# ib_portid_t begins with the LID
info = ctypes.create_string_buffer(64)
rest = (to, 0x14, 0, 10000, ctypes.c_void_p(port))
assert mad.smp_query_via(info, *rest)
info[8:16] = int(sys.argv[2], 16).to_bytes(8, "big")
assert mad.smp_set_via(info, *rest)
"""


def provokes(*events, **options):
    """Decorator: function(b) is a test that makes node 2 raise these events, among others."""
    def add(f):
        def run(b):
            watch(b, 2)
            f(b)
            told = watched(b, 2)
            need(told >= set(events) - SILENT, f"told of {told}")
            b.seen |= told
            b.sh(2, "pkill -x ibv_asyncwatch", status=None)
        PROVOKED.append((set(events), run))
        GROUP.test(run, name=f.__name__, **options)
        return run
    return add


def heard(b, event):
    """Waits until node 2's program has reported an event."""
    until(60 * b.slow, lambda: event in watched(b, 2), f"{event} does not come")


def shows(b, what, value, node=2):
    """Waits until files of a node's port contain a text."""
    until(60 * b.slow, lambda: value in b.sh(node, f"cat {PORT}/{what}"),
          f"{what} of node{node} is not {value}")


def port_lid(b, node):
    """The LID of a node's port."""
    return int(b.sh(node, f"cat {PORT}/lid"), 16)


@provokes("IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE")
def link(b):
    """The switch's end of the cable is disabled and enabled."""
    sw, at = switch_lid(b), port_of(b, 2)
    b.sh(1, f"ibportstate {sw} {at} disable")
    heard(b, "IBV_EVENT_PORT_ERR")
    shows(b, "state", "DOWN")
    b.sh(1, f"ibportstate {sw} {at} enable")
    heard(b, "IBV_EVENT_PORT_ACTIVE")
    shows(b, "state", "ACTIVE")
    all_active(b)


@GROUP.test(timeout=120, debug=False)
def speed(b):
    """Node 2's cable gets worse: the port has another rate, and programs get an event."""
    cable = f"{find(r'^Switch.*: (0x[0-9a-f]+)', b.sh(1, 'ibswitches'))}:{port_of(b, 2)}"
    told = not b.status(2, f"grep -q {SPEED} $(command -v ibv_asyncwatch)")[0]
    b.note(f"ibv_asyncwatch {'has' if told else 'does not have'} {SPEED}")
    for words, rate in ((("degrade", cable, "--speed", "QDR"), "40 Gb/sec (4X QDR)"),
                        (("restore", cable), "100 Gb/sec (4X EDR)")):
        watch(b, 2)
        control(b, "link", *words)
        heard(b, SPEED if told else "IBV_EVENT_PORT_ACTIVE")
        shows(b, "rate", rate)
        # in units of 100 Mb/s; the verb is as old as the event
        want = f"{int(rate.split()[0]) * 10} by {'ibv_query_port_speed' if told else 'attributes'}"
        said = b.sh(2, "/share/ohca-peer probe speed")
        need(want in said.splitlines(), f"{said!r} instead of {want!r}")
        all_active(b)
    b.sh(2, "pkill -x ibv_asyncwatch", status=None)


@provokes("IBV_EVENT_PKEY_CHANGE", timeout=120)
def partition(b):
    """OpenSM reads a new partition from its file, and then none."""
    where = "/etc/opensm/partitions.conf"
    b.sh(1, f"printf 'Default=0x7fff,ipoib: ALL=full;\\nother=0x8123: ALL=full;\\n' >{where}; "
            "pkill -HUP -x opensm")
    heard(b, "IBV_EVENT_PKEY_CHANGE")
    shows(b, "pkeys/*", "0x8123")
    watch(b, 2)
    b.sh(1, f"rm {where}; pkill -HUP -x opensm")
    heard(b, "IBV_EVENT_PKEY_CHANGE")
    # that may have been the last event for the new partition
    until(60 * b.slow, lambda: "0x8123" not in b.sh(2, f"cat {PORT}/pkeys/*"), "the P_Key stays")
    all_active(b)


@provokes("IBV_EVENT_LID_CHANGE", timeout=120, debug=False)
def lid(b):
    """A new OpenSM remembers another LID for node 2."""
    new = 0x37 if port_lid(b, 2) != 0x37 else 0x38
    port_guid = b.sh(2, f"cat {PORT}/gids/0").strip().replace(":", "")[16:]
    table = "/var/cache/opensm/guid2lid"
    stop_sm(b)
    b.sh(1, f"sed -i 's/^0x{port_guid} .*/0x{port_guid} {new:#06x} {new:#06x}/' {table}; "
            f"grep -q '^0x{port_guid} {new:#06x}' {table}")
    start_sm(b, setting="honor_guid2lid_file TRUE")
    heard(b, "IBV_EVENT_LID_CHANGE")
    all_active(b)
    until(60 * b.slow, lambda: port_lid(b, 2) == new, lambda: f"node2 has LID {port_lid(b, 2)}")
    b.peer("verify rc")


@provokes("IBV_EVENT_CLIENT_REREGISTER", timeout=120, debug=False)
def prefix(b):
    """A new OpenSM has another prefix for the subnet; the state of the old one is lost."""
    for value in ("fe80000000000077", "fe80000000000000"):
        stop_sm(b)
        watch(b, 2)
        start_sm(b, setting=f"subnet_prefix 0x{value}")
        heard(b, "IBV_EVENT_CLIENT_REREGISTER")
        for node in (1, 2):
            shows(b, "gids/0", f"fe80:0000:0000:{value[-4:]}:", node)
    all_active(b)


# Three waits follow each other: the first OpenSM hands over in a sweep, which the trap 144 of node
# 2 causes (its port has a subnet manager now); the second one sets the ports in a sweep of its own;
# and a new one does so after both have ended. Each sweep takes a second more for each SMP that a
# stopped node does not answer in time. So the test may take as long as its waits do.
@provokes("IBV_EVENT_SM_CHANGE", timeout=300, debug=False)
def hand_over(b):
    """A second OpenSM on node 2 has the higher priority: the first one hands over."""
    was = port_lid(b, 1)
    need(int(b.sh(2, f"cat {PORT}/sm_lid"), 16) == was, "the master is not on node 1")
    take_over(b, 2)
    heard(b, "IBV_EVENT_SM_CHANGE")
    for node in (1, 2):
        shows(b, "sm_lid", f"{port_lid(b, 2):#x}\n", node)
    # it asks the other OpenSM by a MAD, which may arrive too late while that one sweeps
    until(60 * b.slow,
          lambda: re.search(r"priority 13 .*SMINFO_MASTER", b.status(2, "sminfo")[1]),
          "node2 has no master of priority 13")
    watch(b, 2)
    stop_sm(b, 2)
    stop_sm(b)
    start_sm(b)
    heard(b, "IBV_EVENT_SM_CHANGE")
    shows(b, "sm_lid", f"{was:#x}\n")
    all_active(b)


@provokes("IBV_EVENT_DEVICE_FATAL", timeout=120, reports=SAID)
def fatal(b):
    """The device itself reports that it failed."""
    rebind(b)
    recovers(b, lambda: poke(b, AQ_DB, 0x7fffffff), "reported a fatal error")


@provokes("IBV_EVENT_GID_CHANGE", timeout=120, debug=False)
def guid(b):
    """A second GUID for the port: ib_core must read its GIDs again, which no other event causes."""
    b.sh(1, f"cat >/tmp/set_guid.py <<'END'\n{SET_GUID}END")
    # a sweep of OpenSM for earlier changes may come between
    for left in (2, 1, 0):
        for value in (0x1234f0000000beef, 0):
            b.sh(1, f"python3 /tmp/set_guid.py {port_lid(b, 2)} {value:x}")
            text = f"{value:016x}"
            shows(b, "gids/1", ":".join(text[i:i + 4] for i in range(0, 16, 4)))
        told = watched(b, 2)
        if told <= SILENT:
            break
        need(left, f"the GIDs may have been read because of {told}")
        watch(b, 2)
    b.seen |= SILENT


@GROUP.test(timeout=400, reports=SAID, debug=False)
def every(b):
    """Every status and every event was raised in this run, or can never be raised."""
    wanted = set(values("ibv_wc_status") + values("ibv_event_type"))
    need(wanted >= NEVER.keys(), f"there is no {NEVER.keys() - wanted}")
    for events, run in PROVOKED:
        if not b.seen >= events:
            run(b)
    if not b.seen >= wanted - NEVER.keys():
        everything(b)
    b.note(f"seen: {sorted(b.seen)}")
    need(b.seen.isdisjoint(NEVER), f"came and never can: {sorted(b.seen & NEVER.keys())}")
    left = wanted - b.seen - NEVER.keys()
    need(not left, f"not provoked: {sorted(left)}")
