#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants.py SOURCE BUILD [--all] [WORD...]: seeded bugs in src/trace and what writes its reports; a
ground truth test must see each. A mutant is one replaced piece of one file, which must occur exactly
once; it is killed when the case of the test that it belongs to fails. Only what the piece changes is
built again, with the commands of BUILD, elsewhere. Without --all those that take long are left
out; a WORD chooses by name. Prints TAP and the score.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PATIENCE = 900
RECORDER, COMMAND = "src/trace/libhotlock-record.so", "src/cli/hotlock"
PLANTED, SLOW, OUTSIDE = "tests/top/planted", "tests/top/planted-slow", "tests/top/bpf/planted"
# Of each test: its script, the programs of BUILD it is given.
TESTS = {
    "figures": ("figures.py", [PLANTED, SLOW]),
    "forms": ("forms.py", [PLANTED, "tests/top/counted", "tests/top/planted-static", SLOW]),
    "many": ("many.py", [PLANTED]),
    "real": ("real.py", ["workloads/leveldb"]),
    "bpf": ("bpf/bpf.py", [OUTSIDE, PLANTED]),
}
QUICK, LONG = False, True

# Name, file, what is there, what is put there; test, its part, the case that must fail; how long.
MUTANTS = [
    ("acquisitions are counted twice", "record_hold.h", "    s->acquisitions++;",
     "    s->acquisitions += 2;", "figures", "hot", "every acquisition is counted", QUICK),
    ("a hold stands for one, whatever it was drawn from", "record_hold.h",
     "                s->undisturbed_weight += s->weight;",
     "                s->undisturbed_weight += 1;",
     "figures", "quiet_program", "alone: a hold takes what it took", QUICK),
    ("waits are charged to nobody", "record_hold.c",
     "    rec_charge(rec_me.pending, 1, rec_me.pending_ns);", "",
     "figures", "hot", "every waiter's stack", QUICK),
    ("holders are not blamed", "record_calls.c",
     "    if (hl_unlikely(b.count)) rec_charge(", "    if (0) rec_charge(",
     "figures", "hot", "every holder's stack", QUICK),
    ("a condition wait does not take the mutex again", "record_calls.c",
     "    rec_taken(s, now);\n    s->sleeps++;", "    s->sleeps++;",
     "figures", "condition", "it is taken again after each wait", QUICK),
    ("a call that is timed stands for itself alone", "record_hold.c",
     "    if (drawn) ns *= CALLS_PER_SAMPLE;", "",
     "figures", "slow_calls", "slow calls: their time", QUICK),
    ("calls are in no bound", "diagnosis.c", "    if (!isnan(f->calls)) most += f->calls;", "",
     "figures", "slow_calls", "the bound is what the program would save", QUICK),
    ("a reader hands nothing on", "record_rwlock.c", "    if (inside == 1 && now)",
     "    if (inside == 0 && now)", "figures", "passing", "readers that pass it on", QUICK),
    ("what lies in the next lines is beside a lock too", "bpf_beside.c",
     "t->address / LINE != l->address / LINE", "t->address - l->address > 4 * LINE",
     "figures", "line_of_lock", "a counter in a line of its own is not", QUICK),
    ("what only the sections change is beside their lock", "bpf_beside.c",
     "            if (t->function[i] == function[f])", "            if (0)",
     "figures", "line_of_lock", "a counter in a line of its own is not", QUICK),
    ("reads are writes", "record_read.c", "l->reads = l->acquisitions - s->writes;", "l->reads = 0;",
     "figures", "kinds", "reads are told from writes", QUICK),
    ("a thread without a processor is not seen", "record_hold.h",
     "    return rec_kept_running() && s->losses == rec_me.losses;", "    return true;",
     "figures", "sleeping", "the waiting behind a holder", QUICK),
    ("a lock taken inside hides that the processor was lost", "record_hold.h",
     "rec_me.losses++;", "(void)0;", "figures", "sleeping", "the waiting behind a holder", QUICK),
    ("wait times are microseconds", "record_read.c",
     "    l->wait_ns = scaled(r, s->wait + hl_load(&s->gave_up_wait));",
     "    l->wait_ns = scaled(r, s->wait) / 1000;", "figures", "hot", "wait time within", QUICK),
    ("what found no room is not counted", "record_internal.h",
     "(void)hl_fetch_add(&rec_head->lost_acquisitions, 1);", "(void)0;",
     "many", "locks", "and each other acquisition is counted as dropped", QUICK),
    ("stacks that found no room are not counted", "record_stack.c",
     "        (void)hl_fetch_add(&rec_head->lost_stacks, count);", "",
     "many", "stacks", "a million stacks: what is kept of them", QUICK),
    ("a lock that is gone keeps its place", "record_file.c",
     "        hl_store(&rec_head->free_slot, (uint32_t)(s - rec_slots()));", "",
     "many", "stacks", "and a million locks made and gone", QUICK),
    ("waits that found no room are not counted, from outside", "bpf/program.bpf.c",
     "        drop(DROP_LOCKS);", "", "many", "outside", "and the sleeps on others", QUICK),
    ("Python's lock is a wait for work", "made.c",
     "    return 2 * of_kind > all ? kind : NULL;", "    return NULL;",
     "real", "python", "python, -- CMD: the hot lock is the interpreter's one", QUICK),
    ("Python's lock is the mutex it is made of", "made.c",
     "    l->wait_ns = l->sleep_ns = was.slept_ns;", "    l->wait_ns = was.wait_ns;",
     "real", "python", "python, -- CMD: three of four threads wait for it", QUICK),
    ("a lock is not named by who takes it", "name.c",
     "l->name = name_by_taker(p, l);", "l->name = NULL;",
     "real", "leveldb", "leveldb: the two locks of every read", QUICK),
    ("another lock is not tried", "../cli/top_words.c", "hotlock try %s", "hotlock try --runs 0 %s",
     "forms", "forms", "which works as typed", LONG),
    ("the workload holds four times as long", "../cli/top_export.c",
     "                ldexp(1.5, (int)i) * scale);",
     "                ldexp(1.5, (int)i) * scale * 4);",
     "forms", "forms", "a section takes about as long there", LONG),
    ("the bucket is joined to nobody", "symbols.c",
     "user->address != l->joined)", "user->address == l->joined)",
     "bpf", "check_bucket", "and the kernel's spinlock of its futex", QUICK),
    ("sleeps are half as long", "bpf/program.bpf.c", "        s->wait += wait;",
     "        s->wait += s->waits & 1 ? 0 : wait;",
     "bpf", "check_program", "waiting, as the program's own clock has it", LONG),
    ("every glance sees a mutex held", "bpf_glance.c",
     "        return s->word[0] != 0;\n    case HELD_RWLOCK:",
     "        return true;\n    case HELD_RWLOCK:",
     "bpf", "check_program", "the share of time each lock is held", LONG),
    ("a missing tracepoint is not looked for", "bpf_allowed.c",
     "    check_tracepoints(tracepoint, instead);\n", "",
     "bpf", "check_refusals", "a kernel without the tracepoint contention_begin", LONG),
    ("of acquisitions that trap one in 1024 is lost", "bpf/calls.bpf.c", "    s->acquisitions++;",
     "    s->acquisitions += (bpf_get_prandom_u32() & 1023) != 0;",
     "bpf", "check_uprobes", "every acquisition of each lock is", LONG),
    ("what a probe wrote onto the stack stays there", "bpf_gather.c",
     "        put_back(g->queue[g->queued].record);", "        {}",
     "bpf", "check_uprobes", "who waits and who made them wait", LONG),
    ("holders are waiters", "bpf_gather.c", "add_stack(g, p, STACK_HOLDER, w->holder,",
     "add_stack(g, p, STACK_HOLDER, w->waiter,",
     "bpf", "check_program", "who waits and who made them wait", LONG),
]


