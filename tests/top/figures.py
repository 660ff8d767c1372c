#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""figures.py HOTLOCK PLANTED SLOW: what hotlock top finds in programs with planted locks agrees
with what these counted and timed for themselves, whatever else the machine is doing meanwhile."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads"))
from parts import run_parts  # noqa: E402
from tap import check, done, run  # noqa: E402
from verdict import HELD, check_verdict  # noqa: E402

HOTLOCK, PLANTED, SLOW = sys.argv[1:4]
TRUTH = os.path.join(tempfile.mkdtemp(), "truth")
TRIES = 5


def top(scene, *options, program=PLANTED):
    """The report on a scene and what the scene knows of itself."""
    if os.path.exists(TRUTH):
        os.unlink(TRUTH)
    r = run(HOTLOCK, "top", "--json", *options, "--", program, scene,
            env=dict(os.environ, TRUTH=TRUTH))
    try:
        report = json.loads(r.stdout)
    except ValueError:
        print(f"Bail out! {scene}: exit {r.returncode}: {r.stderr}{r.stdout}")
        sys.exit(1)
    truth = {}
    if os.path.exists(TRUTH):
        with open(TRUTH, encoding="ascii") as f:
            truth = json.loads(f.read() or "{}")
    return report, truth


def check_top(scene, figures, *options, program=PLANTED):
    """Checks what FIGURES says of the report on a scene: {case: problem}. The recorder and the
    program look at the clock one after the other, and a thread may lose its processor in between;
    so where they disagree the scene is run again, a bounded number of times."""
    for _ in range(TRIES):
        report, truth = top(scene, *options, program=program)
        found = figures(report, truth)
        if not any(found.values()):
            break
    for case, problem in found.items():
        check(case, problem)
    return report, truth


def lock(report, name):
    return next((l for l in report["locks"] if l["name"].startswith(name)), None)


def near(found, true, tolerance, slack=0):
    """None if found is within a share (or slack) of what is true, else words."""
    off = abs(found - true)
    return None if off <= tolerance * true or off <= slack else f"found {found}, truth {true}"


def share(stacks, role, function):
    """Of the time of a role's stacks, the share of those with this function in them."""
    of_role = [s for s in stacks if s["role"] == role]
    total = sum(s["ns"] for s in of_role)
    here = sum(s["ns"] for s in of_role
               if any(f["function"] == function for f in s["frames"]))
    return here / total if total else 0


def hot_figures(report, truth):
    store = lock(report, "store.lock")
    return {
        "hold time within 10 %": near(store["hold_ns"], truth["hold"], 0.10),
        "wait time within 10 %, or 5 ms": near(store["wait_ns"], truth["wait"], 0.10, 5e6),
        "CPU time within 15 %, or 0.1 s": near(report["user_s"] + report["system_s"],
                                               truth["cpu"] / 1e9, 0.15, 0.1),
    }


def hot():
    report, truth = check_top("hot", hot_figures)
    store, quiet = lock(report, "store.lock"), lock(report, "quiet")
    check("the hot lock comes first, by its name",
          None if report["locks"][0]["name"] == "store.lock" else report["locks"][0])
    check("every acquisition is counted", near(store["acquisitions"], truth["taken"], 0))
    check("of the quiet lock too", near(quiet["acquisitions"], 1200, 0))
    check("waits are split into spinning and the rest",
          near(store["spin_ns"] + store["sleep_ns"], store["wait_ns"], 0.01))
    check("utilisation is hold time over the time of the run",
          near(store["utilisation"], min(1, store["hold_ns"] / 1e9 / report["wall_s"]), 0.01))
    check_verdict("the verdict is that of its figures", report, store)
    check("three threads", near(report["threads"], 3, 0))
    waiter = share(store["stacks"], "waiter", "short_holder") + \
        share(store["stacks"], "waiter", "long_holder")
    check("every waiter's stack says who waited", near(waiter, 1, 0.02))
    holder = share(store["stacks"], "holder", "short_holder") + \
        share(store["stacks"], "holder", "long_holder")
    check("every holder's stack says who made them wait", near(holder, 1, 0.02))
    blamed = sum(s["ns"] for s in store["stacks"] if s["role"] == "holder")
    # While it is handed on one thread waits, or two of the three do.
    rest, passing_on = store["wait_ns"] - blamed, store["handoff_ns"]
    check("what holders are blamed for is what waiters waited, but for hand-offs", None if
          0.75 * passing_on - 1e7 <= rest <= 2.25 * passing_on + 1e7 + 0.05 * store["wait_ns"]
          else (store["wait_ns"], blamed, passing_on))
    check("the histograms hold every wait and every timed hold", near(
        sum(n for _, n in store["wait_histogram"]), store["contended"], 0) or near(
            sum(n for _, n in store["hold_histogram"]), store["acquisitions"], 0.2))
    check("as many owner changes as there can be",
          None if 1 <= store["owner_changes"] < store["acquisitions"] else store["owner_changes"])


