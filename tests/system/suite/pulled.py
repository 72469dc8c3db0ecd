# SPDX-License-Identifier: GPL-2.0-or-later
"""Devices that are pulled, reset, rebound and put to sleep, links and switches that are cut,
under load, at random from a seed (tests/campaign).

Three loads run between node 2 and node 1 all the time: RC (ohca-peer endure), fio on a disk by
nvme-rdma, and TCP over IPoIB. All compare their data; each can lose a part of it and continue. A
round performs one action on a node at a random time, and waits until all three loads continue.
"""
import random
import re
import time

from .bring_up import PULLABLE, RESTLESS, all_active, start_sm, stop_sm
from .faults import AQ_DB, CTRL, MASTER, MEMORY, PCI, clear_command, poke
from .fabric import LOSES
from .harness import DEV, Failure, Group, need, tail, until
from .klog import REPORT, SAID
from .life import pool, settle_pool, unpooled
from .storage import FIO, NQN, NVMET_ORDER, export, withdraw

# A driver gives up a command without an answer after 5 s; the default, 30 s, would only cost time.
COMMAND_MS = 5000
LAB = (*PULLABLE, "--device", f"x-command-ms={COMMAND_MS}")

# Sweeps follow each other quickly: the port goes down and comes back many times.
SETTING = RESTLESS + "\\nsweep_interval 3"

# After so many attempts, a driver gives up a device that fails repeatedly.
TRIES = 5

# CQs in a device's pool, which nvmet and nvme-rdma use. ib_core adds one if the others have no
# room, and keeps it until the device is removed. A CQ has room for eight controllers, and only one
# is connected.
POOL = 2

# TCP over IPoIB. Blocks have numbers, which define their contents; the server answers with the
# number that it has received. STATE counts them.
TCP = """
import os, random, socket, struct, sys, time
STATE, SIZE, PATIENCE = "/tmp/ipoib.state", 30000, 2
data = random.Random(3).randbytes(2 * SIZE)
total = 0
def block(n):
    at = n * 977 % SIZE
    return struct.pack("<I", n) + data[at:at + SIZE]
def take(s, size):
    got = b""
    while len(got) < size:
        part = s.recv(size - len(got))
        if not part:
            raise ConnectionError("closed")
        got += part
    return got
def same(got, n):
    if got != block(n):
        print(f"wrong data in block {n}", flush=True)
        os._exit(1)
def tell():
    with open(STATE, "r+") as f:
        f.write(f"{total:10}\\n")
open(STATE, "w").close()
tell()
listener = None if len(sys.argv) > 1 else socket.create_server(("0.0.0.0", 7790))
while True:
    try:
        if listener:
            s, _ = listener.accept()
            s.settimeout(PATIENCE)
        else:
            s = socket.create_connection((sys.argv[1], 7790), PATIENCE)
        with s:
            n = 0
            while True:
                if listener:
                    got = take(s, SIZE + 4)
                    same(got, n)
                    s.sendall(got)
                else:
                    s.sendall(block(n))
                    same(take(s, SIZE + 4), n)
                    time.sleep(0.02)
                n += 1
                total += 1
                tell()
    except OSError as e:
        print(f"{total} blocks: {e}", flush=True)
        time.sleep(0.2)
"""

# The disk: connects and runs fio, and again if the disk was removed. A disk is removed with its
# controller, and the controller with the device; otherwise fio gets no error.
DISK = f"""
cd /tmp
while [ ! -e disk.stop ]; do
	nvme connect -t rdma -n {NQN} -a 10.77.0.1 -s 4420 --nr-io-queues=1 --reconnect-delay=1 \
		--ctrl-loss-tmo=3600 --keep-alive-tmo=5 >connect.log 2>&1 || {{ sleep 0.5; continue; }}
	n=0
	until dev=$(ls /dev/nvme*n1 2>/dev/null) && [ -b "$dev" ]; do
		n=$((n + 1)); [ $n -lt 200 ] || break; sleep 0.1
	done
	[ -b "$dev" ] || {{ echo "no disk"; continue; }}
	where=$(readlink -f /sys/class/block/${{dev#/dev/}})
	FIO_COMMAND >fio.log 2>&1
	status=$?
	if grep -E 'verify: |verify failed|crc32c: ' fio.log; then
		echo "wrong data"; cat fio.log; exit 1
	fi
	[ ! -e disk.stop ] || break
	n=0
	while [ -e "$where" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || {{ cat fio.log; echo "fio failed, the disk is there"; exit 1; }}
		sleep 0.1
	done
	echo "fio ended with $status, the disk is gone"
done
cat fio.log
"""

