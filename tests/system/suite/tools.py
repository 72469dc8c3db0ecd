# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of the InfiniBand tools is correct: compared with sysfs, each other and traffic."""
import re

from .bring_up import PAIR, all_active, fabric
from .harness import DEV, PERF_PORT, Group, find, need, until

WATCH = "/tmp/watch.log"


def prepare(b):
    """Brings up the fabric and clears counters: errors while links come up do not count."""
    fabric(b)
    if not b.state.get("counted"):
        b.sh(1, "ibqueryerrors -k", 60, status=None)
        b.state["counted"] = True


GROUP = Group("tools", PAIR, prepare=prepare)
GROUPS = [GROUP]


def truth(b):
    """LID, GUIDs and so on of each node from sysfs; those of the switch from its neighbours."""
    if "truth" in b.state:
        return b.state["truth"]
    nodes = {}
    for k in (1, 2):
        text = b.sh(k, f"cd /sys/class/infiniband/{DEV}; cat node_guid sys_image_guid node_desc; "
                       "cd ports/1; cat lid sm_lid rate state gids/0")
        node_guid, sys_guid, desc, lid, sm_lid, rate, state, gid = text.splitlines()
        nodes[k] = {"node_guid": node_guid.replace(":", ""), "sys_guid": sys_guid.replace(":", ""),
                    "desc": desc, "lid": int(lid, 16), "sm_lid": int(sm_lid, 16), "rate": rate,
                    "state": state, "port_guid": gid.replace(":", "")[16:]}
    b.state["truth"] = nodes
    return nodes


def switch_lid(b):
    """The switch's LID from the subnet administrator."""
    return int(find(r"lid (\d+)", b.sh(1, "ibswitches")))


def port_of(b, node):
    """The switch's port at which a node is."""
    guid = truth(b)[node]["port_guid"].lstrip("0")
    return int(find(rf'^\[(\d+)\]\s+"H-[0-9a-f]+"\[1\]\({guid}\)', b.sh(1, "ibnetdiscover")))


def watch(b, node):
    """Starts ibv_asyncwatch on a node; it listens when this returns."""
    b.sh(node, f"pkill -x ibv_asyncwatch; rm -f {WATCH}; "
               f"(ibv_asyncwatch -d {DEV} >{WATCH} 2>&1 &); n=0; "
               f"until grep -q 'async event FD' {WATCH}; do n=$((n + 1)); "
               f"[ $n -lt 500 ] || exit 1; sleep 0.05; done")


def watched(b, node):
    """The events that it has printed."""
    return set(re.findall(r"event_type (IBV_EVENT_\w+) ", b.sh(node, f"cat {WATCH}")))


@GROUP.test
def sysfs(b):
    """Nodes differ where they must, and agree where they must."""
    t = truth(b)
    need(t[1]["lid"] != t[2]["lid"] and t[1]["lid"] and t[2]["lid"], "LIDs are not two")
    need(len({t[k][g] for k in t for g in ("node_guid", "port_guid")}) == 4, "GUIDs are not four")
    for k in (1, 2):
        need(t[k]["sm_lid"] == t[1]["lid"], f"node{k}: SM at LID {t[k]['sm_lid']}")
        need("100 Gb/sec (4X EDR)" in t[k]["rate"], f"node{k}: rate {t[k]['rate']}")
        need("ACTIVE" in t[k]["state"], f"node{k}: {t[k]['state']}")


@GROUP.test(debug=False)
def ibstat(b):
    """ibstat and ibstatus."""
    t = truth(b)
    for k in (1, 2):
        text = b.sh(k, "ibstat")
        need(int(find(r"Base lid: (\d+)", text)) == t[k]["lid"], "LID")
        need(int(find(r"SM lid: (\d+)", text)) == t[1]["lid"], "SM LID")
        need(find(r"Port GUID: 0x(\w+)", text) == t[k]["port_guid"], "port GUID")
        need(find(r"Node GUID: 0x(\w+)", text) == t[k]["node_guid"], "node GUID")
        for line in ("State: Active", "Physical state: LinkUp", "Rate: 100",
                     "Link layer: InfiniBand"):
            need(line in text, line)
        need(t[k]["port_guid"][-4:] in b.sh(k, "ibstatus").replace(":", ""), "ibstatus")


