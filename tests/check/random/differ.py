#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""differ HOTLOCK subject.c REFERENCE SEED COUNT [KIND...]: random programs, checker against reference.

REFERENCE is reference.c built natively. For each
program and each model the two must agree on the number of complete executions, on the final
states, and on whether threads can be stuck for good; so must the plain search of some of them, but for
the number; what random and pct searches draw must be among the reference's. Prints TAP, one line per
model and kind. With KINDS it ends at the first difference.
"""
import math
import os
import random
import subprocess
import sys
import tempfile

MODELS = ("sc", "tso", "c11")
# What a kind of program is made of: operations with weights, threads, most operations in all.
KINDS = {
    "loads and stores": ("SSSLLLDF", (2, 4), 9),
    "read-modify-writes": ("AXCCSLLD", (2, 3), 7),
    "fences": ("SSLLFFA", (2, 4), 9),
    "waits": ("WSSLAXD", (2, 4), 8),
    "weak exchanges": ("KKKCSLLA", (2, 3), 7),
    "mixed sizes": ("BBBHHYSLLX", (2, 3), 8),
    "branches": ("ISSLLCA", (2, 3), 8),
    "shapes": None,
    "mixed shapes": None,
}
# The plain search repeats each execution many times: programs of so many interleavings at most.
PLAIN_MOST = 1500


def interleavings(text):
    """How many ways there are to run the operations of the threads, were each one step."""
    lengths = [len([o for o in t.split(";") if o.strip()]) for t in text.split("|")]
    return math.factorial(sum(lengths)) // math.prod(map(math.factorial, lengths))


def order(rng, allowed):
    return rng.choice(allowed)


def operation(rng, kind, left):
    x, v, r = rng.randrange(rng.choice((1, 2, 2, 3))), rng.randrange(3), rng.randrange(3)
    if kind == "S":
        return f"S {x} {v} {order(rng, 'rrrrls')}"
    if kind == "D":
        return f"D {x} {r} {order(rng, 'rrrrls')}"
    if kind == "L":
        return f"L {x} {r} {order(rng, 'rrrras')}"
    if kind == "W":
        return f"W {x} {v} {order(rng, 'rrrras')}"
    if kind in "AX":
        return f"{kind} {x} {rng.randrange(1, 3)} {r} {order(rng, 'ralbs')}"
    if kind in "CK":
        success = order(rng, "ralbs")
        failure = order(rng, {"a": "ra", "b": "ra", "s": "ras"}.get(success, "r"))
        return f"{kind} {x} {rng.randrange(2)} {rng.randrange(1, 3)} {r} {success} {failure}"
    h = rng.randrange(2)
    if kind == "B":
        return f"B {x} {h} {v} {order(rng, 'rrrrls')}"
    if kind == "H":
        return f"H {x} {h} {r} {order(rng, 'rrrras')}"
    if kind == "Y":
        return f"Y {x} {h} {v} {r} {order(rng, 'ralbs')}"
    if kind == "I":
        return f"I {r} {rng.randrange(2)} {rng.randrange(1, max(2, left))}"
    return f"F {order(rng, 'albss')}"


def shape(rng):
    """A litmus shape: each thread writes or reads one location, then another, mostly with something
    between; what random operations seldom hit."""
    threads = []
    for t in range(rng.choice((2, 2, 3, 4))):
        x, y = (t % 2, 1 - t % 2) if rng.random() < 0.8 else (1, 0)
        first = rng.choice((f"S {x} {t % 2 + 1} r", f"S {x} 1 r", f"L {x} 0 r", f"X {x} 1 0 r"))
        between = rng.choice(("F s", "F s", "F b", f"A 2 1 1 {rng.choice('rb')}", "C 2 5 1 1 r r", ""))
        last = rng.choice((f"L {y} 2 r", f"L {y} 2 r", f"S {y} 1 r", f"S {y} 2 r"))
        threads.append("; ".join(o for o in (first, between, last) if o))
    return " | ".join(threads)


def mixed_shape(rng):
    """The same with halves of words: who reads a word sees through a half's store to what lies below."""
    def access(x, writes, orders):
        h, o = rng.randrange(2), order(rng, orders)
        if writes:
            return rng.choice((f"B {x} {h} {rng.randrange(1, 3)} {o}",) * 2 + (f"S {x} {rng.randrange(1, 3)} {o}",
                                                                              f"Y {x} {h} 1 1 {o}"))
        return rng.choice((f"H {x} {h} {rng.choice((0, 2))} {o}", f"L {x} {rng.choice((0, 2))} {o}"))
    threads = []
    for _ in range(rng.choice((2, 2, 3))):
        x = rng.randrange(2)
        first, last = rng.random() < 0.6, rng.random() < 0.5
        steps = [access(x, first, "rrl" if first else "rra"), rng.choice(("F s", "F b", "F l", "F a", "", "", "")),
                 access(1 - x if rng.random() < 0.8 else x, last, "rl" if last else "ra")]
        threads.append("; ".join(s for s in steps if s))
    return " | ".join(threads)


