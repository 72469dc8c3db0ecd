# SPDX-License-Identifier: GPL-2.0-or-later
"""Lessons of the course: the page's lines, then the task's check before and after a solution."""
import glob
import os
import re
import subprocess

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
LAB = os.path.join(TOP, "tools", "ohca-lab")
NOT_DONE = 3      # the status of --check if a part of the task is missing
SEED = "1"        # for the random choice of 'course --start'
PAGES = {os.path.basename(p)[:-4]: p
         for p in glob.glob("Documentation/course/[0-9]*.rst", root_dir=TOP)}


class LessonError(Exception):
    """A check or a solution has a wrong result."""


def number(name):
    """The number of a lesson, from the name of its page."""
    return int(name.partition("-")[0])


def has_all():
    """Raises LessonError if a lesson lacks its page or solution, or one of these its lesson."""
    listed = subprocess.run([LAB, "course"], check=True, capture_output=True, text=True).stdout
    lessons = {int(n) for n in re.findall(r"^ *(\d+)  ", listed, re.M)}
    solutions = {int(os.path.basename(p)[:-3])
                 for p in glob.glob(os.path.join(TOP, "tests", "course", "[0-9]*.sh"))}
    if not lessons == solutions == {number(n) for n in PAGES}:
        raise LessonError(f"lessons {sorted(lessons)}, solutions {sorted(solutions)}, "
                          f"pages {sorted(PAGES)}")


def _check(lesson, env, expected):
    done = subprocess.run([LAB, "course", str(lesson), "--check"], env=env, check=False,
                          capture_output=True, text=True, timeout=600)
    if done.returncode != expected:
        raise LessonError(f"the check of lesson {lesson} has status {done.returncode}, "
                          f"not {expected}:\n{done.stdout}{done.stderr}")
    return done.stdout


def prove(name, env):
    """In the running lab: the check fails, the solution works, the check passes."""
    lesson = number(name)
    _check(lesson, env, NOT_DONE)
    status = subprocess.run([LAB, "status", "--name", "default"], env=env, check=True,
                            capture_output=True, text=True).stdout
    control = re.search(r"control socket of the fabric: (\S+)", status)[1]
    fabric = os.path.join(os.environ.get("OHCA_BUILD", os.path.join(TOP, "build")), "fabric",
                          "ohca-fabric")
    done = subprocess.run([os.path.join(TOP, "tests", "course", f"{lesson}.sh")],
                          env=dict(env, LAB=LAB, FABRIC=fabric, CONTROL=control), check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    if done.returncode:
        raise LessonError(f"the solution of lesson {lesson} has status {done.returncode}:\n"
                          f"{done.stdout}")
    try:
        _check(lesson, env, 0)
    except LessonError as e:
        raise LessonError(f"{e}\nthe solution printed:\n{done.stdout}") from None
