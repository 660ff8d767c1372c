#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""engine_mutants HOTLOCK VM SOURCE REFERENCE [--all] [NAME...]: seeded bugs in the checker itself.

A mutant is one replaced piece of one file of src/check; the piece must occur exactly once. Its
library is put beside a copy of the command, and then the gate is asked: random programs of one kind
against the reference (random/differ.py), the litmus tests, or the verdicts of a client
(verdicts.py). Killed is a mutant whose gate fails. VM is the build directory of src/vm, SOURCE the
project's root. Without --all, only the few marked QUICK; names choose among all. Prints TAP and the
score.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-w", "-O2", "-fno-pic", "-fno-pie", "-fno-optimize-sibling-calls",
         "-DVM_WEAK_FAILS", "-DVM_VALUE_16")
SEED, PROGRAMS = "1", "50"  # as the gate is asked by itself
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

    # --- happens-before: release, acquire, and what hands a message on
    ("order: relaxed loads acquire", "graph.c", "if (model != MODEL_C11 || acquires(e)) e->hb", "e->hb",
     "messages"),
    ("order: acquire loads do not", "graph.c", "if (model != MODEL_C11 || acquires(e)) e->hb",
     "if (model != MODEL_C11) e->hb", "messages"),
    ("order: a failed compare-exchange has that of success", "graph.c",
     "? e->success : e->failure;", "? e->success : e->success;", "messages"),
    ("release sequence: ends at a read-modify-write", "graph.c",
     "            e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));", "            ;",
     "messages", QUICK),
    ("release sequence: goes on by one that releases alone", "graph.c",
     "if (e->rmw && !e[-1].hidden)\n", "if (e->rmw && !e[-1].hidden && releases(e))\n", "messages"),
    ("release sequence: goes on by the same thread alone", "graph.c",
     "e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));",
     "if (e[-1].rf != INIT && id_thread(e[-1].rf) == t)"
     " e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));", "messages"),
    ("release sequence: is one read-modify-write long", "graph.c",
     "e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));",
     "if (e[-1].rf != INIT && !ev(e[-1].rf)->rmw)"
     " e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));", "messages"),
    ("release sequence: goes on by a store of the same thread", "graph.c",
     "        e->rel = strong || releases(e) ? e->hb : e->frel;",
     "        e->rel = strong || releases(e) ? e->hb : e->frel;\n"
     "        if (releases(e)) e->frel = e->hb;", "messages"),
    ("release sequence: a read-modify-write releases nothing of its own", "graph.c",
     "e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));",
     "e->rel = released(e[-1].rf, e->mask);", "messages"),
    ("release sequence: what was written relaxed is released by who reads it", "graph.c",
     "e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));",
     "e->rel = e[-1].rf == INIT ? e->rel : clk_max(e->rel, ev(e[-1].rf)->hb);", "messages"),
    ("release sequence: a narrow store hides what lies below it", "graph.c",
     "        mask &= ~(unsigned)e->mask;\n", "        mask = 0;\n", "mixed shapes"),
    ("fence: an acquire fence does not acquire", "graph.c",
     "if (e->type == EV_FENCE && (strong || acquires(e))) e->hb",
     "if (e->type == EV_FENCE && strong) e->hb", "messages", QUICK),
    ("fence: a release fence does not release", "graph.c",
     "if (e->type == EV_FENCE && (strong || releases(e))) e->frel",
     "if (e->type == EV_FENCE && strong) e->frel", "messages"),
    ("fence: a release fence acquires", "graph.c",
     "if (e->type == EV_FENCE && (strong || acquires(e))) e->hb", "if (e->type == EV_FENCE) e->hb",
     "messages"),
    ("fence: an acquire fence releases", "graph.c",
     "if (e->type == EV_FENCE && (strong || releases(e))) e->frel",
     "if (e->type == EV_FENCE) e->frel", "messages"),
    ("fence: is for the last load before it", "graph.c",
     "            e->acq = clk_max(e->acq, message);", "            e->acq = message;", "litmus"),
    ("fence: is not for the loads of read-modify-writes", "graph.c",
     "            e->acq = clk_max(e->acq, message);",
     "            if (e->op == VM_LOAD) e->acq = clk_max(e->acq, message);", "messages"),
    ("fence: is for the next store", "graph.c", "        e->frel = p->frel;\n",
     "        e->frel = p->type == EV_FENCE ? p->frel : (clk_t){0};\n", "messages"),
    ("fence: is not for read-modify-writes", "graph.c",
     "        e->rel = strong || releases(e) ? e->hb : e->frel;",
     "        e->rel = strong || releases(e) ? e->hb : e->rmw ? (clk_t){0} : e->frel;", "messages"),
    ("fence: releases what it had before it acquired", "graph.c",
     "if (e->type == EV_FENCE && (strong || releases(e))) e->frel = e->hb;",
     "if (e->type == EV_FENCE && releases(e)) e->frel = i ? e[-1].hb : e->hb;", "messages"),
    ("fence: a sequentially consistent one does not acquire", "graph.c",
     "if (e->type == EV_FENCE && (strong || acquires(e))) e->hb",
     "if (e->type == EV_FENCE && (strong || (acquires(e) && !e->seq))) e->hb", "messages"),

    # --- models
    # Equivalent: that happens-before from fence to fence does not count. Its first step is program
    # order, and so in scb, or goes from a release fence by way of a write, and so is hb;eco;hb.
    ("psc: without modification order and from-read", "model.c",
     "if (same && b->type == EV_WRITE && place(a) < place(b)) set(scb, i, j);", "", "cycles", QUICK),
    ("psc: without program order", "model.c", "if (hb_xy && (id_thread(x) == id_thread(y) || same))",
     "if (hb_xy && same)", "cycles"),
    ("psc: without happens-before at one place", "model.c",
     "if (hb_xy && (id_thread(x) == id_thread(y) || same))",
     "if (hb_xy && id_thread(x) == id_thread(y))", "cycles"),
    ("psc: with all of happens-before", "model.c",
     "if (hb_xy && (id_thread(x) == id_thread(y) || same))", "if (hb_xy)", "litmus"),
    ("psc: without detours", "model.c", "    add_detours(n);\n", "", "litmus"),
    ("psc: a detour may begin at the same place", "model.c",
     "if (same_place(ev(x), ev(p)) || ev(p)->hidden) continue;", "if (ev(p)->hidden) continue;",
     "litmus"),
    ("psc: a detour may end at the same place", "model.c",
     "if (!same_place(ev(q), y) && !y->hidden) set", "if (!y->hidden) set", "litmus"),
    ("psc: without what lies between fences", "model.c", "if (!hit && fence && to_fence) hit = around",
     "if (false) hit = around", "cycles"),
    ("psc: without communication between fences", "model.c",
     "                    if (get(eco, j, m)) join(around, hb[m], words);\n", "                    ;\n",
     "cycles"),
    ("psc: without happens-before to a fence", "model.c",
     "for (int j = 0; to_fence && !hit && j < n; j++)", "for (int j = n; j < n; j++)", "cycles"),
    ("psc: without happens-before from a fence", "model.c",
     "                join(reach, scb[j], words);\n", "", "cycles"),
    ("psc: a cycle has three", "model.c", "g->seqs < 2", "g->seqs < 3", "cycles"),
    ("psc: a cycle has one", "model.c",
     "            if (psc[i][k >> 6] >> (k & 63) & 1) join(psc[i], psc[k], MAX_SEQS / 64);",
     "            ;", "cycles"),
    ("psc: of fences alone", "graph.c", "    e->seq = order == __ATOMIC_SEQ_CST;\n",
     "    e->seq = order == __ATOMIC_SEQ_CST && type == EV_FENCE;\n", "cycles"),
    ("place: is not tested", "explore.c",
     "        graph_co_insert(it->a, it->b);\n        return graph_consistent();",
     "        graph_co_insert(it->a, it->b);\n        return true;", "cycles"),
    ("revisit: is not tested", "explore.c", "return place(it->b, it->a) && graph_consistent();",
     "return place(it->b, it->a);", "shapes"),
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
    ("race: a plain write after a plain read is none", "shadow.c",
     "    if (!write || !(c->read & mask)) return;\n", "    return;\n", "races", QUICK),
    ("race: a plain read after a plain write is none", "shadow.c", "    if (others) {\n",
     "    if (others && write) {\n", "races"),
    ("race: a plain write after a plain write is none", "shadow.c", "    if (others) {\n",
     "    if (others && !write) {\n", "races"),
    ("race: plain and atomic never meet", "shadow.c", "if (__builtin_expect(atomic != 0, 0)) {",
     "if (false) {", "races"),
    ("race: a plain access after an atomic write is none", "shadow.c",
     "        if (done(l->co[i]) && !clk_has(&h, l->co[i]))\n", "        if (false)\n", "races"),
    ("race: a plain write after an atomic read is none", "shadow.c",
     "for (int i = 0; write && i < l->reads; i++)", "for (int i = 0; false && i < l->reads; i++)",
     "engine/races.c"),
    ("race: a plain read after an atomic read is one", "shadow.c",
     "for (int i = 0; write && i < l->reads; i++)", "for (int i = 0; i < l->reads; i++)", "races"),
    ("race: an atomic access after a plain one is none", "shadow.c",
     "        check_plain_before(c, mask & 0xff, write, pc, "
     "write ? \"an atomic write\" : \"an atomic read\");\n", "", "races"),
    ("race: an atomic read is as bad as a write", "shadow.c",
     "check_plain_before(c, mask & 0xff, write, pc,", "check_plain_before(c, mask & 0xff, true, pc,",
     "engine/races.c"),
    ("race: who has seen the event before a write has seen the write", "shadow.c",
     "h[t] > c->wepoch[b]) continue;", "h[t] >= c->wepoch[b]) continue;", "races"),
    ("race: who has seen the event after a write has not", "shadow.c",
     "h[t] > c->wepoch[b]) continue;", "h[t] > c->wepoch[b] + 1) continue;", "races"),
    ("race: who has seen the event before a read has seen the read", "shadow.c",
     "put_counts(r->epoch, mask, (unsigned)cpu[current].pos + 1);",
     "put_counts(r->epoch, mask, (unsigned)cpu[current].pos);", "races"),
    ("race: who has seen the event after a read has not", "shadow.c",
     "put_counts(r->epoch, mask, (unsigned)cpu[current].pos + 1);",
     "put_counts(r->epoch, mask, (unsigned)cpu[current].pos + 2);", "races"),
    ("race: the last reader alone counts", "shadow.c",
     "    c->readers |= (uint16_t)(1u << current);", "    c->readers = (uint16_t)(1u << current);",
     "races"),
    ("race: reads of earlier runs count", "shadow.c",
     "    if (!(c->readers >> current & 1)) memset(r->epoch, 0, sizeof r->epoch);\n", "",
     "engine/races.c"),
    ("race: neighbours are one", "shadow.c",
     "& bytes_of[c->written & mask];\n    if (others) {\n        clk_t h = clk_of(current);\n"
     "        for (unsigned m = c->written & mask;",
     "& bytes_of[c->written];\n    if (others) {\n        clk_t h = clk_of(current);\n"
     "        for (unsigned m = c->written;", "clients/memory.c"),
    ("race: a plain read of an atomic finds its first value", "shadow.c",
     "        if (clk_has(&h, l->co[i])) value = ev(l->co[i])->value;\n", "", "races"),
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
