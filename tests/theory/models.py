# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurements of a fabric by ohca-fabric traffic, with the formulas that it should follow.

Each function returns rows: the label of a row, and values by their columns.
"""
import math
import subprocess
import tempfile

import sm
from ohca_plot import sweep

EDR = 100.0                       # Gb/s of data of 4x EDR
MTU = 4096
HEADERS = 8 + 12 + 4 + 2          # LRH, BTH, ICRC, VCRC
PACKET = MTU + HEADERS
SPEEDS = {"SDR": 2, "DDR": 4, "QDR": 8, "FDR": 13.636, "EDR": 25, "HDR": 50,
          "NDR": 100, "XDR": 200}  # Gb/s of data of a lane


def traffic(*options):
    """{key: number} of the output of ohca-fabric traffic."""
    return {k: v for k, (v, _) in sweep.run(sweep.fabric(), [str(o) for o in options]).items()}


def topology(*words):
    """The output of ohca-fabric generate."""
    return subprocess.run([sweep.fabric(), "generate", *words], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=sweep.LIMIT).stdout


def on(text, *options):
    """Runs traffic on a topology that is given as a text."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".net") as f:
        f.write(text)
        f.flush()
        return traffic("--topology", f.name, *options)


def chain(switches):
    """Two hosts at the ends of a row of switches."""
    lines = []
    for n in range(1, switches + 1):
        lines.append(f'Switch 4 "S{n}" # "switch{n}"')
        lines += [f'[1] "S{n - 1}"[2] # 4xEDR'] * (n > 1)
        lines += [f'[2] "S{n + 1}"[1] # 4xEDR'] * (n < switches)
        lines += ['[3] "H1"[1] # 4xEDR'] * (n == 1) + ['[4] "H2"[1] # 4xEDR'] * (n == switches)
        lines.append("")
    return "\n".join([*lines, 'Ca 1 "H1" # "host1"', '[1] "S1"[3] # 4xEDR', "",
                      'Ca 1 "H2" # "host2"', f'[1] "S{switches}"[4] # 4xEDR', ""])


def rates():
    """One flow over a wire of each rate."""
    for width in (1, 4):
        for speed, lane in SPEEDS.items():
            found = on(topology("star:2", "--speed", f"{width}x{speed}"),
                       "--pattern", "incast", "--messages", 32)
            yield f"{width}x {speed}", {"measured": found["hot"],
                                        "formula": width * lane * MTU / PACKET}


def latency():
    """A message of one packet over a row of switches."""
    for n in (1, 2, 3, 4, 6, 8, 12, 16):
        row = {}
        for size in (64, 1024, 4096):
            found = on(chain(n), "--pattern", "permutation", "--messages", 1, "--size", size)
            row[f"{size} bytes"] = found["message_p50"]
            row[f"{size} bytes, formula"] = (n + 1) * wire(size)
        yield str(n), row


def buffers():
    """Random destinations at one switch."""
    for load in (10, 20, 30, 40, 50, 60, 65, 70, 75, 80, 90, 100):
        row = {f"{hosts} hosts": traffic("--generate", f"star:{hosts}", "--size", MTU, "--messages",
                                         2000, "--load", load)["host"] for hosts in (4, 32)}
        yield str(load), {**row, "nobody waits, formula": load / 100 * EDR * MTU / PACKET}


def waits():
    """The time that the slowest messages wait at one switch."""
    for load in (10, 20, 30, 40, 50, 60, 65, 70):
        found = traffic("--generate", "star:32", "--size", MTU, "--messages", 2000, "--load", load)
        yield str(load), {"p50": found["message_p50"], "p99": found["message_p99"],
                          "greatest": found["message_max"]}


def victims():
    """A flow beside an incast, for each time in which a sender becomes faster again."""
    for timer in (2, 4, 8, 16, 32, 64, 128, 256, 512):
        row = {}
        for ports, hosts in ((6, 18), (8, 32)):
            found = traffic("--generate", f"fat-tree:{ports}", "--pattern", "incast-victim",
                            "--messages", 512, f"--congestion-control=ccti_timer={timer}")
            row |= {f"victim of {hosts}": found["victim"], f"hot cable of {hosts}": found["hot"]}
        yield str(timer), row


def in_row(hosts):
    """A row of switches, each with so many of HOSTS, the last one with host1, too.

    Returns the topology, and the number of the switch of host2, host3 and so on.
    """
    text, cas, switch = [], [], []
    for n, count in enumerate(hosts, 1):
        text.append(f'Switch 16 "S{n}" # "switch{n}"')
        text += [f'[1] "S{n - 1}"[2] # 4xEDR'] * (n > 1)
        text += [f'[2] "S{n + 1}"[1] # 4xEDR'] * (n < len(hosts))
        names = ["H1"] * (n == len(hosts))
        names += [f"H{len(switch) + 2 + k}" for k in range(count)]
        switch += [n] * count
        for port, name in enumerate(names, 3):
            text.append(f'[{port}] "{name}"[1] # 4xEDR')
            cas.append((name != "H1", name, n, port))
        text.append("")
    for _, name, n, port in sorted(cas, key=lambda ca: (ca[0], int(ca[1][1:]))):
        text += [f'Ca 1 "{name}" # "host{name[1:]}"', f'[1] "S{n}"[{port}] # 4xEDR', ""]
    return "\n".join(text), switch


