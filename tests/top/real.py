#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""real.py HOTLOCK [DRIVER...]: real programs whose hot lock is known from their own source and
documentation. hotlock top -- CMD must name it, and hotlock top -p, watching the same run, must come
to the same lock. DRIVER: driver-sqlite, leveldb. What is not installed is skipped.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "workloads"))
from parts import run_parts  # noqa: E402
from tap import PATIENCE, check, done, run  # noqa: E402
from verdict import check_verdict  # noqa: E402

HOTLOCK = os.path.abspath(sys.argv[1])
DRIVERS = {p.rsplit("/", 1)[-1].rsplit("-", 1)[-1]: os.path.abspath(p) for p in sys.argv[2:]}
PYTHON = "/usr/bin/python3"  # Debian's: it has the one lock, whatever comes first in the path
OUTSIDE = run(HOTLOCK, "top", "-a", "--time", "0.01", "--json").returncode != 2


# ---- one run, seen from inside and from outside

def parents():
    """Of every process: its parent, and the file it runs."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
            found[pid] = stat.rpartition(")")[2].split()[1], os.readlink(f"/proc/{pid}/exe")
    return found


def program_of(recorder):
    """The number of the program a hotlock has started, once it runs as that. Between the two
    stands a process of hotlock's."""
    end, top = time.monotonic() + PATIENCE, str(recorder.pid)
    while time.monotonic() < end and recorder.poll() is None:
        all_ = parents()
        for pid, (parent, file) in all_.items():
            ours = parent == top or all_.get(parent, ("", ""))[0] == top
            if ours and top in all_ and file != all_[top][1]:
                return pid
        os.sched_yield()
    return None


def report_of(process, what):
    out, err = process.communicate(timeout=2 * PATIENCE)
    try:
        return json.loads(out)
    except ValueError:
        check(f"{what} reports", f"exit {process.returncode}: {err[-500:]}{out[:200]}")
        return None


