# SPDX-License-Identifier: GPL-2.0-or-later
"""Two ports in a node: both carry traffic, and connections move from one to the other."""
import re

from .bring_up import PATIENT, start_sm
from .harness import DEV, PERF_PORT, Group, answered, find, need, until
from .tools import switch_lid

TWO = ("-n", "2", "--no-sm", "--ports", "2", PATIENT)


def states(b):
    """The states of all ports, node by node."""
    return [b.lab.capture(vm.k, f"cat /sys/class/infiniband/{DEV}/ports/*/state",
                          20 * b.slow)[1].split("\n")[:-1] for vm in b.lab.vms]


def all_up(b, seconds=40):
    """Waits until every port of every node is ACTIVE."""
    until(seconds * b.slow, lambda: states(b) == [["4: ACTIVE"] * 2] * 2,
          "a port does not become ACTIVE")


def fabric(b):
    """Brings up OpenSM and both ports of both nodes."""
    if b.state.get("fabric"):
        return
    start_sm(b)
    all_up(b)
    b.state["fabric"] = True


GROUP = Group("migrate", TWO, debug=False, prepare=fabric)
GROUPS = [GROUP]


@GROUP.test
def two_ports(b):
    """OpenSM has assigned each port a LID of its own, and each port has its own cable."""
    seen = set()
    for node in (1, 2):
        text = b.sh(node, f"cd /sys/class/infiniband/{DEV}/ports; ls; cat */lid */gids/0")
        need(text.split()[:2] == ["1", "2"], f"node{node}: ports {text.split()[:2]}")
        seen |= set(text.split()[2:])
    need(len(seen) == 8, f"LIDs and GIDs are not eight: {sorted(seen)}")
    text = b.sh(1, "iblinkinfo --switches-only -l")
    for node in (1, 2):
        at = re.findall(rf' (\d)\[ *\] "node{node}', text)
        need(sorted(at) == ["1", "2"], f"the switch sees ports {at} of node{node}")


def add_port(port):
    """Adds a test of traffic over a port, which only this port counts."""
    @GROUP.test(name=f"traffic_port_{port}")
    def _(b):
        def sent():
            text = b.sh(2, f"cd /sys/class/infiniband/{DEV}/ports; "
                           "cat 1/counters/port_xmit_data 2/counters/port_xmit_data")
            return [int(x) for x in text.split()]
        def hw(what="rx_pkts"):
            """Counters of port 1, of port 2, and of the device."""
            text = b.sh(2, f"cd /sys/class/infiniband/{DEV}; for i in ports/1 ports/2 .; do "
                           f"cat $i/hw_counters/{what}; done")
            return [int(x) for x in text.split()]

        before, count = sent(), hw()
        for command in ("ibv_rc_pingpong -c -n 200", "ibv_ud_pingpong -c -n 200",
                        "ib_write_bw -F -s 65536 -n 200", "ib_send_bw -F -c UD -s 2048 -n 200"):
            command += f" -i {port} -d {DEV}"
            b.pair(command, f"{command} node1", PERF_PORT)
        after = sent()
        words = [x - y for x, y in zip(after, before)]
        need(words[port - 1] > 200 * 65536 / 4, f"port {port} sent {words[port - 1]} words")
        need(words[2 - port] < 100000, f"the other port sent {words[2 - port]} words")
        now = hw()
        pkts = [y - x for x, y in zip(count, now)]
        # the requests and the acknowledgements for the data
        need(pkts[port - 1] > 400, f"port {port} counts {pkts[port - 1]} packets")
        need(pkts[2 - port] < 200, f"the other port counts {pkts[2 - port]} packets")
        # packets between two reads
        need(abs(sum(now[:2]) - now[2]) < 200, f"ports and device count {now}")
        need(hw("cmds")[:2] == [0, 0] and hw("cmds")[2], "commands are the device's")
        answered(b, 2, f"10.{76 + port}.0.1", 5, "-i 0.05")


add_port(1)
add_port(2)


@GROUP.test
def by_driver(b):
    """ibv_modify_qp() moves a connection with its traffic there and back."""
    for text in b.peer("migrate driver"):
        moves = re.findall(r"^(?:armed for|moved to) port \d", text, re.M)
        need(moves == ["armed for port 2", "moved to port 2", "armed for port 1",
                       "moved to port 1"], f"{moves}")
        find(r"^migrated, \d+ blocks", text)


def cables(b):
    """The switch's ports at node 2's ports 1 and 2."""
    text = b.sh(2, f"cat /sys/class/infiniband/{DEV}/ports/*/gids/0")
    guids = ["".join(x.split(":")[4:]).lstrip("0") for x in text.split()]
    net = b.sh(1, "ibnetdiscover")
    return [int(find(rf'^\[(\d+)\]\s+"H-[0-9a-f]+"\[\d\]\({g}\)', net)) for g in guids]


@GROUP.test(timeout=150)
def by_failure(b):
    """A link goes down under the traffic of a connection and comes back; then the other one."""
    sw, at = switch_lid(b), cables(b)
    ends = [b.background(1, "/share/ohca-peer migrate link"),
            b.background(2, "/share/ohca-peer migrate link node1")]

    def said(what):
        for end in ends:
            end.said(what)

    for other, down in ((2, 1), (1, 2)):
        said(f"armed for port {other}")
        b.sh(1, f"ibportstate {sw} {at[down - 1]} disable")
        said(f"moved to port {other}")
        until(20 * b.slow, lambda d=down: "ACTIVE" not in states(b)[1][d - 1],
              f"port {down} is ACTIVE all the same")
        b.sh(1, f"ibportstate {sw} {at[down - 1]} enable")
    for end in ends:
        find("^migrated, ", end.wait())
    all_up(b)
