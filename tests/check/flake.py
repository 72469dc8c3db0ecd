# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs system tests once more that failed in a way that a busy host may cause.

Only failures by time or by a tool's status are tried again. A report of a kernel or a
sanitizer, a crash, wrong data and a leak are never tried again.
"""
from check.job import Job

# So many flakes a run may have.
MOST = 2
KINDS = ("time", "status")


def retry(jobs, run):
    """Runs the failed tests of jobs once more if they may be flakes; returns (job, case) of those
    that pass then. Their outcome becomes "flaky".

    run(job) runs a job. If there are too many failures, or one of them cannot be a flake, nothing
    is tried again, because the run has failed in any case.
    """
    failed = [(j, c) for j in jobs for c in j.cases if c.outcome == "failed"]
    if not 0 < len(failed) <= MOST or not all(
            j.again and c.kind in KINDS for j, c in failed):
        return []
    flakes = []
    for number, (job, case) in enumerate(failed, 1):
        name = f"{job.name}-again-{number}"
        argv, tests = job.again
        # a part of a test has no name of its own there
        test = case.name if case.name in tests else case.name.partition(".")[0]
        again = Job(name, [*argv, "--logs", name, test], show=True, limit=15)
        run(again)
        if again.good:
            flakes.append((job, case))
            case.outcome = "flaky"
            if not job.count("failed"):
                job.status = 0
    return flakes
