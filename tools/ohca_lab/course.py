# SPDX-License-Identifier: GPL-2.0-or-later
"""The course of Documentation/course: its lessons, their labs, and the checks of their tasks.

A check inspects the learner's running lab and yields a pair for each part of the task: whether
it is done, and what has to be done. It only reads, so that a check does not change the next one.
"""
import base64
import json
import os
import random
import re
import subprocess
from collections import namedtuple

from . import traffic
from .pcapng import packets
from .running import PORT, Running, number
from .words import LabError, say

NOT_DONE = 3        # the status of --check if a part of the task is missing
HERE = os.path.dirname(os.path.abspath(__file__))
PAIRS = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b]
TREE = ("-n", "3", "--topology", "fat-tree:4")
# Of the BTH: RC RDMA WRITE First, Middle, Last, Only; RC Acknowledge. Of the AETH: its first byte.
WRITES = {0x06, 0x07, 0x08, 0x0a}
ACKNOWLEDGE, SEQUENCE_ERROR = 0x11, b"\x60"
# lab: the options of 'ohca-lab up'. check(lab): the parts of the task. prepare(lab, seed): changes
# a lab that has just started, or None.
Lesson = namedtuple("Lesson", "title lab check prepare", defaults=(None,))


def port_of(node):
    """The first port of a node that has a cable."""
    return next(p for p in node["ports"] if "peer" in p)


def by_guid(nodes, guid):
    """The node with that NodeGUID."""
    return next(n for n in nodes.values() if n["guid"] == guid)


def remedy(lesson, name, up=True):
    """The commands that start the lab of a lesson under a name; up: a lab of that name is up."""
    option = f" --name {name}" if name != "default" else ""
    start_it = f"'ohca-lab course {lesson} --start{option}'"
    return f"'ohca-lab down{option}', then {start_it}" if up else start_it


def answered(lab, path, expected):
    """A part of a task for each of {name: (value, question)}: a file on node 1 has the answers.

    If value is None, every answer is wrong.
    """
    given = lab.answers(path)
    for name, (value, question) in expected.items():
        answer = given.get(name)
        if isinstance(value, int):
            right = number(answer) == value
        else:
            right = value is not None and answer == value.lower()
        said = f"'{answer}' is not right" if answer else "no answer"
        yield right, f"{path} on node1, {name}=: {question}" + ("" if right else f" ({said})")


def discovery(lab):
    """Lesson 1: the learner counts the nodes of the fabric and finds the switch of node 3."""
    nodes = lab.topology()
    kinds = [n["type"] for n in nodes.values()]
    port = port_of(nodes[lab.place(3)])
    leaf = by_guid(nodes, port["peer"])
    yield from answered(lab, "/root/discovery", {
        "switches": (kinds.count("switch"), "the number of switches"),
        "hosts": (kinds.count("channel adapter"), "the number of channel adapters"),
        # ohca-fabric has it as soon as the port has a LID
        "guid": (int(port["guid"], 0) if "guid" in port else None, "the PortGUID of node3"),
        "switch": (leaf["description"], "the NodeDescription of the switch that node3 is at"),
        "port": (port["peer_port"], "the port of that switch"),
        "lid": (port["lid"], "the LID of node3"),
    })


def routes(lab):
    """Lesson 2: each host gets two LIDs with different routes."""
    nodes = lab.topology()
    # the fabric does not have the LMC of a machine's port, so read it on the machine
    lmc = {n["description"]: port_of(n).get("lmc") for n in nodes.values()
           if n["type"] == "channel adapter"}
    for k in lab.nodes:
        lmc[lab.place(k)] = number(lab.sh(k, f"cat {PORT}/lid_mask_count")[1].strip())
    wrong = [name for name, value in lmc.items() if value != 1]
    yield not wrong, "each host has LMC 1" + (f" (not yet: {', '.join(wrong)})" if wrong else "")
    lid = lab.lid(3)
    ways = [lab.trace(lab.place(1), lid + k) for k in (0, 1)]
    yield (all(arrives for arrives, _ in ways) and ways[0][1] != ways[1][1],
           f"packets from node1 to LIDs {lid} and {lid + 1} of node3 go by different spines")


