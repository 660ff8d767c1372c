#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""forms HOTLOCK INCLUDE FORM CLIENT: the preload's own form of a lock, verified, and its mutants.

FORM is a header of src/preload that defines hl_ticket_flag_t; CLIENT is the checker's program for
our locks, which includes <hotlock/LOCK.h>. A mutant is one replaced piece, which must occur exactly
once, and the question that must find it. Prints TAP.
"""
import os
import re
import subprocess
import sys
import tempfile

LOCK = "ticket_flag"
SMALL = ("-D", "HL_SPIN_NS=0", "-D", f"LOCK={LOCK}", "--loops", "8", "--time-limit", "60")
QUIET = ("--expiries", "0", "--spurious", "0", "--sleeps", "0")
SPIN = ("-D", "POLICY=HL_WAIT_SPIN", *QUIET)
HASTY = ("-D", "HL_PATIENCE_NS=0")  # passes a number over as soon as it sees the lock free twice
TWO, THREE = ("-t", "2"), ("-t", "3")
TRY, FREE = ("-D", "WAYS=LT"), ("-D", "LAST_FREES")
TIMED = ("--expiries", "1", "-D", "POLICY=HL_WAIT_SPIN", "-D", "WAYS=LU")

QUESTIONS = [
    ("2 threads, spin", (*TWO, *SPIN)),
    ("2 threads, yield", (*TWO, "-D", "POLICY=HL_WAIT_YIELD", *QUIET)),
    ("2 threads, park", (*TWO, "-D", "POLICY=HL_WAIT_PARK", *QUIET)),
    ("2 threads, trylock", (*TWO, *SPIN, *TRY, *HASTY)),
    ("2 threads, lock_until", (*TWO, *TIMED, *HASTY)),
    ("2 threads, last user frees", (*TWO, *SPIN, *FREE, *HASTY)),
    ("3 threads, spin", (*THREE, *SPIN)),
]
# Name, what is there, what is put there, question.
MUTANTS = [
    ("unlock does not release", "hl_store_rel(&l->byte.held, 0);", "hl_store(&l->byte.held, 0);",
     (*TWO, *SPIN)),
    ("the first comer does not acquire", "!hl_cas_acq(&l->byte.held, 0, 1)))",
     "!hl_cas(&l->byte.held, 0, 1)))", (*TWO, *SPIN)),
    ("the one in turn does not acquire", "&& hl_cas_acq(&l->byte.held, 0, 1);",
     "&& hl_cas(&l->byte.held, 0, 1);", (*TWO, *SPIN)),
    ("trylock tests, then sets, in two steps", "&& hl_cas_acq(&l->byte.held, 0, 1);",
     "&& (hl_load_acq(&l->byte.held), hl_store(&l->byte.held, 1), true);", (*TWO, *SPIN, *TRY)),
    ("a turn is the lock", "if (hl_ticket_flag_trylock(l)) break;", "break;", (*TWO, *SPIN)),
    ("unlock writes once more after the release", "hl_store_rel(&l->byte.held, 0);",
     "hl_store_rel(&l->byte.held, 0); (void)hl_load(&l->byte.turn);", (*TWO, *SPIN, *FREE)),
]


def ask(hotlock, include, client, text, options):
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "hotlock"))
        with open(os.path.join(folder, "hotlock", LOCK + ".h"), "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run([hotlock, "check", client, "-I", folder, "-I", include, *SMALL,
                               *options], capture_output=True, text=True)
    return done.stdout + done.stderr


def main():
    hotlock, include, form, client = sys.argv[1:]
    with open(form, encoding="utf-8") as f:
        text = f.read()
    cases = []
    for what, options in QUESTIONS:
        said = ask(hotlock, include, client, text, options)
        cases.append((what, bool(re.search(r"^verified for", said, re.M)), said))
    for what, old, new, options in MUTANTS:
        fits = text.count(old) == 1
        said = ask(hotlock, include, client, text.replace(old, new), options) if fits else old
        cases.append((f"mutant: {what}", fits and said.startswith("COUNTEREXAMPLE"), said))
    print(f"1..{len(cases)}")
    for number, (what, good, said) in enumerate(cases, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
        if not good:
            print("# " + said[:2000].replace("\n", "\n# "))
    return 0 if all(good for _, good, _ in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