def shared():
    """Rates of hosts that send to one, if each input of a switch gets an equal part of a wire."""
    settings = "ccti_timer=3,marking_rate=1,cct_shift=3"
    all_of = EDR * MTU / PACKET
    for hosts in ((1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1, 1), (3, 2)):
        text, switch = in_row(hosts)
        without, controlled = (
            on(text, "--pattern", "incast", "--messages", 512, "--flows", *more)
            for more in ((), (f"--congestion-control={settings}",)))
        part, parts = all_of, {}
        for n in range(len(hosts), 0, -1):
            # packets of the switch before are one more input, except at the first switch
            part /= hosts[n - 1] + (n > 1)
            parts[n] = part
        for i, n in enumerate(switch):
            name = f"flow host{i + 2}"
            yield f"{'+'.join(map(str, hosts))}: host{i + 2} at {n}", {
                "without": without[name], "without, formula": parts[n],
                "with": controlled[name], "with, formula": all_of / len(switch)}


def ways():
    """A permutation on trees of three levels."""
    for ports in (4, 6, 8, 10, 12):
        row = {}
        for name, more in (("minhop", ()), ("updn", ("--routing", "updn")),
                           ("adaptive, order kept", ("--adaptive=kept",)),
                           ("adaptive", ("--adaptive",))):
            row[name] = traffic("--generate", f"fat-tree:{ports},3", "--pattern", "permutation",
                                *more)["host"]
        yield str(ports ** 3 // 4), row


def deadlocks():
    """The messages in a ring of six switches, two hosts each, that HOQLife discards."""
    for messages in (1, 2, 4, 8, 16, 32, 64):
        row = {}
        for routing in ("minhop", "updn"):
            found = traffic("--generate", "ring:6,2", "--size", "64K", "--messages", messages,
                            "--routing", routing)
            row[routing] = 100 * found["lost"] / found["messages"]
        yield str(messages), row


def reductions():
    """All-reduce of 32 hosts by two algorithms."""
    hosts, steps = 32, 5
    for size in ("4K", "16K", "64K", "256K", "1M", "4M", "16M"):
        all_bytes = int(sweep.place(size))
        row = {}
        for name in ("ring", "halving"):
            row[name] = traffic("--generate", "fat-tree:8", "--pattern", f"all-reduce-{name}",
                                "--size", size)["bus"]
        # A step waits for the last byte of the one before: for its bytes, and for a packet at
        # each switch. Of four hosts of a leaf three have the next one there, behind one switch, and
        # one has it behind three. By halving, the partners of three steps are at other leaves.
        piece = all_bytes / hosts
        ring = 2 * (hosts - 1) * (wire(piece) + 1.5 * wire(min(piece, MTU)))
        halving = sum(2 * (wire(all_bytes / 2 ** k) +
                           (3 if k <= 3 else 1) * wire(min(all_bytes / 2 ** k, MTU)))
                      for k in range(1, steps + 1))
        bus = 2 * (hosts - 1) / hosts * 8 * all_bytes / 1000
        yield size, {**row, "ring, formula": bus / ring, "halving, formula": bus / halving}


def wire(size):
    """Microseconds that a message is on a 4x EDR wire, in whole ns if it is one packet."""
    packets = math.ceil(size / MTU)
    time = 8 * (size + packets * HEADERS) / EDR
    return (math.ceil(time) if packets == 1 else time) / 1000


def shares(mtu, conf, hosts=3):
    """Percent of each SL on the cable to the first host, with the tables that OpenSM writes."""
    with tempfile.TemporaryDirectory(prefix="ohca-theory-", dir="/tmp") as where:
        fabric = sm.Fabric(where, "--generate", f"star:{hosts + 1}", "--mtu", str(mtu))
        try:
            conf = {"qos": "TRUE", "qos_max_vls": 8, "qos_vlarb_high": "0:0", "qos_high_limit": 0,
                    "qos_sl2vl": ",".join(str(sl % 8) for sl in range(16)), **conf}
            managed(fabric, conf)
            found = traffic("--control", fabric.control, "--pattern", "incast", "--messages", 1,
                            "--size", "8M", "--sl",
                            ",".join(map(str, [hosts - 1, *range(hosts - 1)])))
        finally:
            fabric.end()
    got = [found[f"sl{k}"] for k in range(hosts)]
    return [100 * rate / sum(got) for rate in got]


def managed(fabric, conf):
    """Makes OpenSM set up a fabric once."""
    manager = sm.OpenSM(fabric, "host1", "-o", conf=conf)
    try:
        manager.once()
    finally:
        wrong = manager.end()
    if manager.ended or wrong:
        raise sweep.SweepError(f"OpenSM ended with status {manager.ended}: {wrong}")


def weights():
    """Two VLs of low priority, one with more weight: the number of packets in a turn."""
    for ratio in (1, 2, 3, 4, 6, 8, 12, 15):
        found = shares(1024, {"qos_vlarb_low": f"0:16,1:{16 * ratio}"}, 2)
        yield str(ratio), {"lane 1": found[1], "lane 1, formula": 100 * ratio / (1 + ratio),
                           "lane 0": found[0], "lane 0, formula": 100 / (1 + ratio)}


def limits():
    """A VL of high and one of low priority, which gets its turn by LimitOfHighPriority."""
    for limit in (0, 1, 2, 3, 4, 6, 8, 12):
        found = shares(1024, {"qos_vlarb_high": "0:64", "qos_vlarb_low": "1:64",
                              "qos_high_limit": limit}, 2)
        # 4 KiB for each unit, in whole packets, or one packet
        high = max(1, math.ceil(4096 * limit / (1024 + HEADERS)))
        yield str(limit), {"high priority": found[0], "high priority, formula":
                           100 * high / (high + 1), "low priority": found[1],
                           "low priority, formula": 100 / (high + 1)}
