# SPDX-License-Identifier: GPL-2.0-or-later
"""Migration of a node to another QEMU: its adapter, which the fabric has, is not changed."""
import re
import time

from ohca_lab.lab import MOUNT_SHARE

from .bring_up import PAIR, all_active, fabric
from .harness import DEV, PERF_PORT, Group, Skip, need, until


def prepare(b):
    """Brings up the fabric; on other architectures, mounts something over the share."""
    if any(vm.guest.arch != "amd64" for vm in b.lab.vms):
        raise Skip("only nodes of amd64 move")
    fabric(b)


GROUP = Group("moves", PAIR, prepare=prepare)
# The campaign: a node with programs of all kinds moves repeatedly for a given time.
MANY = Group("moving", PAIR, prepare=prepare, campaign=True)
GROUPS = [GROUP, MANY]

# Programs of perftest, each at its port: datagrams, an SRQ, paged regions.
ENDLESS = ["ib_send_bw -c UD -s 1024", "ib_send_bw --use-srq -r 64 -s 4096",
           "ib_write_bw --odp -s 65536"]
RATE = "-D 86000 --rate_limit 200 --rate_units p --burst_size 20 --rate_limit_type SW"


class Load:
    """A program that verifies data in both directions of one connection."""

    def __init__(self, b):
        self.b = b
        for node in (1, 2):
            b.sh(node, "cp /share/ohca-peer /tmp/")
        self.ends = [b.background(1, "/tmp/ohca-peer endure 80000"),
                     b.background(2, "/tmp/ohca-peer endure 80000 node1")]
        self.go_on()

    def blocks(self):
        """The number of blocks that it has verified, all in one session."""
        text = self.b.sh(2, "cat /tmp/endure.state 2>/dev/null; true")
        sessions, blocks = (text.split() or ["0", "0"])[:2]
        need(int(sessions) < 2, f"a connection was lost: '{text.strip()}'")
        return int(blocks)

    def go_on(self):
        """Waits until it has verified ten more."""
        before = self.blocks()
        until(40 * self.b.slow, lambda: self.blocks() >= before + 10, "the traffic stands still")

    def kill(self):
        """Ends it."""
        for end in reversed(self.ends):
            end.kill()


def port(b, node):
    """The values that a move must not change: the LID, and how often the link went down."""
    return b.sh(node, f"cd /sys/class/infiniband/{DEV}/ports/1; "
                      "cat lid state phys_state counters/link_downed")


@GROUP.test(timeout=240, debug=False)
def under_traffic(b):
    """Both nodes move, twice each, and the data of a connection continues."""
    load, before = Load(b), {k: port(b, k) for k in (1, 2)}
    for node in (2, 1, 2, 1):
        told = b.lab.migrate(node)
        b.note(f"node{node} has moved: {told}")
        load.go_on()
        for k in (1, 2):
            now = port(b, k)
            need(now == before[k], f"node{k}: '{now}' instead of '{before[k]}'")
    load.kill()
    all_active(b)
    b.peer("verify rc")


@GROUP.test(timeout=120, debug=False)
def stays(b):
    """A node whose state no other QEMU accepts continues where it was."""
    load = Load(b)
    b.sh(1, "umount /share")
    b.qmp(1, "migrate", uri="exec:cat >/dev/null")
    until(60 * b.slow, lambda: b.qmp(1, "query-migrate").get("status") == "completed",
          "it does not migrate")
    need(b.qmp(1, "query-status")["status"] == "postmigrate", "it runs")
    b.qmp(1, "cont")
    b.lab.stood_still(1)
    b.sh(1, MOUNT_SHARE)
    load.go_on()
    load.kill()


def percentile(values, share):
    """The smallest value that is not exceeded by a given share of the values."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]


@MANY.test(timeout=86400, debug=False)
def rounds(b):
    """Nodes move in turns, under RC, UD, SRQ, ODP and IPoIB: no peer sees an error."""
    load = Load(b)
    clients = []
    for i, program in enumerate(ENDLESS):
        command = f"{program} -d {DEV} -p {PERF_PORT + 10 + i} {RATE}"
        # at the end a server fails, because its client has ended
        b.background(1, command, f"grep -qi ':{PERF_PORT + 10 + i:04X} 0.*:0000 0A' "
                                 "/proc/net/tcp /proc/net/tcp6", ends=(1, 137))
        clients.append(b.background(2, f"{command} node1"))
    # not more often: the answers of a pause, which come at once, have to fit into ping's socket
    ping = b.background(2, "exec ping -D -O -i 0.2 -s 1000 node1-ib >/tmp/pings")
    before, pauses = {k: port(b, k) for k in (1, 2)}, []
    end = time.monotonic() + b.run.opt.seconds
    while time.monotonic() < end or not pauses:
        node = 2 - len(pauses) % 2
        pauses.append(int(b.lab.migrate(node)["downtime"]))
        load.go_on()
        for k in (1, 2):
            now = port(b, k)
            need(now == before[k], f"node{k}: '{now}' instead of '{before[k]}'")
        for p in b.programs:
            need(p.status() is None, f"node{p.node}: '{p.command}' has ended: {p.log()[-300:]}")
    ping.kill("INT")
    sent, answered = re.search(r"(\d+) packets transmitted, (\d+) received",
                               b.sh(2, "cat /tmp/pings")).groups()
    need(int(sent) - int(answered) <= 1, f"{answered} of {sent} pings are answered")
    for p in clients:
        p.kill()
    b.sh(1, "pkill -KILL '^ib_(send|write)_bw$'", status=None)
    load.kill()
    all_active(b)
    b.peer("verify rc")
    print(f"pauses: median {percentile(pauses, 50)} ms, p99 {percentile(pauses, 99)} ms, longest "
          f"{max(pauses)} ms; {answered} of {sent} pings answered")
    print(f"campaign: {len(pauses)} moves", flush=True)
