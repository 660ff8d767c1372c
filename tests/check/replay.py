#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""replay HOTLOCK CLIENTS ENGINE: a counterexample comes again from its trace, alone and under gdb.

Each is found and written, then replayed: what is printed must be the same, line by line. gdb must stop
in the program, where the counterexample ends. Prints TAP.
"""
import difflib
import itertools
import os
import subprocess
import sys
import tempfile

# Client, options: every kind of counterexample, way of searching and choice there is.
CASES = (
    ("clients/mcs.c", "-t 3 -D HAND_OVER=memory_order_relaxed"),
    ("clients/mcs.c", "-t 3 -D HAND_OVER=memory_order_relaxed --search random"),
    ("clients/mcs.c", "-t 3 -D HAND_OVER=memory_order_relaxed --search pct"),
    ("clients/mcs.c", "-t 2 -D HAND_OVER=memory_order_relaxed --preemptions 2"),
    ("engine/preempt.c", "--model sc"),
    ("engine/preempt.c", "--model sc --search plain"),
    ("engine/preempt.c", "--model c11 --preemptions 0"),
    ("engine/weak.c", ""),
    ("engine/big.c", "-D LATE --search random --samples 2"),
    ("engine/big.c", "-D LATE --search pct --samples 8"),
)


def check(hotlock, source, options, *more):
    return subprocess.run([hotlock, "check", source, *options.split(), *more], capture_output=True,
                          text=True, stdin=subprocess.DEVNULL)


def told(run):
    """The counterexample, without what is said about the search."""
    return run.stdout.split("\nfound under")[0]


def marked(directory):
    """The cases that the clients' own check lines say are wrong: kinds that CASES lacks."""
    for client in ("wait.c", "memory.c"):
        kinds = set()
        with open(os.path.join(directory, "clients", client), encoding="utf-8") as f:
            for line in f:
                if not line.startswith("// check: "):
                    continue
                options, _, kind = line[len("// check: "):].strip().rpartition(" => ")
                if kind in ("deadlock", "freed", "stack", "misuse", "assert") and kind not in kinds:
                    kinds.add(kind)
                    yield "clients/" + client, options


def again(hotlock, source, options, trace):
    """None if the replay shows the same, else what is wrong."""
    first = check(hotlock, source, options, "--trace", trace)
    if first.returncode != 1:
        return f"no counterexample: exit {first.returncode}: {first.stdout}{first.stderr}"
    second = check(hotlock, source, options, "--replay", trace)
    if second.returncode == 1 and told(second) == told(first) and "  1  T0" in told(first):
        return None
    differ = difflib.unified_diff(told(first).split("\n"), told(second).split("\n"), "found", "replayed", n=1,
                                  lineterm="")
    return f"exit {second.returncode}: {second.stderr}\n" + "\n".join(itertools.islice(differ, 20))


def under_gdb(hotlock, source, options, trace):
    """gdb stops where the checker found it, with the program's own function on the stack."""
    run = check(hotlock, source, options, "--replay", trace, "--gdb")
    frames = [line for line in run.stdout.split("\n") if " in work (" in line]
    if "hl_check_found" in run.stdout and frames:
        return None
    return f"exit {run.returncode}: {run.stdout[-1500:]}{run.stderr[-500:]}"


def refused(hotlock, source, options, trace, text):
    with open(trace, "w", encoding="utf-8") as f:
        f.write(text)
    run = check(hotlock, source, options, "--replay", trace)
    if run.returncode == 2 and run.stderr.count("\n") == 1 and trace in run.stderr:
        return None
    return f"exit {run.returncode}: {run.stdout}{run.stderr}"


def main():
    hotlock, directory = sys.argv[1:]
    cases = [*CASES, *marked(directory)]
    print(f"1..{len(cases) + 3}")
    failed = number = 0

    def report(wrong, what):
        nonlocal failed, number
        number += 1
        failed += wrong is not None
        print(f"{'not ok' if wrong else 'ok'} {number} - {what}", flush=True)
        if wrong:
            print("# " + wrong.replace("\n", "\n# "))

    with tempfile.TemporaryDirectory() as temporary:
        trace = os.path.join(temporary, "trace")
        for client, options in cases:
            report(again(hotlock, os.path.join(directory, client), options, trace),
                   f"the same again: {client} {options}")
        source, options = os.path.join(directory, CASES[0][0]), CASES[0][1]
        again(hotlock, source, options, trace)
        report(under_gdb(hotlock, source, options, trace), "under gdb, stopped in the program")
        with open(trace, encoding="utf-8") as f:
            text = f.read()
        report(refused(hotlock, source, options, trace, text.replace("\no ", "\nx ")),
               "a trace without an order is refused")
        report(refused(hotlock, source, options, trace, "nothing\n"), "what is no trace is refused")
    sys.exit(failed > 0)


main()
