#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands of exporters of metrics, by libumad2sim: exporters.py FABRIC

The commands are those of the programs that turn infiniband-diags' output into metrics. Each number
in their output must be between those of the fabric's control socket before and after. Error
counters do not change meanwhile, so they must be equal. Agents that refuse an attribute, and
counters that are stuck, must be reported as on such hardware.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

LIBRARY = "".join(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
PRESETS = {"SymbolErrorCounter": 77, "LinkDownedCounter": 3, "VL15Dropped": 21,
           "PortXmitWait": 4711, "PortXmitDiscards": 9}
# Details of errors and discards; the fabric has their sums. ibqueryerrors swaps the names
DETAILS = ("PortLocalPhysicalErrors", "PortInactiveDiscards")
PATIENCE = 30
ALONE = 0x5254010000000401      # the PortGUID of host4, which has no link


class Run:
    """A fabric of three hosts and one without a link; OpenSM is at host1, and tools at host3."""

    def __init__(self, fabric):
        self.fabric = fabric
        self.bad = []
        self.env = {**os.environ, "LD_PRELOAD": LIBRARY, "IBSIM_SOCKNAME": f"exp-{os.getpid()}",
                    "OSM_TMP_DIR": ".", "OSM_CACHE_DIR": "."}
        # pylint: disable=consider-using-with
        self.served = subprocess.Popen(
            [fabric, "serve", "--generate", "star:4", f"--umad2sim=exp-{os.getpid()}",
             "--control", "control"], stdout=subprocess.PIPE)
        self.served.stdout.readline()
        self.opensm = subprocess.Popen(["opensm", "-f", "osm.log"],
                                       env={**self.env, "SIM_HOST": "host1"},
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)

    def end(self):
        """Ends all processes."""
        for process in self.opensm, self.served:
            process.kill()
            process.wait()

    def control(self, *args):
        """The output of a command of the control socket."""
        return subprocess.run([self.fabric, *args, "-c", "control"], check=True, timeout=PATIENCE,
                              capture_output=True, encoding="utf-8").stdout

    def counters(self):
        """{(GUID of the port, number): {name: value}}; a switch's ports have its NodeGUID."""
        found = {}
        for node in json.loads(self.control("counters", "-j"))["nodes"]:
            for port in node["ports"]:
                number = port.pop("port")
                guid = int(node["guid"], 16) + (0 if node["type"] == "switch" else number)
                found[guid, number] = port
        return found

    def tool(self, *args):
        """The output of a tool."""
        done = subprocess.run(args, env={**self.env, "SIM_HOST": "host3"}, check=False,
                              capture_output=True, encoding="utf-8", timeout=PATIENCE)
        self.expect(done.stdout, f"{' '.join(args)} prints nothing: {done.stderr}")
        return done.stdout

    def fails(self, *args):
        """The output of a tool that must fail."""
        done = subprocess.run(args, env={**self.env, "SIM_HOST": "host3"}, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        self.expect(done.returncode, f"{' '.join(args)} does not fail: {done.stdout}")
        return done.stdout

    def expect(self, true, what):
        """Records a failure."""
        if not true:
            self.bad.append(what)

    def compare(self, tool, port, name, value, between):
        """Compares a number in a tool's output. @between: the fabric's own before and after"""
        least, most = (counters[port].get(name, 0) for counters in between)
        self.expect(least <= value <= most,
                    f"{tool}: port {port[0]:#x}:{port[1]}: {name} is {value}, the fabric has "
                    f"{least}" + (f" to {most}" if most != least else ""))


def perfquery(run, port, *options):
    """Runs perfquery for one port. Return: the counters in its output"""
    before = run.counters()
    text = run.tool("perfquery", *options, "-G", f"{port[0]:#x}", str(port[1]))
    # libibmad 44 shows VL15Dropped in place of PortCounters' QP1Dropped
    shown = {name: int(value) for name, value in re.findall(r"^(\w+):\.+(\d+)$", text, re.M)
             if name not in ("PortSelect", "QP1Dropped")}
    between = before, run.counters()
    for name, value in shown.items():
        run.compare(" ".join(("perfquery", *options)), port, name, value, between)
    return set(shown)


def ibqueryerrors(run, ports):
    """Runs ibqueryerrors for all ports. Return: the counters in its output, for each port"""
    before = run.counters()
    text = run.tool("ibqueryerrors", "--details", "--data")
    between = before, run.counters()
    seen = {}
    for guid, number, rest in re.findall(r"GUID (0x\w+) port (\d+): (.*)", text):
        port = int(guid, 16), int(number)
        run.expect(port in ports, f"ibqueryerrors: there is no port {guid}:{number}")
        for name, value in re.findall(r"\[(\w+) == (\d+)", rest) if port in ports else ():
            if name not in DETAILS:
                run.compare("ibqueryerrors", port, name, int(value), between)
            seen.setdefault(port, set()).add(name)
    return seen


def refused(run, guid):
    """An agent that does not support an attribute: the port of host2, with PortGUID guid."""
    for attribute, options, what in (("PortCountersExtended", ["-x"], "failed: perfextquery"),
                                     ("PortCounters", [], "failed: perfquery")):
        for status in "unsupported", "invalid":
            run.control("refuse", "host2", attribute, status)
            text = run.fails("perfquery", *options, "-G", f"{guid:#x}", "1")
            run.expect(what in text, f"perfquery {options} {status}: {text}")
    done = subprocess.run(["ibqueryerrors"], env={**run.env, "SIM_HOST": "host3"}, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=PATIENCE)
    run.expect("IB_GSI_PORT_COUNTERS query failed on host2" in done.stdout and
               "1 PMA query failures" in done.stdout and
               'Errors for "host2"' not in done.stdout, f"ibqueryerrors: {done.stdout}")
    for attribute in "PortCounters", "PortCountersExtended":
        run.control("refuse", "host2", attribute, "none")


def stuck(run, guid):
    """Counters that read as all ones, also after ibqueryerrors has cleared them."""
    run.control("preset", "host2:1", "SymbolErrorCounter", "stuck")
    run.control("preset", "host2:1", "PortXmitPkts", "stuck")
    for option in "-k", "-K":
        text = run.tool("ibqueryerrors", option)
        run.expect(f"GUID {guid:#x} port 1: [SymbolErrorCounter == 65535]" in text,
                   f"ibqueryerrors {option}: {text}")
    text = run.tool("perfquery", "-x", "-G", f"{guid:#x}", "1")
    run.expect(f"PortXmitPkts:....................{2 ** 64 - 1}" in text, f"perfquery -x: {text}")
    run.control("preset", "host2:1", "SymbolErrorCounter", "0")
    text = run.tool("ibqueryerrors")
    run.expect("SymbolErrorCounter" not in text, f"the counter is not stuck any more: {text}")


def main():
    """Runs all checks."""
    with tempfile.TemporaryDirectory() as directory:
        fabric = os.path.abspath(sys.argv[1])
        os.chdir(directory)             # libumad2sim makes directories where it is started
        run = Run(fabric)
        try:
            run.control("link", "down", "switch1:4")
            end = time.monotonic() + PATIENCE
            while json.loads(run.control("status", "-j"))["links_active"] < 3:
                run.expect(time.monotonic() < end, "OpenSM does not set the subnet up")
                if run.bad:
                    break
                time.sleep(0.05)
            for name, value in PRESETS.items():
                run.control("preset", "host2:1", name, str(value))
                run.control("preset", "switch1:2", name, str(value + 1))
            ports = {port: has for port, has in run.counters().items() if port[0] != ALONE}
            for port in ports:
                names = perfquery(run, port, "-x") | perfquery(run, port)
                run.expect(names >= {*PRESETS, "PortXmitData", "PortUnicastRcvPkts"},
                           f"perfquery of {port} shows {sorted(names)} only")
            seen = ibqueryerrors(run, ports)
            host2 = next(port for port, has in ports.items() if has.get("VL15Dropped") == 21)
            run.expect(seen.get(host2, set()) >= {*PRESETS},
                       f"ibqueryerrors shows of host2 {sorted(seen.get(host2, ()))}")
            refused(run, host2[0])
            stuck(run, host2[0])
            ends = run.tool("ibnetdiscover", "-p").splitlines()
            run.expect(len([e for e in ends if " - " in e]) == 6, f"ibnetdiscover -p: {ends}")
            # parsers recognise a port without a link by width and speed
            run.expect([e.split()[2:6] for e in ends if " - " not in e] ==
                       [["4", "0x5254020000000100", "4x", "SDR"]], f"not 4x SDR: {ends}")
            run.expect(run.tool("iblinkinfo").count("Active/  LinkUp") == 6, "iblinkinfo")
        finally:
            run.end()
        os.chdir("/")
    print("\n".join(run.bad[:20]), end="\n" if run.bad else "")
    print(f"{'FAIL' if run.bad else 'PASS'}: what exporters run prints what the fabric has counted")
    sys.exit(bool(run.bad))


if __name__ == "__main__":
    main()
