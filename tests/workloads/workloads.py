#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every workload under every lock: sane JSON and exact counts; every form; bad input; clean-up.

Arguments: the programs counter fcntl runqueue slab stat pair.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

from tap import check, check_bad, done, result, run

WORKLOADS = dict(zip(["counter", "fcntl", "runqueue", "slab", "stat", "pair"], sys.argv[1:]))
SHORT = {"counter": [], "fcntl": ["--tally", 1], "runqueue": ["--groups", 1], "slab": [],
         "stat": ["--files", 20, "--tally", 1]}
OURS = ["tas", "ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin", "park", "ali"]


def listed(name):
    """The locks of a workload: what each can do."""
    lines = run(WORKLOADS[name], "--list").stdout.splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def insane(r, threads):
    """What is wrong with the figures of a run, or None."""
    each = r["per_thread"]
    rules = {
        "schema": r["schema"] == "hotlock-workload/1",
        "exclusion": r["exclusion"] == "ok" and not r["partial"],
        "threads": r["threads"] == threads == len(each),
        "ops": 0 < r["ops"] <= sum(t["ops"] for t in each),
        "rate": abs(r["ops_per_s"] * r["seconds"] - r["ops"]) <= 1e-3 * r["ops"],
        "sections": r["sections"] == sum(t["sections"] for t in each),
        "jain": 1 / threads - 1e-6 <= r["jain"] <= 1 + 1e-6,
        "jain_windows": 0 <= r["jain_windows"] <= 1 + 1e-6,
        "waits": 0 <= r["wait_p50_ns"] <= r["wait_p99_ns"] <= r["wait_p999_ns"] <= r["wait_max_ns"],
        "worst": r["wait_max_ns"] == max(t["wait_max_ns"] for t in each),
        "gap": r["gap_ns"] == max(t["gap_ns"] for t in each) >= r["wait_max_ns"],
        "cpu": 0 <= r["cpu"] <= threads + 0.5,
        "ticks": r["ticks_per_pair"] is None or r["ticks_per_pair"] > 0,
        "bytes": r["lock_bytes"] >= 1,
    }
    wrong = [rule for rule, good in rules.items() if not good]
    return f"{wrong} in {json.dumps(r)}" if wrong else None


def check_run(name, threads, *options):
    words = [WORKLOADS[name], "--json", "--seconds", 0.05, "--threads", threads, *options]
    r, problem = result(*words)
    check(" ".join(str(word) for word in [name, *options]), problem or insane(r, threads))
    return r


def check_all_locks():
    for name, options in SHORT.items():
        locks = listed(name)
        check(f"{name} has all our locks", set(OURS) - set(locks))
        for lock in locks:
            check_run(name, 3, "--lock", lock, *options)


def check_counts():
    r = check_run("counter", 4, "--lines", 8, "--think", 200, "--hold", 100)
    check("counter counts one op per section",
          r and r["sections"] != sum(t["ops"] for t in r["per_thread"]) and r)
    for lock, can in listed("counter").items():
        forms = (["lock"] if "sections" in can else []) + ["run"]
        for form in forms:
            check_run("counter", 3, "--op", "fam", "--lock", lock, "--form", form)
    for form in ["lock", "run"]:
        check_run("slab", 3, "--lock", "ali", "--form", form, "--burst", 1000)
    check_run("slab", 2, "--limit", 1, "--batch", 1, "--burst", 3)
    check_run("fcntl", 3, "--kind", "posix", "--ranges", 5)
    check_run("stat", 2, "--files", 3, "--as-published")
    check_run("counter", 2, "--lock", "nmcs:yield")
    r = check_run("runqueue", 3, "--groups", 2, "--loops", 3, "--lock", "mcs")
    check("runqueue delivers every message and ends by itself",
          r and not (r["finished"] and r["ops"] == 2 * 20 * 20 * 3) and r)


