# SPDX-License-Identifier: GPL-2.0-or-later
"""What transports do to devices on two rails, by programs of ours: all-reduces of prog/rail.h, and
the patterns of prog/session.h.

Two nodes with two adapters each, the lab of the group rails.
"""
import json
import random
import re
import time

from .harness import PEER_PORT, Group, find, need, tail, until
from .rails import GROUP as RAILS
from .rails import HCAS, all_active
from .tree import control

RANKS = 4
PATTERNS = ("slices", "lists", "blocks")
FLAPS = 20       # at least, in a campaign

GROUP = Group("collectives", RAILS.lab, debug=False, prepare=all_active)
CAMPAIGN = Group("flaps", RAILS.lab, debug=False, prepare=all_active, campaign=True)
GROUPS = [GROUP, CAMPAIGN]


def probe(name, says):
    """One question of prog/probes.c to a card."""
    @GROUP.test(name=f"probe_{name}")
    def _(b):
        text = b.sh(1, f"/share/ohca-peer probe {name}")
        need(re.search(says, text), tail(text))


probe("dmabuf", "no descriptor: EBADF")
probe("speed", r"^\d+ by ")
probe("iova2", "an address of its own, relaxed ordering")
probe("ece", "no ECE")


@GROUP.test(timeout=120)
def probe_events(b):
    """A port's events arrive in the order of their causes, and only from its device."""
    watch = b.background(2, "/share/ohca-peer probe events").said("watching 2 devices")
    control(b, "link", "down", f"node2 {HCAS[1]}:1")
    watch.said("port error")
    control(b, "link", "up", f"node2 {HCAS[1]}:1")
    watch.said("port active")
    all_active(b)
    watch.kill()
    events = re.findall(r"^(\w+): (.*), state (\d)$", watch.log(), re.M)
    need({dev for dev, _, _ in events} == {HCAS[1]}, f"events of others: {events}")
    mine = [(what, state) for _, what, state in events if what in ("port error", "port active")]
    need([what for what, _ in mine] == ["port error", "port active"], f"order: {events}")
    need(all((what == "port active") == (state == "4") for what, state in mine),
         f"states: {events}")


@GROUP.test
def dlid_zero(b):
    """A connection by GID with DLID 0 ends with "retry exceeded"; the first switch counts it."""
    def errors():
        return {n["description"]: sum(p.get("PortRcvErrors", 0) for p in n["ports"])
                for line in control(b, "counters", "--json").splitlines()
                for n in json.loads(line)["nodes"]}

    before = errors()
    b.peer("roce write")
    after = errors()
    grew = {name: after[name] - before.get(name, 0) for name in after
            if after[name] != before.get(name, 0)}
    # the first packet and three retries
    need(grew == {"unit1 leaf1": 4}, f"PortRcvErrors grew by {grew}")


@GROUP.test
def channels(b):
    """64 CQs on 8 channels, and 4,096 regions: each event is of a CQ that has a completion."""
    text = b.sh(1, "/share/ohca-peer local channels", 60)
    need(int(find(r"4096 regions .* (\d+) events", text)) >= 64, tail(text))


class Rounds:
    """Processes that verify rounds and report them in /tmp/NAME.NUMBER: prog/rounds.h."""

    def __init__(self, b, name, seconds):
        self.b, self.name = b, name
        for node in (1, 2):
            b.sh(node, f"rm -f /tmp/{name}.*")
        command = f"/share/ohca-peer {name} {seconds}"
        if name in PATTERNS:
            listens = f"ss -Hltn | grep -q :{PEER_PORT}"
            self.programs = [b.background(1, command, listens),
                             b.background(2, f"{command} node1")]
        else:
            self.programs = [b.background(r % 2 + 1, f"{command} {r} {RANKS}")
                             for r in range(RANKS)]

    def state(self):
        """[rounds, rails that failed, rails that came back] of each process."""
        return [[int(x) for x in text.split()] for node in (1, 2) for text in
                self.b.sh(node, f"cat /tmp/{self.name}.[0-9] 2>&-; true").splitlines()]

    def all_there(self):
        """Waits for the first round of each process."""
        until(60 * self.b.slow, lambda: len(self.state()) == len(self.programs), "no round")

    def go_on(self, why):
        """Waits until each process has verified more rounds."""
        before = self.state()
        until(60 * self.b.slow, lambda: all(
            x[0] > y[0] + 1 for x, y in zip(self.state(), before)),
            lambda: f"{why}: {before}, then {self.state()}")
        for p in self.programs:
            p.verdict()

    def whole(self, why):
        """Waits until all failed rails have come back."""
        until(60 * self.b.slow, lambda: all(x[1] == x[2] for x in self.state()),
              lambda: f"{why}: {self.state()}")

    def end(self):
        """Ends the processes after a round; rails have failed, and all of them have come back."""
        for node in (1, 2):
            self.b.sh(node, f"touch /tmp/{self.name}.stop")
        for p in self.programs:
            text = p.wait()
            lost = int(find(r"(\d+) (?:lanes|rails) failed", text))
            need(0 < lost == int(find(r"(\d+) came back", text)), tail(text))


