#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py SOURCE BUILD [NAME...]: seeded bugs in src/trace and what writes its reports; a ground
truth test must fail with each. A mutant is one replaced piece of one file, which must occur exactly
once. Each is built in a copy of the tree. Prints TAP and the score.

Too long for make check (a build and a test for each): run by hand, and whenever src/trace changes.
"""
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys

PATIENCE = 900
FIGURES, FORMS, MANY, REAL, BPF = "top figures", "top forms", "top many", "top real", "bpf"

# Name, file, what is there, what is put there, the test that must fail.
MUTANTS = [
    ("acquisitions are counted twice", "src/trace/record_hold.h", "    s->acquisitions++;",
     "    s->acquisitions += 2;", FIGURES),
    ("a hold stands for one, whatever it was drawn from", "src/trace/record_hold.h",
     "                s->undisturbed_weight += s->weight;",
     "                s->undisturbed_weight += 1;", FIGURES),
    ("waits are charged to nobody", "src/trace/record_hold.c",
     "    rec_charge(rec_me.pending, 1, rec_me.pending_ns);", "", FIGURES),
    ("holders are not blamed", "src/trace/record_calls.c",
     "    if (hl_unlikely(b.count)) rec_charge(", "    if (0) rec_charge(", FIGURES),
    ("a condition wait does not take the mutex again", "src/trace/record_calls.c",
     "    rec_taken(s, now);\n    s->sleeps++;", "    s->sleeps++;", FIGURES),
    ("what found no room is not counted", "src/trace/record_internal.h",
     "(void)hl_fetch_add(&rec_head->lost_acquisitions, 1);", "(void)0;", MANY),
    ("stacks that found no room are not counted", "src/trace/record_stack.c",
     "        (void)hl_fetch_add(&rec_head->lost_stacks, count);", "", MANY),
    ("a lock that is gone keeps its place", "src/trace/record_file.c",
     "        hl_store(&rec_head->free_slot, (uint32_t)(s - rec_slots()));", "", MANY),
    ("Python's lock is a wait for work", "src/trace/made.c",
     "    return 2 * of_kind > all ? kind : NULL;", "    return NULL;", REAL),
    ("Python's lock is the mutex it is made of", "src/trace/made.c",
     "    l->wait_ns = l->sleep_ns = was.slept_ns;", "    l->wait_ns = was.wait_ns;", REAL),
    ("a lock is not named by who takes it", "src/trace/name.c",
     "l->name = name_by_taker(p, l);", "l->name = NULL;", REAL),
    ("reads are writes", "src/trace/record_read.c", "    l->reads = s->reads;", "", FIGURES),
    ("a thread without a processor is not seen", "src/trace/record_hold.h",
     "    return !word || __atomic_load_n(word, __ATOMIC_RELAXED) != 0;", "    return true;",
     FIGURES),
    ("wait times are microseconds", "src/trace/record_read.c",
     "    l->wait_ns = scaled(r, s->wait + hl_load(&s->gave_up_wait));",
     "    l->wait_ns = scaled(r, s->wait) / 1000;", FIGURES),
    ("the bucket is joined to nobody", "src/trace/symbols.c",
     "user->address != l->joined)", "user->address == l->joined)", BPF),
    ("sleeps are half as long", "src/trace/bpf/program.bpf.c", "        s->wait += wait;",
     "        s->wait += s->waits & 1 ? 0 : wait;", BPF),
    ("every glance sees a mutex held", "src/trace/bpf_glance.c",
     "        return s->word[0] != 0;\n    case HELD_RWLOCK:",
     "        return true;\n    case HELD_RWLOCK:",
     BPF),
    ("holders are waiters", "src/trace/bpf_gather.c", "add_stack(g, p, STACK_HOLDER, w->holder,",
     "add_stack(g, p, STACK_HOLDER, w->waiter,", BPF),
    ("the workload holds ten times as long", "src/cli/top_export.c",
     "                ldexp(1.5, (int)i) * scale);",
     "                ldexp(1.5, (int)i) * scale * 10);",
     FORMS),
]


def build(tree, folder):
    return subprocess.run(["ninja", "-C", folder, "-j2", "src/cli/hotlock",
                           "src/trace/libhotlock-record.so"], cwd=tree, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    source, scratch = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    chosen = [m for m in MUTANTS
              if not sys.argv[3:] or any(w in m[0] for w in sys.argv[3:])]
    tree, folder = scratch / "top-mutants", scratch / "top-mutants" / "build-mutants"
    listed = subprocess.run(["git", "-C", source, "ls-files"], text=True, check=True,
                            stdout=subprocess.PIPE).stdout.split("\n")
    for name in filter(None, listed):
        there = tree / name
        if not there.exists() or not filecmp.cmp(source / name, there, shallow=False):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, there, follow_symlinks=False)
            os.utime(there)
    if not folder.exists():
        subprocess.run(["meson", "setup", "-Dtests=enabled", folder], cwd=tree, check=True,
                       stdout=subprocess.DEVNULL)
    killed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, (name, file, old, new, test) in enumerate(chosen, 1):
        text = (source / file).read_text(encoding="utf-8")
        wrong = None
        if text.count(old) != 1:
            wrong = f"{file} has the piece {text.count(old)} times: the mutant no longer fits"
        else:
            (tree / file).write_text(text.replace(old, new), encoding="utf-8")
            made = build(tree, folder)
            if made.returncode:
                wrong = "does not build: " + made.stdout[-600:]
            else:
                r = subprocess.run(["meson", "test", "-C", folder, test], cwd=tree,
                                   timeout=PATIENCE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                wrong = f"survives '{test}'" if r.returncode == 0 else None
            shutil.copy2(source / file, tree / file)
            os.utime(tree / file)
        killed += not wrong
        print(f"{'not ' if wrong else ''}ok {number} - {name}", flush=True)
        for line in (wrong or "").splitlines():
            print(f"# {line}", flush=True)
    print(f"# {killed} of {len(chosen)} killed", flush=True)
    return 0 if killed == len(chosen) else 1


sys.exit(main())
