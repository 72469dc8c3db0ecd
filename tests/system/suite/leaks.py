# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory that a kernel has allocated and that nothing refers to: kmemleak of the debug kernel."""
import threading

# kmemleak reports an object that is five seconds old and unchanged between two scans.
SCAN = """cd /sys/kernel/debug && echo scan >kmemleak && sleep 5.5 && echo scan >kmemleak &&
cat kmemleak"""
SECONDS = 240


def scan(lab, nodes):
    """Scans all nodes at once; returns [(node, kind, text)] of leaks and errors."""
    found = []

    def one(k):
        status, text = lab.capture(k, SCAN, SECONDS)
        if status:
            found.append((k, "time", f"kmemleak ended with {status}: {text[-200:].strip()}"))
        elif text.strip():
            found.append((k, "leak", text))

    threads = [threading.Thread(target=one, args=(k,), daemon=True) for k in nodes]
    for t in threads:
        t.start()
    for t in threads:
        t.join(SECONDS + 60)
    return sorted(found)


def summary(text):
    """One line about a list of leaks: their number, and the origin of the first one."""
    leaks = text.split("unreferenced object")[1:]
    first = " ".join(leaks[0].split()) if leaks else text
    trace = first.partition("backtrace")[2] or first
    return f"{len(leaks)} unreferenced objects, the first from {trace[:300]}"