@GROUP.test(debug=False)
def devinfo(b):
    """ibv_devinfo -v."""
    t = truth(b)
    for k in (1, 2):
        text = b.sh(k, "ibv_devinfo -v")
        need(int(find(r"port_lid:\s+(\d+)", text)) == t[k]["lid"], "LID")
        need(find(r"node_guid:\s+(\S+)", text).replace(":", "") == t[k]["node_guid"], "GUID")
        find(r"state:\s+PORT_ACTIVE", text)
        find(r"active_mtu:\s+4096", text)
        find(r"max_mtu:\s+4096", text)
        need(int(find(r"max_qp:\s+(\d+)", text)) >= 1024, "max_qp")


@GROUP.test(debug=False)
def sminfo(b):
    """The master is node 1's OpenSM."""
    t = truth(b)
    for k in (1, 2):
        text = b.sh(k, "sminfo")
        need(int(find(r"sm lid (\d+)", text)) == t[1]["lid"], "LID")
        need(find(r"sm guid 0x(\w+)", text) == t[1]["port_guid"].lstrip("0"), "GUID")
        need("SMINFO_MASTER" in text, "state")


@GROUP.test(debug=False)
def ibnetdiscover(b):
    """One switch, and two channel adapters at it."""
    t = truth(b)
    text = b.sh(1, "ibnetdiscover")
    need(len(re.findall(r"^Switch", text, re.M)) == 1, "not one switch")
    need(len(re.findall(r"^Ca", text, re.M)) == 2, "not two CAs")
    for k in (1, 2):
        port = t[k]["port_guid"].lstrip("0")
        line = find(rf'^\[\d+\]\s+"H-{t[k]["node_guid"]}"\[1\]\({port}\).*$', text)
        need(f'"{t[k]["desc"]}' in line and f"lid {t[k]['lid']} 4xEDR" in line, line)
    need(t[1]["desc"].startswith("node1") and t[2]["desc"].startswith("node2"), "names")
    for tool, count in (("ibhosts", 2), ("ibswitches", 1), ("ibnodes", 3)):
        lines = b.sh(2, tool).splitlines()
        need(len(lines) == count, f"{tool}: {len(lines)} lines")


@GROUP.test(debug=False)
def iblinkinfo(b):
    """Two links are up, with their speed; all other ports are down."""
    t = truth(b)
    text = b.sh(2, "iblinkinfo --switches-only")
    up = [x for x in text.splitlines() if "Active/  LinkUp" in x]
    down = [x for x in text.splitlines() if re.search(r"Down/", x)]
    need(len(up) == 2 and len(down) == 34, f"{len(up)} up, {len(down)} down")
    for k in (1, 2):
        line = next((x for x in up if f'"{t[k]["desc"]}' in x), "")
        need(re.search(r"4X\s+25.78125 Gbps", line), f"node{k}: {line}")
        need(re.search(rf"\s{t[k]['lid']}\s+1\[", line), f"node{k}: {line}")