def message(rng):
    """A message is passed by half of a word while somebody writes the other half, or the whole."""
    h = rng.randrange(2)
    fence = lambda letters: rng.choice(("", "", *(f"F {o}" for o in letters)))
    def other(orders):
        return rng.choice((f"B 1 {1 - h} 1 {order(rng, orders)}",) * 2 + (f"Y 1 {1 - h} 1 1 {order(rng, orders)}",
                                                                       f"A 1 0 1 {order(rng, orders)}"))
    def look():
        return rng.choice((f"L 1 2 {order(rng, 'aar')}", f"L 1 2 {order(rng, 'aar')}", f"H 1 {h} 2 a",
                           f"H 1 {1 - h} 2 a"))
    sender = ["S 0 1 r", fence("lb"), rng.choice((f"B 1 {h} 1 l", f"B 1 {h} 1 r", f"Y 1 {h} 1 2 l"))]
    merger = [other("rrl"), fence("as"), rng.choice(("", look())), "L 0 0 r"]
    receiver = [look(), fence("a"), "L 0 0 r"]
    parties = [sender, merger] + ([receiver] if rng.random() < 0.7 else [])
    return " | ".join("; ".join(o for o in party if o) for party in parties)


def program(rng, kind):
    if kind == "shapes":
        return shape(rng)
    if kind == "mixed shapes":
        return rng.choice((mixed_shape, message, message))(rng)
    if kind == "weak exchanges" and rng.random() < 0.3:
        return f"S 0 1 r; S 1 1 l | {operation(rng, 'K', 0)}; K 1 1 2 1 {rng.choice(('r r', 'a r', 'a a'))}; L 0 0 r"
    letters, threads, most = KINDS[kind]
    count = rng.randint(*threads)
    length = [0] * count
    for _ in range(rng.randint(count + 1, most)):
        length[rng.randrange(count)] += 1
    return " | ".join("; ".join(operation(rng, rng.choice(letters), n - i) for i in range(n))
                      for n in length)


def reference(tool, model, programs):
    out = subprocess.run([tool, model, *programs], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"reference {model}: {out.stdout[-200:]}{out.stderr}")
    answers = []
    for block in out.stdout.split("\n\n")[:len(programs)]:
        first, *states = block.split("\n")
        count, deadlock = first.split()
        answers.append((int(count), int(deadlock), sorted(s.strip() for s in states)))
    return answers


def subject(tool, model, text, search="all", marks=1, seconds=60):
    """Count, deadlock and final states that the checker sees; or why it did not come to its end."""
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
        elif word == "end" and rest not in ("complete", "nothing", "sampled"):
            return rest
    return count, deadlock, sorted(states)


def main():
    hotlock, source, tool, seed, count, *kinds = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:]
    with tempfile.TemporaryDirectory() as directory:
        tools = [os.path.join(directory, name) for name in ("subject", "wide", "sixteen")]
        under_test, wide, sixteen = tools
        subprocess.run([hotlock, "check", source, "--build", under_test], check=True)
        subprocess.run([hotlock, "check", source, "--search", "random", "--build", wide], check=True)
        subprocess.run([hotlock, "check", source, "-D", "WIDE", "--build", sixteen], check=True)
        sys.exit(compare(tools, tool, seed, count, kinds))


def compare(tools, tool, seed, count, kinds):
    """Run every kind of program under every model; return 1 if anything differed. The single executions
    are those of the engine for big programs."""
    under_test, wide, sixteen = tools
    cases = [(kind, model) for kind in kinds or KINDS for model in MODELS]
    print(f"1..{len(cases)}")
    failed = 0
    for number, (kind, model) in enumerate(cases, 1):
        rng = random.Random(f"{seed} {kind}")
        programs = [program(rng, kind) for _ in range(count)]
        executions = different = plain = 0
        for text, right in zip(programs, reference(tool, model, programs)):
            got = subject(under_test, model, text, seconds=2 if kinds else 60)
            if got == right:  # and so when every run begins at the beginning
                got = subject(under_test, model, text, marks=0)
            if got == right:  # and so with locations of 16 bytes
                got = subject(sixteen, model, text)
            if got == right and interleavings(text) <= PLAIN_MOST:
                every = subject(under_test, model, text, "plain")
                if every != "time":  # one that waits may take a million interleavings
                    plain += 1
                    got = right[:1] + every[1:] if isinstance(every, tuple) else every
            drawn = subject(wide, model, text, ("random", "pct")[executions % 2])
            executions += right[0]
            fits = isinstance(drawn, tuple) and set(drawn[2]) <= set(right[2]) and drawn[1] <= right[1]
            if got == right and fits:
                continue
            different += 1
            print(f"# {model}: {text}\n#   checker   {got}\n#   drawn     {drawn}\n#   reference {right}")
            if different == 3 or kinds:
                break
        failed += different > 0
        print(f"{'not ' if different else ''}ok {number} - {model}, {kind}: {count} programs "
              f"({plain} also plain), {executions} executions", flush=True)
        if failed and kinds:
            break
    return int(failed > 0)


main()
