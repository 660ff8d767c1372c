# SPDX-License-Identifier: MIT
"""What a report must say of a lock, by its own figures and the rules of hotlock-top(1). On a
machine that others disturb a planted lock is at another limit than on a quiet one, and truly so;
that the verdict follows from what was measured holds on either."""
from tap import check

CURABLE = ("hand-off", "spinning", "bursts", "calls", "readers")
HELD = ("hold time", "preemption")
UNREACHED = ("home-made loop", "Python's GIL")


def share(part, whole):
    return part / whole if part is not None and whole else 0


def limit_of(report, l):
    """The limit of a lock whose every call was recorded: the first of these that holds."""
    taken, wait = l["acquisitions"], l["wait_ns"]
    waiting = share(wait, 1e9 * report["wall_s"] * (report["threads"] or 1))
    around = report["threads"] > 1 if l["reads"] else 100 * l["owner_changes"] > taken
    reads = share(l["reads"], taken) > 0.9
    spins = (l["cpu_spin_share"] or 0) > 0.05
    quiet = "calls" if (l["calls_share"] or 0) > 0.08 and around else "no problem"
    rules = [("readers", reads and quiet == "calls"),
             (quiet, not spins and (not l["contended"] or waiting < 0.02)),
             ("preemption", share(l["preempted_ns"], wait) > 0.3),
             ("readers", reads),
             ("hold time", (l["utilisation"] or 0) > 0.8),
             ("hand-off", share(l["handoff_ns"], 1e9 * report["wall_s"]) > 0.08),
             ("spinning", spins),
             ("calls", quiet == "calls"),
             ("bursts", True)]
    return next(limit for limit, holds in rules if holds)


def check_verdict(name, report, l):
    want = limit_of(report, l)
    words = {"hold time": "no lock will help", "hand-off": "free but waited for",
             "preemption": "loses the processor", "readers": "readers", "spinning": "burns CPU",
             "bursts": "come to it together", "calls": "taking and freeing",
             "no problem": "not a lock problem"}[want]
    check(name, None if l["limit"] == want and words in l["verdict"] else
          (want, l["limit"], l["verdict"], l["arithmetic"]))


def next_of(report):
    """How the commands to type next begin, for the first lock that they are for."""
    for l in report["locks"][:10]:
        if l["kind"] in UNREACHED:
            continue
        if l["limit"] in CURABLE:
            return ["hotlock try -- "]
        if l["limit"] in HELD:
            return ["hotlock top --export-workload hold.c -- ", "hotlock sim hold.c"]
    return []
