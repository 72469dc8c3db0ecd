# SPDX-License-Identifier: GPL-2.0-or-later
"""IPoIB with the device's offloads: checksums, large segments, both modes."""
import json
import re

from ohca_lab import traffic

from .bring_up import PULLABLE, fabric
from .harness import DEV, Group, find, linux, need
from .life import LAST

GROUP = Group("ipoib", PULLABLE, debug=False, prepare=fabric)
GROUPS = [GROUP, LAST]

ON = ("rx-checksumming", "tx-checksum-ipv4", "tcp-segmentation-offload", "tx-tcp-segmentation")
IPERF_PORT = 5201
PATIENCE = "5s"
ROUTE = "ip route replace 10.77.0.0/24 dev ib0 proto kernel scope link src 10.77.0.2"

# minimum, default, maximum; up to 555 datagrams of MTU 2044 have been seen under way
SEND_BUFFER = "4096 16384 262144"

ERRORS = ("TcpInCsumErrors", "UdpInCsumErrors")
# datagrams for which the receiver's socket had no room
NO_ROOM = ("UdpRcvbufErrors", "UdpMemErrors")
DROPS = ("TcpExtTCPRcvQDrop", "TcpExtTCPBacklogDrop", "TcpExtTCPTimeouts")
STRAY = 3   # packets of others between two counts, which are not read at the same time


def counts(b, node):
    """The counters of the interface, the port, the device and the network stack."""
    text = b.sh(node, "echo skbs $(cat /sys/class/net/ib0/statistics/tx_packets); "
                      f"cd /sys/class/infiniband/{DEV}; "
                      "echo packets $(cat ports/1/counters/unicast_xmit_packets); "
                      "echo arrived $(cat ports/1/counters/unicast_rcv_packets); "
                      "echo dropped $(cat hw_counters/rx_no_wqe ports/1/hw_counters/rx_no_wqe "
                      "2>/dev/null); nstat -asz UdpInDatagrams " +
                " ".join(ERRORS + DROPS + NO_ROOM))
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines()
            if re.match(r"\w+\s+\d+", line)}


def bad(before, after):
    """The wrong checksums that the stack found between two counts."""
    return [(k, name) for k in (0, 1) for name in ERRORS if before[k][name] != after[k][name]]


def iperf(b, *options):
    """One TCP stream from node 2 to node 1, no segment sent twice.

    Returns the bytes that have arrived, and the segments and packets that carried them.

    The sender's buffer limits the data in flight to the size of IPoIB's receive queue, which is
    enlarged. The receiver's buffer has no limit (-w would set one): otherwise TCP drops data that
    arrives while the server does not run. The sender's timeout is long enough for a guest that is
    stopped for a while, so that it retransmits only lost segments, not late ones.
    """
    before = [counts(b, k) for k in (1, 2)]
    usual = b.sh(2, "sysctl -n net.ipv4.tcp_wmem").strip()
    b.sh(2, f"{ROUTE} rto_min {PATIENCE}; sysctl -qw net.ipv4.tcp_early_retrans=0 "
            f"net.ipv4.tcp_wmem='{SEND_BUFFER}'")
    try:
        _, text = b.pair("iperf3 -s -1", "iperf3 -c 10.77.0.1 -J " + " ".join(options), IPERF_PORT)
    finally:
        b.sh(2, f"{ROUTE}; sysctl -qw net.ipv4.tcp_early_retrans=3 net.ipv4.tcp_wmem='{usual}'")
    end = json.loads(text[text.index("{"):])["end"]
    after = [counts(b, k) for k in (1, 2)]
    need(end["sum_received"]["bytes"] > 0, "nothing arrived")
    again = end["sum_sent"]["retransmits"]
    # Both directions together: the switch answers OpenSM's requests meanwhile.
    # Unicast only: a multicast packet (MLD, neighbour discovery) has as many receivers as members.
    sent, arrived = (sum(after[k][name] - before[k][name] for k in (0, 1))
                     for name in ("packets", "arrived"))
    b.note(f"{end['sum_received']['bits_per_second'] / 1e9:.2f} Gb/s, {again} segments sent again, "
           f"lost {sent - arrived}")
    need(all(before[k]["dropped"] == after[k]["dropped"] for k in (0, 1)),
         "datagrams without a receive WQE")
    need(again == 0 and sent - arrived <= STRAY,
         f"{again} segments sent again, packets lost: {sent - arrived}, "
         f"dropped by TCP: {[after[k][name] - before[k][name] for k in (0, 1) for name in DROPS]}")
    need(not bad(before, after), f"wrong checksums: {bad(before, after)}")
    return (end["sum_received"]["bytes"], after[1]["skbs"] - before[1]["skbs"],
            after[1]["packets"] - before[1]["packets"])


@GROUP.test
def offloads(b):
    """ethtool shows the device's offloads."""
    for node in (1, 2):
        text = b.sh(node, "ethtool -k ib0")
        for name in ON:
            need(re.search(rf"^\s*{name}: on", text, re.M), f"node{node}: {name} is not on")