def begin(*options):
    return subprocess.Popen([HOTLOCK, "top", "--json", *map(str, options)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def attached(watcher):
    """Waits until this hotlock looks: the timers come last."""
    end, timers = time.monotonic() + PATIENCE, False
    while watcher and watcher.poll() is None and not timers and time.monotonic() < end:
        os.sched_yield()
        with contextlib.suppress(OSError):
            folder = f"/proc/{watcher.pid}/fd"
            timers = any("perf_event" in os.readlink(f"{folder}/{f}") for f in os.listdir(folder))


def watch(name, command, load=None):
    """The reports of -- COMMAND and of -p on it (None where BPF is not allowed). LOAD is called
    with the program running and watched; the program is interrupted then if that says so."""
    recorder = begin("--", *command)
    pid = program_of(recorder)
    outside = begin("-p", pid) if OUTSIDE and pid else None
    if load and pid:
        attached(outside)
        if load():
            os.kill(int(pid), signal.SIGINT)
    inside = report_of(recorder, f"{name}: -- CMD")
    return inside, report_of(outside, f"{name}: -p") if outside else None


# ---- what is asked of the reports

def frames(stack):
    return [f["function"] or "" for f in stack["frames"]]


def waited_in(lock, function):
    """The share of its waiting that has this function in the stack."""
    stacks = [s for s in lock["stacks"] if s["role"] == "waiter"]
    total = sum(s["ns"] for s in stacks)
    return sum(s["ns"] for s in stacks if function in frames(s)) / total if total else 0


def row(lock):  # for complaints
    return {k: lock[k] for k in ("name", "kind", "acquisitions", "contended", "wait_ns")}


def rows(report):
    return [row(l) for l in report["locks"][:5]]


def often(report):
    """Locks by how often they were waited for. How long is chance where holds are short: what is
    waited for then is a holder that lost its processor."""
    return sorted((l for l in report["locks"] if l["kind"] != "lock of libc"),
                  key=lambda l: -(l["contended"] or 0))


def same_outside(name, locks, outside):
    """-p comes to one of the same locks, if it saw enough to tell."""
    found = often(outside)[:1] if outside else []
    if not found or found[0]["contended"] < 5:
        print(f"# {name}: too few sleeps seen from outside to tell" if OUTSIDE else
              f"# {name}: not watched from outside, BPF is not allowed here", flush=True)
        return
    check(f"{name}: from outside it is the same lock", None if found[0]["address"] in
          [l["address"] for l in locks] else ([row(l) for l in locks], rows(outside)))


# ---- SQLite: a connection in serialized mode has one recursive mutex, which every call on it takes
# (sqlite.org, "Using SQLite In Multi-Threaded Applications"; sqlite3_db_mutex()). The driver makes
# one such connection; its others have none.

def sqlite():
    with tempfile.TemporaryDirectory() as folder:
        inside, outside = watch("sqlite", [DRIVERS["sqlite"], folder, "8", "3000"])
    if not inside:
        return
    hot = inside["locks"][0]
    check("sqlite: the hot lock is the shared connection's mutex", None if hot["kind"] ==
          "recursive mutex" and hot["name"].startswith("made in connect_to") else rows(inside))
    check("sqlite: one of its kind, taken by every insert and seven of eight selects",
          None if 45000 <= hot["acquisitions"] and [l["kind"] for l in inside["locks"]].count(
              "recursive mutex") == 1 else rows(inside))
    check("sqlite: waited for and held in the calls of the driver",
          None if waited_in(hot, "op") > 0.95 and waited_in(hot, "sqlite3_exec") > 0.95
          else hot["stacks"][:2])
    check_verdict("sqlite: the verdict is that of its figures", inside, hot)
    statics = [l["name"] for l in inside["locks"] if l["name"].startswith("libsqlite3.so")]
    check("sqlite: the library's own static mutexes are told by file and place", not statics and
          rows(inside))
    same_outside("sqlite", [hot], outside)


# ---- LevelDB: DB::Get() takes the database's one mutex twice, and the cache of tables has one more
# for each shard, of which all reads of one table use the same (leveldb 1.23, db/db_impl.cc,
# db/table_cache.cc, util/cache.cc).

SECONDS, TRIES = 2, 8


def leveldb():
    # Who takes them is known of locks that were waited for: where two threads hardly ever run at
    # once, that takes more than one run.
    for _ in range(TRIES):
        inside, outside = watch("leveldb", [DRIVERS["leveldb"], "--threads", "4", "--seconds",
                                            str(SECONDS), "--keys", "20000"])
        if not inside:
            return
        first = sorted(inside["locks"], key=lambda l: -l["acquisitions"])[:2]
        if all(l["contended"] >= 5 for l in first):
            break
    check("leveldb: the two locks of every read are taken most, and named by who takes them",
          None if all(l["name"].startswith("taken in leveldb_get") for l in first)
          else ([row(l) for l in first], rows(inside)))
    # leveldb_get <- DB::Get() <- the lock: no frame of the library's own lies between.
    direct = [l for l in first if any(frames(s)[1:2] == ["leveldb_get"] for s in l["stacks"])]
    check("leveldb: one is the database's own", None if len(direct) == 1 else rows(inside))
    if len(direct) != 1:
        return
    other = first[1 - first.index(direct[0])]
    check("leveldb: which a read takes twice, and the cache's twice or, with its number, thrice",
          None if 0.6 < other["acquisitions"] / direct[0]["acquisitions"] < 1.6 else rows(inside))
    for l in first:
        check_verdict("leveldb: the verdict is that of its figures", inside, l)
    same_outside("leveldb", first, outside)


# ---- memcached: a lock for each bucket of keys (item_lock(), doc/threads.txt of its source). All
# clients ask for one key, so all worker threads want one of these; a get takes it twice, to find
# the item and to let go of it.

CLIENTS, GETS, BATCH = 4, 100000, 500
ANSWER = b"VALUE key 0 4\r\nabcd\r\nEND\r\n"


def memcached():
    folder = tempfile.mkdtemp()
    at, root = os.path.join(folder, "socket"), ["-u", "root"] if os.geteuid() == 0 else []
    bad = []

    def client():
        with socket.socket(socket.AF_UNIX) as c, c.makefile("rb") as answers:
            c.settimeout(PATIENCE)
            c.connect(at)
            for _ in range(GETS // BATCH):
                c.sendall(b"get key\r\n" * BATCH)
                got = answers.read(len(ANSWER) * BATCH)
                if got != ANSWER * BATCH:
                    bad.append(got[-100:])

    def load():
        end = time.monotonic() + PATIENCE
        with socket.socket(socket.AF_UNIX) as c:
            while c.connect_ex(at) and time.monotonic() < end:
                os.sched_yield()
            c.sendall(b"set key 0 0 4\r\nabcd\r\n")
            if c.recv(100) != b"STORED\r\n":
                bad.append("not stored")
        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return True

    inside, outside = watch("memcached", ["memcached", "-s", at, "-t", "4", *root], load)
    shutil.rmtree(folder)
    check("memcached: serves while it is watched", bad[:2])
    if not inside:
        return
    gets = CLIENTS * GETS
    items = [l for l in inside["locks"] if 2 * gets <= l["acquisitions"] <= 2.1 * gets]
    check("memcached: one lock is taken twice a get, every one counted",
          None if len(items) == 1 else rows(inside))
    if len(items) == 1:
        check("memcached: it is the one waited for", None if often(inside)[0] is items[0] and
              items[0]["contended"] else rows(inside))
        check("memcached: all four workers want it", None if items[0]["owner_changes"] >= 4 else
              row(items[0]))
        same_outside("memcached", items, outside)


# ---- Python: one thread runs at a time; the others wait for the one lock (docs.python.org, "Thread
# State and the Global Interpreter Lock"). So of N threads that only compute, N - 1 wait.

COUNTING = """
import os, sys, threading, time
while not os.path.exists(sys.argv[1]): pass
def count():
    while time.monotonic() < end: pass
end = time.monotonic() + 2
all = [threading.Thread(target=count) for _ in range(4)]
for t in all: t.start()
for t in all: t.join()
"""


def python():
    with tempfile.TemporaryDirectory() as folder:
        go = pathlib.Path(folder) / "go"
        inside, outside = watch("python", [PYTHON, "-c", COUNTING, go], go.touch)
    for how, report, least in (("-- CMD", inside, 2.2), ("-p", outside, 1.5)):
        if not report:
            continue
        if not report["locks"]:
            check(f"python, {how}: shows locks", report["notes"])
            continue
        hot = report["locks"][0]
        check(f"python, {how}: the hot lock is the interpreter's one",
              None if hot["kind"] == "Python's GIL" else rows(report))
        # They compute for two seconds, or for as much of these as was watched.
        check(f"python, {how}: three of four threads wait for it",
              None if least < hot["wait_ns"] / 1e9 / min(2, report["wall_s"]) < 3.3 else
              (report["wall_s"], row(hot)))
        check(f"python, {how}: it lies in the interpreter's state",
              None if hot["name"].startswith("_PyRuntime") else row(hot))
    if inside and inside["locks"]:
        hot = inside["locks"][0]
        quiet = hot["wait_ns"] / 1e9 < 0.02 * inside["wall_s"] * inside["threads"]
        check("python: no other lock helps, and it is said",
              None if "one thread at a time" in hot["verdict"] or quiet else hot["verdict"])


for name, there, test in (("sqlite", "sqlite" in DRIVERS, sqlite),
                          ("leveldb", "leveldb" in DRIVERS, leveldb),
                          ("memcached", shutil.which("memcached"), memcached),
                          ("python", os.path.exists(PYTHON), python)):
    if there:
        run_parts(test)
    else:
        check(f"{name} # SKIP not installed", None)
done()
