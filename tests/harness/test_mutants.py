#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""'make mutants': how it changes lines, and how it judges the results of tests."""
import os
import random
import signal
import sys
import tempfile
import unittest
from unittest import mock

import fake

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), ".."))

# pylint: disable=wrong-import-position
from mutants import accepted, change, trial  # noqa: E402
from mutants.part import Broken, Part, Tree  # noqa: E402

SOURCE = """\
#include "made_up.h"
#define LIMIT 3
static const int table[] = { 1, 2 };
int used;

int limited(int n)
{
	/* if (n > 7) a comment */
	int spare = 0;

	if (n > LIMIT && n < 100)
		return LIMIT;
	assert(n < 8);
	printf("%d < 9",
	       n + 1);
	used = 1;
	while (n == 50)
		;
	(void)spare;
	return n;
}

int unused(int n)
{
	if (n == 1)
		return 4;
	if (n ==
	    2)
		return 4;
	return 5;
}
"""
TEST = """\
#include "made_up.h"
int main(void)
{
	return limited(2) != 2 || limited(3) != 3 || limited(4) != 3;
}
"""
HEADER = """\
#include <assert.h>
#include <stdio.h>
extern int used;
int limited(int n);
int unused(int n);
"""
# has nothing of the part
OTHER = """\
int main(void)
{
	return 0;
}
"""
MAKEFILE = """\
OUT := $(BUILD)
TESTS := test_other test_limited
$(OUT)/test_other: $(OUT)/test_other.o
	$(CC) $(CFLAGS) $(ASAN) -o $@ $^
$(OUT)/test_limited: $(OUT)/test_limited.o $(OUT)/limited.o
	$(CC) $(CFLAGS) $(ASAN) -o $@ $^
$(OUT)/%.o: ../part/%.c Makefile
	@mkdir -p $(@D); $(CC) -O1 $(CFLAGS) $(ASAN) -I../part -c -o $@ $<
$(OUT)/%.o: %.c Makefile
	@mkdir -p $(@D); $(CC) -O1 $(CFLAGS) $(ASAN) -I../part -c -o $@ $<
"""


class Changes(unittest.TestCase):
    """The changes of a source."""

    def setUp(self):
        self.all = [c for line in change.changes_of("x.c", SOURCE) for c in line]

    def new(self, kind, line):
        """The results of one kind of change on the line that contains a text."""
        return [c.new.strip() for c in self.all if c.kind == kind and line in c.old]

    def test_kinds(self):
        first = "if (n > LIMIT && n < 100)"
        self.assertEqual(self.new("compare", first), ["if (n <= LIMIT && n < 100)",
                                                      "if (n > LIMIT && n >= 100)"])
        self.assertEqual(self.new("condition", first), ["if (n > LIMIT || n < 100)",
                                                        "if (!(n > LIMIT && n < 100))"])
        self.assertEqual(self.new("off by one", first), [
            "if (n >= LIMIT && n < 100)", "if (n > LIMIT && n <= 100)",
            "if (n > LIMIT && n < 101)", "if (n > LIMIT && n < 99)"])
        self.assertEqual(self.new("constant", first), ["if (n > (LIMIT + 1) && n < 100)",
                                                       "if (n > LIMIT && n < 200)"])
        self.assertEqual(self.new("dropped", "used"), ["(void)0;"])

    def test_only_code(self):
        self.assertEqual(sorted({c.line for c in self.all}),
                         [9, 11, 12, 16, 17, 25, 26, 27, 28, 29, 30])

    def test_statement(self):
        starts = {c.line: c.start for c in self.all}
        self.assertEqual(starts[26], 26)
        self.assertEqual(starts[28], 27)
        self.assertEqual(starts[29], 29)

    def test_parts(self):
        text = """\
int parts(int n)
{
	static const int all[2] = {
		[0] = 1,
		[1] = 2,
	};
	int v = n ? 3 :
		4;

	switch (n) {
	case 5:
		v = 6;
	}
out:
	return v;
}
"""
        starts = {c.line: c.start for line in change.changes_of("x.c", text) for c in line}
        self.assertEqual(starts, {3: 3, 4: 3, 5: 3, 7: 7, 8: 7, 11: 11, 12: 12})

    def test_equal_lines(self):
        self.assertEqual({c.line: c.nth for c in self.all if "return 4" in c.old}, {26: 1, 29: 2})
        keys = [accepted.key("part", c) for c in self.all]
        self.assertEqual(len(keys), len(set(keys)))

    def test_one_line(self):
        for c in self.all:
            self.assertEqual(c.function, "limited" if c.line < 20 else "unused")
            changed = c.apply(SOURCE)
            differ = [i for i, (a, b) in enumerate(zip(SOURCE.split("\n"), changed.split("\n")), 1)
                      if a != b]
            self.assertEqual(differ, [c.line])

    def test_drawn_by_seed(self):
        def drawn(seed):
            return list(change.draw([("x.c", SOURCE)], random.Random(seed)))
        self.assertEqual(drawn(1), drawn(1))
        self.assertNotEqual(drawn(1), drawn(2))
        self.assertCountEqual(drawn(1), self.all)

    def test_unrun(self):
        covered = {("x.c", i): {"a"} for i in (11, 12, 16, 17, 25, 27)} | {("y.c", 26): {"a"}}
        self.assertEqual([c.line for c in change.unrun([("x.c", SOURCE)], covered)],
                         [9, 26, 29, 30])