class Tree:
    """A copy of src/ in which one piece is another, and what is built of it."""

    def __init__(self, source, build, folder):
        self.source, self.build, self.folder = source, build, folder
        shutil.copytree(source / "src", folder / "src", symlinks=True)
        for name in ("trace", "cli", "preload", "made"):
            (folder / name).mkdir()
        library = "preload/libhotlock-preload.so"
        (folder / library).symlink_to(build / "src" / library)
        self.commands = {t: self._commands(t) for t in (RECORDER, COMMAND)}

    def _commands(self, target):
        r = subprocess.run(["ninja", "-C", self.build, "-t", "commands", target], text=True,
                           check=True, stdout=subprocess.PIPE)
        return [l for l in r.stdout.splitlines() if not l.startswith("ninja: ")]

    def _run(self, command, *replaced):
        """A command of BUILD, on the copied sources, with other outputs."""
        root = os.path.relpath(self.source, self.build)
        for word, other in (*replaced, (f"{root}/src/", f"{self.folder}/src/")):
            command = command.replace(word, str(other))
        r = subprocess.run(command, shell=True, cwd=self.build, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return r.stdout[-600:] if r.returncode else None

    def _object(self, target, name):
        """The command that compiles a source file, and the object it makes."""
        for c in self.commands[target]:
            words = shlex.split(c)
            if "-c" in words and words[-1].endswith(f"/src/trace/{name}") or \
                    "-c" in words and words[-1].endswith(f"/src/{name[3:]}") and name[:3] == "../":
                return c, words[words.index("-o") + 1]
        return None, None

    def _skeleton(self, file):
        """A BPF program and its header; whoever includes that finds the new one first."""
        stem = file[:-len(".bpf.c")]
        for c in self.commands[COMMAND]:
            if f"{stem}.bpf" in c and (" -target bpf " in c or " gen skeleton " in c):
                wrong = self._run(c, (f" src/trace/{stem}.", f" {self.folder}/made/{stem[4:]}."))
                if wrong:
                    return None, wrong
        header = f'"{stem[4:]}.skel.h"'
        return [p.name for p in (self.folder / "src/trace").glob("*.c")
                if header in p.read_text(encoding="utf-8")], None

    def make(self, file):
        """Builds what depends on a changed file; None, or what is wrong."""
        target = RECORDER if re.match(r"record_(?!read)", file) else COMMAND
        files, wrong = [file], None
        if file.endswith(".bpf.c"):
            files, wrong = self._skeleton(file)
        elif file.endswith(".h"):
            files = [p.name for p in (self.source / "src/trace").glob("record_*.c")]
        extra, link = [], self.commands[target][-1]
        for name in files or []:
            command, made = self._object(target, name)
            if not command:
                continue  # record_read.c is not the recorder's
            new = self.folder / "made" / f"{len(extra)}.o"
            include = f" -I{self.folder}/made "
            wrong = wrong or self._run(command.replace(" -I", include + "-I", 1), (made, new))
            extra.append(str(new))
            link = link.replace(f" {made} ", " ")
        out = self.folder / target[len("src/"):]
        # First in the line: what is in an archive too is taken from here.
        return wrong or self._run(link, (f"-o {target} ", f"-o {out} {' '.join(extra)} "))

    def try_one(self, file, old, new, tests):
        """None if the case fails with the piece replaced, else what happened."""
        name, part, case = tests
        original = self.source / "src/trace" / file
        there, text = self.folder / "src/trace" / file, original.read_text(encoding="utf-8")
        if text.count(old) != 1:
            return f"{file} has the piece {text.count(old)} times: the mutant no longer fits"
        there.write_text(text.replace(old, new), encoding="utf-8")
        for target in (RECORDER, COMMAND):
            out = self.folder / target[len("src/"):]
            out.unlink(missing_ok=True)
            shutil.copy2(self.build / target, out)
        wrong = self.make(file)
        there.write_text(text, encoding="utf-8")
        if wrong:
            return f"does not build: {wrong}"
        script, programs = TESTS[name]
        r = subprocess.run([sys.executable, self.source / "tests/top" / script,
                            self.folder / "cli/hotlock",
                            *(self.build / p for p in programs if (self.build / p).exists())],
                           env=dict(os.environ, ONLY=part), text=True, timeout=PATIENCE,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if re.search(f"^not ok .*{re.escape(case)}", r.stdout, re.M):
            return None
        if re.search("# SKIP|# not asked", r.stdout) and case not in r.stdout:
            return "SKIP"
        return f"survives '{case}' of {name}, {part}: {r.stdout[-1500:]}"


def main():
    words = [a for a in sys.argv[3:] if a != "--all"]
    source, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
    chosen = [m for m in MUTANTS if any(w in m[0] for w in words) or
              (not words and (m[-1] == QUICK or "--all" in sys.argv))]
    killed = skipped = 0
    print(f"1..{len(chosen)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(source, build, pathlib.Path(folder))
        for number, (name, file, old, new, *tests, _) in enumerate(chosen, 1):
            wrong = tree.try_one(file, old, new, tests)
            skip = wrong == "SKIP"
            killed, skipped = killed + (not wrong), skipped + skip
            print(f"{'' if skip or not wrong else 'not '}ok {number} - {name}"
                  f"{' # SKIP not here' if skip else ''}", flush=True)
            for line in (wrong or "").splitlines():
                print(f"# {line}", flush=True)
    print(f"# {killed} of {len(chosen)} killed", flush=True)
    return 0 if killed + skipped == len(chosen) else 1


sys.exit(main())
