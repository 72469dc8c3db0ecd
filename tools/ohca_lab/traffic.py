# SPDX-License-Identifier: GPL-2.0-or-later
"""ohca-lab traffic: what each node has sent over verbs, IPoIB and Ethernet, and which program.

A port counts all that leaves it, and a network interface what it sends; what a port has sent and no
interface of IPoIB is verbs. Neither knows programs. --start has the kernel of each node count, by
program and address, what tcp_sendmsg() accepts, and the adapter bytes by process and type of QP.
Only what is sent counts: what a node receives another one has sent.
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
# which type of QP an interface of IPoIB uses, by its mode
MODES = {"datagram": ", UD", "connected": ", RC"}
# LRH, BTH, DETH and ICRC of a datagram of IPoIB, which its interface does not count
IB_HEADERS = 32
# IPoIB's header and those of IP and TCP, which each segment has that the device cuts
TCP_HEADERS = 56
# of QPs that the kernel has for itself: IPoIB's, and QP 0 and 1
INTERNAL = {"ib_ipoib", "ib_core"}

# enum ib_qp_type, as the driver's tracepoint has it
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
# Sets of counters for each process and type of QP, and what they have at their end, by program.
# Then a probe of what tcp_sendmsg() returns, of sockets of IPv4, with the arguments that it was
# called with; up to 256 calls at a time wait for room in their sockets. A struct sock begins with
# the peer's address, and the family is at 16.
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
    """The objects of a list in JSON; none if it is not one."""
    try:
        return [r for r in json.loads("\n".join(lines)) if isinstance(r, dict)]
    except ValueError:
        return []


def plain(name):
    """A program's name, which it chooses itself, as one may print it."""
    return "".join(c if c.isprintable() else "?" for c in name).strip("[]")


class Snapshot:
    """What a node has counted since its boot.

    port: bytes of all ports. interfaces: {name: [kind, bytes, packets, MTU, mode]}. programs:
    {interface: {program: bytes}}, or None: nobody counts them. verbs: {"type program": bytes}.
    qps: {"type program": QPs} of those that are there now.
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
            raise LabError("a node does not say what it has sent")
        self.port = sum(int(x) for x in sections["ports"] if x.isdigit()) * 4
        self.interfaces = {}
        for name, kind, *numbers in (line.split() for line in sections["interfaces"]):
            if kind in KINDS and len(numbers) >= 3:
                self.interfaces[name] = [KINDS[kind], *map(int, numbers[:3]), *numbers[3:4]]
        self.programs = self._programs(sections, "big" if guest.arch == "s390x" else "little")
        self.qps, self.verbs = {}, {}
        for name, kind, count in ENTRY.findall("\n".join(sections["ended"])):
            self._add(self.verbs, TYPES.get(int(kind), "?"), name, int(count))
        self._qps(rows_of(sections["qps"]), rows_of(sections["sets"]))

    @staticmethod
    def _add(to, kind, program, count):
        """To one of the sums by type and program."""
        who = f"{kind} {plain(program)}"
        to[who] = to.get(who, 0) + count

    def _programs(self, sections, order):
        if not sections["sent"]:
            return None
        # a child of ib0 is ib0.8001@ib0
        networks = [(m[1], ipaddress.ip_interface(m[2])) for m in re.finditer(
            r"^\d+: ([^\s@]+)\S* +inet (\S+)", "\n".join(sections["addresses"]), re.M)]
        programs = {}
        for name, to, count in ENTRY.findall("\n".join(sections["sent"])):
            to = ipaddress.ip_address(int(to).to_bytes(4, order))
            where = next((i for i, a in networks if to in a.network), None)
            # what goes to an address of its own takes no interface
            if where in self.interfaces and all(to != a.ip for _, a in networks):
                of = programs.setdefault(where, {})
                of[plain(name)] = of.get(plain(name), 0) + int(count)
        return programs

    def _qps(self, rows, sets):
        sent = {}
        for row in sets:
            for qpn in re.findall(r"\d+", json.dumps(row.get("lqpn", ""))):
                # all QPs of a set are of one program and type: the first one gets its bytes
                sent[row.get("ifname"), int(qpn)] = row.pop("tx_bytes", 0)
        for row in rows:
            kind, program = row.get("type", "?"), row.get("comm", "?")
            if kind not in ("SMI", "GSI") and ("pid" in row or plain(program) not in INTERNAL):
                self._add(self.qps, kind, program, 1)
                self._add(self.verbs, kind, program,
                          sent.get((row.get("ifname"), row.get("lqpn")), 0))

    def saved(self):
        """As JSON has it."""
        return {"port": self.port, "interfaces": self.interfaces, "programs": self.programs,
                "verbs": self.verbs}


def wire(count, packets, mtu):
    """Bytes on the wire of what an interface of IPoIB has sent.

    A large segment that the device cuts is one packet to the interface, and each part has headers.
    """
    parts = max(packets, -(-count // max(mtu, 1)))
    return count + parts * IB_HEADERS + (parts - packets) * TCP_HEADERS


class Sent:
    """What a node has sent since a snapshot, if there is one.

    rows: {(transport, interface): bytes}, of verbs with "". programs: {interface: {program:
    bytes}}, or None. modes: {interface: text}. verbs, qps: as of Snapshot.
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
        """Bytes that went by a transport."""
        return sum(n for (kind, _), n in self.rows.items() if kind == transport)

    def by(self, interface):
        """Programs that have sent by an interface and their bytes, the largest first."""
        of = (self.programs or {}).get(interface, {})
        return sorted(((n, p) for p, n in of.items() if n > 0), reverse=True)

    def lines(self):
        """A line for each transport and interface: its name, bytes, and who it was."""
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
        raise LabError(f"traffic: lab {lab.name} has no adapters of OpenHCA")
    try:
        with open(lab.file("traffic"), encoding="utf-8") as f:
            said = json.load(f)
    except OSError:
        said = {"time": None, "nodes": {}}
    return {lab.first + k - 1: Sent(ask(lab, k), said["nodes"].get(str(k)))
            for k in lab.nodes}, said["time"]


