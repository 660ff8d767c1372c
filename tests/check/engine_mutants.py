#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""engine_mutants HOTLOCK VM SOURCE REFERENCE [--all] [NAME...]: seeded bugs in the checker itself.

A mutant is one replaced piece of one file of src/check; the piece must occur exactly once. Its library is
put beside a copy of the command, and then the gate is asked: random programs of one kind against the
reference (random/differ.py), the litmus tests, or the verdicts of a client (verdicts.py). Killed is a mutant whose
gate fails. VM is the build directory of src/vm, SOURCE the project's root. Without --all, only the
few marked QUICK; names choose among all. Prints TAP and the score.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-w", "-O2", "-fno-pic", "-fno-pie", "-fno-optimize-sibling-calls",
         "-DVM_WEAK_FAILS", "-DVM_VALUE_16")
SEED, PROGRAMS = "1", "30"
QUICK = object()

# Name, file, what is there, what is put there, gate: a kind of random program, or a client.
MUTANTS = [
    # --- which graph comes next
    ("revisit: what is dropped need not be the newest choice", "explore.c",
     "        if (EARLIER(l->co[i])) return false;\n", "        ;\n", "loads and stores", QUICK),
    ("revisit: what is dropped may have been read", "explore.c",
     "            if (ev(l->rd[i])->rf == x && EARLIER(l->rd[i])) return false;\n", "            ;\n",
     "read-modify-writes"),
    ("revisit: what the write depends on counts as later", "explore.c",
     "(ev(y)->stamp <= e->stamp || clk_has(kept, y))", "(ev(y)->stamp <= e->stamp)", "loads and stores"),
    ("revisit: choices dropped need not be the first", "explore.c",
     "if (e->type == EV_CHOICE) return e->value == 0;", "if (e->type == EV_CHOICE) return true;",
     "weak exchanges"),
    ("revisit: the write half of a clash revisits nothing", "explore.c",
     "    offer_revisits(w);\n    counts.clashes++;\n", "    counts.clashes++;\n", "read-modify-writes", QUICK),
    ("revisit: the last one is left out", "explore.c", "for (; from > first; from--) {",
     "for (; from > first + 1; from--) {", "loads and stores"),
    ("revisit: the read's coherence is forgotten", "explore.c",
     "        if (b > bound) bound = b;\n    }\n    if (e->rmw)", "    }\n    if (e->rmw)", "loads and stores"),
    ("source: the oldest that coherence allows is left out", "explore.c",
     "for (int p = lower_bound(e->loc, &c); options.search == SEARCH_ALL",
     "for (int p = lower_bound(e->loc, &c) + 1; options.search == SEARCH_ALL", "loads and stores"),
    ("source: an alternative is not tested", "explore.c",
     "        return graph_consistent() && !clash(it->a);\n", "        return !clash(it->a);\n", "fences"),
    ("place: a write always goes last", "explore.c",
     "        else push(PLACE, w, (id_t_)p, e->stamp);\n", "", "loads and stores"),
    ("place: between a read-modify-write and its source", "explore.c",
     "        if (rmw_follows(e->loc, p)) continue;\n        if (newest", "        if (newest",
     "read-modify-writes"),
    ("place: two read-modify-writes read the same write", "explore.c",
     "        if (p < bound || rmw_follows(e->loc, p)) return false;\n", "        if (p < bound) return false;\n",
     "read-modify-writes"),
    ("choice: the last is left out", "explore.c",
     "for (unsigned k = n; options.search == SEARCH_ALL && --k > 0;)",
     "for (unsigned k = n - 1; options.search == SEARCH_ALL && --k > 0;)", "weak exchanges"),

    # --- clocks and coherence
    ("coherence: reads before do not count", "graph.c", "        if (p > bound) bound = p;\n", "        ;\n",
     "loads and stores", QUICK),
    ("coherence: writes before do not count", "graph.c", "if (clk_has(before, l->co[i - 1])) bound = i;",
     "(void)before;", "loads and stores"),

    # --- models
    ("sc: no from-read", "model.c", "if (co_position(ev(l->rd[j])->rf) == e->copos &&",
     "if (co_position(ev(l->rd[j])->rf) == 1000 &&", "loads and stores"),
    ("tso: a read-modify-write's write does not drain", "model.c", "return (e->rmw && !e[-1].hidden) || e->seq;",
     "return e->seq;", "shapes"),
    ("tso: every fence drains", "model.c", "return e->type != EV_FENCE || e->seq;", "return true;", "shapes"),
    ("tso: a thread does not read its own buffer", "model.c",
     "while (model == MODEL_TSO && w != INIT && id_thread(w) == thread) {", "while (false) {",
     "loads and stores", QUICK),

    # --- waits
    ("wait: a loop is one whatever its state", "access.c", " || o->sp != s.sp || o->hash != s.hash) continue;",
     " || o->sp != s.sp) continue;", "engine/tries.c"),
    ("wait: a read-modify-write that changes something is one", "access.c", "if (!silent) v->spins = 0;", "",
     "engine/tries.c"),
    ("wait: a thread that may read something newer is stuck for good", "run.c",
     "co_position(e->rf) != g->loc[e->loc].writes)\n                return false;",
     "co_position(e->rf) != g->loc[e->loc].writes)\n                continue;", "waits", QUICK),
    ("wait: nobody is ever stuck", "run.c", "    return true;\n}\n\nrun_end_t run_once",
     "    return false;\n}\n\nrun_end_t run_once", "waits"),

    # --- races and dead memory
    ("memory: freed is as good as not", "shadow.c", "        c->dead |= (uint8_t)mask;\n", "", "clients/memory.c"),

    # --- going back
    ("back: a revisit's graph has all of its parent's marks", "back.c",
     "            if (branched[frame] < stamp) stamp = branched[frame];\n", "            ;\n",
     "loads and stores", QUICK),
    ("back: thread-local variables stay", "back.c", "    copy_bytes(c, locals, size);\n", "", "engine/back.c"),
    ("back: errno stays", "back.c",
     "    copy_bytes(c, fiber_theirs(&v->fiber, &errno), sizeof errno);\n", "", "engine/back.c"),
    ("back: heaps stay", "back.c", "    if (v->heap != heap_of(t)) copy_bytes(", "    if (false) copy_bytes(",
     "engine/back.c"),
    ("back: variables stay", "back.c", "    run_copy(c);\n", "", "clients/mcs.c"),
    ("back: output stays", "back.c", "    report_copy(c);\n", "", "engine/back.c"),
    ("back: a thread that runs is not copied again", "run.c", "    back_ran(t);\n    fiber_switch", "    fiber_switch",
     "loads and stores"),
]