@GROUP.test(debug=False)
def smpquery(b):
    """Every attribute, by LID and by directed route."""
    t = truth(b)
    for k in (1, 2):
        lid = t[k]["lid"]
        text = b.sh(3 - k, f"smpquery nodeinfo {lid}; smpquery nodedesc {lid}; "
                           f"smpquery portinfo {lid} 1; smpquery pkeys {lid} 1; "
                           f"smpquery guids {lid}; smpquery sl2vl {lid} 1; smpquery vlarb {lid} 1")
        need(find(r"^Guid:\.+0x(\w+)", text) == t[k]["node_guid"], "node GUID")
        need(find(r"^PortGuid:\.+0x(\w+)", text) == t[k]["port_guid"], "port GUID")
        need(find(r"^SystemGuid:\.+0x(\w+)", text) == t[k]["sys_guid"], "system GUID")
        find(r"^NodeType:\.+Channel Adapter", text)
        need(find(r"^Node Description:\.+(.*)", text) == t[k]["desc"], "description")
        need(int(find(r"^Lid:\.+(\d+)", text)) == lid, "LID")
        need(int(find(r"^SMLid:\.+(\d+)", text)) == t[1]["lid"], "SM LID")
        for field, value in (("LinkState", "Active"), ("PhysLinkState", "LinkUp"),
                             ("LinkWidthActive", "4X"), ("NeighborMTU", "4096"),
                             ("LinkSpeedExtActive", "25.78125 Gbps")):
            find(rf"^{field}:\.+{re.escape(value)}", text)
        find(r"0: 0xffff", text, "the default P_Key")
        need(t[k]["port_guid"] in text.replace("0x", ""), "GUIDInfo")
    text = b.sh(1, f"smpquery switchinfo {switch_lid(b)}; smpquery -D nodeinfo 0,1")
    need(int(find(r"^LinearFdbTop:\.+(\d+)", text)) >= max(t[1]["lid"], t[2]["lid"]), "LFT top")
    find(r"^NodeType:\.+Switch", text)
    find(r"^NumPorts:\.+36", text)


@GROUP.test(debug=False)
def errors_of_queries(b):
    """A query for something that does not exist gets an error at once."""
    t = truth(b)
    for query in (f"portinfo {t[2]['lid']} 7", f"pkeys {t[2]['lid']} 9"):
        status, text = b.status(1, f"timeout 10 smpquery {query}")
        need(status not in (0, 124), f"smpquery {query} ended with {status}: {text[-100:]}")


@GROUP.test(debug=False)
def saquery(b):
    """The subnet administrator's records."""
    t = truth(b)
    for node in (1, 2):
        text = b.sh(node, "saquery NR")
        for k in (1, 2):
            rec = find(rf"lid\.+{t[k]['lid']}\n(?:.*\n)*?.*NodeDescription\.+.*", text)
            need(t[k]["port_guid"] in rec and t[k]["desc"] in rec, f"NodeRecord of node{k}")
        need(len(re.findall("NodeRecord dump", text)) == 3, "not three NodeRecords")
    text = b.sh(2, f"saquery PR --src-to-dst {t[2]['lid']}:{t[1]['lid']}")
    need(int(find(r"slid\.+(\d+)", text)) == t[2]["lid"], "slid")
    need(int(find(r"dlid\.+(\d+)", text)) == t[1]["lid"], "dlid")
    find(r"mtu\.+0x85", text)
    find(r"0xFFFF|0xffff", text, "P_Key")
    groups = b.sh(2, "saquery MCMR")
    find(r"ff12:401b:ffff::ffff:ffff", groups, "IPoIB's broadcast group")


@GROUP.test(debug=False)
def routes(b):
    """ibroute, ibtracert and dump_lfts agree with the cabling."""
    t = truth(b)
    text = b.sh(1, f"ibroute {switch_lid(b)}")
    for k in (1, 2):
        line = find(rf"^0x{t[k]['lid']:04x} (\d+)", text)
        need(int(line) == port_of(b, k), f"node{k} is routed to port {line}")
    text = b.sh(2, f"ibtracert {t[2]['lid']} {t[1]['lid']}")
    find(rf"^From ca \{{0x{t[2]['node_guid']}\}} portnum 1 lid {t[2]['lid']}-", text)
    find(rf"^\[\d+\] -> ca port \{{0x{t[1]['port_guid']}\}}\[1\] lid {t[1]['lid']}-", text)
    need(len(re.findall(r"^\[\d+\] ->", text, re.M)) == 2, "ibtracert: not two hops")
    text = b.sh(1, f"ibroute -M {switch_lid(b)}")
    find(r"^0xc\w+ .*x", text, "a multicast route")


@GROUP.test(debug=False)
def ibping(b):
    """Management datagrams of a vendor class, answered by a program."""
    t = truth(b)
    b.sh(2, "(ibping -S >/dev/null 2>&1 &)")
    try:
        # its status is 0 also without any answer
        until(20 * b.slow, lambda: "1 received" in b.sh(1, f"ibping -t 500 -c 1 {t[2]['lid']}"),
              "node2 does not answer")
        text = b.sh(1, f"ibping -c 20 -f {t[2]['lid']}")
        find(r"20 packets transmitted, 20 received, 0% packet loss", text)
    finally:
        b.sh(2, "pkill -x ibping", status=None)


