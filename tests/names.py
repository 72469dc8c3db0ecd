#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds names in the documentation that do not exist: tests/names.py [FURTHER-PAGE...]

It checks targets of make, suites of tests/run, files, and options and commands of ohca-lab in its
manual page. It prints each wrong name; the status is 1 if there is one.
"""
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LAB = os.path.join(TOP, "tools", "ohca-lab")
# A path of this repository; capitals stand for any name.
OURS = (r"(?<![\w./-])((?:Documentation|firmware-if|kernel|qemu-model|tests|tools|userspace)"
        r"/[a-z\d_./-]*[a-z\d])(?![\w/]*[A-Z])")
# Paths of QEMU's sources.
NOT_OURS = ("tests/qtest",)


def text_of(path):
    """A file's text."""
    with open(path, encoding="utf-8") as f:
        return f.read()


def output(*argv):
    """The output of a program."""
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          text=True).stdout


def pages():
    """(name, text) of each page."""
    for path in sorted(glob.glob(os.path.join(TOP, "Documentation", "**", "*.rst"), recursive=True)
                       + [os.path.join(TOP, "README.md"), *sys.argv[1:]]):
        yield os.path.relpath(path, TOP), text_of(path)


def named(text, pattern):
    """Matches of a pattern in the literals of a page, without their line ends."""
    for literal in re.findall(r"``([^`]+)``|`([^`]+)`|^ {3,}(?:host)?[$]? ?(make .*)$", text, re.M):
        yield from re.findall(pattern, " ".join("".join(literal).split()))


def main():
    """Checks all pages; returns an exit status."""
    made = text_of(os.path.join(TOP, "Makefile"))
    targets = set(re.findall(r"^([a-z-]+):", made, re.M))
    suites = output(os.path.join(TOP, "tests", "run"), "none").split("there are ")[1].split()
    wrong = []
    for page, text in pages():
        for target in named(text, r"^make ([a-z][a-z-]*)(?= |$)"):
            if target not in targets:
                wrong.append(f"{page}: make {target}: no such target")
        for names in named(text, r"^tests/run((?: [a-z][a-z-]*)+)"):
            wrong += [f"{page}: tests/run {n}: no such suite" for n in names.split()
                      if n not in suites]
        for path in named(text, OURS):
            if not path.startswith(NOT_OURS) and not glob.glob(os.path.join(TOP, path + "*")):
                wrong.append(f"{page}: {path}: no such file")
    page = os.path.join("Documentation", "man", "ohca-lab.1.rst")
    text = text_of(os.path.join(TOP, page))
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", output(LAB, "run", "--help")))
    for option in re.findall(r"^(--?[a-z]\S*)", text, re.M):
        if option not in options:
            wrong.append(f"{page}: {option}: no such option of ohca-lab run")
    commands = set(re.findall(r"^    ([a-z]+) ", output(LAB, "--help"), re.M))
    synopsis = text.partition("SYNOPSIS")[2].partition("DESCRIPTION")[0]
    there = set(re.findall(r"\*\*(?:ohca-lab )?([a-z]+)\*\*", synopsis))
    wrong += [f"{page}: {c}: only one of the page and the program has it" for c in commands ^ there]
    print("".join(f"{line}\n" for line in wrong), end="")
    return 1 if wrong else 0


sys.exit(main())