def check_pair():
    r, problem = result(WORKLOADS["pair"], "--json", "--seconds", 0.05)
    rows = {(c["lock"], c["form"]): c for c in r["candidates"]} if r else {}
    wanted = [(lock, form) for lock in OURS for form in ["inline", "called"]]
    wanted += [("ali", "run"), ("ali", "run, called"), ("exchange+store", "reference")]
    check("pair times every lock inlined and called", problem or set(wanted) - set(rows))
    check("pair gives positive times, the least below the median",
          [c for c in rows.values() if not 0 < c["min_ns"] <= c["median_ns"]])
    check("pair's ratio is that of the fastest",
          [c for c in rows.values() if abs(c["ratio"] - c["min_ns"] /
                                           rows["exchange+store", "reference"]["min_ns"]) > 0.01])
    one, problem = result(WORKLOADS["pair"], "--json", "--seconds", 0.05, "--lock", "mcs")
    check("pair with one lock", problem or {c["lock"] for c in one["candidates"]} !=
          {"empty loop", "exchange+store", "mcs"})


def check_bad_input():
    for name, program in WORKLOADS.items():
        check_bad(f"{name}: unknown lock", "nearest is 'ticket'", program, "--lock", "tikcet")
        check_bad(f"{name}: no threads", "--threads '0'", program, "--threads", 0)
        check_bad(f"{name}: words for threads", "--threads 'abc'", program, "--threads", "abc")
        check_bad(f"{name}: no time", "--seconds", program, "--seconds", 0)
        check_bad(f"{name}: unknown option", "nearest is '--seconds'", program, "--secnods", 1)
        check_bad(f"{name}: stray word", "'stray'", program, "stray")
        check_bad(f"{name}: unknown wait", "nearest is 'yield'", program, "--lock", "tas:yeild")
    check_bad("counter: unknown op", "not 'sub'", WORKLOADS["counter"], "--op", "sub")
    check_bad("counter: no lines", "--lines '0'", WORKLOADS["counter"], "--lines", 0)
    check_bad("counter: unknown form", "not 'both'", WORKLOADS["counter"], "--form", "both")
    check_bad("counter: functions only", "--form run", WORKLOADS["counter"], "--lock", "ccsynch",
              "--form", "lock")
    check_bad("slab: batch above limit", "--batch 9", WORKLOADS["slab"], "--batch", 9, "--limit", 8)
    check_bad("stat: no such directory", "--dir", WORKLOADS["stat"], "--dir", "/nowhere")
    check_bad("fcntl: no such directory", "--dir", WORKLOADS["fcntl"], "--dir", "/nowhere")
    check_bad("fcntl: unknown kind", "not 'flock'", WORKLOADS["fcntl"], "--kind", "flock")
    check_bad("fcntl: lock not for processes", "between processes", WORKLOADS["fcntl"], "--kind",
              "posix", "--lock", "nmcs")
    check_bad("runqueue: no groups", "--groups '0'", WORKLOADS["runqueue"], "--groups", 0)


def check_interrupt(name, number, *options):
    """Interrupted after its first second's line, a workload cleans up and says it is partial."""
    with tempfile.TemporaryDirectory() as place:
        words = [WORKLOADS[name], "--seconds", 50, "--dir", place, *options]
        child = subprocess.Popen([str(word) for word in words], text=True, stdout=subprocess.PIPE)
        first = child.stdout.readline()
        there = os.listdir(place)
        child.send_signal(number)
        rest, _ = child.communicate(timeout=60)
        good = (first.strip().isdigit() and there and not os.listdir(place) and
                child.returncode == 128 + number and "partial" in rest)
        check(f"{name} {options} ended by {number.name} cleans up and says partial",
              None if good else f"{first} {there} {os.listdir(place)} {child.returncode} {rest}")


check_all_locks()
check_counts()
check_pair()
check_bad_input()
check_interrupt("stat", signal.SIGINT, "--files", 100)
check_interrupt("stat", signal.SIGTERM, "--files", 100, "--as-published")
check_interrupt("fcntl", signal.SIGINT)
check_interrupt("fcntl", signal.SIGTERM, "--kind", "posix")
with tempfile.TemporaryDirectory() as spot:
    run(WORKLOADS["stat"], "--seconds", 0.05, "--files", 50, env={**os.environ, "TMPDIR": spot})
    check("stat leaves nothing behind", os.listdir(spot))
done()
