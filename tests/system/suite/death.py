# SPDX-License-Identifier: GPL-2.0-or-later
"""A node is killed while others send to it."""
import re

from . import fabric as before
from .bring_up import fabric
from .harness import DEV, Failure, Group, find, need, until

# it is the last to use the lab of three nodes
GROUP = Group("death", before.GROUP.lab, debug=False, prepare=fabric)
GROUPS = [before.GROUP, GROUP]


def die_while_sending(b, sender, how):
    """how() ends node 3 while the sender writes to it; the others continue."""
    b.background(3, "/share/ohca-peer until-error 60")
    writer = b.background(sender, "/share/ohca-peer until-error 60 node3").said("streaming")
    other = 3 - sender
    command = f"/share/ohca-peer stream {3 + b.slow}"
    ends = [b.background(other, command), b.background(sender, f"{command} node{other}")]
    ends[1].said("streaming")
    how()
    took = int(find(r"error after \d+ blocks, (\d+) ms: transport retry counter exceeded",
                    writer.wait()))
    need(took < 15000 * b.slow, f"the error came after {took} ms")
    for end in ends:
        find("^moved", end.wait())


@GROUP.test(timeout=120)
def killed(b):
    """The QEMU of a node is killed; the switch's port goes down, and OpenSM detects it."""
    guid = b.sh(3, f"cat /sys/class/infiniband/{DEV}/node_guid").strip().replace(":", "")
    need(guid in b.sh(1, "ibnetdiscover"), "node3 is not on the fabric")
    b.sh(1, "ibqueryerrors -k", 60, status=None)
    b.expect_dead(3)
    die_while_sending(b, 2, b.lab.vms[2].process.kill)
    need(guid not in b.sh(1, "ibnetdiscover"), "a dead node is still discovered")
    up = b.sh(1, "iblinkinfo --switches-only").count("Active/  LinkUp")
    need(up == 2, f"{up} links are up after a node died")
    until(20 * b.slow, lambda: "node3" not in b.sh(1, "saquery NR"),
          "OpenSM still knows the dead node")
    b.peer("verify rc")
    b.state["dead"] = True


@GROUP.test(timeout=60)
def stays_down(b):
    """Sending to the LID of the dead node soon ends in an error; the fabric still works."""
    if not b.state.get("dead"):
        raise Failure("needs the test before")
    b.sh(2, "ping -c 3 -i 0.2 node1-ib")
    status, _ = b.status(2, "ping -c 2 -W 2 node3-ib")
    need(status, "a dead node answers")
    # the switch detected that one link went down, and dropped packets for it
    bad = re.findall(r"^ *GUID \S+ port \d+: .*LinkDownedCounter == (\d+)",
                     b.sh(1, "ibqueryerrors", 60, status=None), re.M)
    need(bad == ["1"], f"LinkDowned of the ports that count it: {bad}")