@GROUP.test(timeout=240)
def allreduce(b):
    """Sums of 1 byte to 64 MiB by rings, to 4 MiB by trees; both rails carry long messages."""
    texts = [p.wait(200) for p in Rounds(b, "allreduce", 0).programs]
    for text in texts:
        need(int(find(r"(\d+) sums verified", text)) == 27, tail(text))
        need(int(find(r"(\d+) lanes failed", text)) == 0, tail(text))
        need(int(find(r"parts, (\d+) of long", text)) > 0, tail(text))


def flap(b, rounds, hca, node):
    """A cable is cut: rounds continue over the other rail. Plugged in: all rails come back."""
    before = rounds.state()
    control(b, "link", "down", f"node{node} {hca}:1")
    try:
        # a round that was running has detected it when the next ones are complete
        until(60 * b.slow, lambda: all(x[1] > y[1] for x, y in zip(rounds.state(), before)),
              lambda: f"no rail fails: {rounds.state()}")
        rounds.go_on(f"{hca} of node{node} is cut")
    finally:
        control(b, "link", "up", f"node{node} {hca}:1")
    rounds.whole(f"{hca} of node{node} is back")
    rounds.go_on(f"{hca} of node{node} is back")


@GROUP.test(timeout=240)
def flaps(b):
    """A cable of each rail flaps under all-reduces: none hangs, none has a wrong result."""
    rounds = Rounds(b, "allreduce", 3000)
    rounds.all_there()
    rounds.go_on("nothing happens")
    flap(b, rounds, HCAS[0], 2)
    flap(b, rounds, HCAS[1], 1)
    rounds.end()


def pattern(name, rail, node):
    """A pattern of prog/session.h, and a cable that flaps under it."""
    @GROUP.test(name=name, timeout=240)
    def _(b):
        for text in b.peer(f"{name} 0", 200):
            need(int(find(r"(\d+) rounds verified on 2 rails", text)) == 28, tail(text))
        rounds = Rounds(b, name, 3000)
        rounds.all_there()
        flap(b, rounds, HCAS[rail], node)
        rounds.end()


pattern("slices", 0, 1)
pattern("lists", 1, 2)
pattern("blocks", 0, 2)


def campaign(name):
    """Twenty flaps or more, until --seconds are over: at random times, short and long ones."""
    @CAMPAIGN.test(name=name, timeout=86400)
    def _(b):
        dice, n = random.Random(b.run.opt.seed), 0
        end = time.monotonic() + b.run.opt.seconds
        rounds = Rounds(b, name, 80000)
        rounds.all_there()
        while n < FLAPS or time.monotonic() < end:
            hca, node = dice.choice(HCAS), dice.choice((1, 2))
            time.sleep(dice.random())
            if dice.random() < 0.7:
                flap(b, rounds, hca, node)
            else:   # so short that retries may bridge it
                control(b, "link", "down", f"node{node} {hca}:1")
                try:
                    time.sleep(dice.random())
                finally:
                    control(b, "link", "up", f"node{node} {hca}:1")
                rounds.go_on(f"{hca} of node{node} has flapped")
            rounds.whole(f"flap {n} of {hca} of node{node}")
            n += 1
            b.note(f"{n} flaps: {rounds.state()}")
        rounds.end()
        print(f"campaign: {n} flaps", flush=True)


for each in ("allreduce", *PATTERNS):
    campaign(each)
