# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands for QEMU's monitor (QMP)."""
import json
import socket


class QmpError(Exception):
    """QEMU refused a command."""


def qmp(monitor, command, **arguments):
    """Runs a command at the monitor with this socket; returns the value of "return"."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(monitor)
        with s.makefile("rw", encoding="utf-8") as f:
            json.loads(f.readline())
            for what, args in (("qmp_capabilities", {}), (command, arguments)):
                print(json.dumps({"execute": what, "arguments": args}), file=f, flush=True)
                answer = {"event": None}
                while "event" in answer:
                    answer = json.loads(f.readline())
                if "error" in answer:
                    raise QmpError(f"{what}: {answer['error']['desc']}")
    return answer["return"]