def spine_of(way):
    """The switch in the middle of a path of three switches; None for other paths."""
    return way[2] if len(way) == 5 else None


def counters(lab):
    """Lesson 3: node 2 sends 64 MiB to node 3, and the learner finds the spine on the path."""
    nodes, counted = lab.topology(), lab.counters()
    here, there = (port_of(nodes[lab.place(k)]) for k in (2, 3))
    # what a leaf receives from node2 and sends to node3, in words of 4 bytes
    sent = counted.get((here["peer"], here["peer_port"]), {}).get("PortRcvData", 0) * 4 >> 20
    got = counted.get((there["peer"], there["peer_port"]), {}).get("PortXmitData", 0) * 4 >> 20
    yield (min(sent, got) >= 64, "node2 sends at least 64 MiB to node3 over verbs "
           f"(it has sent {sent} MiB, node3 has got {got} MiB)")
    _, way = lab.trace(lab.place(2), lab.place(3))
    yield from answered(lab, "/root/counters", {
        "spine": (spine_of(way), "the NodeDescription of the spine that carried it")})


def partitions(lab):
    """Lesson 4: nodes 1 and 2 are in a partition without node 3 and use IPoIB in it."""
    keys = {k: {number(x) for x in lab.sh(k, f"cat {PORT}/pkeys/*")[1].split()} for k in lab.nodes}
    for k in (1, 2):
        yield 0x8123 in keys[k], f"node{k} is a full member of partition 0x123 (P_Key 0x8123)"
    yield not {0x8123, 0x0123} & keys[3], "node3 is no member of it"
    yield (all(0xffff in table for table in keys.values()),
           "all three nodes are full members of the default partition (P_Key 0xffff)")
    status, _ = lab.sh(1, "ip -d addr show | grep -q 'pkey 0x8123' && "
                       "ping -c 1 -W 2 -I 10.79.0.1 10.79.0.2")
    yield not status, "10.79.0.2 of node2 answers to 10.79.0.1 of node1, in that partition"


def quality(lab):
    """Lesson 5: SL 2 has a VL of its own, and node 2 uses it."""
    nodes = lab.topology()
    leaf = port_of(nodes[lab.place(2)])
    lid = by_guid(nodes, leaf["peer"])["ports"][0]["lid"]
    _, text = lab.sh(1, f"smpquery sl2vl {lid} {leaf['peer_port']}")
    tables = [[number(x.strip()) for x in line.split("|")[1:17]]
              for line in text.splitlines() if line.startswith("ports:")]
    for sl, vl in ((0, 0), (2, 1)):
        yield (bool(tables) and all(t[sl] == vl for t in tables),
               f"packets of SL {sl} leave the switch to node2 on VL {vl}, from whatever port")
    found = re.search(r"XmtDataSL2:\.*(\d+)", lab.sh(2, "perfquery -X")[1])
    sent = int(found[1]) * 4 >> 20 if found else 0
    yield sent >= 16, f"node2 sends at least 16 MiB on SL 2 (it has sent {sent} MiB)"


def verbs(lab):
    """Lesson 6: node 2 has read node 1's secret, and node 1 has refused a request."""
    _, secret = lab.sh(1, "cat /proc/sys/kernel/random/boot_id")
    _, found = lab.sh(2, "cat /root/secret 2>/dev/null")
    yield found.strip() == secret.strip(), "/root/secret on node2 has the boot ID of node1"
    _, text = lab.sh(2, f"cat {PORT}/hw_counters/wqe_remote_err")
    yield (number(text.strip()) or 0) > 0, "node1 has refused a request of node2 (wqe_remote_err)"


