#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""choices.py HOTLOCK PRELOAD CHOSEN CHOSEN_CXX SOURCE STATIC MUSL NOTHING PLUGIN: single locks.

What `hotlock run --lock WHAT=NAME` finds, moves and refuses, and `hotlock try --at WHAT`; what
`hotlock doctor` says. TAP.
"""
import json
import os
import re
import stat
import subprocess
import sys
import tempfile

(hotlock, preload, chosen, chosen_cxx, source, static, musl, nothing,
 plugin) = map(os.path.abspath, sys.argv[1:])
number = bad = 0
COUNTED = "120000 120000 120000 179994 1 120000 120000 120000\n"
COUNTED_CXX = "40000 40000 40000\n"


def case(name, good, seen=""):
    global number, bad
    number += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    if not good:
        print("#   saw " + repr(seen))


def run(*words):
    env = {k: v for k, v in os.environ.items()
           if k not in ("LD_PRELOAD", "HOTLOCK", "LD_LIBRARY_PATH")}
    done = subprocess.run([hotlock, *words], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def line_of(mark):
    with open(source, encoding="utf-8") as f:
        for number_, line in enumerate(f, 1):
            if "// " + mark in line:
                return number_
    return 0


def under(options, *command):
    return run("run", "--preload", preload, *options, "--", *command)


def moves(what, lock, count, program=chosen, counted=COUNTED, words=(), options=(), spins=0):
    """The program counts right, and so many of its mutexes and spinlocks have got the lock."""
    code, out, err = under(["--lock", f"{what}={lock}", *options], program, *words)
    moved = re.search(rf"^hotlock: choice 1: (\d+) mutex(?:es)?(?: and (\d+) spinlocks?)? moved to "
                      rf"{lock}$", err, re.M)
    found = re.search(rf"^hotlock: choice 1: {re.escape(what)}={lock}: \d", err, re.M)
    case(f"{what}={lock}", (code, out) == (0, counted) and found and moved and
         (int(moved[1]), int(moved[2] or 0)) == (count, spins), (code, out, err))


def refused(name, options, pattern, program=chosen):
    code, out, err = under(options, program)
    case(name, code == 2 and not out and err.count("\n") == 1 and re.search(pattern, err),
         (code, out, err))


def choices():
    file = os.path.basename(source)
    for lock in ("tas", "ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin", "park"):
        moves("use_here", lock, 2)  # one of them while others wait for it
        moves("recursive", lock, 1)
        moves("spin", lock, 0, spins=1)
    moves("checked", "nmcs", 1)
    moves("plugin_mutex", "nmcs", 1, counted=COUNTED + "120001\n", options=["--plugin", plugin],
          words=[os.path.basename(plugin)])
    moves("plugin_count", "mcs", 1, counted=COUNTED + "120001\n", options=["--plugin", plugin],
          words=[os.path.basename(plugin)])
    moves(f"{file}:{line_of('HERE')}", "nmcs", 2)
    moves(f"{file}:{line_of('INLINED')}", "mcs", 1)
    moves(f"{file}:{line_of('INIT')}", "nmcs", 1)
    moves("alone", "nmcs", 1)
    moves("base", "nmcs", 2)
    moves("base.table.mutex", "tas", 2)
    moves("table_t::mutex", "nmcs", 2)
    moves("base_t::table.mutex", "mcs", 2)
    moves("Table::mutex_", "nmcs", 2, chosen_cxx, COUNTED_CXX)
    moves("store::Table::add", "nmcs", 2, chosen_cxx, COUNTED_CXX)
    moves("count_other", "qspin", 1, chosen_cxx, COUNTED_CXX)
    code, out, err = under(["--lock", f"{file}:{line_of('SPIN')}=nmcs4"], chosen)
    case("code that locks a spinlock", (code, out) == (0, COUNTED) and re.search(
        r"^hotlock: choice 1: 0 mutexes moved to nmcs4: only spinlocks .* by their variable$", err,
        re.M), (code, out, err))
    code, out, err = under(["-q", "--lock", "alone=tas", "--lock", "default=park"], chosen)
    case("--quiet says nothing", (code, out, err) == (0, COUNTED, ""), (code, out, err))
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "choices")
        with open(name, "w", encoding="utf-8") as f:
            f.write("# two\nalone = mcs  # the first\n\n use_here=nmcs\n")
        code, out, err = under(["--locks-from", name], chosen)
        case("from a file", code == 0 and "1 mutex moved to mcs" in err and
             "2 mutexes moved to nmcs" in err, (code, out, err))


def refusals():
    refused("no such name", ["--lock", "nothing_here=nmcs"], "'nothing_here' is no function")
    refused("no such field", ["--lock", "table_t::nothing=nmcs"], "'table_t::nothing'")
    refused("no code on the line", ["--lock", "chosen.c:3=nmcs"], "'chosen.c:3' stands for no code")
    refused("no such lock", ["--lock", "alone=nncs"], "nearest is 'nmcs'")
    refused("not ali", ["--lock", "alone=ali"], "'ali' runs critical sections")
    refused("not libc", ["--lock", "alone=libc"], "one of hotlock's")
    refused("nothing before =", ["--lock", "=nmcs"], "is no choice; write WHAT=LOCK")
    refused("park is the default", ["--lock", "nmcs", "--lock", "alone=tas"], "the others have")
    refused("no such file", ["--locks-from", "/no/such"], "cannot read '/no/such'")
    refused("no such plug-in", ["--plugin", "/no/such", "--lock", "alone=tas"], "'/no/such': No")
    refused("no plug-in", ["--plugin", source, "--lock", "alone=tas"], "is no library")
    refused("in a plug-in, untold", ["--lock", "plugin_mutex=nmcs"], "needs --plugin FILE")


def tries():
    """Each lock in one place only: what the program counts is the same, so a verdict comes out."""
    def attempt(*options):
        return run("try", "--preload", preload, "--runs", "2", "--warmup", "0", "--json", *options,
                   "--", chosen)
    code, out, err = attempt("--same-output", "--at", "alone", "--at", "spin", "--locks",
                             "nmcs,tas")
    said = json.loads(out) if code < 2 else {}
    rows = [(c["lock"], c["ranked"]) for s in said.get("sections", []) for c in s["locks"]]
    case("try --at", sorted(rows) == [("libc", True), ("nmcs", True), ("tas", True)] and
         said["at"] == ["alone", "spin"], (code, out, err))
    for name, options, pattern in (
            ("try --at nothing", ["--at", "nothing_here"], "'nothing_here' is no function"),
            ("try --at default", ["--at", "default"], "is no place"),
            ("try --plugin without --at", ["--plugin", plugin], "give --at WHAT")):
        code, out, err = attempt(*options)
        case(name, code == 2 and not out and err.count("\n") == 1 and re.search(pattern, err),
             (code, out, err))


def finding(found, what, state):
    return any(f["what"].startswith(what) and f["state"].startswith(state) for f in found)


def doctor():
    def ask(program, covered, *rows):
        code, out, err = run("doctor", "--json", "--preload", preload, program)
        said = json.loads(out) if code != 2 else {"findings": []}
        good = said.get("covered") is covered and code == (0 if covered else 1) and not err and \
            all(finding(said["findings"], *row) for row in rows)
        case(f"doctor {os.path.basename(program)}", good, (code, out, err))
    ask(chosen, True, (os.path.basename(chosen), "covered"))
    ask(chosen_cxx, True, ("chosen_cxx", "covered"), ("libstdc++", "covered"))
    ask(static, False, (os.path.basename(static), "not covered"))
    ask(musl, False, (os.path.basename(musl), "not covered"))
    ask(nothing, False, (os.path.basename(nothing), "no pthread locks"))
    with tempfile.TemporaryDirectory() as folder:
        script, privileged = os.path.join(folder, "script"), os.path.join(folder, "privileged")
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n")
        os.chmod(script, 0o755)
        ask(script, True, ("script", "script"))
        with open(chosen, "rb") as f, open(privileged, "wb") as to:
            to.write(f.read())
        os.chmod(privileged, 0o755 | stat.S_ISUID)
        ask(privileged, False, ("privileged", "not covered"))
    code, out, err = run("doctor", "--json", "--preload", preload)
    said = json.loads(out)
    case("doctor", code == 0 and said["schema"] == "hotlock-doctor/1" and
         all(finding(said["findings"], w, "") for w in ("processors", "kernel", "glibc")) and
         finding(said["findings"], "preload", "works"), (code, out, err))
    code, out, err = run("doctor", "--preload", preload, chosen)
    case("its table fits", code == 0 and all(len(row) <= 100 or "/" in row
                                             for row in out.splitlines()), out)
    code, out, err = run("doctor", "/no/such/program")
    case("doctor of nothing", code == 2 and err.count("\n") == 1 and not out, (code, out, err))


choices()
refusals()
tries()
doctor()
print(f"1..{number}")
sys.exit(1 if bad else 0)
