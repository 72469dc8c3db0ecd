# SPDX-License-Identifier: GPL-2.0-or-later
"""The file accepted: changes that no test needs to notice, each with a reason.

An entry is four lines, and an empty one after it:

	PART/FILE FUNCTION [NTH]
	- the line as it is
	+ the line as it becomes
	reason

The file is named without its folder and the line has no number, so that an entry remains valid when
lines and files are moved. The second of equal lines in a function has NTH 2, and so on. An entry
that fits no line is an error: the line has been changed.
"""
import os


def key(part, change):
    """The identity of a change."""
    nth = f" {change.nth}" if change.nth > 1 else ""
    return (f"{part}/{os.path.basename(change.path)} {change.function}{nth}", change.old.strip(),
            change.new.strip())


def entry(part, change, reason):
    """The entry of a change."""
    where, old, new = key(part, change)
    return f"{where}\n- {old}\n+ {new}\n{reason}\n"


def read(path):
    """The entries of a file: reasons by key."""
    entries = {}
    with open(path, encoding="utf-8") as f:
        text = "".join(line for line in f if not line.startswith("#"))
    for block in filter(None, (b.strip("\n") for b in text.split("\n\n"))):
        lines = block.split("\n")
        if len(lines) < 4 or lines[1][:2] != "- " or lines[2][:2] != "+ ":
            raise ValueError(f"{path}: no entry: {block}")
        entries[lines[0], lines[1][2:], lines[2][2:]] = " ".join(lines[3:])
    return entries


def stale(entries, part, files, changes_of):
    """The keys of a part's entries that fit no change of any file."""
    known = {key(part, c) for path, text in files
             for line in changes_of(path, text) for c in line}
    return [k for k in entries if k[0].startswith(part + "/") and k not in known]