def counters(b, lid, port=1, what="-x"):
    """PortCountersExtended of one port, or the counters of another option of perfquery."""
    text = b.sh(1, f"perfquery {what} {lid} {port}")
    return {m[0]: int(m[1]) for m in re.findall(r"^(\w+):\.+(\d+)$", text, re.M)}


@GROUP.test(debug=False)
def counters_count(b):
    """Bytes and packets of real traffic, at both ends and at the switch between."""
    t = truth(b)
    sw, ports = switch_lid(b), {k: port_of(b, k) for k in (1, 2)}

    def read():
        return {k: (counters(b, t[k]["lid"]), counters(b, sw, ports[k])) for k in (1, 2)}

    size, number = 65536, 500
    before = read()
    # -u: no packet is sent again because a node is stopped for a while
    b.pair(f"ib_write_bw -F -u 17 -s {size} -n {number}",
           f"ib_write_bw -F -u 17 -s {size} -n {number} node1", PERF_PORT)
    after = read()

    def grew(k, where, name):
        return after[k][where][name] - before[k][where][name]

    # LRH, BTH and ICRC on each packet of 4 KiB, RETH on the first; counted in words
    packets = number * size // 4096
    payload = number * (size + 16) + packets * 24
    sent = 4 * grew(2, 0, "PortXmitData")
    need(payload <= sent <= payload * 1.01 + 20000, f"node2 sent {sent} bytes for {payload}")
    got = 4 * grew(1, 0, "PortRcvData")
    need(payload <= got <= payload * 1.01 + 20000, f"node1 received {got} bytes for {payload}")
    need(packets <= grew(2, 0, "PortXmitPkts") <= packets * 1.05 + 200, "packets sent")
    need(packets <= grew(1, 0, "PortRcvPkts") <= packets * 1.05 + 200, "packets received")
    need(abs(4 * grew(2, 1, "PortRcvData") - sent) < 20000, "the switch's port at node2")
    need(abs(4 * grew(1, 1, "PortXmitData") - got) < 20000, "the switch's port at node1")
    for k in (1, 2):
        words = int(b.sh(k, f"cat /sys/class/infiniband/{DEV}/ports/1/counters/port_xmit_data"))
        need(0 <= words - after[k][0]["PortXmitData"] < 5000, f"sysfs says {words} words")


@GROUP.test(debug=False)
def counters_by_lane(b):
    """Data by SL and waiting by VL, at a node and at the switch: all of it is on VL 0."""
    t = truth(b)
    places = ((t[2]["lid"], 1, "-X", "XmtDataSL"), (t[1]["lid"], 1, "-S", "RcvDataSL"),
              (switch_lid(b), port_of(b, 2), "-S", "RcvDataSL"),
              (switch_lid(b), port_of(b, 1), "-X", "XmtDataSL"))
    for lid, port, what, _ in places:
        for option in ("", what, "--vlxmitcounters"):
            b.sh(1, f"perfquery {option} -R {lid} {port}")
    size, number = 65536, 300
    # -u: no packet is sent again because a node is stopped for a while
    b.pair(f"ib_write_bw -F -u 17 -s {size} -n {number}",
           f"ib_write_bw -F -u 17 -s {size} -n {number} node1", PERF_PORT)
    payload = number * (size + 16) + number * size // 4096 * 24
    for lid, port, what, name in places:
        by_sl = counters(b, lid, port, what)
        words = [by_sl[f"{name}{sl}"] for sl in range(16)]
        need(payload <= 4 * words[0] <= payload * 1.01 + 20000 and not any(words[1:]),
             f"lid {lid} port {port}: {name} {words} for {payload} bytes")
        waited = counters(b, lid, port, "--vlxmitcounters")
        us = [waited[f"PortVLXmitWait{vl}"] for vl in range(16)]
        need(us[0] == min(counters(b, lid, port, "")["PortXmitWait"], 0xffff) and
             not any(us[1:]), f"lid {lid} port {port}: PortVLXmitWait {us}")