@GROUP.test
def datagram(b):
    """A stream in large segments: the device cuts them, and no checksum is wrong."""
    size, skbs, packets = iperf(b, "-n", "32M")
    mtu = int(find(r"mtu (\d+)", b.sh(2, "ip link show ib0")))
    need(packets >= size // mtu, f"{packets} packets for {size} bytes of MTU {mtu}")
    need(skbs * 4 < packets, f"{skbs} large segments made {packets} packets")


@GROUP.test
def without(b):
    """The same without offloads: packets made by software work, too."""
    for node in (1, 2):
        b.sh(node, "ethtool -K ib0 rx off tx off tso off")
    try:
        _, skbs, packets = iperf(b, "-n", "4M")
        need(packets < skbs * 2, f"{skbs} packets became {packets}")
    finally:
        for node in (1, 2):
            b.sh(node, "ethtool -K ib0 rx on tx on tso on")


def stream(b, size):
    """size bytes by TCP from node 2 to node 1, which must receive them all, unchanged.

    iperf3 -n ends when the last bytes are in the sender's socket, and may never send them.
    """
    data = f"import random, socket; data = random.Random(7).randbytes({size}); "
    server = data + ("s = socket.create_server(('10.77.0.1', 7778)); c, _ = s.accept(); "
                     "got = c.makefile('rb').read(); assert got == data, len(got)")
    client = data + "c = socket.create_connection(('10.77.0.1', 7778)); c.sendall(data)"
    b.pair(f'python3 -c "{server}"', f'python3 -c "{client}"', 7778)


@GROUP.test
def mixed(b):
    """The device's checksums against software's check, and the reverse."""
    for off in (1, 2):
        before = [counts(b, k) for k in (1, 2)]
        b.sh(off, "ethtool -K ib0 rx off tx off tso off")
        try:
            stream(b, 1 << 20)
        finally:
            b.sh(off, "ethtool -K ib0 rx on tx on tso on")
        need(not bad(before, [counts(b, k) for k in (1, 2)]), "wrong checksums")


@GROUP.test
def udp(b):
    """UDP with checksums of the device: each datagram arrives, or a counter has its loss."""
    before = [counts(b, k) for k in (1, 2)]
    _, text = b.pair("iperf3 -s -1", "iperf3 -c 10.77.0.1 -u -b 20M -l 1400 -n 2M -J", IPERF_PORT)
    end = json.loads(text[text.index("{"):])["end"]["sum"]
    after = [counts(b, k) for k in (1, 2)]
    need(not bad(before, after), f"wrong checksums: {bad(before, after)}")
    grew = {name: after[0][name] - before[0][name] for name in before[0]}
    lost, sent = end["lost_packets"], end["packets"]
    b.note(f"{sent} datagrams, {lost} lost, {grew}")
    need(sent > 1000, f"{sent} datagrams only")
    # A receiver that is stopped loses datagrams when its buffers are full. iperf3 does not count
    # lost ones without a later one, and leaves the last ones in its socket, which the stack does
    # not count: then all packets that node 2's port has sent must have arrived at node 1's.
    dropped = sum(grew[name] for name in NO_ROOM) + grew.get("dropped", 0)
    on_wire = after[1]["packets"] - before[1]["packets"]
    need(lost <= dropped and (grew["UdpInDatagrams"] + dropped >= sent
                              or grew["arrived"] >= on_wire >= sent),
         f"of {sent} datagrams {lost} are lost: {grew}")


@GROUP.test
def connected(b):
    """Connected mode: RC connections, a large MTU."""
    for node in (1, 2):
        b.sh(node, "echo connected >/sys/class/net/ib0/mode && ip link set ib0 mtu 65520")
    try:
        b.sh(2, "ping -c 3 -i 0.2 -s 60000 -M do 10.77.0.1")
        iperf(b, "-n", "32M")
    finally:
        for node in (1, 2):
            b.sh(node, "echo datagram >/sys/class/net/ib0/mode; ip link set ib0 mtu 2044")
    b.sh(2, "ping -c 3 -i 0.2 10.77.0.1")


def gone(b, base):
    """The bytes that node 2 has sent since a snapshot, and a new snapshot."""
    now = traffic.Snapshot(b.sh(2, traffic.READ), b.lab.vms[1].guest)
    b.note(f"{now.saved()}")
    return traffic.Sent(now, base), now.saved()


@GROUP.test
def who(b):
    """The output of ohca-lab traffic: a program that has sent by IPoIB, then one by verbs."""
    size = 8 << 20
    status, text = b.status(2, traffic.START)
    need(not status or linux(b, 2) < (6, 9), f"no counts by program: {text}")
    base = gone(b, None)[1]
    stream(b, size)
    ended, base = gone(b, base)
    need(size <= ended.total(traffic.IPOIB) < size * 3 // 2,
         f"IPoIB has sent {ended.total(traffic.IPOIB)} bytes of {size}")
    need(ended.total(traffic.VERBS) < size // 32,
         f"{ended.total(traffic.VERBS)} bytes of IPoIB are taken for verbs")
    if not status:
        need(any(p == "python3" and size <= n < size + (1 << 16) for n, p in ended.by("ib0")),
             f"by ib0 have sent: {ended.by('ib0')}")
    write = f"ib_write_bw -F -d {DEV} -s 65536 -n {size >> 16}"
    b.pair(write, f"{write} node1", 18515)
    ended, _ = gone(b, base)
    need(size <= ended.total(traffic.VERBS) < size * 3 // 2,
         f"verbs have sent {ended.total(traffic.VERBS)} bytes of {size}")
    need(ended.total(traffic.IPOIB) < 1 << 16, f"and IPoIB {ended.total(traffic.IPOIB)}")
    sent = ended.verbs.get("RC ib_write_bw", 0)
    need(size <= sent < size * 3 // 2, f"ib_write_bw has sent {ended.verbs}")