# Waits until all three loads have moved data from now on; prints the time of each.
GO_ON = """
d=0
sample() {
	read -r _ r _ </tmp/endure.state; read -r t </tmp/ipoib.state
	for f in /sys/class/block/nvme*n1/stat; do
		[ -e $f ] && read -r a _ _ _ e _ <$f && now=$((a + e)) && {
			[ $now -lt ${was:-0} ] || d=$((d + now - ${was:-$now})); was=$now; }
	done
}
sample 2>/dev/null
r0=$r t0=$t n=0
until [ $r -gt $((r0 + 2)) ] && [ $t -gt $((t0 + 2)) ] && [ $d -gt 8 ]; do
	sleep 0.2
	sample 2>/dev/null
	n=$((n + 1))
	for p in %s; do [ ! -e $p.status ] || { echo "a load has ended: $(tail -3 $p.log)"; exit 1; }; done
	[ $n -lt %d ] || { echo "RC $((r - r0)), TCP $((t - t0)), disk $d"
		cat /sys/class/nvme/nvme*/state; cat /tmp/connect.log; exit 124; }
done
echo "RC $((r - r0)), TCP $((t - t0)), disk $d"
"""


# A node's IPoIB has another hardware address after each action. Neighbours with the old address
# must resolve it again after a second or two without an answer, instead of most of a minute.
NEIGHBOURS = """
for d in default ib0; do
	cd /proc/sys/net/ipv4/neigh/$d || exit 1
	echo 1000 >base_reachable_time_ms && echo 1 >delay_first_probe_time && echo 1 >ucast_solicit ||
		exit 1
done"""


def prepare(b):
    """Brings up a fabric that is swept often, a disk of node 1, and no share (for sleep)."""
    if b.state.get("pulled"):
        return
    start_sm(b, setting=SETTING)
    all_active(b)
    b.state["fabric"] = b.state["pulled"] = True
    b.sh(2, "modprobe nvme-rdma", 60)
    export(b, "0.0.0.0")
    for node in (1, 2):
        b.sh(node, NEIGHBOURS)
        b.sh(node, "set -e; cp /share/ohca-peer /tmp; umount /share; cp /tmp/ohca-peer /share; "
                   "cd /sys/bus/virtio/drivers/9pnet_virtio; for d in virtio*; do "
                   "echo $d >unbind; done")


GROUP = Group("pulled", LAB, prepare=prepare, campaign=True)
GROUPS = [GROUP]


class Loads:
    """The three loads and their state."""

    def __init__(self, b):
        self.b = b
        self.idle = {k: unpooled(b, k) for k in (1, 2)}
        for node in (1, 2):
            b.sh(node, f"cat >/tmp/tcp.py <<'END'\n{TCP}END")
        # Not asynchronous: a disk that is gone has no blocks, and a read beyond its end has no
        # data and no error, which fio sees only if it waits for each request by itself.
        fio = FIO.format(dev="$dev", engine="psync", bs="4k-64k", size="1m", depth=1, seed=7,
                         more="--numjobs=4 --offset_increment=1m --group_reporting "
                              "--loops=1000000 --allow_file_create=0 --rate=512k")
        b.sh(2, f"cat >/tmp/disk.sh <<'END'\n{DISK.replace('FIO_COMMAND', fio)}END")
        self.ends = [b.background(1, "/share/ohca-peer endure 80000"),
                     b.background(2, "/share/ohca-peer endure 80000 node1"),
                     b.background(1, "python3 /tmp/tcp.py"),
                     b.background(2, "python3 /tmp/tcp.py 10.77.0.1"),
                     b.background(2, "sh /tmp/disk.sh")]

    def go_on(self, seconds=60):
        """Waits until all three loads have moved data."""
        for p in self.ends:
            if p.node == 1:
                p.verdict()
        files = " ".join(p.file for p in self.ends if p.node == 2)
        limit = seconds * self.b.slow
        return self.b.sh(2, GO_ON % (files, limit * 4), 2 * seconds).strip()

    def memory(self):
        """KiB that the programs of RC and TCP use on both nodes."""
        text = ("awk '/VmRSS/ {print $2}' "
                "/proc/$(pgrep -g $(cat %s.pid) -x 'ohca-peer|python3')/status")
        return [int(self.b.sh(p.node, text % p.file)) for p in self.ends[:4]]

    def end(self):
        """Ends the loads; all their resources are released, and no data was wrong."""
        self.b.sh(2, "touch /tmp/disk.stop; pkill -INT -x fio", status=None)
        text = self.ends[4].wait(120)
        need(re.search("err= 0", text), tail(text))
        self.b.sh(2, f"nvme disconnect -n {NQN}; modprobe -r nvme-rdma", 60)
        for p in self.ends[:4]:
            p.finish()
        for node in (1, 2):
            settle_pool(self.b, node, self.idle[node])


