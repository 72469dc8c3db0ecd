# SPDX-License-Identifier: GPL-2.0-or-later
"""From power-on to a working subnet."""
import re

from .harness import DEV, Failure, Group, find, need, until

PAIR = ("-n", "2", "--no-sm")
BEGIN = "/tmp/opensm.begin"


def active(bench, node):
    """Whether the port of a node is ACTIVE and IPoIB has its carrier."""
    text = bench.lab.capture(node, f"cat /sys/class/infiniband/{DEV}/ports/1/state; "
                             "cat /sys/class/net/ib0/carrier", 20 * bench.slow)[1]
    return "ACTIVE" in text and text.strip().endswith("1")


def all_active(bench, seconds=30):
    """Waits until the fabric works."""
    until(seconds * bench.slow,
          lambda: all(active(bench, vm.k) for vm in bench.lab.vms if vm.alive()),
          "a port does not become ACTIVE")


def start_sm(bench, node=1, setting=""):
    """OpenSM on a node, with a line for its configuration; its log is to be read at once."""
    bench.sh(node, "rm -f /var/log/opensm.log; "
                   f"printf 'force_log_flush TRUE\\n{setting}\\n' >/tmp/opensm.conf; "
                   f"date +%s.%N > {BEGIN}; "
                   "opensm -B -F /tmp/opensm.conf -f /var/log/opensm.log >/dev/null")


def stop_sm(bench, node=1):
    """It is gone when this returns."""
    bench.sh(node, "pkill -x opensm", status=None)
    until(20 * bench.slow, lambda: bench.status(node, "pgrep -x opensm")[0],
          f"node{node}: OpenSM does not end")


def fabric(bench):
    """Brings the fabric up if a test before has not."""
    if bench.state.get("fabric"):
        return
    if "--no-sm" in bench.group.lab:
        start_sm(bench)
    all_active(bench)
    bench.state["fabric"] = True


GROUP = Group("bring_up", PAIR)
GROUPS = [GROUP]


@GROUP.test
def modinfo(b):
    """The module describes itself."""
    text = b.sh(1, "modinfo ohca")
    for field in ("description", "author", "license", "version", "alias"):
        find(rf"^{field}: +\S", text)
    find(r"alias: +pci:v00001234d00000CA0", text)


@GROUP.test
def probe_message(b):
    """One line on probe."""
    for node in (1, 2):
        lines = re.findall(r"^.*\bohca .*$", b.kernel_said(node), re.M)
        need(len(lines) == 1 and f"{DEV}: OpenHCA" in lines[0],
             f"node{node} says {lines!r} on probe")


@GROUP.test
def link_up_without_sm(b):
    """Without a subnet manager ports are in INIT, links are up."""
    for node in (1, 2):
        text = b.sh(node, f"cd /sys/class/infiniband/{DEV}/ports/1; cat state phys_state")
        need("2: INIT" in text and "5: LinkUp" in text, f"node{node}: {text.split()!r}")


@GROUP.test
def subnet_up(b):
    """OpenSM says SUBNET UP within 3 s of its start; with the debug kernel, some time."""
    start_sm(b)
    limit = 120 if b.debug else 3
    text = b.sh(1, "n=0; until grep -q 'SUBNET UP' /var/log/opensm.log; do n=$((n + 1)); "
                   f"[ $n -lt {40 * limit} ] || exit 1; sleep 0.05; done; cat {BEGIN}; "
                   "grep 'SUBNET UP' /var/log/opensm.log | head -1", 60)
    begin = float(text.split()[0])
    h, m, s, us = (int(x) for x in
                   re.search(r"(\d+):(\d+):(\d+) (\d+) \[\w+\] 0x\w+ -> SUBNET UP", text).groups())
    day = begin - begin % 86400
    took = day + h * 3600 + m * 60 + s + us / 1e6 - begin
    b.note(f"SUBNET UP after {took:.3f} s")
    if not 0 <= took <= limit:
        raise Failure(f"SUBNET UP {took:.2f} s after the start, {limit} allowed")
    all_active(b)
    b.state["fabric"] = True


@GROUP.test
def no_opensm_errors(b):
    """OpenSM has nothing to complain about."""
    fabric(b)
    errors = [x for x in b.sh(1, "cat /var/log/opensm.log").splitlines() if re.search(
        r"\bERR\b|error|timeout", x, re.I)]
    need(not errors, f"{len(errors)} errors: {errors[:2]}")
