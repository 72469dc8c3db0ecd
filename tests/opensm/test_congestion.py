# SPDX-License-Identifier: GPL-2.0-or-later
"""Congestion control: OpenSM sets it, and infiniband-diags read and change it."""
import re
import shutil
import subprocess

from sm import Case, PATIENCE, quick, within

SPEC = "star:3"
CONF = {
    "congestion_control": "TRUE",
    "cc_sw_cong_setting_control_map": "0x1f",
    "cc_sw_cong_setting_victim_mask": "0x" + "6".rjust(64, "0"),
    "cc_sw_cong_setting_threshold": "0x0c",
    "cc_sw_cong_setting_packet_size": "8",
    "cc_sw_cong_setting_marking_rate": "3",
    "cc_ca_cong_setting_port_control": "0x0001",
    "cc_ca_cong_setting_control_map": "0xffff",
    "cc_ca_cong_setting_ccti_timer 0": "8",
    "cc_ca_cong_setting_ccti_increase 0": "1",
    "cc_ca_cong_setting_trigger_threshold 0": "5",
    "cc_ca_cong_setting_ccti_min 0": "2",
    "cc_cct": ",".join(f"2:{i}" for i in range(128)),
}


def fields(text):
    """{NAME: [values]} of the lines NAME:....VALUE in a tool's output."""
    found = {}
    for name, value in re.findall(r"^(\w+):\.*(\S+)$", text, re.M):
        found.setdefault(name, []).append(value)
    return found


