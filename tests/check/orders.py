#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""orders HOTLOCK INCLUDE CLIENTS [--find] [--report] [NAME...]: is every memory order of ours needed?

Each order that stands in a lock's header is weakened by one step, in a copy of the headers: every one
that is written, not every one that some program reaches. Then a question is asked of which the
answer must be a counterexample. orders.txt says which question; an order without one fails, unless
orders.txt says why it is kept. So does a line there that no longer fits a header.

--find searches all questions for the orders that have none, and prints lines for orders.txt; --report
prints the table of docs/checker.md. NAME: only orders whose line contains it. Prints TAP.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

from locks import EXTRA, LEFT, PARK, QUIET, SMALL, SPIN

HERE = os.path.dirname(os.path.abspath(__file__))
TIMED = ("--expiries", "1", "--spurious", "0", "--sleeps", "0")
ANSWERS = os.path.join(HERE, "orders.txt")
SOURCES = os.path.join(HERE, os.pardir, os.pardir, "src")

# ------------------------------------------------------------------------- questions
# Options of clients/lock.c, the cheapest first.
OF_A_LOCK = {
    "spin": ("-t", "2", *SPIN, *QUIET),
    "park": ("-t", "2", *PARK, *QUIET),
    "trylock": ("-t", "2", *SPIN, *QUIET, "-D", "WAYS=LT"),
    "twice": ("-t", "2", *SPIN, *QUIET, "-D", "SECTIONS=2"),
    "twice park": ("-t", "2", *PARK, *QUIET, "-D", "SECTIONS=2"),
    "timed": ("-t", "2", *SPIN, *TIMED, "-D", "WAYS=LU"),
    "both timed": ("-t", "2", *SPIN, *TIMED, "-D", "WAYS=U"),
    "timed twice": ("-t", "2", *SPIN, *TIMED, "-D", "SECTIONS=2", "-D", "WAYS=LLUU", "-D", "HL_POOL_NODES=4"),
    "timed, then lock": ("-t", "2", *SPIN, *TIMED, "-D", "SECTIONS=2", "-D", "WAYS=LLUL"),
    "emulated": ("-t", "2", *SPIN, *QUIET, "-D", "HL_BYTES_EMULATED=1"),
    "timed park": ("-t", "2", *PARK, *TIMED, "-D", "WAYS=LU"),
    "frees": ("-t", "2", *SPIN, *QUIET, "-D", "LAST_FREES"),
    "three": ("-t", "3", *SPIN, *QUIET),
    "three park": ("-t", "3", *PARK, *QUIET),
    "reserved": ("-t", "3", *SPIN, *QUIET, "-D", "WAYS=LLY", "-D", "RESERVED"),
    "three timed": ("-t", "3", *SPIN, *TIMED, "-D", "WAYS=LUL"),
    "three all timed": ("-t", "3", *SPIN, *TIMED, "-D", "WAYS=U"),
    "three timed park": ("-t", "3", *PARK, *TIMED, "-D", "WAYS=LUL"),
}
# Of clients/late.c.
OF_A_LATE_WAITER = {
    "late": (*SPIN, *TIMED), "late heir": (*PARK, *TIMED),
    "late heir again": (*PARK, *TIMED, "-D", "AGAIN=1"), "late heir held": (*PARK, *TIMED, "-D", "HOLD=1"),
}
OF_ALI = ("RR", "LL", "SD", "XA", "DR", "UR", "UL", "UA", "TA", "LRR", "RRR", "AAR", "RRL", "LLL", "LUL", "RUR")
OF_RW = ("WR", "WW", "RU", "WV", "WT", "Wt", "RT", "RX", "WX", "WP", "WQ", "WRR", "WWR", "WPR", "WUR", "WRt")
OF_COND = ("WB", "TB", "Wb", "Tb", "WS", "Ts")
# Of clients/rows.c: who gives the second lock its row.
OF_ROWS = {"taken over": (), "kept": ("-D", "KEEPS"), "given back": ("-D", "FAILS")}
# Of clients/pass.c: what happens while a writer looks who is inside.
OF_PASS = {"opened": (), "given again": ("-D", "AGAIN", "--search", "pct", "--depth", "3", "--samples",
                                         "100000")}