def multicast(lab):
    """Lesson 7: nodes 2 and 3 are members of a group, and node 1 is not."""
    _, text = lab.sh(1, "saquery -g")
    found = re.search(r"MGID\.+ff12:4001:ffff::f01:203\s+Mlid\.+(0x[0-9A-Fa-f]+)", text)
    yield bool(found), "there is a group for 239.1.2.3, of mckey: ff12:4001:ffff::f01:203"
    arrives = {(a, b): bool(found) and not lab.ask("trace", lab.place(a), lab.place(b),
                                                   "--multicast", found[1])[0]
               for a, b in ((2, 3), (3, 2), (2, 1))}
    for a, b in ((2, 3), (3, 2)):
        yield arrives[a, b], f"packets of node{a} to the group arrive at node{b}"
    yield found and not arrives[2, 1], "node1 gets no copy of them"


def failover(lab):
    """Lesson 8: the SM of node 2 is master, that of node 1 standby."""
    _, text = lab.sh(3, "sminfo")
    yield (bool(re.search(rf"sm lid {lab.lid(2)} .*SMINFO_MASTER", text)),
           "the master is the subnet manager of node2")
    _, text = lab.sh(3, f"sminfo {lab.lid(1)}")
    yield "SMINFO_STANDBY" in text, "the subnet manager of node1 is its standby"


def cables_between(lab):
    """(NodeDescription, port) of a leaf, for each of its cables to a spine that is in use."""
    nodes = lab.topology().values()
    names = {n["guid"]: n["description"] for n in nodes}
    return sorted((n["description"], p["port"]) for n in nodes for p in n["ports"]
                  if n["description"].startswith("leaf") and p["state"] == "Active"
                  and names.get(p.get("peer"), "").startswith("spine"))


def break_cable(lab, seed):
    """Prepares lesson 9: makes a cable that machines use lose packets; seed chooses the cable."""
    used = set()
    for source, target in PAIRS:
        _, way = lab.trace(lab.place(source), lab.place(target))
        used |= {(way[1], way[2]), (way[3], way[2])} if len(way) == 5 else set()
    nodes = lab.topology()
    names = {n["guid"]: n["description"] for n in nodes.values()}
    able = [(leaf, port) for leaf, port in cables_between(lab)
            for p in nodes[leaf]["ports"] if p["port"] == port and (leaf, names[p["peer"]]) in used]
    bad = random.Random(seed).choice(able)
    status, text = lab.ask("loss", f"{bad[0]}:{bad[1]}", "0.01", "1")
    if status:
        raise LabError(text.strip())
    with open(lab.file("course-fault"), "w", encoding="utf-8") as f:
        json.dump({"bad": bad, "cables": cables_between(lab)}, f)
    say("something in this fabric is wrong now")


def faults(lab):
    """Lesson 9: the cable that loses packets has no link; all others have, and packets arrive."""
    try:
        with open(lab.file("course-fault"), encoding="utf-8") as f:
            said = json.load(f)
    except OSError:
        raise LabError(f"this lab has no fault: {remedy(9, lab.name)}") from None
    now = {tuple(x) for x in cables_between(lab)}
    bad, before = tuple(said["bad"]), {tuple(x) for x in said["cables"]}
    yield bad not in now, "the cable that loses packets has no link"
    yield before - {bad} <= now, "all other cables between the switches have their links"
    yield (all(lab.trace(lab.place(a), lab.place(b))[0] for a, b in PAIRS),
           "packets from each node arrive at each other one")