class Congestion(Case):
    """One OpenSM with congestion control, and tools at another host."""

    def tool(self, *arguments, good=True):
        """The output of a tool of infiniband-diags, which must succeed, or must fail."""
        if not shutil.which(arguments[0]):
            self.skipTest(f"no {arguments[0]}")
        done = subprocess.run(arguments, env=self.fabric.environment("host2"), cwd=self.dir,
                              check=False, text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode == 0, good, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def query(self, what, lid, *more):
        """The values that ibccquery prints."""
        return fields(self.tool("ibccquery", *more, what, str(lid)))

    def start(self, **conf):
        """A fabric that OpenSM has set up; LIDs of the switch and of a host."""
        self.fabric = self.serve(SPEC)
        self.sm = self.opensm(self.fabric, "host1", conf={**CONF, **conf})
        self.sm.up()
        nodes = self.fabric.nodes()
        self.switch = nodes["switch1"]["ports"][0]["lid"]
        self.host = nodes["host3"]["ports"][1]["lid"]

    def settled_at(self, what, lid, **values):
        """Waits until ibccquery reads these first values. Return: all of them"""
        def true():
            found = self.query(what, lid)
            return all(found[name][0] == value for name, value in values.items()) and found
        # OpenSM does not wait for the answers before it logs that the subnet is up
        return within(true, f"{what} at LID {lid}: {values}")

    @quick
    def test_opensm(self):
        """The values that OpenSM has set are read, and it logs no error."""
        self.start()
        setting = self.settled_at("SwitchCongestionSetting", self.switch, Threshold="0x0c")
        self.assertEqual(setting["Control_Map"], ["0x0000001f"])
        self.assertEqual(setting["Victim_Mask"], ["6".rjust(64, "0")])
        self.assertEqual(setting["Packet_Size"], ["8"])
        self.assertEqual(setting["Marking_Rate"], ["3"])
        table = self.settled_at("CongestionControlTable", self.host, CCTI_Limit="127")
        self.assertEqual(table["CCT_Shift"], ["2"] * 128)
        self.assertEqual(table["CCT_Multiplier"], [str(i) for i in range(128)])
        host = self.settled_at("CACongestionSetting", self.host, Port_Control="0x0001")
        self.assertEqual(host["Control_Map"], ["0xffff"])
        self.assertEqual(host["CCTI_Timer"], ["8"] + ["0"] * 15)
        self.assertEqual(host["CCTI_Increase"], ["1"] + ["0"] * 15)
        self.assertEqual(host["Trigger_Threshold"], ["5"] + ["0"] * 15)
        self.assertEqual(host["CCTI_Min"], ["2"] + ["0"] * 15)
        # the same once more is no error, either
        self.sm.sweep()

    @quick
    def test_tools(self):
        """The values that ibccconfig sets are read; wrong values are refused."""
        self.start()
        self.settled_at("CongestionControlTable", self.host, CCTI_Limit="127")
        switch, host = str(self.switch), str(self.host)
        self.tool("ibccconfig", "SwitchCongestionSetting", switch, "0x14", "0x2", "0x0", "9", "7",
                  "0", "0:0", "5")
        found = self.query("SwitchCongestionSetting", switch)
        # 0x14: threshold, packet size and marking rate, but not the mask
        self.assertEqual([found[x][0] for x in ("Threshold", "Packet_Size", "Marking_Rate")],
                         ["0x09", "7", "5"])
        self.assertEqual(found["Victim_Mask"], ["6".rjust(64, "0")])
        self.tool("ibccconfig", "SwitchPortCongestionSetting", switch, "2", "1", "0", "3", "4", "6")
        found = self.query("SwitchPortCongestionSetting", switch)
        self.assertEqual(found["Valid"], ["0", "0", "1", "0"])
        self.assertEqual(found["Threshold"][2], "0x03")
        self.assertEqual(found["Cong_Parm_Marking_Rate"], ["0", "0", "6", "0"])
        self.tool("ibccconfig", "CACongestionSetting", host, "0", "0x2", "150", "3", "9", "1")
        found = self.query("CACongestionSetting", host)
        self.assertEqual(found["CCTI_Timer"][:3], ["8", "150", "0"])
        self.tool("ibccconfig", "CongestionControlTable", host, "2", "0", "0:0", "1:5", "3:16383")
        found = self.query("CongestionControlTable", host)
        self.assertEqual(found["CCTI_Limit"], ["2"])
        self.assertEqual(found["CCT_Multiplier"], ["0", "5", "16383"])
        self.assertEqual(found["CCT_Shift"], ["0", "1", "3"])
        self.assertEqual(self.query("CongestionInfo", host)["ControlTableCap"], ["2"])
        self.assertEqual(self.query("CongestionInfo", switch)["ControlTableCap"], ["0"])
        self.assertEqual(self.query("ClassPortInfo", switch)["ClassVersion"], ["2"])
        self.assertEqual(self.query("CongestionLog", switch)["LogType"], ["1"])
        self.assertEqual(self.query("CongestionLog", host)["LogType"], ["2"])
        stamps = [int(self.query("Timestamp", lid)["Timestamp"][0]) for lid in (host, switch, host)]
        self.assertEqual(stamps, sorted(stamps))
        for option, name in (("--swportvlcong", "SWPortVLCongestion0"),
                             ("--xmitcc", "PortXmitTimeCong"),
                             ("--vlxmittimecc", "PortVLXmitTimeCong14")):
            self.assertEqual(fields(self.tool("perfquery", option, switch, "1"))[name], ["0"])
            self.tool("perfquery", option, host, "1", good=False)
        for option, name in (("--rcvcc", "PortPktRcvBECN"), ("--slrcvfecn", "PortSLRcvFECN15"),
                             ("--slrcvbecn", "PortSLRcvBECN0")):
            self.assertEqual(fields(self.tool("perfquery", option, host, "1"))[name], ["0"])
            self.tool("perfquery", option, switch, "1", good=False)
        for wrong in (("ibccquery", "SwitchCongestionSetting", host),
                      ("ibccquery", "CACongestionSetting", switch),
                      ("ibccconfig", "CongestionControlTable", host, "128", "2", "0:0")):
            self.tool(*wrong, good=False)
        self.assertEqual(self.query("CongestionControlTable", host), found)

    def test_key(self):
        """A tool without the CC_Key can read and set nothing, and is counted."""
        self.start(congestion_control="FALSE")
        switch, key = str(self.switch), "0x1234567890abcdef"
        self.tool("ibccconfig", "CongestionKeyInfo", switch, key, "1", "0", "0")
        self.tool("ibccquery", "SwitchCongestionSetting", switch, good=False)
        self.tool("ibccconfig", "CongestionKeyInfo", switch, "0", "0", "0", "0", good=False)
        self.assertEqual(self.query("CongestionKeyInfo", switch)["CC_Key"], ["0x0000000000000000"])
        found = self.query("CongestionKeyInfo", switch, "-c", key)
        self.assertEqual([found["CC_Key"], found["CC_KeyProtectBit"]], [[key], ["1"]])
        # tools may send a MAD without an answer again
        self.assertGreaterEqual(int(found["CC_KeyViolations"][0]), 2)
        self.query("SwitchCongestionSetting", switch, "-c", key)
        self.tool("ibccconfig", "-c", key, "CongestionKeyInfo", switch, "0", "0", "0", "0")
        self.assertEqual(self.query("CongestionKeyInfo", switch)["CC_KeyViolations"], ["0"])
