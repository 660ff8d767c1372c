#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""matrix.py PRELOAD PROGRAM... [--stack NAME=LIBRARY...] [--only WORD] [--locks NAME,...]

Runs every scenario natively and under each lock, compares what it says with what it said natively,
and prints the matrix. With --stack, a few scenarios also run with another preloaded library before
and after ours. Reports in TAP: one case a scenario; the matrix follows as comments.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import child  # noqa: E402

LOCKS = ["park", "tas", "ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin", "moved", "libc"]
# Begins with park; each mutex the program itself locks moves to nmcs as it does (select.c).
MOVED = "park,for=nmcs:1:c:0+ffffffff@{}"
LIMIT = float(os.environ.get("HOTLOCK_SCENARIO_LIMIT", 30))  # seconds; a longer run is a hang

# Run with other libraries stacked: what allocators and wrappers have broken. Each of them has
# another lock, and each library another for the same one, so that every lock meets every library.
STACKED = ["constructor_of_a_library", "exclusion_mixed", "many_locks", "next_symbol",
           "atfork_reinit", "fork_waiters_unlock", "trade_outside", "cancel_wait",
           "trade_recursive_mutex", "cxx_wait_for", "cxx_futures", "exit_with_locks_held"]
LEGEND = "+ as native   F says something else   C crashed   H hangs"


def cell(native, got):
    if got == native:
        return "+"
    if got[0] == "hang":
        return "H"
    return "C" if isinstance(got[0], int) and got[0] < 0 else "F"


def difference(native, got):
    """The first word that differs, with what was expected."""
    a, b = native[1].split() + [f"exit={native[0]}"], got[1].split() + [f"exit={got[0]}"]
    for want, have in zip(a, b):
        if want != have:
            return f"{have} instead of {want}"
    return f"{len(b)} words instead of {len(a)}"


def scenario_row(program, scenario, columns):
    """The cells of one scenario and what is wrong with it."""
    native = child.run([os.path.abspath(program), scenario], LIMIT)
    cells, wrong = {}, []
    if native[0] != 0 or "WRONG" in native[1]:
        wrong.append(f"native: {native[1].strip()} exit={native[0]}")
    for name, (preload, lock) in columns.items():
        if "+" in name and scenario not in STACKED:
            continue
        if lock == "turn":
            at = list(columns).index(name) + STACKED.index(scenario)
            lock = LOCKS[at % LOCKS.index("moved")]
        choice = MOVED.format(os.path.abspath(program)) if lock == "moved" else lock
        got = child.run([os.path.abspath(program), scenario], LIMIT, preload, choice)
        cells[name] = cell(native, got)
        if cells[name] != "+":
            wrong.append(f"{name}: {difference(native, got)}")
    return cells, wrong


def print_matrix(rows, columns):
    shown = [c for c in columns if any(c in cells for cells, _ in rows.values())]
    width = max(len(s) for s in rows)
    print("# " + " " * width, " ".join(shown))
    for scenario, (cells, _) in rows.items():
        marks = " ".join(cells.get(c, "").center(len(c)) for c in shown)
        print("# " + scenario.ljust(width), marks.rstrip())
    counts = " ".join(str(sum(cells.get(c) == "+" for cells, _ in rows.values())).center(len(c))
                      for c in shown)
    print("# " + "as native".ljust(width), counts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("preload")
    parser.add_argument("program", nargs="+")
    parser.add_argument("--stack", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--only", default="")
    parser.add_argument("--locks", default=",".join(LOCKS))
    args = parser.parse_args()

    preload = os.path.abspath(args.preload)
    columns = {lock: (preload, lock) for lock in args.locks.split(",")}
    for name, library in (s.split("=", 1) for s in args.stack):
        if not os.path.exists(library):
            print(f"# {name} is not installed: not stacked")
        else:
            columns[f"{name}+"] = (f"{library}:{preload}", "turn")
            columns[f"+{name}"] = (f"{preload}:{library}", "turn")
    wanted = [(p, s) for p in args.program
              for s in subprocess.run([p], stdout=subprocess.PIPE, text=True,
                                      check=True).stdout.split() if args.only in s]
    print(f"1..{len(wanted)}", flush=True)
    rows, bad = {}, 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [(s, pool.submit(scenario_row, p, s, columns)) for p, s in wanted]
        for number, (scenario, job) in enumerate(jobs, 1):
            rows[scenario] = job.result()
            wrong = rows[scenario][1]
            bad += bool(wrong)
            print(f"{'not ' if wrong else ''}ok {number} - {scenario}", flush=True)
            for line in wrong:
                print(f"#   {line}", flush=True)
    plain = [c for c in columns if "+" not in c]
    print_matrix(rows, plain)
    if len(plain) < len(columns):
        print("# with another preloaded library before and after ours, each lock in turn:")
        print_matrix({s: r for s, r in rows.items() if s in STACKED},
                     [c for c in columns if "+" in c])
    print("# " + LEGEND)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
