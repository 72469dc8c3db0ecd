# SPDX-License-Identifier: GPL-2.0-or-later
"""DMA-BUFs of modules/movebuf.c, which moves and revokes them on request."""
from .bring_up import PAIR, all_active, fabric
from .harness import DEV, Group, find, need, tail, until


def prepare(b):
    """Brings up the fabric, and loads the exporter on both nodes."""
    fabric(b)
    for node in (1, 2):
        b.sh(node, f"[ -e /sys/module/movebuf ] || insmod {b.module(node, 'movebuf.ko')}")


GROUP = Group("dmabuf", PAIR, prepare=prepare)
LACKS = 1 << 9      # of enum ohca_feature: OHCA_FEATURE_ODP
PINNING = Group("dmabuf", (*PAIR, "--device", f"x-lacks={LACKS}"), prepare=prepare)
GROUPS = [GROUP]


def given_back(b, node):
    """No buffer is left; each one holds the exporter's module."""
    until(10 * b.slow, lambda: not b.status(node, "rmmod movebuf")[0],
          f"node{node} has a buffer left: {tail(b.sh(node, 'lsmod | grep movebuf'))}")


def add(scenario, says, debug):
    """Adds a test of ohca-peer paged: on one node."""
    @GROUP.test(name=scenario, timeout=90, debug=debug)
    def _(b):
        text = b.sh(1, f"/share/ohca-peer paged dmabuf_{scenario}", 80)
        need(says in text, tail(text))
        given_back(b, 1)


# the stock kernel pins buffers that could move
add("pinned", "buffers stayed where they were", False)
add("moving", "buffers moved under traffic", "only")
add("revoked", "buffers were revoked under traffic", "only")
add("killed", "the device outlived them", "only")


@PINNING.test(timeout=90, debug=False)
def without_odp(b):
    """For a device without on-demand paging, the driver pins movable buffers; nothing remains."""
    features = int(find(r"^features 0x(\w+)$", b.sh(1, "cat /sys/kernel/debug/ohca/*/device")), 16)
    need(features and not features & LACKS, f"the driver has features {features:#x}")
    text = b.sh(1, "/share/ohca-peer paged dmabuf_pinned", 80)
    need("buffers stayed where they were" in text, tail(text))
    given_back(b, 1)
    b.kernel_has(1, "UDMABUF")
    text = b.sh(1, "modprobe -q udmabuf; /share/ohca-peer paged dmabuf", 80)
    need("buffers of others worked" in text, tail(text))


@GROUP.test(debug="only", timeout=90)
def between_nodes(b):
    """A peer writes, reads and counts while the buffer moves; then it is revoked."""
    s_out, c_out = b.peer("movable dmabuf", 80)
    need(int(find(r"moved (\d+) times", s_out)) > 150, tail(s_out))
    need(int(find(r"(\d+) rounds", c_out)) > 10, tail(c_out))
    given_back(b, 1)


@GROUP.test(debug="only", timeout=90)
def unload(b):
    """Both modules stay while a region is used; the device can be removed from under it."""
    program = b.background(2, "/share/ohca-peer paged dmabuf_held").said("held")
    for module in ("movebuf", "ohca"):
        status, text = b.status(2, f"rmmod {module}")
        need(status and "in use" in text, f"rmmod {module} ended with {status}: {tail(text)}")
    b.sh(2, f"d=$(basename $(readlink /sys/class/infiniband/{DEV}/device)); "
            "echo $d >/sys/bus/pci/drivers/ohca/unbind; echo $d >/tmp/function", 60)
    program.kill()
    b.sh(2, "cat /tmp/function >/sys/bus/pci/drivers/ohca/bind", 60)
    given_back(b, 2)
    all_active(b, 40)
    b.peer("stream 0.5")