@GROUP.test(debug=False)
def congestion(b):
    """ibccconfig sets the congestion control of a machine's port, and ibccquery reads it."""
    lid = truth(b)[2]["lid"]
    for name, args in (("CongestionControlTable", "2 0 0:0 2:5 3:16383"),
                       ("CACongestionSetting", "1 0x2 150 3 9 1")):
        b.sh(1, f"ibccconfig {name} {lid} {args}")
    text = b.sh(1, f"ibccquery CongestionControlTable {lid}; ibccquery CACongestionSetting {lid}; "
                   f"ibccquery CongestionLog {lid}")
    for what in (r"CCTI_Limit:\.+2$", r"CCT_Multiplier:\.+16383$", r"Port_Control:\.+0x0001$",
                 r"CCTI_Timer:\.+150$", r"LogType:\.+2$"):
        find("(?m)^" + what, text)
    need(b.status(1, f"ibccquery SwitchCongestionSetting {lid}")[0], "it is a switch")
    for option, name in (("--rcvcc", "PortPktRcvFECN"), ("--slrcvbecn", "PortSLRcvBECN0")):
        need(counters(b, lid, what=option)[name] == 0, f"{name} is not 0")
    # traffic continues, and the settings are removed
    b.peer("verify rc")
    b.sh(1, f"ibccconfig CongestionControlTable {lid} 0 0 0:0")


@GROUP.test(debug=False)
def counters_clear(b):
    """perfquery -R clears one port and no other."""
    t = truth(b)
    other = counters(b, t[1]["lid"])["PortXmitData"]
    b.sh(1, f"perfquery -x -R {t[2]['lid']} 1")
    now = counters(b, t[2]["lid"])["PortXmitData"]
    need(now < 20000, f"PortXmitData is {now} after it was cleared")
    need(counters(b, t[1]["lid"])["PortXmitData"] >= other, "the other port was cleared")


@GROUP.test(debug=False)
def no_link_errors(b):
    """ibqueryerrors finds no errors. Waiting for credits is congestion, not an error."""
    text = b.sh(2, "ibqueryerrors -s PortXmitWait")
    need(re.search(r"Summary: 3 nodes checked, 0 bad nodes found", text), text[-300:])


@GROUP.test(debug=False)
def port_down_and_up(b):
    """ibportstate takes a link down and up again; the fabric works again."""
    b.state.pop("counted")
    port, sw = port_of(b, 2), switch_lid(b)
    b.sh(1, f"ibportstate {sw} {port} disable")
    b.sh(1, "n=0; while iblinkinfo --switches-only -l | grep -q node2; do n=$((n + 1)); "
            "[ $n -lt 50 ] || exit 1; sleep 0.2; done")
    until(20 * b.slow, lambda: "ACTIVE" not in b.sh(2, "cat /sys/class/infiniband/"
                                                      f"{DEV}/ports/1/state"),
          "node2's port is ACTIVE all the same")
    b.sh(1, f"ibportstate {sw} {port} enable")
    all_active(b, 40)
    b.sh(1, f"ping -c 1 -w {20 * b.slow} node2-ib", 30)


@GROUP.test(timeout=120, debug=False)
def link_width(b):
    """The width that ibportstate enables at an adapter is the width of its link."""
    b.state.pop("counted")
    port, sw = port_of(b, 2), switch_lid(b)
    lid = int(b.sh(2, f"cat /sys/class/infiniband/{DEV}/ports/1/lid"), 16)
    for enabled, wide in (("1", "1X"), ("3", "4X")):
        b.sh(1, f"ibportstate {lid} 1 width {enabled} && ibportstate {sw} {port} reset")
        rate = f"cat /sys/class/infiniband/{DEV}/ports/1/rate"
        until(40 * b.slow, lambda w=wide, r=rate: w in b.sh(2, r),
              f"node2's link does not become {wide}")
        all_active(b, 40)
        lines = [x for x in b.sh(1, "iblinkinfo --switches-only -l").splitlines() if "node2" in x]
        need(len(lines) == 1 and f" {wide} " in lines[0], f"iblinkinfo: {lines}")