def held():
    """Held nearly always, by construction: a program that no lock helps."""
    report, _ = top("held")
    spin = lock(report, "spin")
    check("held always: no lock will help, because it is held or its holder is not running",
          None if spin["limit"] in HELD else (spin["verdict"], spin["arithmetic"]))
    check_verdict("held always: as its figures say", report, spin)


def sleeping_figures(report, truth):
    store = lock(report, "store.lock")
    return {
        "sleeping holders: hold time within 10 %": near(store["hold_ns"], truth["hold"], 0.10),
        "sleeping holders: wait time within 10 %": near(store["wait_ns"], truth["wait"], 0.10),
    }


def sleeping():
    report, _ = check_top("sleeping", sleeping_figures)
    store = lock(report, "store.lock")
    behind = sum(s["ns"] for s in store["stacks"] if s["role"] == "holder")
    check("the waiting behind a holder was behind one that did not run",
          None if store["preempted_ns"] > 0.8 * behind > 0 else (store["preempted_ns"], behind))
    check_verdict("and the verdict says so, if that was much of it", report, store)
    # Of the waiting; the share of the program's few milliseconds of CPU time is one or two samples.
    check("sleeping is not spinning", None if store["spin_ns"] < 0.05 * store["wait_ns"] else
          store["spin_ns"])


def idle_figures(report, truth):
    found = lock(report, "store.lock")["hold_undisturbed_ns"] or 0
    brief = truth["brief_hold"] / truth["brief"]
    return {"alone: a hold takes what it took, though one in eight is timed":
            None if brief / 3 < found < 3 * brief else (found, brief)}


def quiet_program():
    report, truth = check_top("idle", idle_figures)
    store = lock(report, "store.lock")
    check("alone: every acquisition", near(store["acquisitions"], truth["taken"], 0))
    check("alone: no wait", None if store["contended"] == 0 and store["wait_ns"] == 0 else store)
    check_verdict("alone: not a lock problem", report, store)
    check("alone: nobody waited, and its calls are one thread's",
          None if store["limit"] == "no problem" else store)
    check("alone: most holds keep their processor, and are told from those that do not",
          None if store["hold_undisturbed_ns"] else store)
    check("alone: holds are sampled", None if 0 < store["hold_samples"] <= store["acquisitions"]
          else store["hold_samples"])


def slow_figures(report, truth):
    store = lock(report, "store.lock")
    return {
        "slow calls: their time within 12 %": near(store["calls_ns"], truth["calls"], 0.12),
        "the bound is what the program would save, within 10 points":
            near(store["bound"], truth["calls"] / truth["cpu"], 0, 0.10),
    }


def libc_figures(report, _):
    store = lock(report, "store.lock")
    return {"the same with libc's mutex: its calls are no problem, and nothing is to be had":
            None if store["limit"] == "no problem" and store["bound"] < 0.1 else store["verdict"]}


def slow_calls():
    """Calls that last, of a lock that nobody waits for: all that another lock could save."""
    report, truth = check_top("slow", slow_figures, program=SLOW)
    store = lock(report, "store.lock")
    check("no thread spent much of it: there are 250",
          None if 0 < store["calls_most_ns"] < 0.1 * truth["calls"] else store["calls_most_ns"])
    cpu = report["user_s"] + report["system_s"]
    check("their share is of the CPU time",
          near(store["calls_share"], store["calls_ns"] / 1e9 / cpu, 0.01))
    check("and the verdict says where it goes", None if store["limit"] == "calls" else
          store["verdict"])
    check_verdict("as its figures say", report, store)
    check_top("slow", libc_figures)