def present(b, node):
    """Waits for a node's device."""
    until(60 * b.slow, lambda: not b.status(node, f"[ -e /sys/class/infiniband/{DEV} ]")[0],
          f"node{node} has no device")


class Acts:
    """Actions on nodes; each one returns when the node has its device again."""

    def __init__(self, b, dice):
        self.b, self.dice = b, dice
        self.tries = {1: 0, 2: 0}   # attempts that the drivers have made since they were bound

    def anew(self, node):
        """Binds a node's driver anew, so that it counts its attempts from 0."""
        self.tries[node] = 0
        present(self.b, node)

    def fails(self, node, provoke):
        """A node's device fails; the driver gets it back, or gives it up after some times."""
        self.fail((node,), provoke)

    def fail(self, nodes, provoke):
        """The devices of some nodes fail."""
        before = [(k, self.b.sh(k, f"basename {PCI}").strip(), len(self.b.kernel_said(k)))
                  for k in nodes]
        provoke()
        for node, where, mark in before:
            self.recovers(node, where, mark)

    def recovers(self, node, where, mark):
        """Waits for the driver's messages about that after a mark."""
        b, before = self.b, self.tries[node]

        def said():
            return b.kernel_said(node)[mark:]

        def ended():
            return re.search(r"recovered, (?:attempt (\d+)|after)|bind the driver again", said())
        until(90 * b.slow, ended, lambda: f"the driver does not recover: {tail(said())}")
        if "after" in ended()[0]:
            # it was away, which does not count
            present(b, node)
            return
        attempt = int(ended()[1] or 0)
        # the attempts of a device that ran long enough are counted from 0 again
        need(attempt in (1, before + 1 if before < TRIES else 0),
             f"attempt {attempt or 'none'} after {before}: {tail(said())}")
        self.tries[node] = attempt
        if not attempt:
            b.sh(node, f"cd /sys/bus/pci/drivers/ohca && echo {where} >unbind && "
                       f"echo {where} >bind", 60)
        present(b, node)

    def overrun(self, node):
        """The device fails by itself."""
        self.fails(node, lambda: poke(self.b, AQ_DB, 0x7fffffff, node))

    def reset_behind(self, node):
        """The device is reset behind the driver's back."""
        self.fails(node, lambda: poke(self.b, CTRL, 1, node))

    def no_dma(self, node):
        """The device cannot access memory."""
        self.fails(node, lambda: clear_command(self.b, MASTER, node))

    def decodes_nothing(self, node):
        """The device does not answer in memory space."""
        self.fails(node, lambda: clear_command(self.b, MEMORY, node))

    def deaf(self, node):
        """The device does not answer commands."""
        def provoke():
            self.b.qmp(node, "qom-set", path="/machine/peripheral/hca", property="x-deaf",
                       value=True)
            self.b.sh(node, f"(cat /sys/class/infiniband/{DEV}/ports/1/hw_counters/* "
                            ">/dev/null 2>&1 &)")
        self.fails(node, provoke)

    def given_up(self, node):
        """The device fails repeatedly, in any way, until the driver gives it up."""
        while True:
            getattr(self, self.dice.choice(FAILURES))(node)
            if not self.tries[node]:
                return

    def flr(self, node):
        """A reset of the function."""
        self.b.sh(node, f"d={PCI}; echo flr >$d/reset_method && echo 1 >$d/reset", 60)
        self.anew(node)

    def rebind(self, node):
        """The driver is unbound and bound."""
        self.b.sh(node, f"d=$(basename {PCI}); cd /sys/bus/pci/drivers/ohca; echo $d >unbind && "
                        "echo $d >bind", 60)
        self.anew(node)

    def remove(self, node):
        """The function is removed and found again."""
        self.b.sh(node, f"p={PCI}; echo 1 >$p/remove && [ ! -e $p ] && echo 1 >/sys/bus/pci/rescan",
                  60)
        self.anew(node)

    def plug(self, node):
        """The card is pulled, and another one is plugged in."""
        b = self.b
        b.qmp(node, "device_del", id="hca")
        until(60 * b.slow, lambda: "hca" not in
              [d["name"] for d in b.qmp(node, "qom-list", path="/machine/peripheral")],
              "QEMU still has the device")
        b.plug(node, bus="rp", id="hca",
               **{"node-desc": f"node{node}", "x-command-ms": COMMAND_MS})
        self.anew(node)

    def sleep(self, node):
        """All devices are suspended and resumed."""
        self.b.sh(node, "echo 0 >/sys/module/suspend/parameters/pm_test_delay; "
                        "echo devices >/sys/power/pm_test && echo freeze >/sys/power/state", 60)
        self.anew(node)

    def link(self, node):
        """The link is cut at the switch, for up to some seconds."""
        port = re.search(r"LocalPort:\.*(\d+)",
                         self.b.sh(node, "smpquery -D nodeinfo 0,1", 60))[1]
        other = 3 - node
        self.b.sh(other, f"ibportstate -D 0,1 {port} disable >/dev/null && "
                         f"sleep {self.dice.choice((0.1, 1, 4, 8))} && "
                         f"ibportstate -D 0,1 {port} enable >/dev/null", 90)

    def switch(self, _node):
        """The fabric's process is killed, and a new one starts. All HCAs fail."""
        def provoke():
            next(p for p in self.b.lab.helpers if p.what == "fabric").kill()
            self.b.lab.stop_fabric()
            time.sleep(self.dice.choice((0, 1, 4)))
            self.b.lab.start_fabric()
        self.fail((1, 2), provoke)

    def manager(self, _node):
        """OpenSM is killed, and a new one starts."""
        stop_sm(self.b, signal="KILL")
        start_sm(self.b, setting=SETTING)