def question(name):
    """Client and options of "LOCK: QUESTION". Drawn: there are too many executions. Suspendable: as the
    preload compiles the queue locks, mcs without a node."""
    if name.endswith(" drawn"):
        client, options = question(name[:-6])
        return client, (*options, "--search", "random", "--samples", "200000")
    if name.endswith(" suspendable"):
        client, options = question(re.sub(r"^mcs:", "mcs_alone:", name[:-12]))
        return client, (*options, "-D", "HL_SUSPENDABLE=1")
    lock, what = name.split(": ")
    if lock == "rows":
        return "rows", (*QUIET, *OF_ROWS[what])
    if lock == "pass":
        return "pass", (*QUIET, *OF_PASS[what])
    if lock in ("cond", "rwlock"):
        ways, *frees = what.split(" ")
        return f"preload_{lock}", ("-t", str(len(ways)), *TIMED, "-D", f"WAYS={ways}",
                                   *(("-D", "LAST_FREES") if frees else ()))
    if what == "left":
        return "left", ("-D", f"LOCK={lock}", *QUIET, *LEFT)
    if lock == "rw":
        ways, *more = what.split(" ")
        timed = TIMED if set("UVQ") & set(ways) else QUIET
        return "rw", ("-t", str(len(ways)), *(PARK if "park" in more else SPIN), *timed, "-D",
                      f"WAYS={ways}", *(("-D", "ROW") if "row" in more else ()))
    extra = EXTRA.get(lock, ())
    if what in OF_A_LATE_WAITER:
        return "late", ("-D", f"LOCK={lock}", *extra, *OF_A_LATE_WAITER[what])
    if what in OF_A_LOCK:
        return "lock", ("-D", f"LOCK={lock}", *extra, *OF_A_LOCK[what])
    ways, *more = what.split(" ")
    return "ali", ("-t", str(len(ways)), *(PARK if "park" in more else SPIN),
                   *(TIMED if "U" in ways else QUIET), "-D", f"WAYS={ways}", "-D", "HL_ALI_CAP=1")


def questions_of(header):
    lock = header.rpartition("/")[2][:-2]
    users = {"queue": ("nmcs", "mcs", "nmcs4", "mcsflag", "qspin", "ali"), "flag": ("mcsflag", "qspin"),
             "nmcs": ("nmcs", "nmcs4")}.get(lock, (lock,))
    if lock == "cond":
        return [f"cond: {ways}{frees}" for ways in OF_COND for frees in ("", " frees")]
    if lock == "rwlock":
        return ["rwlock: WR", "rwlock: WW"]
    if "/" in header:  # as the preload compiles them
        return [f"{lock.removesuffix('_alone')}: {what} suspendable" for what in OF_A_LOCK]
    if lock == "rw":
        return [f"rw: {ways}{policy}{row}" for ways in OF_RW for policy in ("", " park")
                for row in ("", " row")] + [f"rows: {what}" for what in OF_ROWS] + [
                    f"pass: {what}" for what in OF_PASS]
    names = [f"{user}: {what}" for what in OF_A_LOCK for user in users]
    names += [f"{user}: {what}" for what in OF_A_LATE_WAITER for user in users
              if user in ("mcs", "nmcs", "nmcs4")]
    names += [f"{user}: left" for user in users if user in ("nmcs", "nmcs4")]
    names += [f"{name} suspendable" for name in names if not name.startswith("ali")]
    if "ali" in users:
        names += [f"ali: {ways}" for ways in OF_ALI] + [f"ali: {ways} park" for ways in OF_ALI[:9]]
    return names