def build(vm, source, where, name, old, new):
    """The mutated library beside a copy of the command; false: the piece is not there once."""
    with open(os.path.join(source, "src", "check", name), encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        return False
    check = os.path.join(where, "src", "check")
    shutil.copytree(os.path.join(source, "src", "check"), check)
    shutil.copytree(os.path.join(source, "src", "vm"), os.path.join(where, "src", "vm"))
    with open(os.path.join(check, name), "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    parts = os.path.join(where, "vm")
    os.mkdir(parts)
    for part in ("libhotlock-check.a", "libhotlock-check-wide.a", "libhotlock-check-model.a", "redirect.syms"):
        shutil.copy(os.path.join(vm, part), parts)
    for library, more in (("libhotlock-check.a", ()), ("libhotlock-check-wide.a", ("-DHL_WIDE", "-Wno-psabi"))):
        library = os.path.join(parts, library)
        members = subprocess.run(["ar", "t", library], capture_output=True, text=True, check=True).stdout.split()
        member = next(m for m in members if m.endswith("_" + name + ".o"))
        subprocess.run(["gcc", *FLAGS, *more, "-c", os.path.join(check, name), "-o",
                        os.path.join(where, member)], check=True)
        subprocess.run(["ar", "r", library, os.path.join(where, member)], check=True, capture_output=True)
    return True


def gate(hotlock, where, reference, what):
    """What the gate says of the mutant: its first failure, or None."""
    command = os.path.join(where, "cli", "hotlock")
    os.mkdir(os.path.dirname(command))
    shutil.copy(hotlock, command)
    if what == "litmus":
        ask = ["litmus/litmus.py", command] + [os.path.join(HERE, "litmus", n) for n in ("litmus.c", "expected.txt")]
    elif what.endswith(".c"):
        ask = ["verdicts.py", command, os.path.join(HERE, what)]
    else:
        ask = ["random/differ.py", command, os.path.join(HERE, "random", "subject.c"), reference, SEED,
               PROGRAMS, what]
    try:
        run = subprocess.run([sys.executable, os.path.join(HERE, ask[0]), *ask[1:]], capture_output=True,
                             text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "does not end"
    if run.returncode == 0:
        return None
    failed = [line for line in run.stdout.split("\n") if line.startswith("not ok")]
    return failed[0] if failed else (run.stdout + run.stderr).strip().split("\n")[-1]


def main():
    hotlock, vm, source, reference, *names = sys.argv[1:]
    every = "--all" in names or any(n != "--all" for n in names)
    names = [n for n in names if n != "--all"]
    todo = [m for m in MUTANTS if (every or QUICK in m) and (not names or any(n in m[0] for n in names))]
    print(f"1..{len(todo)}")
    killed = 0
    for number, (name, file, old, new, what, *_) in enumerate(todo, 1):
        with tempfile.TemporaryDirectory() as where:
            if build(vm, source, where, file, old, new):
                why = gate(hotlock, where, reference, what)
            else:
                why, what = None, f"no longer fits {file}: the piece must be there exactly once"
        killed += why is not None
        print(f"{'ok' if why else 'not ok'} {number} - {name}: {why or what}", flush=True)
    print(f"# killed {killed} of {len(todo)} mutants of the checker")
    sys.exit(killed != len(todo))


main()