class Trials(unittest.TestCase):
    """A fake part."""

    def setUp(self):
        here = tempfile.TemporaryDirectory()
        self.addCleanup(here.cleanup)
        self.top = os.path.join(here.name, "top")
        for path, text in (("part/limited.c", SOURCE), ("part/made_up.h", HEADER),
                           ("units/test_limited.c", TEST), ("units/test_other.c", OTHER),
                           ("units/Makefile", MAKEFILE)):
            path = os.path.join(self.top, "tests", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        part = Part("made_up", ("tests/part",), "tests/units", "$(TESTS)")
        self.tree = Tree(part, self.top, os.path.join(here.name, "tree"))
        self.files = dict(part.files(self.top))

    def verdict(self, tried, new):
        """The verdict on the change that replaces a line by this one."""
        path = "tests/part/limited.c"
        one = next(c for line in change.changes_of(path, self.files[path]) for c in line
                   if c.new.strip() == new)
        return tried.judge(one)

    @mock.patch.object(trial, "PROCESSOR_SECONDS", 1)
    def test_outcomes(self):
        counted = self.tree.level("counted", ["CFLAGS=-O0 --coverage"], "$(TESTS)")
        lines = self.tree.covered(counted)
        self.tree.levels.clear()
        self.tree.measure(self.tree.level("plain", [], "$(TESTS)"))
        for p in self.tree.levels[0].programs:
            p.processor = 0.01 if p.name == "test_limited" else 0
        self.tree.copy(self.tree.where + "2")
        tried = trial.Trial(self.tree, lines)
        self.assertIn(("tests/part/limited.c", 12), lines)
        for new, outcome in (("if (n >= LIMIT && n < 100)", "survived"),
                             ("if (n <= LIMIT && n < 100)", "noticed"),
                             ("return (LIMIT + 1);", "noticed"),
                             ("int spare = 1;", "same"),
                             ("(void)0;", "survived"),
                             # runs until its time is over
                             ("while (n != 50)", "noticed"),
                             ("return (LIMIT + 1);", "noticed"),
                             ("if (n > LIMIT && n < 101)", "survived"),
                             # no program runs it, and the shortest does not have it
                             ("if (n != 1)", "survived")):
            with self.subTest(new):
                self.assertEqual(self.verdict(tried, new).outcome, outcome)
        path = os.path.join(self.tree.where, "tests/part/limited.c")
        with open(path, encoding="utf-8") as f:
            self.assertEqual(f.read(), SOURCE)

    def test_further(self):
        folder = os.path.join(self.top, "tests", "more")
        os.mkdir(folder)
        for name, text in (("Makefile", MAKEFILE.replace("$(BUILD)", "$(BUILD)/more")),
                           ("test_limited.c", TEST.replace("limited(4) != 3", "unused(1) != 4")),
                           ("test_other.c", OTHER)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        further = (("tests/more", "$(TESTS)"),)
        tree = Tree(self.tree.part, self.top, self.tree.where)
        counted = tree.level("counted", ["CFLAGS=-O0 --coverage"], "$(TESTS)", further=further)
        lines = tree.covered(counted)
        self.assertEqual(lines["tests/part/limited.c", 11], {"test_limited", "more/test_limited"})
        self.assertEqual(lines["tests/part/limited.c", 25], {"more/test_limited"})
        tree.levels.clear()
        tree.measure(tree.level("plain", [], "$(TESTS)", further=further))
        for one in (tree, tree.copy(tree.where + "2")):
            tried = trial.Trial(one, lines)
            for new, by in (("if (n != 1)", "plain more/test_limited"),
                            ("return (LIMIT + 1);", "plain test_limited"),
                            ("return 6;", "")):
                with self.subTest(new):
                    self.assertEqual(self.verdict(tried, new).by.partition(":")[0], by)

    def test_fails_once(self):
        self.tree.measure(self.tree.level("plain", [], "$(TESTS)"))
        tried = trial.Trial(self.tree, {})
        for statuses, outcome in (([1, 0, 0], "survived"), ([0, 1, 1], "noticed"),
                                  ([0, -signal.SIGXCPU], "noticed")):
            with self.subTest(statuses), \
                    mock.patch.object(self.tree, "run", side_effect=[(s, "") for s in statuses]):
                # every program is built of this object
                self.tree.levels[0].programs = self.tree.levels[0].programs[-1:] * 2
                self.assertEqual(self.verdict(tried, "if (n != 1)").outcome, outcome)

    def test_runs(self):
        lines = {("x.c", 27): {"one"}, ("x.c", 26): {"two"}}
        tried = trial.Trial(self.tree, lines)
        for c in (c for line in change.changes_of("x.c", SOURCE) for c in line):
            self.assertEqual(tried.runs(c), {26: {"two"}, 27: {"one"}, 28: {"one"}}.get(c.line, ()))

    def test_enter(self):
        lines = {("x.c", 23): {"one"}, ("x.c", 27): {"two"}, ("x.c", 18): {"three"}}
        for none in (set(), {"four"}):
            tried = trial.Trial(self.tree, {**lines, None: none} if none else lines)
            for c in (c for line in change.changes_of("x.c", SOURCE) for c in line):
                names = {25: {"one"}, 26: {"one"}}.get(c.line) or (
                    {"one", "two"} if c.line > 26 else ())
                self.assertEqual(set(tried.enter(c)), set(names) | none if names else set(),
                                 c.line)

    def test_files(self):
        for sources, others, found in (
                (("tests/part",), (), ["part/limited.c", "part/made_up.h"]),
                (("tests/part",), ("tests/part/limited.c",), ["part/made_up.h"]),
                (("tests/part/limited.c",), (), ["part/limited.c"]),
                (("tests/.",), (), []),
                (("tests/part/.", "tests/units/test_other.c"), (),
                 ["part/limited.c", "part/made_up.h", "units/test_other.c"])):
            with self.subTest(sources):
                part = Part("made_up", sources, "tests/units", "$(TESTS)", others=others)
                self.assertEqual([path for path, _ in part.files(self.top)],
                                 [f"tests/{path}" for path in found])
                self.assertEqual([f"tests/{path}" for path in found],
                                 [path for path in ("tests/part/limited.c", "tests/part/made_up.h",
                                                    "tests/units/test_other.c")
                                  if part.owns(path)])

    def test_kept(self):
        source, other = (os.path.join(self.top, "tests", "part", n) for n in ("limited.c", "new.h"))
        where, part = self.tree.where, self.tree.part
        self.tree.level("plain", [], "$(TESTS)")
        made = os.path.join(where, "build", "plain", "limited.o")
        with open(made, "a", encoding="utf-8") as f:
            f.write("kept")

        def again(whole, is_kept):
            self.tree.whole(whole)
            tree = Tree(part, self.top, where)
            self.assertEqual(os.path.exists(made), is_kept)
            return tree

        def of(path):
            return os.path.join(where, os.path.relpath(path, self.top))
        stat = os.stat(of(source))
        again(True, True)
        self.assertEqual(os.stat(of(source)).st_mtime_ns, stat.st_mtime_ns)
        with open(other, "w", encoding="utf-8") as f:
            f.write("/* new */\n")
        with open(source, "a", encoding="utf-8") as f:
            f.write("/* new */\n")
        again(True, True)
        self.assertTrue(os.path.exists(of(other)))
        with open(of(source), encoding="utf-8") as f:
            self.assertEqual(f.read(), SOURCE + "/* new */\n")
        self.assertGreater(os.stat(of(source)).st_mtime_ns, os.stat(made).st_mtime_ns)
        os.unlink(other)
        again(True, True).level("plain", [], "$(TESTS)")
        self.assertFalse(os.path.exists(of(other)))
        with open(made, "rb") as f:
            self.assertFalse(f.read().endswith(b"kept"))
        # of a run that was ended, or of another way to build
        again(False, False).level("plain", [], "$(TESTS)")
        with mock.patch.object(Tree, "_way", return_value="other"):
            self.tree.whole(True)
        Tree(part, self.top, where)
        self.assertFalse(os.path.exists(made))

    def test_broken(self):
        with open(os.path.join(self.tree.tests, "test_limited.c"), "a", encoding="utf-8") as f:
            f.write("int oops(\n")
        with self.assertRaises(Broken):
            self.tree.level("plain", [], "$(TESTS)")

    def test_failing_already(self):
        with open(os.path.join(self.tree.tests, "test_limited.c"), "w", encoding="utf-8") as f:
            f.write("int main(void) { return 1; }\n")
        with self.assertRaises(Broken):
            self.tree.measure(self.tree.level("plain", [], "$(TESTS)"))


class Accepted(unittest.TestCase):
    """Changes that no test needs to detect."""

    def test_read(self):
        one = next(change.changes_of("a/b/x.c", SOURCE))[0]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
            f.write("# a comment\n" + accepted.entry("part", one, "it is\nharmless"))
            f.flush()
            entries = accepted.read(f.name)
        self.assertEqual(entries, {accepted.key("part", one): "it is harmless"})
        # accepted in another folder and on another line, but not if the line itself has changed
        self.assertEqual(accepted.stale(entries, "part", [("c/x.c", "\n" + SOURCE)],
                                        change.changes_of), [])
        self.assertEqual(accepted.stale(entries, "part", [("c/x.c", "")], change.changes_of),
                         list(entries))

    def test_no_reason(self):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as f:
            f.write("p/x.c f\n- a;\n+ b;\n")
            f.flush()
            with self.assertRaises(ValueError):
                accepted.read(f.name)


if __name__ == "__main__":
    fake.main()
