# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab traffic: what each node has sent over verbs, IPoIB and Ethernet, and which program.

A port counts all bytes that it sends, and a network interface those that it sends. Bytes of a port
that no interface of IPoIB has sent are verbs. These counters do not distinguish programs. With
--start, the kernel of each node counts what tcp_sendmsg() accepts, by program and address, and the
adapter counts bytes by process and type of QP. Only sent bytes are counted, because another node
of the lab has sent what a node receives.
"""
import ipaddress
import json
import re
import time

from . import paths
from .running import Running
from .words import LabError

UNEXPECTED = 3      # the status of --expect if other transports have carried more than --limit
MIB = 1 << 20
VERBS, IPOIB, ETHERNET = "verbs", "IPoIB", "Ethernet"
# by /sys/class/net/*/type, ARPHRD_*
KINDS = {"1": ETHERNET, "32": IPOIB}
# the type of QP that an interface of IPoIB uses, by its mode
MODES = {"datagram": ", UD", "connected": ", RC"}
# bytes of LRH, BTH, DETH and ICRC of an IPoIB datagram, which its interface does not count
IB_HEADERS = 32
# bytes of the headers of IPoIB, IP and TCP that the device adds to each segment it cuts
TCP_HEADERS = 56
# owners of the kernel's own QPs: those of IPoIB, and QP 0 and 1
INTERNAL = {"ib_ipoib", "ib_core"}

# enum ib_qp_type, as the driver's tracepoint prints it
TYPES = {2: "RC", 3: "UC", 4: "UD", 8: "RAW_PACKET", 9: "XRC_INI", 10: "XRC_TGT"}

# The sections are parsed by Snapshot.
READ = r"""
exec 2>/dev/null
echo == ports
cat /sys/class/infiniband/*/ports/*/counters/port_xmit_data
echo == interfaces
for i in /sys/class/net/*; do
	[ -e "$i/type" ] || continue
	echo "${i##*/} $(cat "$i/type" "$i/statistics/tx_bytes" "$i/statistics/tx_packets" "$i/mtu" |
		tr '\n' ' ')$(cat "$i/mode")"
done
echo == addresses
ip -4 -o addr show
echo == sent
cat /sys/kernel/tracing/events/ohca_lab/sent/hist
echo == ended
cat /sys/kernel/tracing/events/ohca/ohca_counters/hist
echo == qps
rdma -j resource show qp
echo
echo == sets
rdma -j statistic qp show
echo
echo == end
"""
# Binds QPs to sets of counters by process and type, and sums the sets' last values by program.
# Then sets a return probe at tcp_sendmsg() for IPv4 sockets; it sums the returned bytes by program
# and peer. Up to 256 calls at a time may wait for room in their sockets. A struct sock has the
# peer's address at offset 0 and the family at offset 16.
START = r"""
for p in /sys/class/infiniband/*/ports/*; do
	d=${p#/sys/class/infiniband/}
	rdma statistic qp set link "${d%%/*}/${p##*/}" auto type,pid on
done >/dev/null 2>&1
t=/sys/kernel/tracing
grep -q " $t tracefs " /proc/mounts || mount -t tracefs tracefs $t || exit 1
[ ! -e $t/events/ohca_lab/sent ] || exit 0
echo 'hist:keys=common_pid.execname,type:vals=tx_bytes:size=4096' >$t/events/ohca/ohca_counters/trigger
echo 'r256:ohca_lab/sent tcp_sendmsg family=+16($arg1):u16 to=+0($arg1):u32 bytes=$retval:s64' \
	>>$t/kprobe_events || exit 1
echo 'hist:keys=common_pid.execname,to:vals=bytes:size=4096 if family == 2 && bytes > 0' \
	>$t/events/ohca_lab/sent/trigger && exit 0
