# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic between two machines with verified data."""
import re

from .bring_up import PAIR, fabric
from .harness import DEV, PERF_PORT, Failure, Group, answered, find, need, tail, until
from .verdict import Skip

GROUP = Group("traffic", PAIR, prepare=fabric)
GROUPS = [GROUP]

PINGPONG = (
    ("rc", "ibv_rc_pingpong -c -n 1000"),
    ("rc_events", "ibv_rc_pingpong -c -e -n 300"),
    ("rc_1m", "ibv_rc_pingpong -c -n 30 -s 1048576"),
    ("rc_small_mtu", "ibv_rc_pingpong -c -n 200 -m 256 -s 100000"),
    ("rc_new_api", "ibv_rc_pingpong -c -n 300 -N"),
    ("uc", "ibv_uc_pingpong -c -n 1000"),
    ("ud", "ibv_ud_pingpong -c -n 1000"),
    ("srq", "ibv_srq_pingpong -c -n 300 -q 4"),
    ("odp", "ibv_rc_pingpong -c -n 300 -s 100000 -o"),
    ("odp_implicit", "ibv_rc_pingpong -c -n 300 -s 100000 -O"),
    ("odp_prefetch", "ibv_rc_pingpong -c -n 300 -s 100000 -o -P"),
)
PERFTEST = (
    ("write_bw", "ib_write_bw -s 65536 -n 1000"),
    ("write_bw_2m", "ib_write_bw -s 2097152 -n 50"),
    ("write_bw_qps", "ib_write_bw -s 4096 -n 500 -q 8"),
    ("write_bw_both_ways", "ib_write_bw -b -s 65536 -n 300"),
    ("write_bw_uc", "ib_write_bw -c UC -s 4096 -n 500"),
    ("read_bw", "ib_read_bw -s 65536 -n 300"),
    ("send_bw", "ib_send_bw -s 65536 -n 300"),
    ("send_bw_ud", "ib_send_bw -c UD -s 2048 -n 500"),
    ("send_bw_srq", "ib_send_bw --use-srq -q 2 -s 4096 -n 300"),
    ("send_bw_events", "ib_send_bw -e -s 4096 -n 300"),
    ("send_bw_rdmacm", "ib_send_bw -R -s 4096 -n 300"),
    ("write_lat", "ib_write_lat -s 8 -n 1000"),
    ("read_lat", "ib_read_lat -s 8 -n 500"),
    ("send_lat", "ib_send_lat -s 8 -n 1000"),
    ("atomic_bw", "ib_atomic_bw -n 1000"),
    ("atomic_lat", "ib_atomic_lat -A CMP_AND_SWAP -n 500"),
    ("send_bw_xrc", "ib_send_bw -c XRC -s 4096 -n 300"),
    ("send_lat_xrc", "ib_send_lat -c XRC -s 8 -n 300"),
    ("write_bw_xrc", "ib_write_bw -c XRC -s 65536 -n 300"),
    ("read_bw_xrc", "ib_read_bw -c XRC -s 65536 -n 300"),
    ("atomic_bw_xrc", "ib_atomic_bw -c XRC -n 300"),
    ("write_bw_odp", "ib_write_bw --odp -s 65536 -n 300"),
    ("write_bw_odp_2m", "ib_write_bw --odp -s 2097152 -n 30 -q 4"),
    ("read_bw_odp", "ib_read_bw --odp -s 65536 -n 300"),
    ("send_bw_odp", "ib_send_bw --odp -s 65536 -n 300"),
    ("send_bw_odp_srq", "ib_send_bw --odp --use-srq -q 2 -s 4096 -n 300"),
    ("write_lat_odp", "ib_write_lat --odp -s 8 -n 500"),
    ("atomic_bw_odp", "ib_atomic_bw --odp -n 300"),
)
# Tests of these that the debug kernel runs, too: those with other code paths in the driver.
DEBUG = ("rc", "rc_events", "uc", "ud", "write_bw_qps", "send_bw_events", "send_bw_rdmacm",
         "atomic_bw")


def add_verify(transport):
    """ohca-peer verify: every operation, many sizes."""
    @GROUP.test(name=f"verify_{transport}")
    def _(b):
        s_out, c_out = b.peer(f"verify {transport}")
        need(int(find(r"verified (\d+) messages", c_out)) > 20, "too few messages")
        need("verified" in s_out, "server")


def add_pingpong(name, command):
    """An ibv_*_pingpong; -c compares the data."""
    @GROUP.test(name=f"pingpong_{name}", debug=name in DEBUG)
    def _(b):
        _, text = b.pair(f"{command} -d {DEV}", f"{command} -d {DEV} node1", PERF_PORT)
        need("iters in" in text and not re.search("invalid data|Failed|Couldn't", text),
             text[-200:])


