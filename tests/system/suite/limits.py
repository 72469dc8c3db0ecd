# SPDX-License-Identifier: GPL-2.0-or-later
"""Limits that query_device announces, and many objects at once."""
import re

from .bring_up import fabric
from .harness import Failure, Group, find, need, tail
from .life import resources

# Tables that are small enough to be filled; the default sizes would take minutes. Also the other
# kind of windows. There are twice as many CQs as an EQ of one of the two vectors has entries: a
# process that uses one vector gets all of them.
SMALL = ("-n", "1", "--no-sm", "--cpus", "2",
         "--device", "x-log-max-qp=9", "--device", "x-log-max-cq=11",
         "--device", "x-log-max-srq=6", "--device", "x-log-max-mr=9",
         "--device", "mw-type2=2a")
LARGE = ("-n", "1", "--no-sm", "--memory", "2048")
GROUP = Group("limits", SMALL, debug=False, prepare=fabric)
SCALE = Group("scale", LARGE, prepare=fabric)
GROUPS = [GROUP]


@GROUP.test(timeout=120)
def objects(b):
    """All possible objects, except those that the kernel uses, and ENOMEM for one more."""
    used = resources(b, 1)
    # the ports' special QPs are not counted in max_qp
    used["qp"] -= 2
    text = b.sh(1, "/share/ohca-peer limits objects", 110)
    find("^limits end", text)
    rows = re.findall(r"^(\w+): (\d+) announced, (\d+) had$", text, re.M)
    limits = {name: int(n) for name, n, _ in rows}
    need(limits == {"pd": 512, "cq": 2048, "qp": 508, "srq": 64, "mr": 510, "mw": 510},
         f"announced: {limits}")
    for name, limit, had in rows:
        kernel = used.get("mr" if name == "mw" else name, 0)
        need(int(had) == int(limit) - kernel,
             f"{name}: {limit} announced, {kernel} the kernel's, {had} had")
    used["qp"] += 2
    need(resources(b, 1) == used, f"{resources(b, 1)} are left, {used} before")


def add_limit(name, want):
    """Adds a test of a limit that is not a number of objects."""
    @GROUP.test(name=name, timeout=120)
    def _(b):
        if name == "mcast":
            # it is in groups itself
            b.sh(1, "for i in /sys/class/net/ib*; do ip link set ${i##*/} down; done")
        text = b.sh(1, f"/share/ohca-peer limits {name}", 110)
        find("^limits end", text)
        find(want, text)


for _n, _w in (("qp", "^inline: 512$"), ("cq", "^cqe: 1048576$"),
               ("srq", "^srq_wr: 65536 of 30 SGEs$"), ("reads", "^rd_atom: 128, 128$"),
               ("pkeys", "^pkeys: 128$"), ("mr_size", "^mr_size: 1099511627776$"),
               ("mcast", "^mcast: 8192 groups, 256 QPs$"), ("message", "^msg: 2147483648$"),
               ("tags", "^tags: 1024, 4096 operations$")):
    add_limit(_n, _w)


@GROUP.test
def windows(b):
    """An HCA that announces windows of type 2A; local.windows is the same with 2B."""
    text = b.sh(1, "/share/ohca-peer local windows", 60)
    need("windows of type 2A belong to their QP" in text, tail(text))


@SCALE.test
def builder(b):
    """Every operation of RC, UC and UD by ibv_wr_*(), seen through an extended CQ."""
    text = b.sh(1, "/share/ohca-peer queues builder", 50)
    find("^queues end", text)
    for service, least in ((4, 9), (3, 21), (2, 26)):
        got = int(find(rf"^service {service}: (\d+) requests", text))
        need(got >= least, f"service {service}: {got} requests")


@SCALE.test
def clock(b):
    """The clock of ibv_query_rt_values_ex() is that of the completions' timestamps."""
    find("^queues end", b.sh(1, "/share/ohca-peer queues clock", 50))


@SCALE.test(timeout=100)
def resize(b):
    """A CQ changes its size while completions arrive: none is lost, all are in order."""
    text = b.sh(1, "/share/ohca-peer queues resize", 90)
    find("^queues end", text)
    find(r"^resized \d+ times under \d+ messages", text)


@SCALE.test(timeout=120)
def srq_resize(b):
    """An SRQ changes its size while others post and receive: none is lost, all are in order."""
    idle = resources(b, 1)
    text = b.sh(1, "/share/ohca-peer srq resize", 110)
    find("^srq end", text)
    find(r"^resized \d+ times under \d+ messages", text)
    need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


@SCALE.test(timeout=120)
def qp_resize(b):
    """The queues of QPs change their sizes while others post and send: nothing is lost."""
    idle = resources(b, 1)
    text = b.sh(1, "/share/ohca-peer resize qp", 110)
    find("^resize end", text)
    find(r"^resized \d+ times under \d+ messages", text)
    need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


def scale(b, qps, mrs):
    """Many objects in one process. A step whose time grows with their number does so each time."""
    idle = resources(b, 1)
    slower = None
    for _ in range(3):
        text = b.sh(1, f"/share/ohca-peer scale {qps} {mrs}", 90)
        find("^scale end", text)
        need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")
        now = set(re.findall("^slower (.*):", text, re.M))
        slower = now if slower is None else slower & now
        if not slower:
            return
    raise Failure(f"three times, the last objects cost more than the first: {slower}")


@SCALE.test(timeout=300, debug=False)
def many(b):
    """Ten thousand QPs and a hundred thousand MRs in one process; all of them are used."""
    scale(b, 10000, 100000)


@SCALE.test(timeout=100)
def fewer(b):
    """The same with fewer; on the debug kernel, kmemleak looks for leaks."""
    scale(b, 500, 2000)