FAILURES = ("overrun", "reset_behind", "no_dma", "decodes_nothing", "deaf")
# the actions, and how often each one is done
WEIGHTS = {"overrun": 2, "reset_behind": 3, "no_dma": 2, "decodes_nothing": 2, "deaf": 1,
           "given_up": 1, "flr": 4, "rebind": 4, "remove": 4, "plug": 4, "sleep": 4, "link": 5,
           "switch": 3, "manager": 1}


def reports(b, marks):
    """Fails if a kernel has reported something since the marks, and moves the marks."""
    for node in (1, 2):
        text = b.kernel_said(node)
        for line in text[marks[node]:].splitlines():
            need(not REPORT.search(line) or re.search(SAID, line), f"node{node}: {line}")
        marks[node] = len(text)


@GROUP.test(timeout=86400, reports=SAID, lock_order=NVMET_ORDER, says=LOSES)
def rounds(b):
    """Performs one action after the other for --seconds."""
    dice = random.Random(b.run.opt.seed)
    loads, acts = Loads(b), Acts(b, dice)
    b.note(loads.go_on())
    weights = dict(WEIGHTS)
    if b.status(2, "[ -e /sys/power/pm_test ]")[0]:
        del weights["sleep"]
    begin, n, marks, before = time.monotonic(), 0, {1: 0, 2: 0}, None
    while time.monotonic() < begin + b.run.opt.seconds:
        what = dice.choices(list(weights), list(weights.values()))[0]
        node = dice.choices((2, 1), (4, 1))[0]
        time.sleep(dice.random() * (2 if b.debug else 1))
        b.note(f"round {n}: {what} of node{node}")
        start = time.monotonic()
        try:
            getattr(acts, what)(node)
            acted = time.monotonic()
            if what == "switch" or node == 1 and what not in ("link", "manager"):
                # its port is another one now; one that waits for answers ends after minutes
                acts.manager(node)
            all_active(b, 60)
            active = time.monotonic()
            text = loads.go_on()
        except Failure as e:
            raise Failure(f"round {n}, {what} of node{node}: {e}", e.kind) from None
        b.note(f"round {n}: {what} of node{node}: {acted - start:.1f} s, ACTIVE after "
               f"{active - acted:.1f} s, {time.monotonic() - active:.1f} s until {text}")
        reports(b, marks)
        cqs = {k: pool(b, k) for k in (1, 2)}
        need(all(len(x) <= POOL for x in cqs.values()), f"round {n}: CQs in pools: {cqs}")
        n += 1
        if n == 8:
            before = loads.memory()
    after = loads.memory()
    need(not before or all(y < x + 1024 for x, y in zip(before, after)),
         f"programs have grown: {before} KiB, {after} KiB")
    loads.end()
    withdraw(b)
    b.peer("verify rc")
    print(f"campaign: {n} rounds", flush=True)
