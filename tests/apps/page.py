# SPDX-License-Identifier: GPL-2.0-or-later
"""A page as a recipe: its commands, their expected output, and the amount of data over verbs."""
import re

PROMPT = re.compile(r"(host\$|node(\d+)#) (.*)")
MORE = "> "
SENDS = re.compile(r"node(\d+)\s+sends\s+at\s+least\s+(\d+)\s+(KiB|MiB)")
UNIT = {"KiB": 1 << 10, "MiB": 1 << 20}
ANY = "..."


class PageError(Exception):
    """The page does not have the format of recipes."""


class Step:
    """A command: the node that runs it (0 is the host), its text, and the expected lines."""

    def __init__(self, number, node, prompt, text):
        self.number, self.node, self.prompt = number, node, prompt
        self.lines = [text]
        self.printed = []

    @property
    def command(self):
        """The command for the shell."""
        return "\n".join(self.lines)

    @property
    def background(self):
        """Whether the shell does not wait for the end of the command."""
        return self.command.endswith(" &")

    def accepts(self, output):
        """Whether the output is the expected one; without expected lines, any output is right."""
        return not self.printed or bool(pattern(self.printed).fullmatch(plain(output)))


def plain(text):
    """Lines without spaces that do not matter, each with its end."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "".join(line + "\n" for line in lines if line)


def pattern(lines):
    """The expected lines as a regular expression; a line '...' matches any number of lines."""
    parts = []
    for line in plain("\n".join(lines)).splitlines():
        if line == ANY:
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(map(re.escape, line.split(ANY))) + r"\n")
    return re.compile("".join(parts))


def blocks(lines):
    """The lines of the console blocks with their numbers, without indentation."""
    inside, indent = False, None
    for number, line in enumerate(lines, 1):
        depth = len(line) - len(line.lstrip())
        if line.strip() == ".. code-block:: console":
            inside, indent = True, None
        elif inside and line.strip():
            indent = indent or depth
            if depth < max(indent, 1):
                inside = False
            else:
                yield number, line[indent:].rstrip()


class Page:
    """The steps of a page, and the data that its nodes must send: (node, bytes)."""

    def __init__(self, path, sends=True):
        """sends: whether the page must have an amount of data."""
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.steps = []
        for number, line in blocks(text.splitlines()):
            typed = PROMPT.fullmatch(line)
            if typed:
                self.steps.append(Step(number, int(typed[2] or 0), typed[1], typed[3]))
            elif not self.steps:
                raise PageError(f"line {number}: no prompt, host$ or node1#, comes before it")
            elif line == MORE.strip() or line.startswith(MORE):
                self.steps[-1].lines.append(line[len(MORE):])
            else:
                self.steps[-1].printed.append(line)
        self.sends = [(int(node), int(count) * UNIT[unit])
                      for node, count, unit in SENDS.findall(text)]
        if not self.steps:
            raise PageError("no '.. code-block:: console' with a prompt, host$ or node1#")
        if sends and not self.sends:
            raise PageError("no sentence 'node1 sends at least N MiB' says what goes over verbs")