def passing_figures(report, truth):
    shelf = lock(report, "shelf")
    return {
        "readers that pass it on: the hand-off within 25 %":
            near(shelf["handoff_ns"], truth["handoff"], 0.25),
        "as often as somebody waited": near(shelf["handoffs"], shelf["contended"], 0.1),
    }


def passing():
    """A lock that a reader frees is handed on too."""
    check_top("passing", passing_figures)


def line_of_lock():
    """Two of four threads change what lies beside a lock, and never take it."""
    report, _ = top("beside")
    if any("no CPU samples" in n for n in report["notes"]):
        check("what shares a lock's line # SKIP no CPU samples here", None)
        return
    desk = lock(report, "desk.lock")
    found = desk["beside"] or {}
    check("a hot field in a lock's cache line is named, and not what its sections change",
          None if found.get("name") == "desk.hits" and
          "another hot field shares its cache line: desk.hits" in desk["verdict"]
          else (desk["verdict"], found))
    check("and its share of the samples there said", None if
          0 < found.get("samples", 0) < found["samples_of_line"] else found)
    report, _ = top("apart")
    desk = lock(report, "desk.lock")
    check("a counter in a line of its own is not", None if desk["beside"] is None and
          "cache line" not in desk["verdict"] else desk["verdict"])


def kinds():
    report, _ = top("kinds")
    want = {"nested": ("recursive mutex", 1000), "spin": ("spinlock", 1000),
            "table": ("rwlock", 1100), "c11": ("mutex", 1000),
            "made in open_store": ("mutex", 1000)}
    for name, (kind, taken) in want.items():
        found = lock(report, name)
        good = found and found["kind"] == kind and found["acquisitions"] == taken
        check(f"{name}: a {kind}, taken {taken} times",
              None if good else found or [l["name"] for l in report["locks"]])
    check("reads are told from writes", near(lock(report, "table")["reads"], 1000, 0))


def condition():
    report, _ = top("condition")
    store, quiet = lock(report, "store.lock"), lock(report, "quiet")
    check("a thread in a condition wait does not hold the mutex",
          None if quiet["hold_ns"] < 0.5e9 * report["wall_s"] else quiet["hold_ns"])
    check("and takes it again after that", near(quiet["acquisitions"], 2, 0))
    check("it is taken again after each wait",
          None if store["acquisitions"] >= 200 else store["acquisitions"])


def home_made():
    report, truth = top("loop")
    if any("no CPU samples" in n for n in report["notes"]):
        check("home-made loop # SKIP no CPU samples here", None)
        return
    loop = lock(report, "home_made")
    check("a home-made loop is found by its variable", None if loop else report["locks"])
    if not loop:
        return
    check("its share of the CPU time within 10 points",
          near(loop["cpu_spin_share"], truth["spin"] / truth["cpu"], 0, 0.10))
    check("and that of the program, what perf top would show",
          near(report["spin_share"], truth["spin"] / truth["cpu"], 0, 0.10))
    check("named by function and line", None if any(
        f["function"] == "home_lock" and f["line"] > 0
        for s in loop["stacks"] for f in s["frames"]) else loop["stacks"])


def parked_figures(report, truth):
    store = lock(report, "store.lock")
    return {"under another lock: hold time": near(store["hold_ns"], truth["hold"], 0.10)}


def ends():
    report, _ = top("child")
    counts = sorted(l["acquisitions"] for l in report["locks"] if l["name"] == "store.lock")
    check("a forked child's lock is its own", None if counts == [100, 300] else counts)
    report, _ = top("killed")
    check("what a killed program did is there",
          near(lock(report, "store.lock")["acquisitions"], 20000, 0))
    check("and how it ended", near(report["exit_signal"], 9, 0))
    report, truth = check_top("hot", parked_figures, "--lock", "park")
    check("under another lock: every acquisition of the run that was kept",
          near(lock(report, "store.lock")["acquisitions"], truth["taken"], 0))


run_parts(hot, held, sleeping, quiet_program, slow_calls, passing, line_of_lock, kinds, condition,
          home_made, ends)
done()
