#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""litmus HOTLOCK litmus.c expected.txt: every test under every model shows exactly what is allowed.

Each test is built once and explored three times. Prints TAP.
"""
import re
import subprocess
import sys

MODELS = ("sc", "tso", "c11")


def rows(name):
    with open(name, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            test, options, *columns = (cell.strip() for cell in line.split("|"))
            allowed, before = [], None
            for cell in columns:
                before = before if cell == "=" else sorted(cell.split())
                allowed.append(before)
            yield test, options.split(), allowed


def shown(hotlock, source, test, options, model):
    run = subprocess.run([hotlock, "check", source, "-D", f"TEST={test}", *options, "--model", model,
                          "--outcomes"], capture_output=True, text=True)
    if run.returncode != 0:
        return run.stdout + run.stderr
    return sorted(re.findall(r"^ *\d+ x  (.*)$", run.stdout, re.M))


def main():
    hotlock, source, expected = sys.argv[1:]
    todo = list(rows(expected))
    print(f"1..{len(todo) * len(MODELS)}")
    number = failed = 0
    for test, options, allowed in todo:
        for model, right in zip(MODELS, allowed):
            number += 1
            got = shown(hotlock, source, test, options, model)
            failed += got != right
            print(f"{'ok' if got == right else 'not ok'} {number} - {model} {test} {' '.join(options)}",
                  flush=True)
            if got != right:
                print(f"# allowed {right}\n# shown   {got}")
    sys.exit(failed > 0 or not todo)


main()
