# SPDX-License-Identifier: GPL-2.0-or-later
"""What takes one machine only.

Device memory, sharing, fork, domains, kinds of memory, kernel verbs.
"""
import re

from . import pyverbs
from .bring_up import fabric
from .campaigns import lie
from .harness import Group, find, linux, need, tail, until
from .life import resources
from .limits import LARGE, SCALE
from .no_memory import BIND, NOT_BOUND, TO_BIND, TRACES, UNBIND, function_of, starve, words

EARLY = Group("local", LARGE)   # before there is a subnet manager
GROUP = Group("local", LARGE, prepare=fabric)
# All tests for one node have one lab; the last one leaves it without DMA API debugging.
GROUPS = [EARLY, pyverbs.GROUP, SCALE, GROUP]

SCENARIOS = {
    "dm": "device memory kept apart", "doorbells": "every post was seen",
    "share": "objects outlived their owner",
    "fork": "children harmed nothing", "fork-init": "children harmed nothing",
    "domains": "queues lay in the allocator's memory", "moderation": "events moderated",
    "memory": "every kind of memory worked", "windows": "windows of type 2B belong to their QP",
    "mcast": "attached and detached",
}


@EARLY.test(debug="only", timeout=90, reports=TRACES)
def starved(b):
    """Allocations of the driver's probe fail: a part of the campaign."""
    b.state["function"] = function_of(b, 1)
    idle = resources(b, 1)
    bind, unbound = words(b, TO_BIND), words(b, NOT_BOUND)
    b.sh(1, words(b, UNBIND))
    failed, text = starve(b, 1, bind, unbound, "--depth=10", "--last=25", seconds=60)
    need(failed == 25, f"{failed} allocations failed")
    # a later test that restores the configuration needs it
    find(r"^at pci_store_saved_state < ohca_\w+: 1 x ENOMEM$", text)
    b.sh(1, words(b, BIND), 60)
    until(20 * b.slow, lambda: resources(b, 1) == idle,
          lambda: f"{resources(b, 1)} are left, {idle} before")


def add(scenario, says):
    """Adds a scenario of prog/local.c and share.c; it leaves no resources behind."""
    @GROUP.test(name=scenario.replace("-", "_"), timeout=90)
    def _(b):
        if scenario == "memory":
            b.sh(1, "echo 8 >/proc/sys/vm/nr_hugepages")
        idle = resources(b, 1)
        text = b.sh(1, f"/share/ohca-peer local {scenario}", 60)
        need(says in text, tail(text))
        need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


@GROUP.test(timeout=120)
def kernel_verbs(b):
    """Kernel consumers: longest page lists, masked atomics, all ways of polling, pools, SRQs."""
    idle, mark = resources(b, 1), len(b.kernel_said(1))
    status, text = b.status(1, f"insmod {b.module(1, 'ohca_verbs_test.ko')}", 100)
    log = b.kernel_said(1)[mark:]
    need(status == 0, tail(log + text))
    need(b.sh(1, "rmmod ohca_verbs_test; lsmod | grep -c verbs_test; true").strip() == "0", "rmmod")
    rounds = [int(x) for x in re.findall(r"polling \d: (\d+) steps, regions of 4096 pages", log)]
    need(len(rounds) == 4 and min(rounds) > 1260, f"rounds of {rounds} steps")
    need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


for _s, _w in SCENARIOS.items():
    add(_s, _w)


@GROUP.test(debug="only", timeout=240)
def lies(b):
    """Processes that send wrong calls to uverbs: a part of the campaign."""
    _, writes = lie(b, 1, 1, 1500, 150)
    need(writes > 0, "no call by write()")
    need("objects outlived" in b.sh(1, "/share/ohca-peer local share", 60), "share")


@GROUP.test(timeout=60)
def ftrace(b):
    """The function graph has the driver's functions for a program's device, and no others."""
    text = b.sh(1, """cd /sys/kernel/tracing && echo :mod:ohca >set_ftrace_filter &&
        echo function_graph >current_tracer && ibv_devinfo >/dev/null && cat trace
        echo nop >current_tracer; echo >set_ftrace_filter""", 30)
    find(r"\| +ohca_alloc_ucontext\b", text)
    others = [x for x in re.findall(r"\| +([\w.]+.*)\(\)", text) if not x.endswith(" [ohca]")]
    need(not others, f"also traced: {others[:5]}")


@GROUP.test(timeout=60)
def supplied(b):
    """A CQ in memory that the core's attributes name: the driver accepts it from Linux 7.2 on."""
    b.sh(1, "modprobe -q udmabuf; true")
    idle = resources(b, 1)
    text = b.sh(1, "/share/ohca-peer local supplied", 30)
    # the driver accepts it in 7.2; before, the core refuses it or does not have it
    says = "lay in supplied memory" if linux(b, 1) >= (7, 2) else "is refused"
    need(says in text, tail(text))
    need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


@GROUP.test(timeout=60)
def program_of_32_bits(b):
    """A 32-bit program gets no context of the driver, whatever its provider; a 64-bit one does."""
    b.kernel_has(1, "IA32_EMULATION")
    idle = resources(b, 1)
    text = b.sh(1, "/share/ohca-peer local narrow", 30)
    need("32-bit program refused" in text, tail(text))
    need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")


# The last test: an allocation of DMA API debugging fails, too, which switches it off.
@GROUP.test(debug="only", timeout=90, reports="cacheline tracking ENOMEM, dma-debug disabled")
def nomem(b):
    """Each allocation of the kernel that a verb needs fails once; nothing remains of it."""
    idle = resources(b, 1)
    b.sh(1, "cd /sys/kernel/debug/failslab && echo N >ignore-gfp-wait && echo 0 >verbose")
    text = b.sh(1, "/share/ohca-peer local nomem", 80)
    failed = {name: int(n) for name, n in re.findall(r"^(.+): (\d+) and \d+ alloc", text, re.M)}
    few = [name for name in failed if not failed[name] and name != "create_ah"]
    need(len(failed) > 15 and not few, f"no allocation failed of {few}: {tail(text)}")
    need(resources(b, 1) == idle, f"{resources(b, 1)} are left, {idle} before")
    # a verb that failed without memory works with it
    need("objects outlived" in b.sh(1, "/share/ohca-peer local share", 60), "share")
