#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""locks HOTLOCK INCLUDE CLIENTS [--all] [LOCK...]: our locks, verified.

Every lock: 2 threads with lock, trylock and lock_until, each wait policy, the memory freed by the last
user, calls into the library instead of inline code; 3 threads; 4 threads, bounded: every execution in
which they arrive one after another, and drawn ones without that. The order of arrival where a lock
promises one, and how often a sleeper is overtaken. The preload's condition variable and reader-writer
lock. With --all also what takes minutes. Prints TAP; the
counts are part of the message, not of the test.
"""
import os
import re
import subprocess
import sys

LOCKS = ("tas", "ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin", "park", "ali")
SMALL = ("-D", "HL_POOL_NODES=16", "-D", "HL_SPIN_NS=0", "-D", "HL_PARK_SPIN_NS=0", "-D",
         "HL_BYPASS_NS=0", "-D", "HL_ALI_ALONE_NS=0", "--loops", "8")
QUIET = ("--expiries", "0", "--spurious", "0", "--sleeps", "0")
SPIN, YIELD, PARK = ("-D", "POLICY=HL_WAIT_SPIN"), ("-D", "POLICY=HL_WAIT_YIELD"), \
    ("-D", "POLICY=HL_WAIT_PARK")
DRAWN = ("--search", "pct", "--samples", "20000", "--depth", "4")
DRAWN_LATE = ("--search", "random", "--samples", "10000")
# What a lock's client needs beside its name.
EXTRA = {"mcs": ("-D", "NODE"), "mcs_alone": ("-D", "ALONE"), "ticket_flag": ("-D", "ALONE"),
         "ali": ("-D", "RUN")}
# Threads that are stopped on their way into the queue (clients/left.c): two nodes, so that one goes round.
AS_PRELOAD = ("-D", "HL_SUSPENDABLE=1")
LEFT = (*AS_PRELOAD, "-D", "HL_POOL_NODES=4")
OUT_OF_LINE = ("-D", "HL_INLINE_LOCK=0", "-D", "HL_INLINE_TRYLOCK=0", "-D", "HL_INLINE_UNLOCK=0")

# A loop that sleeps, or is away, and writes its state each time is no wait: such a case may meet the
# bound.
BOUNDED = {("ali", PARK)}
# Locks with an order of arrival, and those of them whose sleepers are overtaken (clients/order.c,
# bypass.c). The door of the flag locks is open for a moment from one front to the next, so there all
# have to wait before the lock is freed.
ORDERED, OVERTAKEN = ("ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin", "ali"), ("mcs", "nmcs", "nmcs4")
FLAG = ("mcsflag", "qspin")
# Which locks are taken by their whole word where a machine has no exchange of a byte (flag.h).
WORD_WIDE = ("mcsflag", "qspin")
# What the threads of ali do, one letter each (clients/ali.c).
ALI = ("RS", "SS", "DA", "AA", "AL", "LA", "RA", "TA", "SL", "XA")
ALI_TIMED = ("RU", "UA")
ALI_THREE, ALI_SLOW = ("RRR", "RRL", "RLR", "AAR", "AAL", "RSA"), ("RLA",)
# What the threads of the reader-writer lock do (clients/rw.c), without and with a row.
RW = ("WR", "WW", "RR", "WT", "RT", "TT", "Wt", "WP", "WX", "RX", "XX", "tX")
RW_TIMED = ("RU", "WU", "WV", "WQ")
RW_INVITED = ("WR", "WP", "Wt", "WX")
RW_THREE = ("WRR", "WWR", "WPR", "WQR")  # some ten seconds each, minutes with a row


def questions_of_order():
    for lock in ORDERED:
        options = [*QUIET, "-D", f"LOCK={lock}", *(("-D", "FLAG") if lock in FLAG else ())]
        for threads, ways in ((2, "L"), (2, "LU"), (3, "L"), (4, "L")):
            late = ("-D", "LATE=0") if lock in FLAG and threads > 2 else ()
            yield lock, f"{threads} in order, {ways}", "order", [
                "-t", str(threads), "-D", f"WAYS={ways}", *options, *late], False
    for ways in ("R", "RL", "LR"):
        yield "ali", f"3 in order, {ways}", "order", [
            "-t", "3", *QUIET, "-D", "LOCK=ali", "-D", f"WAYS={ways}"], False
    for lock in OVERTAKEN:
        late = ["-D", f"LOCK={lock}", "--expiries", "1", "--spurious", "0", "--sleeps", "0"]
        yield lock, "a deadline passes in the queue", "late", [*late, *SPIN], False
        yield lock, "a deadline passes in the queue, then it comes back", "late", [
            *late, *SPIN, "-D", "AGAIN=1"], False
        for what, more in (("", ()), (", and it comes back", ("-D", "AGAIN=1")),
                           (", and it is followed", ("-D", "HOLD=1"))):
            yield lock, f"an heir's deadline passes{what}, drawn", "late", [
                *late, *PARK, *more, *DRAWN_LATE], True
        yield lock, "a sleeper is overtaken twice at most", "bypass", [
            *QUIET, "-D", f"LOCK={lock}", "-D", "HL_ROUNDS=2", "--loops", "16"], False


# What the threads do with the preload's condition variable and reader-writer lock (clients/preload_*.c).
COND = ("WS", "Ws", "WB", "Wb", "TS", "Ts", "TB", "WWb", "WTb")
COND_FREED = ("WB", "TB", "Wb", "Tb")
PRELOAD_RW = ("WR", "WW", "WN", "WT", "Wt", "RT")
PRELOAD_RW_TIMED = ("WW", "WN", "UR", "WV")


# The locks as the preload has them: no waiter is handed the lock, none is waited for.
SUSPENDED = ("mcs_alone", "nmcs", "nmcs4", "mcsflag", "qspin", "ticket_flag")


# What takes minutes to explore: all of it that has few preemptions.
def few(preemptions):
    return ("--model", "sc", "--preemptions", str(preemptions))


def questions_of_suspended(everything):
    jumps = ("--expiries", "1", "--spurious", "0", "--sleeps", "0")
    asked = [("2 threads, spin", 2, SPIN, QUIET, ()), ("2 threads, park", 2, PARK, QUIET, ()),
             ("2 threads, trylock", 2, SPIN, QUIET, ("-D", "WAYS=LT")),
             ("2 threads, lock_until", 2, SPIN, jumps, ("-D", "WAYS=LU")),
             ("2 threads, both lock_until", 2, SPIN, jumps, ("-D", "WAYS=U")),
             ("2 threads, last user frees", 2, SPIN, QUIET, ("-D", "LAST_FREES"))]
    for lock in SUSPENDED:
        options = ["-D", f"LOCK={lock}", "-D", "HL_SUSPENDABLE=1"]
        for what, threads, policy, time, more in asked:
            yield "suspended", f"{lock}, {what}", "lock", [
                *EXTRA.get(lock, ()), "-t", str(threads), *options, *policy, *time, *more], False
        three = ["-t", "3", *options, *EXTRA.get(lock, ()), *SPIN, *QUIET]
        if lock != "mcs_alone":  # which takes minutes
            yield "suspended", f"{lock}, 3 threads, spin", "lock", three, False
        else:
            yield "suspended", f"{lock}, 3 threads, spin, under sc within 2 preemptions", "lock", [
                *three, *few(2)], False
            yield "suspended", f"{lock}, 3 threads, spin, drawn", "lock", [*three, *DRAWN_LATE], True
        twice = ["-t", "2", *options, *EXTRA.get(lock, ()), *SPIN, *QUIET, "-D", "SECTIONS=2"]
        if lock == "ticket_flag":
            yield "suspended", f"{lock}, 2 threads, 2 sections", "lock", twice, False
            yield "suspended", f"{lock}, 3 threads, a number is passed over, drawn", "lock", [
                *three, "-D", "HL_PATIENCE_NS=0", *DRAWN_LATE], True
            continue
        yield "suspended", f"{lock}, 2 threads, 2 sections, drawn", "lock", [*twice, *DRAWN_LATE], True
        if everything:
            yield "suspended", f"{lock}, 2 threads, 2 sections", "lock", twice, False
            if lock == "mcs_alone":
                yield "suspended", f"{lock}, 3 threads, spin", "lock", three, False
        if lock in ("mcs_alone", "nmcs", "nmcs4"):
            yield "suspended", f"{lock}, an heir's deadline passes, drawn", "late", [
                *options, *EXTRA.get(lock, ()), *jumps, *PARK, "-D", "HOLD=1", *DRAWN_LATE], True
        if lock in ("nmcs", "nmcs4"):
            yield "suspended", f"{lock}, stopped before the link, drawn", "left", [
                "-D", f"LOCK={lock}", *QUIET, *LEFT, *DRAWN_LATE], True
            yield "suspended", f"{lock}, a trylock past a closed door", "lock", [
                "-t", "3", *options, *SPIN, *QUIET, "-D", "WAYS=LLY", "-D", "RESERVED"], False


def questions_of_preload(everything):
    quiet, jumps = QUIET, ("--expiries", "1", "--spurious", "0", "--sleeps", "0")
    for ways in COND:
        asked = (("", quiet), (", interrupted", jumps)) if len(ways) == 2 or everything else (("", quiet),)
        for what, time in asked:
            yield "preload", f"condition variable, {ways}{what}", "preload_cond", [
                "-t", str(len(ways)), "-D", f"WAYS={ways}", *time], False
    for ways in COND_FREED:
        yield "preload", f"condition variable, {ways}, then destroyed and freed", "preload_cond", [
            "-t", "2", "-D", f"WAYS={ways}", *jumps, "-D", "LAST_FREES"], False
    yield "preload", "condition variable, WS, park", "preload_cond", [
        "-t", "2", "-D", "WAYS=WS", *quiet, *PARK], False
    for what, time, all_ways in (("", quiet, PRELOAD_RW), (", slices end", jumps, PRELOAD_RW_TIMED)):
        for ways in all_ways:
            yield "preload", f"rwlock, {ways}{what}", "preload_rwlock", [
                "-t", "2", "-D", f"WAYS={ways}", *time, *AS_PRELOAD], False
    for ways, policy in (("WRT", ()), ("WWR", ()), ("WWT", PARK)):  # all executions: minutes
        three = ["-t", "3", "-D", f"WAYS={ways}", *policy, *jumps, *AS_PRELOAD]
        what = f"rwlock, {ways}{', park' if policy else ''}, slices end"
        yield "preload", f"{what}, under sc within 1 preemption", "preload_rwlock", [*three, *few(1)], False
        yield "preload", f"{what}, drawn", "preload_rwlock", [*three, *DRAWN_LATE], True


# What main() does, who waits meanwhile, what main() does then (clients/fair.c).
FAIR = (("W", "R", "W"), ("R", "W", "R"), ("R", "WR", "W"), ("W", "RW", "R"), ("W", "WR", "R"), ("W", "WR", "W"))

FAIR_BIG = (("R", "WR", "W"), ("W", "RW", "R"), ("W", "WR", "R"), ("W", "WR", "W"))  # of the preload's


def fair(held, waits, then):
    return ["-D", f"HELD='{held}'", "-D", f"WAITS={waits}", "-D", f"THEN='{then}'", *QUIET]


def questions_of_fairness():
    for ways in FAIR:
        what = f"phase fair, {' '.join(ways)}"
        yield "rw", what, "fair", fair(*ways), False
        if ways[0] == "R":
            yield "rw", f"{what}, with a row", "fair", [*fair(*ways), "-D", "ROW"], False
        if len(ways[1]) == 1:
            yield "rw", f"{what}, park", "fair", [*fair(*ways), *PARK], False
        big = ways in FAIR_BIG
        yield "preload", f"rwlock, {what}{', drawn' if big else ''}", "fair", [
            *fair(*ways), "-D", "PRELOAD", "-D", "KIND=2", *AS_PRELOAD, *(DRAWN_LATE if big else ())], big


def questions(everything):
    """Yield lock, what is asked, client, options, whether a bound is acceptable."""
    for lock in LOCKS:
        def two(what, *parts, bounded=False, client="lock"):
            options = ["-t", "2", "-D", f"LOCK={lock}"]
            for part in parts:
                options += part
            return lock, f"2 threads, {what}", client, options, bounded
        for name, policy in (("spin", SPIN), ("yield", YIELD), ("park", PARK)):
            rounds = ("--loops", "2") if (lock, policy) in BOUNDED else ()
            yield two(name, policy, QUIET, rounds, bounded=(lock, policy) in BOUNDED)
        yield two("trylock", SPIN, QUIET, ("-D", "WAYS=LT"))
        yield two("lock_until", SPIN, ("--expiries", "1", "-D", "WAYS=LU"))
        yield two("both lock_until", SPIN, ("--expiries", "1", "-D", "WAYS=U"))
        yield two("last user frees", SPIN, QUIET, ("-D", "LAST_FREES"))
        yield two("out of line", SPIN, QUIET, OUT_OF_LINE, client="library")
        yield two("clock not yet measured", SPIN, QUIET, ("-D", "COLD"))
        if lock in WORD_WIDE:
            yield two("bytes emulated", SPIN, ("--expiries", "1", "-D", "WAYS=LU", "-D",
                                               "HL_BYTES_EMULATED=1"))
        yield two("2 sections", SPIN, QUIET, ("-D", "SECTIONS=2"))
        _, _, client, options, bounded = two("", SPIN, QUIET)
        yield lock, "3 threads, spin", client, ["-t", "3", *options[2:]], bounded
        yield lock, "4 threads, spin, drawn", client, ["-t", "4", *options[2:], *DRAWN], True
    yield from questions_of_order()
    yield from questions_of_preload(everything)
    yield from questions_of_fairness()
    yield from questions_of_suspended(everything)
    for ways in RW + RW_TIMED + (RW_THREE if everything else ()):
        quiet = QUIET if ways not in RW_TIMED else ("--expiries", "1")
        options = ["-t", str(len(ways)), "-D", f"WAYS={ways}", *quiet]
        for name, policy in (("spin", SPIN), ("park", PARK)):
            if len(ways) == 2 or policy is SPIN:
                yield "rw", f"{ways}, {name}", "rw", [*options, *policy], False
            if len(ways) == 2 and (everything or policy is SPIN or ways == "WR"):
                yield "rw", f"{ways}, {name}, with a row", "rw", [*options, *policy, "-D", "ROW"], False
    for ways in RW_INVITED:
        yield "rw", f"{ways}, readers are invited", "rw", [
            "-t", "2", "-D", f"WAYS={ways}", *SPIN, *AS_PRELOAD, *QUIET], False
    yield "rw", "a writer passes a gate that opens and closes", "pass", [*QUIET], False
    yield "rw", "a writer passes, and the row comes back, drawn", "pass", [
        *QUIET, "-D", "AGAIN", *DRAWN_LATE], True
    for what, more, big in (("kept", ("-D", "KEEPS"), False), ("taken over", (), True),
                            ("given back", ("-D", "FAILS"), True)):
        yield "rw", f"a row goes to another lock, {what}{', drawn' if big else ''}", "rows", [
            *QUIET, *more, *(("--search", "random", "--samples", "1000") if big else ())], big
    for ways in ("WURR",):
        yield "rw", f"{ways}, drawn", "rw", ["-t", "4", "-D", f"WAYS={ways}", *SPIN, "--expiries", "1",
                                             "--spurious", "0", "--sleeps", "0", *DRAWN_LATE], True
    for ways in ("RWV", "WWV"):  # somebody comes and goes while a writer goes to sleep
        yield "rw", f"{ways}, park, drawn", "rw", ["-t", "3", "-D", f"WAYS={ways}", *PARK, "--expiries", "1",
                                                   "--spurious", "0", "--sleeps", "0", *DRAWN_LATE], True
    for ways in ("WR", "WW"):
        for row in ((), ("-D", "ROW")):
            yield "rw", f"{ways}, last user frees{', with a row' if row else ''}", "rw", [
                "-t", "2", "-D", f"WAYS={ways}", *SPIN, *QUIET, *row, "-D", "LAST_FREES"], False
    for ways in ALI + ALI_TIMED + ALI_THREE + (ALI_SLOW if everything else ()):
        expiries = "1" if ways in ALI_TIMED else "0"
        yield "ali", f"{ways}, cap 1", "ali", ["-t", str(len(ways)), "-D", f"WAYS={ways}", *SPIN, *QUIET,
                                               "--expiries", expiries, "-D", "HL_ALI_CAP=1"], False
    for ways in ALI_SLOW:  # minutes under c11
        options = ["-t", str(len(ways)), "-D", f"WAYS={ways}", *SPIN, *QUIET, "-D", "HL_ALI_CAP=1"]
        yield "ali", f"{ways}, cap 1, under sc", "ali", [*options, "--model", "sc"], False
        yield "ali", f"{ways}, cap 1, drawn", "ali", [*options, *DRAWN], True
    for ways in ("AL", "LA", "AA", "AR", "TA"):
        yield "ali", f"{ways}, run at the latest by the next operation", "ali", [
            "-t", "2", "-D", f"WAYS={ways}", *SPIN, *QUIET, "-D", "HL_ALI_CAP=1", "-D", "NEXT"], False
    for ways in ("RR", "RS"):  # a requester that is away comes back: its loop changes its state
        yield "ali", f"{ways}, yield", "ali", ["-t", "2", "-D", f"WAYS={ways}", *YIELD, *QUIET], True


def ask(hotlock, include, clients, lock, client, options, limit):
    sources = [os.path.join(clients, ("lock" if client == "library" else client) + ".c")]
    if client == "library":
        sources.append(os.path.join(clients, "library.c"))
    extra = EXTRA.get(lock, ())
    return subprocess.run([hotlock, "check", *sources, "-I", include, "-I",
                           os.path.join(include, os.pardir, "src"), *SMALL, *extra, *options,
                           "--time-limit", str(limit)], capture_output=True, text=True)


def main():
    hotlock, include, clients, *rest = sys.argv[1:]
    everything = "--all" in rest
    chosen = [r for r in rest if r != "--all"] or (*LOCKS, "rw", "preload", "suspended")
    todo = [q for q in questions(everything) if q[0] in chosen]
    print(f"1..{len(todo)}")
    failed = 0
    for number, (lock, what, client, options, bounded) in enumerate(todo, 1):
        run = ask(hotlock, include, clients, lock, client, options, 600 if everything else 100)
        verified = re.search(r"^verified for (?:\S+|\S+ within \d+ preemptions?:) "
                             r"(\d+ (?:executions|interleavings), \S+ s)", run.stdout, re.M)
        met = re.search(r"^NOT VERIFIED .* (met the bound|single executions)", run.stdout, re.M)
        some = re.search(r"^([1-9]\d* executions) without a counterexample", run.stdout, re.M)
        good = verified or (bounded and met and some)
        failed += not good
        said = verified.group(1) if verified else f"bounded, {some.group(1)}" if good else "FAILED"
        print(f"{'ok' if good else 'not ok'} {number} - {lock}, {what}: {said}", flush=True)
        if not good:
            print("# " + " ".join(options) + "\n# " +
                  (run.stdout + run.stderr)[:3000].replace("\n", "\n# "))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