def ask(lab, k):
    """The Snapshot of a node."""
    return Snapshot(lab.sh(k, READ)[1], paths.Guest(lab.state["guests"][k - 1]))


def start(lab):
    """From now on counts what is sent, and by which program; returns lines for the user."""
    lines = []
    for k in lab.nodes:
        status, _ = lab.sh(k, START)
        if status:
            lines.append(f"node{lab.first + k - 1} can not count by program: its kernel has no "
                         "probes with the arguments of a call, as Linux 6.9 and newer ones do")
    said = {"time": time.time(), "nodes": {k: ask(lab, k).saved() for k in lab.nodes}}
    with open(lab.file("traffic"), "w", encoding="utf-8") as f:
        json.dump(said, f)
    return lines


def unexpected(nodes, transport, limit):
    """What is not as expected: that all but limit bytes of each node go by one transport."""
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
    p = sub.add_parser("traffic", help="what each node has sent over verbs, IPoIB and Ethernet")
    p.add_argument("--name", default="default", help="the lab (default)")
    p.add_argument("--start", action="store_true",
                   help="count from now on, and by program; without it counts begin with the boot")
    p.add_argument("--expect", choices=[t.lower() for t in (VERBS, IPOIB, ETHERNET)],
                   help=f"the status is {UNEXPECTED} if other transports have carried more than "
                        "--limit; it is said by which program")
    p.add_argument("--limit", type=float, default=1, metavar="MIB",
                   help="what a node may send by other transports (1)")
    p.set_defaults(work=work)


def run(opt, state_of):
    """ohca-lab traffic; state_of(NAME) is a lab's state."""
    lab = Running(opt.name, state_of(opt.name))
    if opt.start:
        if opt.expect:
            raise LabError("traffic: --start comes before the job, --expect behind it")
        look(lab)       # refuses what is no lab for it
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
        print("'ohca-lab traffic --start' before the job has its programs counted")
    return UNEXPECTED if wrong else 0