def add_perftest(name, command):
    """A perftest program: it must exit with 0 and print a result, which is never 0."""
    @GROUP.test(name=f"perftest_{name}", debug=name in DEBUG)
    def _(b):
        host, port = ("node1-ib", "cm") if "-R" in command.split() else ("node1", PERF_PORT)
        # -u: 7 retries of 2 s; a peer may be stopped for a while
        options = f"-F -u 17 -d {DEV}"
        # it prints no figures if it could not measure its clock, as in a node that was stopped
        for _ in range(3):
            try:
                _, text = b.pair(f"{command} {options}", f"{command} {options} {host}", port)
            except Failure as e:
                if "ODP does not support ATOMICS" in str(e):    # before perftest 23.10
                    raise Skip("this perftest makes no atomics on such memory") from e
                raise
            if "Correlation coefficient" not in text:
                break
        else:
            raise Failure("perftest could not measure the rate of its clock", "time")
        rows = re.findall(r"^ *(\d+) +(\d+)(\s+\d[\d.\s]*)", text, re.M)
        size, number = (int(find(rf"-{x} (\d+)", command, f"-{x}")) if f"-{x} " in command else 0
                        for x in "sn")
        need(len(rows) == 1 and int(rows[0][0]) == (size or 8) and int(rows[0][1]) >= number,
             f"not the result of {number} messages of {size} bytes: {text[-200:]}")
        figures = [float(x) for x in rows[0][2].split()]
        if "_bw" in name:
            # the peak, the average in MiB/s, which may be less than a hundredth, and messages in
            # a microsecond
            need(len(figures) == 3 and figures[2] > 0, f"nothing moved: {figures}")
            moved, size = figures[1] * 2 ** 20, int(rows[0][0])
            need(abs(figures[2] * 1e6 * size - moved) <= moved / 50 + 6000 + size,
                 f"both cannot be: {rows[0]}")
        else:
            # least, most, typical, average: no message is quicker than the least
            need(len(figures) >= 4 and 0 < figures[0] <= figures[2] <= figures[1] and
                 figures[0] <= figures[3] <= figures[1], f"latencies of no messages: {figures}")


def add_xsrq(name, options):
    """ibv_xsrq_pingpong: XRC both ways."""
    @GROUP.test(name=f"pingpong_{name}")
    def _(b):
        out = b.pair(f"ibv_xsrq_pingpong {options} -d {DEV}",
                     f"ibv_xsrq_pingpong {options} -d {DEV} node1", PERF_PORT)
        for text in out:
            need("success" in text and not re.search("[Cc]ouldn't|Failed|rror", text), text[-200:])


# 128 MiB of swap space, and a group of processes that may have 24 MiB of memory
SWAP = """
grep -q zram /proc/swaps || {
	modprobe zram && echo 128M >/sys/block/zram0/disksize &&
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || exit 1
}
mkdir -p /sys/fs/cgroup/small
echo +memory >/sys/fs/cgroup/cgroup.subtree_control && echo 24M >/sys/fs/cgroup/small/memory.max
"""


def add_paged(scenario, says, first="true", debug=True, option=None):
    """ohca-peer paged: memory that is not pinned, on one node; option: a kernel option it needs."""
    @GROUP.test(name=scenario, timeout=90, debug=debug)
    def _(b):
        if option:
            b.kernel_has(1, option)
        need(says in b.sh(1, f"{first}\n/share/ohca-peer paged {scenario}", 80), "no success")


add_paged("odp", "pages came and went")
add_paged("odp_moving", "pages moved under traffic")
for _t in ("srq", "xrc", "uc", "ud"):
    # with swap space, if there is some
    add_paged(f"odp_{_t}", "the transport did what it announces", f"({SWAP}) || true", debug=False)
add_paged("odp_killed", "the device outlived them")
add_paged("odp_tables", "whoever came first had them")
# the debug kernel has no swap space
add_paged("odp_swapped", "pages were swapped under traffic", SWAP, debug=False)
add_paged("odp_squeezed", "more than there is memory for",
          SWAP + "echo $$ >/sys/fs/cgroup/small/cgroup.procs", debug=False)
add_paged("dmabuf", "buffers of others worked", "modprobe -q udmabuf; true", option="UDMABUF")


def add_stalled(what):
    """Pages of one process do not arrive (modules/stall.c); those of another one do."""
    @GROUP.test(name=f"odp_stalled_{what}", timeout=120)
    def _(b):
        b.sh(1, f"[ -e /sys/module/stall ] || insmod {b.module(1, 'stall.ko')}")
        text = b.sh(1, f"/share/ohca-peer paged odp_stalled_{what}", 110)
        need("the pages of others came" in text, tail(text))
        b.sh(1, "rmmod stall")