def captures(lab):
    """Lesson 10: a capture with a WRITE, a NAK of a lost packet, and that packet again."""
    _, text = lab.sh(1, "cd /root && [ $(stat -c %s wire.pcapng) -le 8388608 ] && "
                        "base64 -w 0 wire.pcapng", 300)
    try:
        found = list(packets(base64.b64decode(text, validate=True)))
    except ValueError:      # the text is stat's error message: there is no file
        found = []
    yield (bool(found),
           "/root/wire.pcapng on node1 is a capture of at most 8 MiB, with data packets")
    one, two = lab.lid(1), lab.lid(2)
    sent = [(i, p.psn) for i, p in enumerate(found)
            if (p.slid, p.dlid) == (two, one) and p.opcode in WRITES]
    yield bool(sent), "it has packets of RDMA WRITEs from node2 to node1"
    naks = [(i, p.psn) for i, p in enumerate(found)
            if (p.slid, p.dlid, p.opcode) == (one, two, ACKNOWLEDGE)
            and p.rest[:1] == SEQUENCE_ERROR]
    yield bool(naks), "it has a NAK of node1, PSN sequence error"
    last = {psn: i for i, psn in sent}
    repaired = {psn for i, psn in naks if last.get(psn, -1) > i}
    yield bool(repaired), "it has the packet with the PSN of such a NAK, sent again behind the NAK"
    answer = number(lab.answers("/root/capture").get("psn"))
    yield answer in repaired, "/root/capture on node1, psn=: the PSN of such a NAK"


def scale(lab):
    """Lesson 11: OpenSM routes by ftree, a core switch is off, and all hosts can be reached."""
    status, _ = lab.sh(1, "grep -q 'ftree tables configured' /var/log/opensm.log")
    yield not status, "OpenSM's log says that it has written the tables by its engine ftree"
    nodes = lab.topology()
    off = [n["description"] for n in nodes.values() if n["description"].startswith("core")
           and not any(p["state"] == "Active" for p in n["ports"] if "peer" in p)]
    yield bool(off), "at least one core switch is switched off"
    here = lab.place(1)
    hosts = [n["description"] for n in nodes.values() if n["type"] == "channel adapter"]
    lost = [name for name in hosts if name != here and not (
        lab.trace(here, name)[0] and lab.trace(name, here)[0])]
    yield (not lost, f"node1 reaches all {len(hosts) - 1} other hosts, and they reach it"
           + (f" (not {', '.join(lost[:4])})" if lost else ""))


def slow_way(lab, _seed):
    """Prepares lesson 12: configures Open MPI for TCP over IPoIB."""
    for k in lab.nodes:
        status, text = lab.sh(k, "mkdir -p /root/.openmpi && printf '%s\\n' 'pml = ob1' "
                                 "'btl = tcp,self' 'btl_tcp_if_include = ib0' "
                                 ">/root/.openmpi/mca-params.conf")
        if status:
            raise LabError(f"node{k}: {text.strip()}")


def training(lab):
    """Lesson 12: a job has the same loss on two nodes as on one, and has used verbs."""
    found = {}
    for ranks, name in ((1, "one"), (2, "two")):
        _, text = lab.sh(1, f"cat /root/{name} 2>/dev/null")
        match = re.search(r"^step 16: loss (\S+)\n(\d+) ranks on (.*)$", text, re.M)
        right = bool(match) and match[2] == str(ranks) and (
            ranks == 1 or set(match[3].split()) == {"node1", "node2"})
        found[name] = match[1] if right else None
        where = "one process" if ranks == 1 else "two ranks, on node1 and node2"
        yield right, f"/root/{name} on node1 is what the job has printed with {where}"
    yield (found["one"] is not None and found["one"] == found["two"],
           "both have the same loss after step 16, to the last digit")
    nodes, since = traffic.look(lab)
    yield since is not None, "'ohca-lab traffic --start' has run before the job"
    for k in (1, 2):
        sent = {t: nodes[k].total(t) / traffic.MIB for t in (traffic.VERBS, traffic.IPOIB)}
        yield (sent[traffic.VERBS] >= 12 and sent[traffic.IPOIB] < 1,
               f"since then node{k} has sent 12 MiB and more over verbs, and less than 1 MiB by "
               f"IPoIB ({sent[traffic.VERBS]:.1f} and {sent[traffic.IPOIB]:.1f} MiB)")


