# SPDX-License-Identifier: GPL-2.0-or-later
"""A YAML document as plain values, each with its place in the file."""
import math
from collections import namedtuple

# It is text that a person writes. The bounds are for aliases that stand for much more.
MAX_BYTES, MAX_VALUES, MAX_DEPTH = 256 << 10, 20_000, 12
MAX_TOLD = 20
LARGEST = 1 << 63

YAML = "tag:yaml.org,2002:"
TEXTS = {YAML + x for x in ("str", "timestamp", "merge", "value")}
# Parts of PyYAML's error messages, and what the user has to do.
HINTS = (
    ("cannot start any token", "indent with spaces, and put text that begins with this character "
     "in quotes"),
    ("mapping values are not allowed", "put text with ': ' in quotes, or check the indentation"),
    ("could not find expected ':'", "write 'KEY: VALUE', and put text of several lines behind '|'"),
    ("expected <block end>", "all keys of a mapping, and all items of a list, begin in the same "
     "column"),
    ("quoted scalar", "close the quotes"),
    ("undefined alias", "put text that begins with '*' in quotes"),
    ("but found another document", "a file describes one lab: leave out '---' and all lines "
     "after it"),
)

# line and column are counted from 1
Problem = namedtuple("Problem", "line column text")


class FileError(Exception):
    """A file that is wrong. Each line of the text has a place, the error, and what to do."""

    def __init__(self, name, problems):
        told = sorted(set(problems))
        lines = [f"{name}:{p.line}:{p.column}: {p.text}" for p in told[:MAX_TOLD]]
        if len(told) > MAX_TOLD:
            lines.append(f"{name}: {len(told) - MAX_TOLD} further errors")
        super().__init__("\n".join(lines))


class Document:
    """The contents of a file; value is its root.

    A path is a tuple of keys and indices. marks maps each path to (line, column) of its value,
    keys to that of the key before the value, raw to the text of a scalar as it was written.
    """

    def __init__(self, name, data):
        """data has the bytes of the file; raises FileError if they are not YAML of plain values."""
        # imported here, because only labs with a file need PyYAML
        import yaml  # pylint: disable=import-outside-toplevel
        self.name, self.yaml = name, yaml
        self.marks, self.keys, self.raw, self.problems = {}, {}, {}, []
        self.constructor = yaml.constructor.SafeConstructor()
        root = self._compose(data)
        if root is None:
            raise FileError(name, [Problem(1, 1, "the file describes nothing: write at least "
                                                 "'nodes: 2'")])
        self.value = self._convert(root, (), 0)
        if self.problems:
            raise FileError(name, self.problems)

    def place(self, path, key=False):
        """(line, column) of the value at a path, or of its key; if it has none, of its parent."""
        path = tuple(path)
        while path and path not in self.marks:
            path = path[:-1]
        return self.keys.get(path, self.marks[path]) if key else self.marks[path]

    def at(self, path, text, key=False):
        """A Problem of the value at a path, or of the key before it."""
        return Problem(*self.place(path, key), text)

    def _compose(self, data):
        """The root of PyYAML's nodes."""
        loader = None
        if len(data) > MAX_BYTES:
            raise FileError(self.name, [Problem(1, 1, f"it is longer than {MAX_BYTES >> 10} KiB: "
                                                      "is it a description of a lab?")])
        try:
            text = data.decode()
        except UnicodeDecodeError as e:
            raise FileError(self.name, [after(data[:e.start].decode(), (
                "this is not UTF-8: save the file as UTF-8"))]) from None
        try:
            loader = self.yaml.SafeLoader(text)
            return loader.get_single_node()
        except self.yaml.reader.ReaderError as e:
            problem = after(text[:e.position], "YAML does not allow this character: leave it "
                                               "out, or write it as '\\x..' in double quotes")
        except self.yaml.MarkedYAMLError as e:
            mark = e.problem_mark or e.context_mark or loader.get_mark()
            said = " ".join(x for x in (e.context, e.problem) if x)
            hint = next((h for what, h in HINTS if what in said),
                        "check this line and the one before")
            problem = Problem(mark.line + 1, mark.column + 1, f"this is not YAML: {said}: {hint}")
        except RecursionError:
            problem = Problem(1, 1, f"it is nested more than {MAX_DEPTH} deep: no lab needs that")
        except (ValueError, OverflowError):
            mark = loader.get_mark()
            problem = Problem(mark.line + 1, mark.column + 1,
                              "this is not YAML: the number or the escape before this place is "
                              "too large: write a smaller one")
        raise FileError(self.name, [problem])

    def _wrong(self, node, text):
        """Records an error of a node."""
        self.problems.append(Problem(node.start_mark.line + 1, node.start_mark.column + 1, text))

    def _convert(self, node, path, depth):
        """The value of a node; aliases give the same node several paths."""
        self.marks[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if depth > MAX_DEPTH or len(self.marks) > MAX_VALUES:
            raise FileError(self.name, self.problems + [Problem(*self.marks[path], (
                f"it is nested more than {MAX_DEPTH} deep" if depth > MAX_DEPTH else
                f"there are more than {MAX_VALUES} values") + ": use fewer aliases")])
        if isinstance(node, self.yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, self.yaml.SequenceNode):
            self._tag(node, YAML + "seq")
            return [self._convert(n, path + (i,), depth + 1) for i, n in enumerate(node.value)]
        return self._scalar(node, path)

    def _tag(self, node, expected):
        if node.tag != expected:
            self._wrong(node, f"the tag '{node.tag.replace(YAML, '!!')}' is not allowed here: "
                              "leave it out")

    def _mapping(self, node, path, depth):
        self._tag(node, YAML + "map")
        made = {}
        for key, value in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                self._wrong(key, "a key must be text, not a list or a mapping")
                continue
            # as it is written: YAML would read 'on' as true
            name, here = key.value, path + (key.value,)
            if name in made:
                self._wrong(key, f"'{name}' is already in line {self.keys[here][0]}: keep one of "
                                 "them")
                continue
            if not encodes(name):
                self._wrong(key, "this is half of a character: leave it out")
            self.keys[here] = (key.start_mark.line + 1, key.start_mark.column + 1)
            made[name] = self._convert(value, here, depth + 1)
        return made

    def _scalar(self, node, path):
        self.raw[path] = node.value
        if not encodes(node.value):
            self._wrong(node, "this is half of a character: leave it out")
        if node.tag in TEXTS:
            return node.value
        if node.tag not in {YAML + x for x in ("int", "float", "bool", "null")}:
            self._tag(node, YAML + "str")
            return node.value
        try:
            value = self.constructor.construct_object(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            value = math.nan
        if isinstance(value, (int, float)):
            # no key allows a larger number, and Python does not print the largest ones
            if not -LARGEST < value < LARGEST:
                self._wrong(node, f"'{node.value[:20]}' is not a number that can be used: "
                                  "write digits, or put text in quotes")
                return 0
            return int(value) if isinstance(value, float) and value.is_integer() else value
        return value


def after(text, what):
    """A Problem at the place behind some text."""
    return Problem(text.count("\n") + 1, len(text) - text.rfind("\n"), what)


def encodes(text):
    """Whether text can be encoded: escapes of YAML can write a half of a surrogate pair."""
    return not any("\ud800" <= c <= "\udfff" for c in text)
