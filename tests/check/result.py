# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads the cases of a part of the check from its output, and writes JUnit XML of them.

Four kinds of output are understood: cmocka's, TAP, lines that begin with PASS, FAIL or
SKIP, and "== PROGRAM", after which cases belong to that program.
"""
import re
import xml.etree.ElementTree as ET

CMOCKA = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] (\w+)$")
TAP = re.compile(r"^(ok|not ok) \d+ *-? *(.*?)(?: *# SKIP *(.*))?$")
PLAIN = re.compile(r"^(PASS|FAIL|SKIP):? (.+?)(?: \(([0-9.]+) s\))?(?:: (.*))?$")
KIND = re.compile(r"^\[(\w+)\] (.*)$")
PROGRAM = re.compile(r"^== (\S+)")
OUTCOME = {"OK": "passed", "ok": "passed", "PASS": "passed", "FAILED": "failed",
           "not ok": "failed", "FAIL": "failed", "SKIPPED": "skipped", "SKIP": "skipped"}


class Case:
    """One test: its program or "", name, outcome, why, kind of failure, seconds or None."""

    def __init__(self, program, name, outcome, why="", seconds=None):
        self.program, self.name, self.outcome, self.seconds = program, name, outcome, seconds
        m = KIND.match(why or "")
        self.kind, self.why = m.groups() if m else ("", why or "")

    @property
    def full(self):
        """The name with its program."""
        return f"{self.program}.{self.name}" if self.program else self.name


class Reader:
    """Reads a part's output line by line; when returns the second at which a line arrived."""

    def __init__(self):
        self.cases = []
        self.programs = []          # [name, begin, end]
        self._program = ""
        self._running = None        # cmocka's test that has begun
        self._why = []              # lines of cmocka since then

    def line(self, text, when):
        """Reads a line."""
        text = text.rstrip("\r\n")
        if m := PROGRAM.match(text):
            self._ended_within()
            self._program = m[1]
            self.programs.append([m[1], when, when])
            return
        if self.programs:
            self.programs[-1][2] = when
        if m := CMOCKA.match(text):
            if m[1] == "RUN":
                self._ended_within()
                self._running, self._why = m[2], []
            elif self._running == m[2]:
                self._add(m[2], OUTCOME[m[1]], " | ".join(self._why[-6:]))
                self._running = None
            # else: the list of failed tests at a program's end
        elif m := PLAIN.match(text):
            self._add(m[2], OUTCOME[m[1]], m[4], float(m[3]) if m[3] else None)
        elif m := TAP.match(text):
            skipped = m[3] is not None
            self._add(m[2], "skipped" if skipped else OUTCOME[m[1]], m[3])
        elif self._running:
            self._why.append(text.strip())

    def _add(self, name, outcome, why="", seconds=None):
        self.cases.append(Case(self._program, name, outcome, why, seconds))

    def _ended_within(self):
        if self._running:
            self._add(self._running, "failed", "ended in the middle: " + " | ".join(self._why[-6:]))
            self._running = None

    def end(self, when):
        """Called after the last line."""
        self._ended_within()
        if self.programs:
            self.programs[-1][2] = when


def write_junit(path, parts):
    """Writes JUnit XML of parts: (name, seconds, cases)."""
    root = ET.Element("testsuites")
    for name, seconds, cases in parts:
        suite = ET.SubElement(root, "testsuite", name=name, time=f"{seconds:.1f}",
                              tests=str(len(cases)),
                              failures=str(sum(c.outcome == "failed" for c in cases)),
                              skipped=str(sum(c.outcome == "skipped" for c in cases)))
        for case in cases:
            element = ET.SubElement(suite, "testcase", name=case.name,
                                    classname=f"{name}.{case.program}".strip("."))
            if case.seconds is not None:
                element.set("time", f"{case.seconds:.1f}")
            if case.outcome == "failed":
                ET.SubElement(element, "failure", type=case.kind, message=printable(case.why))
            elif case.outcome == "skipped":
                ET.SubElement(element, "skipped", message=printable(case.why))
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def printable(text):
    """The text without the characters that XML cannot represent."""
    return "".join(c if c.isprintable() else " " for c in text)
