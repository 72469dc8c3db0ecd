# SPDX-License-Identifier: GPL-2.0-or-later
"""What a cluster's software reads of a node, whose adapter has a maker's vendor ID.

The device plugins of Kubernetes select PCI functions by vendor, device, class and driver, and give
a container the character devices of the RDMA device that they find below the function. They ask
the kernel by netlink which RDMA devices there are, and how network namespaces share them.
"""
import fnmatch
import json
import re

from .harness import DEV, find, need, until
from .host import VERSION

VENDOR = 0x15b3     # as the lab's second node has it
OWN, DEVICE = 0x1234, 0x0ca0
GROUPS = []     # they are in the group that has such a lab

# Prints as JSON the contents of /sys and /dev, and the answers of netlink.
READ = """
import glob, json, os, socket, stat, struct

def read(path):
    with open(path) as f:
        return f.read().strip()

def name(path):
    return os.path.basename(os.path.realpath(path))

def functions():
    for p in sorted(glob.glob("/sys/bus/pci/devices/*")):
        if read(p + "/class")[:4] == "0x02" and os.path.isdir(p + "/infiniband"):
            yield {x: int(read(f"{p}/{x}"), 16) for x in
                   ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")} | {
                "driver": name(p + "/driver"), "numa_node": int(read(p + "/numa_node")),
                "rdma": os.listdir(p + "/infiniband"),
                "links": {n: int(read(f"/sys/class/net/{n}/type"))
                          for n in os.listdir(p + "/net")},
                "function": {n: name(f"/sys/class/net/{n}/device") == os.path.basename(p)
                             for n in os.listdir(p + "/net")}}

# character devices by the RDMA device that they are of
def nodes():
    of = {}
    for kind, at in (("uverbs", "infiniband_verbs/uverbs*"), ("umad", "infiniband_mad/umad*"),
                     ("issm", "infiniband_mad/issm*")):
        for p in glob.glob("/sys/class/" + at):
            of.setdefault(read(p + "/ibdev"), {})[kind] = "/dev/infiniband/" + name(p)
    return of

def is_node(path):
    return stat.S_ISCHR(os.stat(path).st_mode)

# RDMA netlink: (5 << 10) + command; attributes (type, value) of each message
def ask(command, flags):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20) as s:
        s.settimeout(10)
        s.bind((0, 0))
        s.send(struct.pack("=IHHII", 16, (5 << 10) + command, 1 | flags, 1, 0))
        while True:
            data = s.recv(65536)
            while data:
                size, kind = struct.unpack_from("=IH", data)
                if kind in (2, 3):
                    return
                message, data, found = data[16:size], data[size + 3 & ~3:], {}
                while message:
                    n, attr = struct.unpack_from("=HH", message)
                    found[attr & 0x3fff] = message[4:n]
                    message = message[n + 3 & ~3:]
                yield found
                if not flags:
                    return

links = [{"name": m[2][:-1].decode(), "firmware": m[5][:-1].decode(),
          "guid": int.from_bytes(m[6], "little"), "protocol": m[67][:-1].decode()}
         for m in ask(1, 0x300)]
mode, = [m[66][0] for m in ask(6, 0)]
of = nodes()
print(json.dumps({"functions": list(functions()), "nodes": of, "links": links, "mode": mode,
                  "char": all(map(is_node, ["/dev/infiniband/rdma_cm"] +
                                  [p for x in of.values() for p in x.values()]))}))
"""


@VERSION.test()
def vendor_alias(b):
    """The driver binds to a function with another vendor ID and logs it; the device works."""
    found = b.sh(2, "cat $(dirname "
                    f"$(grep -l {VENDOR:#06x} /sys/bus/pci/devices/*/vendor))/modalias").strip()
    have = b.sh(2, "modinfo -F alias ohca").split()
    need(any(fnmatch.fnmatchcase(found, x) for x in have), f"{found} is none of {have}")
    b.sh(2, "modprobe ohca")
    find(rf"vendor ID {VENDOR:#06x} is an alias of {OWN:#06x}", b.kernel_said(2))
    need(f" {DEV} " in b.sh(2, "ibv_devices"), "the provider does not know the device")
    b.sh(2, f"ibv_devinfo -d {DEV} | grep PORT_INIT")


@VERSION.test()
def plugins(b):
    """What device plugins read: selectors, interfaces, character devices, netlink."""
    b.sh(2, "modprobe ohca; modprobe ib_ipoib; modprobe ib_umad; modprobe rdma_ucm")
    until(20 * b.slow, lambda: not b.status(2, "ls /sys/class/net/ib0 /dev/infiniband/umad0")[0],
          "there is no interface")
    got = json.loads(b.sh(2, f"cat >/tmp/read.py <<'END'\n{READ}END\npython3 /tmp/read.py"))
    b.note(json.dumps(got, indent=1))
    function, = got["functions"]
    links = function.pop("links")
    need(links and set(links.values()) == {32}, f"interfaces {links} are not of InfiniBand")
    need(all(function.pop("function").values()), "an interface is at another function")
    need(function == {"class": 0x020700, "vendor": VENDOR, "device": DEVICE, "driver": "ohca",
                      "subsystem_vendor": OWN, "subsystem_device": DEVICE, "numa_node": -1,
                      "rdma": [DEV]}, f"read {function}")
    need(set(got["nodes"]) == {DEV} and set(got["nodes"][DEV]) == {"uverbs", "umad", "issm"},
         f"character devices {got['nodes']}")
    need(got["char"], "one of them is no character device")
    link, = got["links"]
    guid = b.sh(2, f"cat /sys/class/infiniband/{DEV}/node_guid").strip().replace(":", "")
    firmware = b.sh(2, f"cat /sys/class/infiniband/{DEV}/fw_ver").strip()
    need(link == {"name": DEV, "guid": int(guid, 16), "firmware": firmware, "protocol": "ib"},
         f"netlink has {link}")
    shared = re.search(r"netns (\w+)", b.sh(2, "rdma system show")).group(1)
    need(got["mode"] == (shared == "shared"), f"netlink has mode {got['mode']}, rdma {shared}")