# ------------------------------------------------------------------------- orders
HEADERS = ("tas.h", "ticket.h", "park.h", "mcs.h", "nmcs.h", "nmcs4.h", "queue.h", "flag.h", "mcsflag.h",
           "qspin.h", "ali.h", "rw.h", "preload/mcs_alone.h", "preload/ticket_flag.h",
           "preload/cond.c", "preload/rwlock.c")
WRITTEN = re.compile(r"\b(hl_\w+?)_(acqrel|acq|rel)\(|\bHL_RW_SC\((\w+),|\b(HL_RW_CAS_SC)\(")
STEP_DOWN = {"acq": ("",), "rel": ("",), "acqrel": ("_acq", "_rel")}
# What the headers have no need of: a relaxed exchange, and the half-strong forms of rw.h.
WEAK = """
#define hl_xchg(p, x) hl_xchg_order_(p, x, __ATOMIC_RELAXED)
#define WEAK_RW_load_n(p)          __atomic_load_n(&(p)->v, __ATOMIC_ACQUIRE)
#define WEAK_RW_store_n(p, x)      __atomic_store_n(&(p)->v, (x), __ATOMIC_RELEASE)
#define WEAK_RW_fetch_add(p, x)    __atomic_fetch_add(&(p)->v, (x), __ATOMIC_ACQ_REL)
#define WEAK_RW_fetch_sub(p, x)    __atomic_fetch_sub(&(p)->v, (x), __ATOMIC_ACQ_REL)
#define WEAK_RW_fetch_or(p, x)     __atomic_fetch_or(&(p)->v, (x), __ATOMIC_ACQ_REL)
"""
Order = collections.namedtuple("Order", "header function what weaker start end text")


def weakenings(match):
    """What is written, and each (name of the weaker order, text to put there)."""
    name, order, sc, _ = match.groups()
    if order:
        return f"{name}_{order}", [(w.lstrip("_") or "relaxed", f"{name}{w}(") for w in STEP_DOWN[order]]
    if sc:
        return f"{sc} seq_cst", [("acquire" if sc == "load_n" else "release" if sc == "store_n" else
                                  "acqrel", f"WEAK_RW_{sc}(")]
    return "cas seq_cst", [("acqrel", "hl_cas_acqrel(")]


def path_of(include, header, preload):
    """The preload's own are in its folder."""
    return os.path.join(preload if "/" in header else os.path.join(include, "hotlock"), header)


def orders_of(include, header):
    """Every order written in a header, outside macros and comments; alike in a function: numbered."""
    with open(path_of(include, header, SOURCES), encoding="utf-8") as f:
        text = f.read()
    function, at, seen, macro = "?", 0, collections.Counter(), False
    for line in text.splitlines(keepends=True):
        code = line.split("//")[0]
        macro = macro or line.startswith("#")
        if re.match(r"[A-Za-z]", line) and not macro:
            named = re.search(r"\b(\w+)\((?!\()" if header.endswith(".c") else r"\b(hl_\w+)\(", line)
            function = named.group(1) if named else function
        for match in () if macro else WRITTEN.finditer(code):
            if match.group(1) == function:
                continue  # its own name
            what, weaker = weakenings(match)
            seen[function, what] += 1
            number = f" {seen[function, what]}" if seen[function, what] > 1 else ""
            for name, put in weaker:
                yield Order(header, function, what + number, name, at + match.start(), at + match.end(), put)
        macro = macro and line.rstrip().endswith("\\")
        at += len(line)


def key_of(order):
    return f"{order.header} {order.function} {order.what} -> {order.weaker}"


def weaken(include, where, order):
    """A copy of the headers in `where`, with one order weaker."""
    shutil.copytree(include, where)
    shutil.copytree(os.path.join(SOURCES, "preload"), os.path.join(where, "preload"))
    path = path_of(where, order.header, where)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text[:order.start] + order.text + text[order.end:])
    path = os.path.join(where, "hotlock", "atomic.h")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("#define hl_likely(x)", WEAK + "#define hl_likely(x)", 1))