LESSONS = {
    1: Lesson("Discovery", TREE, discovery),
    2: Lesson("LIDs and routes", TREE, routes),
    3: Lesson("Counters", TREE, counters),
    4: Lesson("Partitions", TREE, partitions),
    5: Lesson("Quality of service", TREE, quality),
    6: Lesson("Verbs", ("-n", "2"), verbs),
    7: Lesson("Multicast", TREE, multicast),
    8: Lesson("Failover of the subnet manager", TREE, failover),
    9: Lesson("Faults", TREE, faults, break_cable),
    10: Lesson("Captures", TREE, captures),
    11: Lesson("Scale", ("-n", "2", "--topology", "fat-tree:8,3"), scale),
    12: Lesson("A small training job", ("-n", "2", "--package", "openmpi-bin", "--package",
                                        "python3-mpi4py", "--package", "python3-numpy"),
               training, slow_way),
}


def add_parser(sub, work):
    """The command line of 'ohca-lab course'; sub has the subparsers, work runs it."""
    p = sub.add_parser("course", help="list the course's lessons, start their labs, check tasks")
    p.add_argument("--name", default="default", help="the lab (default)")
    p.add_argument("--start", action="store_true", help="start the lab of the lesson")
    p.add_argument("--check", action="store_true",
                   help="show which parts of the lesson's task are done; the status is 0 if all "
                        f"are, else {NOT_DONE}")
    p.add_argument("lesson", type=int, nargs="?", metavar="N", choices=sorted(LESSONS))
    p.set_defaults(work=work)


def start(opt, state_of):
    """Boots the lab of a lesson and makes its fault, if it has one."""
    lesson = LESSONS[opt.lesson]
    done = subprocess.run([os.path.join(os.path.dirname(HERE), "ohca-lab"), "up", "--name",
                           opt.name, *lesson.lab], check=False)
    if not done.returncode and lesson.prepare:
        # random without it; tests set it
        seed = os.environ.get("OHCA_COURSE_SEED")
        lesson.prepare(Running(opt.name, state_of(opt.name)), seed)
    return done.returncode


def check(opt, state_of):
    """Prints a line for each part of the task; returns the status."""
    lesson = LESSONS[opt.lesson]
    try:
        lab = Running(opt.name, state_of(opt.name))
    except LabError as e:
        raise LabError(f"{e}: {remedy(opt.lesson, opt.name, up=False)}") from None
    wanted = dict(zip(lesson.lab, lesson.lab[1:]))
    if (len(lab.nodes) < int(wanted["-n"]) or lab.state["fabric"] != "ohca"
            or lab.state["topology"] != wanted.get("--topology")):
        raise LabError(f"lab {opt.name} is not one for lesson {opt.lesson}: "
                       f"{remedy(opt.lesson, opt.name)}")
    parts = [(bool(done), text) for done, text in lesson.check(lab)]
    for done, text in parts:
        print(f"{'done' if done else 'missing':<8} {text}")
    if not all(done for done, _ in parts):
        return NOT_DONE
    print(f"lesson {opt.lesson} is done")
    return 0


def run(opt, state_of):
    """ohca-lab course: the list of lessons, or one of them; state_of(NAME) is a lab's state."""
    if opt.lesson is None:
        if opt.start or opt.check:
            raise LabError("course: give the number of a lesson; 'ohca-lab course' lists them")
        for n, lesson in LESSONS.items():
            print(f"{n:>2}  {lesson.title}")
        print("'ohca-lab course N' shows how to start lesson N; its page is in "
              "Documentation/course")
        return 0
    if opt.start and (status := start(opt, state_of)):
        return status
    if opt.check:
        return check(opt, state_of)
    if not opt.start:
        lesson = LESSONS[opt.lesson]
        print(f"Lesson {opt.lesson}: {lesson.title}\n"
              f"  its lab        ohca-lab course {opt.lesson} --start\n"
              f"                 (ohca-lab up {' '.join(lesson.lab)})\n"
              f"  is it done?    ohca-lab course {opt.lesson} --check\n"
              "  end the lab    ohca-lab down")
    return 0