echo '-:ohca_lab/sent' >>$t/kprobe_events
exit 1
"""
# An entry of a histogram: a program, the second key, the sum.
ENTRY = re.compile(
    r"\{ common_pid: (.*?) *\[ *\d+\], \w+: *(\d+) \} hitcount: *\d+ *\w+: *(\d+)")


def rows_of(lines):
    """The objects of a list in JSON; an empty list if the text is no such list."""
    try:
        return [r for r in json.loads("\n".join(lines)) if isinstance(r, dict)]
    except ValueError:
        return []


def plain(name):
    """A name without characters that do not print: programs and root choose names in a node."""
    return "".join(c if c.isprintable() else "?" for c in name).strip("[]")


class Snapshot:
    """The counters of a node since its boot.

    port: bytes of all ports. interfaces: {name: [kind, bytes, packets, MTU, mode]}. programs:
    {interface: {program: bytes}}, or None if they are not counted. verbs: {"type program": bytes}.
    qps: {"type program": number of QPs that exist now}.
    """

    def __init__(self, text, guest):
        """text is what READ prints, guest the system of the node."""
        sections = {}
        for line in text.splitlines():
            if line.startswith("== "):
                lines = sections[line[3:]] = []
            elif sections:
                lines.append(line)
        if "end" not in sections or not sections["ports"]:
            raise LabError("traffic: the counters of a node could not be read")
        self.port = sum(int(x) for x in sections["ports"] if x.isdigit()) * 4
        self.interfaces = {}
        for name, kind, *numbers in (line.split() for line in sections["interfaces"]):
            if kind in KINDS and len(numbers) >= 3:
                self.interfaces[plain(name)] = [KINDS[kind], *map(int, numbers[:3]), *numbers[3:4]]
        self.programs = self._programs(sections, "big" if guest.arch == "s390x" else "little")
        self.qps, self.verbs = {}, {}
        for name, kind, count in ENTRY.findall("\n".join(sections["ended"])):
            self._add(self.verbs, TYPES.get(int(kind), "?"), name, int(count))
        self._qps(rows_of(sections["qps"]), rows_of(sections["sets"]))

    @staticmethod
    def _add(to, kind, program, count):
        """Adds count to the sum of a type and program."""
        who = f"{plain(kind)} {plain(program)}"
        to[who] = to.get(who, 0) + count

    def _programs(self, sections, order):
        if not sections["sent"]:
            return None
        # a child of ib0 is ib0.8001@ib0
        networks = [(plain(m[1]), ipaddress.ip_interface(m[2])) for m in re.finditer(
            r"^\d+: ([^\s@]+)\S* +inet (\S+)", "\n".join(sections["addresses"]), re.M)]
        programs = {}
        for name, to, count in ENTRY.findall("\n".join(sections["sent"])):
            to = ipaddress.ip_address(int(to).to_bytes(4, order))
            where = next((i for i, a in networks if to in a.network), None)
            # packets to the node's own addresses use no interface
            if where in self.interfaces and all(to != a.ip for _, a in networks):
                of = programs.setdefault(where, {})
                of[plain(name)] = of.get(plain(name), 0) + int(count)
        return programs

    def _qps(self, rows, sets):
        sent = {}
        for row in sets:
            for qpn in re.findall(r"\d+", json.dumps(row.get("lqpn", ""))):
                # all QPs of a set have one program and type: assign the bytes to the first one
                sent[row.get("ifname"), int(qpn)] = row.pop("tx_bytes", 0)
        for row in rows:
            kind, program = row.get("type", "?"), row.get("comm", "?")
            if kind not in ("SMI", "GSI") and ("pid" in row or plain(program) not in INTERNAL):
                self._add(self.qps, kind, program, 1)
                self._add(self.verbs, kind, program,
                          sent.get((row.get("ifname"), row.get("lqpn")), 0))

    def saved(self):
        """The counters as an object for JSON."""
        return {"port": self.port, "interfaces": self.interfaces, "programs": self.programs,
                "verbs": self.verbs}


def wire(count, packets, mtu):
    """Bytes on the wire for the bytes and packets that an interface of IPoIB has counted.

    The interface counts a large segment as one packet; the device cuts it, and adds headers to
    each part.
    """
    parts = max(packets, -(-count // max(mtu, 1)))
    return count + parts * IB_HEADERS + (parts - packets) * TCP_HEADERS


class Sent:
    """What a node has sent since a snapshot, or since its boot.

    rows: {(transport, interface): bytes}; the interface of verbs is "". programs: {interface:
    {program: bytes}}, or None. modes: {interface: text}. verbs, qps: as in Snapshot.
    """

    def __init__(self, now, base=None):
        base = base or {"port": 0, "interfaces": {}, "programs": {}, "verbs": {}}
        self.rows, self.qps, ipoib = {(VERBS, ""): 0}, now.qps, 0
        self.modes = {}
        for name, (kind, count, packets, mtu, *mode) in now.interfaces.items():
            _, count0, packets0, *_ = base["interfaces"].get(name, (None, 0, 0))
            count, packets = max(count - count0, 0), max(packets - packets0, 0)
            self.rows[kind, name] = count
            self.modes[name] = MODES.get(mode[0], "") if mode else ""
            ipoib += wire(count, packets, mtu) if kind == IPOIB else 0
        self.rows[VERBS, ""] = max(now.port - base["port"] - ipoib, 0)
        self.programs = None if now.programs is None else {
            name: {p: n - (base["programs"] or {}).get(name, {}).get(p, 0) for p, n in of.items()}
            for name, of in now.programs.items()}
        self.verbs = {who: n - base["verbs"].get(who, 0) for who, n in now.verbs.items()}

    def total(self, transport):
        """Bytes that the node has sent by a transport."""
        return sum(n for (kind, _), n in self.rows.items() if kind == transport)

    def by(self, interface):
        """Programs that have sent by an interface and their bytes, the largest first."""
        of = (self.programs or {}).get(interface, {})
        return sorted(((n, p) for p, n in of.items() if n > 0), reverse=True)

    def lines(self):
        """Yields (name, bytes, programs) of each transport and interface."""
        for (kind, name), count in self.rows.items():
            if kind == VERBS:
                who = sorted(self.verbs.items(), key=lambda x: (-x[1], x[0]))
                yield VERBS, count, ", ".join(
                    f"{p} {n / MIB:.1f}" if n >= MIB / 20 else f"{p} {n} bytes" if n > 0 else
                    f"{p} has QPs" for p, n in who if n > 0 or p in self.qps)
            else:
                who = [f"{p} {n / MIB:.1f}" for n, p in self.by(name) if n >= MIB / 20]
                yield f"{name} ({kind}{self.modes[name]})", count, ", ".join(who)


def look(lab):
    """{node: Sent} of a lab, since --start or its boot, and the time of --start or None."""
    if lab.state["fabric"] != "ohca":
        raise LabError(f"traffic: lab {lab.name} has no adapters of OpenHCA: it was started with "
                       f"--fabric {lab.state['fabric']}")
    try:
        with open(lab.file("traffic"), encoding="utf-8") as f:
            said = json.load(f)
    except OSError:
        said = {"time": None, "nodes": {}}
    return {lab.first + k - 1: Sent(ask(lab, k), said["nodes"].get(str(k)))
            for k in lab.nodes}, said["time"]


def ask(lab, k):
    """The Snapshot of a node."""
    text = lab.sh(k, READ)[1]
    try:
        return Snapshot(text, paths.Guest(lab.state["guests"][k - 1]))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as e:
        raise LabError(f"traffic: {lab.state['names'][k - 1]} printed something else than its "
                       f"counters: {e!r}"[:300]) from None


def start(lab):
    """Begins to count what each node and program sends; returns lines for the user."""
    lines = []
    for k in lab.nodes:
        status, _ = lab.sh(k, START)
        if status:
            lines.append(f"node{lab.first + k - 1} cannot count by program: this needs return "
                         "probes with arguments, which Linux has since 6.9")
    said = {"time": time.time(), "nodes": {k: ask(lab, k).saved() for k in lab.nodes}}
    with open(lab.file("traffic"), "w", encoding="utf-8") as f:
        json.dump(said, f)
    return lines


def unexpected(nodes, transport, limit):
    """Yields what is unexpected, if each node shall send all but limit bytes by one transport."""
    if all(sent.total(transport) <= limit for sent in nodes.values()):
        yield f"no node has sent more than {limit / MIB:.1f} MiB by {transport}"
    for k, sent in nodes.items():
        for (kind, name), count in sent.rows.items():
            if kind == transport or count <= limit:
                continue
            way = f"by {kind}" + (f" ({name})" if name else "")
            who = [(n, p) for n, p in sent.by(name) if n > limit]
            for n, program in who:
                yield f"node{k}: {program} has sent {n / MIB:.1f} MiB {way}"
            if not who:
                yield f"node{k} has sent {count / MIB:.1f} MiB {way}"


def add_parser(sub, work):
    """The command line of 'ohca-lab traffic'; sub has the subparsers, work runs it."""
    p = sub.add_parser("traffic", help="show what nodes have sent over verbs, IPoIB and Ethernet")
    p.add_argument("--name", default="default", help="the lab (default)")
    p.add_argument("--start", action="store_true",
                   help="count from now on, and by program; without it, counts begin at boot")
    p.add_argument("--expect", choices=[t.lower() for t in (VERBS, IPOIB, ETHERNET)],
                   help=f"exit with {UNEXPECTED} if a node has sent more than --limit by another "
                        "transport, and print by which program, or if no node has by this one")
    p.add_argument("--limit", type=float, default=1, metavar="MIB",
                   help="MiB that a node may send by other transports (1)")
    p.set_defaults(work=work)


def run(opt, state_of):
    """ohca-lab traffic; state_of(NAME) is a lab's state."""
    lab = Running(opt.name, state_of(opt.name))
    if opt.start:
        if opt.expect:
            raise LabError("traffic: give --start before the job and --expect after it")
        look(lab)       # fails for a lab without adapters of OpenHCA
        for line in start(lab):
            print(line)
        return 0
    nodes, since = look(lab)
    print("sent since " + ("the nodes' boot" if since is None else
                           f"'ohca-lab traffic --start', {time.time() - since:.0f} s ago"))
    for k, sent in nodes.items():
        for name, count, who in sent.lines():
            print(f"{f'node{k}':<7} {name:<20} {count / MIB:10.1f} MiB  {who}".rstrip())
    if not opt.expect:
        return 0
    transport = next(t for t in (VERBS, IPOIB, ETHERNET) if t.lower() == opt.expect)
    wrong = list(unexpected(nodes, transport, opt.limit * MIB))
    for line in wrong:
        print(f"unexpected: {line}")
    if wrong and any(sent.programs is None for sent in nodes.values()):
        print("to count by program, run 'ohca-lab traffic --start' before the job")
    return UNEXPECTED if wrong else 0