add_stalled("prefetches")
add_stalled("faults")
for _t in ("rc", "uc", "ud"):
    add_verify(_t)


def add_placed(how):
    """ohca-peer placed: node 1 runs code that node 2 writes there, each version of it."""
    @GROUP.test(name=f"placed_code_{how}", timeout=120, debug=False)
    def _(b):
        if b.sh(1, "uname -m").strip() != "x86_64":
            raise Skip("the code is for x86-64")
        s_out, _ = b.peer(f"placed {how}", 110)
        need(find(r"ran (\d+) versions", s_out) == "1000", tail(s_out))


for _t in ("event", "doorbell"):
    add_placed(_t)


@GROUP.test
def xrcd_shared(b):
    """An XRC domain, shared by two processes through a file."""
    need("shared" in b.sh(1, "/share/ohca-peer xrc share"), "no result")


add_xsrq("xsrq", "-n 300")
add_xsrq("xsrq_events", "-n 100 -e -s 100000 -m 4096")
for _n, _c in PINGPONG:
    add_pingpong(_n, _c)
for _n, _c in PERFTEST:
    add_perftest(_n, _c)


@GROUP.test
def rping(b):
    """rping verifies its data."""
    _, text = b.pair("rping -s -a 0.0.0.0 -C 50 -v -S 4000",
                     "rping -c -a node1-ib -C 50 -v -S 4000", "cm")
    need("ping data: rdma-ping-49" in text, text[-200:])


@GROUP.test
def ucmatose(b):
    """Connections by librdmacm, many at once."""
    _, text = b.pair("ucmatose -c 8 -C 20", "ucmatose -s node1-ib -c 8 -C 20", "cm")
    find("data transfers complete", text)
    need(not re.search("error|failed", text, re.I), text[-200:])


@GROUP.test(debug=False)
def udaddy(b):
    """Datagrams by librdmacm."""
    _, text = b.pair("udaddy -C 20", "udaddy -s node1-ib -C 20", "cm")
    find("data transfers complete", text)


@GROUP.test
def mckey(b):
    """A multicast group by librdmacm, both as members."""
    def said():
        return b.sh(1, "cat /tmp/mckey.log")

    b.sh(1, ": >/tmp/mckey.log; "
            "(timeout 60 stdbuf -oL mckey -m 239.1.1.7 -b node1-ib -C 10 >/tmp/mckey.log 2>&1 &)")
    until(20 * b.slow, lambda: "joined" in said(), lambda: f"node1 does not join: {said()}")
    find("data transfers complete", b.sh(2, "mckey -m 239.1.1.7 -b node2-ib -s -C 10"))
    until(20 * b.slow, lambda: "data transfers complete" in said(), said)


@GROUP.test
def ping(b):
    """IPoIB, IPv4, in both directions."""
    for node in (1, 2):
        answered(b, node, f"node{3 - node}-ib", 50, "-i 0.02 -p a5c3 -s 1000")


@GROUP.test(debug=False)
def ping_fragments(b):
    """IPoIB, packets of many fragments."""
    answered(b, 2, "node1-ib", 10, "-i 0.1 -p 1ee7 -s 20000")


@GROUP.test
def ping6(b):
    """IPoIB, IPv6: neighbour discovery is multicast."""
    addr = find(r"inet6 (fe80::\S+)/", b.sh(1, "ip -6 addr show dev ib0"))
    answered(b, 2, f"{addr}%ib0", 10, "-6 -i 0.1")


@GROUP.test
def tcp_over_ipoib(b):
    """A megabyte and more over TCP, compared."""
    size = (1 if b.debug else 3) << 20
    common = f"import random, socket; data = random.Random(5).randbytes({size}); "
    server = common + ("s = socket.create_server(('10.77.0.1', 7777)); c, _ = s.accept(); "
                       "got = c.makefile('rb').read(); assert got == data, len(got)")
    client = common + ("c = socket.create_connection(('10.77.0.1', 7777)); c.sendall(data)")
    b.pair(f'python3 -c "{server}"', f'python3 -c "{client}"', 7777)


@GROUP.test(debug=False)
def big_registration(b):
    """A region of many pages, written to its end."""
    size = 16 << 20
    b.pair(f"ib_write_bw -F -s {size} -n 5", f"ib_write_bw -F -s {size} -n 5 node1", PERF_PORT)


@GROUP.test
def nothing_left(b):
    """None of these programs has left resources in the driver."""
    for node in (1, 2):
        text = b.sh(node, "rdma resource show qp; rdma resource show mr; rdma resource show cm_id")
        user = [x for x in text.splitlines() if re.search(r"\bpid\b", x)]
        need(not user, f"node{node}: {user[:2]}")
