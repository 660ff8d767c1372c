#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""litmus HOTLOCK litmus.c expected.txt: every test under every model shows exactly what is allowed.

Each test is built once and explored three times. Prints TAP.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

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


def build(hotlock, source, test, options, program):
    subprocess.run([hotlock, "check", source, "-D", f"TEST={test}", *options, "--build", program],
                   check=True)


def shown(program, model):
    """The outcomes the built test shows under one model, or what it said instead."""
    run = subprocess.run([program], capture_output=True, text=True,
                         env=dict(os.environ, HOTLOCK_CHECK=f"model={model}"))
    if run.returncode != 0:
        return run.stdout + run.stderr
    return sorted(text.replace("\\n", "") for text in re.findall(r"^outcome \d+ (.*)$", run.stdout, re.M))


def main():
    hotlock, source, expected = sys.argv[1:]
    todo = list(rows(expected))
    print(f"1..{len(todo) * len(MODELS)}")
    number = failed = 0
    directory = tempfile.mkdtemp()
    program = os.path.join(directory, "litmus")
    for test, options, allowed in todo:
        build(hotlock, source, test, options, program)
        for model, right in zip(MODELS, allowed):
            number += 1
            got = shown(program, model)
            failed += got != right
            print(f"{'ok' if got == right else 'not ok'} {number} - {model} {test} {' '.join(options)}",
                  flush=True)
            if got != right:
                print(f"# allowed {right}\n# shown   {got}")
    shutil.rmtree(directory)
    sys.exit(failed > 0 or not todo)


main()