# ------------------------------------------------------------------------- asking
def ask(hotlock, clients, include, name, limit):
    """"bad" and what, "verified", or "open" and why."""
    client, options = question(name)
    run = subprocess.run([hotlock, "check", os.path.join(clients, client + ".c"), "-I", include, "-I",
                          SOURCES, "--cflag", "-w", *SMALL, *options, "--time-limit", str(limit)],
                         capture_output=True, text=True)
    found = re.search(r"^COUNTEREXAMPLE: (.*)$", run.stdout, re.M)
    if run.returncode == 1 and found:
        return "bad", found.group(1)
    if run.returncode == 0:
        return "verified", ""
    said = (run.stdout + run.stderr).strip().split("\n")[0]
    return "open", said[:120]


def read_answers():
    """{order: (question, "") or ("", why it is kept)}"""
    answers = {}
    if not os.path.exists(ANSWERS):
        return answers
    with open(ANSWERS, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                order, answer = (part.strip() for part in line.rstrip("\n").split("|", 1))
                kept = answer.startswith("kept: ")
                answers[order] = ("", answer[6:]) if kept else (answer, "")
    return answers


def find(hotlock, include, clients, order, limit):
    with tempfile.TemporaryDirectory() as directory:
        where = os.path.join(directory, "include")
        weaken(include, where, order)
        unclear = []
        for name in questions_of(order.header):
            verdict, why = ask(hotlock, clients, where, name, limit)
            if verdict == "bad":
                return f"{name}  # {why}"
            if verdict == "open":
                unclear.append(f"{name} ({why})")
        return "NONE; open: " + "; ".join(unclear)


def check(hotlock, include, clients, order, answers):
    """(good, what to say)"""
    asked, kept = answers.get(key_of(order), ("", ""))
    if kept:
        return True, f"kept: {kept}"
    if not asked:
        return False, "no question needs it, and orders.txt does not say why it is kept"
    with tempfile.TemporaryDirectory() as directory:
        where = os.path.join(directory, "include")
        weaken(include, where, order)
        verdict, why = ask(hotlock, clients, where, asked, 60)
    return verdict == "bad", f"{asked}: {why if verdict == 'bad' else verdict + ' ' + why}"


def report(orders, answers):
    print("| header | orders | each needed by | kept |\n|---|---|---|---|")
    for header in HEADERS:
        of = [answers.get(key_of(o), ("", "")) for o in orders if o.header == header]
        names = collections.Counter(asked for asked, _ in of if asked)
        print(f"| `{header}` | {len(of)} | {', '.join(sorted(names))} | {sum(1 for _, k in of if k)} |")


def main():
    hotlock, include, clients, *rest = sys.argv[1:]
    names = [r for r in rest if not r.startswith("--")]
    orders = [o for header in HEADERS for o in orders_of(include, header)]
    answers = read_answers()
    if "--report" in rest:
        report(orders, answers)
        return
    todo = [o for o in orders if not names or any(n in key_of(o) for n in names)]
    if "--find" in rest:
        for order in todo:
            if key_of(order) not in answers:
                print(f"{key_of(order)} | {find(hotlock, include, clients, order, 20)}", flush=True)
        return
    stale = [] if names else sorted(set(answers) - {key_of(o) for o in orders})
    print(f"1..{len(todo) + 1}")
    failed = 0
    for number, order in enumerate(todo, 1):
        good, why = check(hotlock, include, clients, order, answers)
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - {key_of(order)}: {why}", flush=True)
    print(f"{'not ok' if stale else 'ok'} {len(todo) + 1} - orders.txt fits the headers {' '.join(stale)}")
    print(f"# {len(todo)} orders, {sum(1 for o in todo if answers.get(key_of(o), ('', ''))[1])} kept "
          "without a question that needs them")
    sys.exit(failed > 0 or bool(stale) or not todo)


main()
