#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""verdicts HOTLOCK FILE...: each line "// check: OPTIONS => VERDICT" in FILE.c is one test.

VERDICT is "verified" (with a count: exactly so many executions), the kind of counterexample (race,
assert, deadlock, freed, stack, exit, crash, misuse), "bound", "bad input", "sampled COUNT" (single
executions without a finding); of the plain search "plain COUNT" (interleavings, without a bound), "within N:
COUNT" (preemptions) or "all COUNT" (the bound left nothing out); or any other text that the output must
hold. Prints TAP.
"""
import re
import subprocess
import sys

# What the output says, and the exit code that goes with it.
KINDS = {
    "race": ("COUNTEREXAMPLE: data race", 1),
    "assert": ("COUNTEREXAMPLE: assertion failed", 1),
    "deadlock": ("COUNTEREXAMPLE: deadlock", 1),
    "freed": ("COUNTEREXAMPLE: (use of memory that has been freed|memory is freed while)", 1),
    "stack": ("COUNTEREXAMPLE: (use of|the function returns|a thread ends)", 1),
    "exit": (r"COUNTEREXAMPLE: (main\(\) returned|the program called exit)", 1),
    "crash": ("COUNTEREXAMPLE: the program used memory it does not have", 1),
    "misuse": ("COUNTEREXAMPLE: (free|memory freed|a .* is unlocked|a condition)", 1),
    "bound": ("NOT VERIFIED .* met the bound", 3),
    "bad input": ("", 2),
}


def cases(files):
    for name in files:
        with open(name, encoding="utf-8") as f:
            for options, verdict in re.findall(r"^// check: (.*) => (.*)$", f.read(), re.M):
                yield name, options.split(), verdict


def judge(verdict, run):
    """None if the run shows the verdict, else what it shows."""
    word, _, count = verdict.partition(" ")
    if word == "verified":
        pattern, code = f"^verified for .*: {count or '[1-9][0-9]*'} executions", 0
    elif word == "within":
        n, count = count.split(": ")
        pattern, code = rf"^verified for \S+ within {n} preemptions?: {count} interleavings", 0
    elif word == "sampled":
        pattern, code = rf"^NOT VERIFIED .* single executions[^\n]*\n{count} executions without", 3
    elif word in ("plain", "all"):
        more = r"\nThese are all" if word == "all" else r"\nbounds"
        pattern, code = rf"^verified for \S+: {count} interleavings, .*{more}", 0
    else:
        pattern, code = KINDS.get(verdict, (verdict, run.returncode))
    if run.returncode == code and re.search(pattern, run.stdout + run.stderr, re.M):
        return None
    return f"exit {run.returncode}: {(run.stdout + run.stderr)[:1500]}"


def main():
    hotlock, files = sys.argv[1], sys.argv[2:]
    todo = list(cases(files))
    print(f"1..{len(todo)}")
    failed = 0
    for number, (name, options, verdict) in enumerate(todo, 1):
        run = subprocess.run([hotlock, "check", *options, name], capture_output=True, text=True)
        wrong = judge(verdict, run)
        failed += wrong is not None
        short = name.rsplit("/", 1)[-1]
        print(f"{'not ok' if wrong else 'ok'} {number} - {short} {' '.join(options)} => {verdict}",
              flush=True)
        if wrong:
            print("# " + wrong.replace("\n", "\n# "))
    sys.exit(failed > 0 or not todo)


main()
