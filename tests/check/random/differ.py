#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""differ HOTLOCK subject.c REFERENCE SEED COUNT [KIND...]: random programs, checker and reference.

REFERENCE is reference.c built natively. For each program and each model the two must agree on
whether there is a data race; if there is none, on the number of complete executions, on the final
states, and on whether threads can be stuck for good; so must the plain search of some of them, but
for the number; what random and pct searches draw must be among the reference's. Prints TAP, one
line per model and kind. With KINDS it ends at the first difference.
"""
import math
import os
import subprocess
import sys
import tempfile

from programs import KINDS, programs

MODELS = ("sc", "tso", "c11")
# The plain search repeats each execution many times: programs of so many interleavings at most.
PLAIN_MOST = 1500


def interleavings(text):
    """How many ways there are to run the operations of the threads, were each one step."""
    lengths = [len([o for o in t.split(";") if o.strip()]) for t in text.split("|")]
    return math.factorial(sum(lengths)) // math.prod(map(math.factorial, lengths))


def reference(tool, model, texts):
    out = subprocess.run([tool, model, *texts], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"reference {model}: {out.stdout[-200:]}{out.stderr}")
    answers = []
    for block in out.stdout.split("\n\n")[:len(texts)]:
        if block == "race":
            answers.append(block)
            continue
        first, *states = block.split("\n")
        count, deadlock = first.split()
        answers.append((int(count), int(deadlock), sorted(s.strip() for s in states)))
    return answers


def subject(tool, model, text, search="all", marks=1, seconds=60):
    """Count, deadlock and final states that the checker sees; "race"; or why it did not come to its
    end."""
    if search == "plain":
        seconds = 5
    env = dict(os.environ, HL_PROGRAM=text,
               HOTLOCK_CHECK=f"model={model} keep=1 bound=250 search={search} samples=100 "
                             f"seed=1 seconds={seconds} weak_failures=1 marks={marks}")
    try:
        out = subprocess.run([tool], capture_output=True, text=True, env=env, timeout=10 * seconds)
    except subprocess.TimeoutExpired:
        return "no end"
    count = deadlock = 0
    states = []
    for line in out.stdout.split("\n"):
        word, _, rest = line.partition(" ")
        if word == "outcome":
            states.append(rest.split(" ", 1)[1].strip())
        elif word == "counts":
            count = int(rest.split()[0])
        elif word == "deadlocks":
            deadlock = 1
        elif line.startswith("bad race"):
            return "race"
        elif word == "end" and rest not in ("complete", "nothing", "sampled"):
            return rest
    return count, deadlock, sorted(states)


def main():
    hotlock, source, tool, seed, count, *kinds = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        tools = [os.path.join(directory, name) for name in ("subject", "wide", "sixteen")]
        for program, options in zip(tools, ((), ("--search", "random"), ("-D", "WIDE"))):
            subprocess.run([hotlock, "check", source, *options, "--build", program], check=True)
        sys.exit(compare(tools, tool, seed, int(count), kinds))


def explored(tools, model, text, right, seconds):
    """What the checker says, as soon as it is wrong, and whether the plain search was asked too."""
    under_test, _, sixteen = tools
    got = subject(under_test, model, text, seconds=seconds)
    if got == right:  # and so when every run begins at the beginning
        got = subject(under_test, model, text, marks=0)
    if got == right:  # and so with locations of 16 bytes
        got = subject(sixteen, model, text)
    if got != right or interleavings(text) > PLAIN_MOST:
        return got, False
    every = subject(under_test, model, text, "plain")
    if every == "time":  # one that waits may take a million interleavings
        return got, False
    return right[:1] + every[1:] if isinstance(every, tuple) and right != "race" else every, True


def fits(drawn, right):
    """Are single executions among the reference's? A race need not be drawn."""
    if right == "race":
        return drawn == right or isinstance(drawn, tuple)
    return isinstance(drawn, tuple) and set(drawn[2]) <= set(right[2]) and drawn[1] <= right[1]


def compare(tools, tool, seed, count, kinds):
    """Run every kind of program under every model; return 1 if anything differed. The single
    executions are those of the engine for big programs."""
    cases = [(kind, model) for kind in kinds or KINDS for model in MODELS]
    print(f"1..{len(cases)}")
    failed = 0
    for number, (kind, model) in enumerate(cases, 1):
        texts = programs(seed, kind, count)
        executions = races = different = plain = 0
        for i, (text, right) in enumerate(zip(texts, reference(tool, model, texts))):
            got, also = explored(tools, model, text, right, 2 if kinds else 60)
            plain += also
            drawn = subject(tools[1], model, text, ("random", "pct")[i % 2])
            races += right == "race"
            executions += 0 if right == "race" else right[0]
            if got == right and fits(drawn, right):
                continue
            different += 1
            print(f"# {model}: {text}\n#   checker   {got}\n#   drawn     {drawn}\n"
                  f"#   reference {right}")
            if different == 3 or kinds:
                break
        failed += different > 0
        print(f"{'not ' if different else ''}ok {number} - {model}, {kind}: {len(texts)} programs "
              f"({plain} also plain{f', {races} with a race' if races else ''}), "
              f"{executions} executions", flush=True)
        if failed and kinds:
            break
    return int(failed > 0)


main()
