#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""forms.py HOTLOCK PLANTED COUNTED STATIC SLOW: every form of the report says the same; files are new,
private and whole; bad input is one line; an interrupted program leaves nothing behind."""
import csv
import gzip
import html
import html.parser
import io
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads"))
from parts import run_parts  # noqa: E402
from screen import Terminal  # noqa: E402
from tap import PATIENCE, check, check_bad, done, run  # noqa: E402
from verdict import next_of  # noqa: E402

HOTLOCK, PLANTED, COUNTED, STATIC, SLOW = (os.path.abspath(a) for a in sys.argv[1:6])
WORK = tempfile.mkdtemp()
os.chdir(WORK)
FORMS = ["json", "csv", "md", "html", "folded", "pb.gz", "prom", "txt"]


# ---- pprof: just enough of the wire format

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def message(data):
    """[(field, number or bytes), ...]"""
    at, fields = 0, []
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        fields.append((key >> 3, value))
    return fields


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def pprof_sums(path):
    """The sample types by name and the sum of each."""
    with gzip.open(path) as f:
        profile = message(f.read())
    strings = [v.decode() for field, v in profile if field == 6]
    types = [strings[dict(message(v))[1]] for field, v in profile if field == 1]
    sums = dict.fromkeys(types, 0)
    for field, v in profile:
        if field == 2:
            for name, n in zip(types, packed(dict(message(v))[2])):
                sums[name] += n
    return sums


# ---- the forms

def role_ns(report, role):
    return sum(s["ns"] for l in report["locks"] for s in l["stacks"] if s["role"] == role)


class Page(html.parser.HTMLParser):
    void = {"meta", "i", "br", "link", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.bad, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href") or (value or "").startswith("http"):
                self.bad.append(f"{tag} {name}={value}")
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.void:
            return
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"/{tag}")

    def handle_data(self, data):
        self.text += data


def forms():
    files = [w for form in FORMS for w in ("-o", f"r.{form}")]
    sweep = {"schema": "hotlock-try/1", "measure": "wall", "sections": [
        {"locks": [{"n": str(n), "lock": k, "median": n * m}]}
        for n in (1, 2, 4) for k, m in (("libc", 2), ("park", 1))]}
    with open("sweep.json", "w", encoding="ascii") as f:
        json.dump(sweep, f)
    r = run(HOTLOCK, "top", *files, "--sweep", "sweep.json", "--export-workload", "w.c",
            "--", PLANTED, "hot")
    check("all forms in one run", None if r.returncode == 0 else r.stderr)
    modes = {form: stat.S_IMODE(os.stat(f"r.{form}").st_mode) for form in FORMS}
    check("each file is private", None if set(modes.values()) == {0o600} else modes)
    with open("r.json", encoding="utf-8") as f:
        report = json.load(f)
    check("JSON names its schema", None if report["schema"] == "hotlock-top/1" else report)
    with open("r.txt", encoding="utf-8") as f:
        text = f.read()
    check("text on stdout and in a file is the same", None if text == r.stdout else text)
    wide = [line for line in text.splitlines() if len(line) > 100 and "next: " not in line]
    check("text fits 100 columns, but for a command to type", wide and wide[0])
    check("text names lock, verdict and arithmetic", None if re.search(
        r"1\. store\.lock \(mutex\)\n +verdict: .*\n(.*\n)*? +held 1200 x ", text) else text)
    with open("r.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    check("CSV has the locks and their figures", None if rows[0]["lock"] == "store.lock" and
          int(rows[0]["acquisitions"]) == 1200 else rows)
    with open("r.md", encoding="utf-8") as f:
        check("Markdown has the table", None if "| store.lock |" in f.read() else "no row")
    with open("r.folded", encoding="utf-8") as f:
        lines = f.read().splitlines()
    odd = [line for line in lines if not re.fullmatch(r"[^;]+(;[^;]+)* \d+", line)]
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in lines if "[waiting for " in line)
    check("folded stacks: well formed, and their sum is the waiting", odd or (
        None if abs(folded - role_ns(report, "waiter") / 1000) <= len(lines) + 1 else folded))
    sums = pprof_sums("r.pb.gz")
    want = {"delay": role_ns(report, "holder"), "wait": role_ns(report, "waiter"),
            "spin": role_ns(report, "spinner")}
    check("pprof: delay is the holders', wait the waiters', to the nanosecond",
          None if all(sums[k] == n for k, n in want.items()) else (sums, want))
    check("pprof: contentions/count and delay/nanoseconds come first",
          None if list(sums)[:2] == ["contentions", "delay"] else list(sums))
    with open("r.prom", encoding="utf-8") as f:
        prom = f.read()
    bad = [line for line in prom.splitlines() if not re.fullmatch(
        r'# (HELP|TYPE) .*|'
        r'[a-z_]+(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? [0-9.e+-]+', line)]
    check("Prometheus: every line is one", bad and bad[0])
    check("Prometheus: counts", None if re.search(
        r'hotlock_acquisitions_total\{lock="store.lock",.*\} 1200\n', prom) else prom)
    store = report["locks"][0]
    calls = re.search(r'hotlock_calls_seconds_total\{lock="store.lock",.*\} (.*)\n', prom)
    check("time inside calls is the same in JSON, CSV and for Prometheus", None if calls and
          int(rows[0]["calls_ns"]) == store["calls_ns"] > 0 and
          abs(float(calls[1]) * 1e9 - store["calls_ns"]) <= 1 + store["calls_ns"] / 1e8 else
          (rows[0], store["calls_ns"], calls))
    page(report)
    workload()
    next_commands(report)


def page(report):
    with open("r.html", encoding="utf-8") as f:
        source = f.read()
    p = Page()
    p.feed(source)
    check("HTML is well formed and loads nothing", p.bad or p.open or None)
    for part in ("Where the time of each lock went", "who made others wait", "Sweep",
                 report["locks"][0]["verdict"]):
        check(f"HTML says: {part[:40]}", None if part in p.text else "it does not")
    svgs = source.count("<svg")
    check("HTML has its drawings", None if svgs >= 6 else svgs)


def workload():
    cc = run(os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "w.c",
             "-o", "w")
    check("the exported workload compiles", cc.stderr or None)
    r = run("./w", "2")
    check("and runs", None if r.returncode == 0 and re.match(r"\d+ sections in ", r.stdout) else r)
    few = ("--threads", "2", "--lock", "libc,park", "--seeds", "1", "--json")
    r = run(HOTLOCK, "sim", *few, "w.c")
    simulated = json.loads(r.stdout or '{"cells": []}')["cells"]
    check("and is simulated", None if len(simulated) == 2 and not any(
        c["fault"] for c in simulated) else r)
    with open("w.c", encoding="utf-8") as f:
        want = float(re.search(r"held ([\d.e+]+) ns on average", f.read())[1])
    check("a section takes about as long there as it was measured",
          None if simulated and all(0.5 < c["per_section_ns"] / want < 2 for c in simulated)
          else (want, simulated))


TRIES = 5
ODD = ["a b", "it's", "$HOME", ""]


def typed_next(*command):
    """The commands that the report on this one says to type, and how they should begin."""
    r = run(HOTLOCK, "top", "-o", "next.json", "--", *command)
    lines = r.stdout.partition("\nnext: ")[2].splitlines()
    typed = [line.strip() for line in lines if line.strip()]
    with open("next.json", encoding="utf-8") as f:
        report = json.load(f)
    os.unlink("next.json")
    check("the next commands are in the JSON too", None if report["next"] == typed else
          (report["next"], typed))
    want = next_of(report)
    check("they are those for the first lock that is at a limit", None if typed and
          len(typed) == len(want) and all(map(str.startswith, typed, want)) else (want, r.stdout))
    return typed, r


def next_commands(report):
    """What the report says to type, typed: only what is repeated or simulated is cut short."""
    os.mkdir("bin")
    os.symlink(HOTLOCK, "bin/hotlock")
    env = dict(os.environ, PATH=f"{WORK}/bin:{os.environ['PATH']}")
    with open("r.html", encoding="utf-8") as f:
        check("they are in the page", None if report["next"] and all(
            html.escape(line, quote=False) in f.read() for line in report["next"][:1])
              else report["next"])
    typed, r = typed_next(SLOW, "slow", *ODD)
    check("of a lock that another may cure, to try others",
          None if len(typed) == 1 and typed[0].startswith("hotlock try -- ") else r.stdout)
    short = "hotlock try --runs 5 --lock libc,park --json -- "
    for _ in range(TRIES):  # a run that takes many times as long as the others is broken off
        r = run("sh", "-c", typed[0].replace("hotlock try -- ", short) if typed else "false",
                env=env)
        if "over the limit" not in r.stdout:
            break
    tried = [l["lock"] for s in json.loads(r.stdout or '{"sections": []}')["sections"]
             for l in s["locks"]]
    check("which works as typed", None if r.returncode == 0 and sorted(tried) == ["libc", "park"]
          else r)
    typed, r = typed_next(PLANTED, "held", *ODD)
    check("of one that is held: to export a workload and to simulate it",
          None if len(typed) == 2 and "--export-workload hold.c" in typed[0] and
          typed[1] == "hotlock sim hold.c" else r.stdout)
    r = run("sh", "-c", typed[0] if typed else "false", env=env)
    check("the first works as typed, odd words of the program too",
          None if r.returncode == 0 and os.path.exists("hold.c") else r)
    r = run("sh", "-c", f"{typed[-1]} --threads 1 --lock park --seeds 1" if typed else "false",
            env=env)
    check("and the second", None if r.returncode == 0 and "park" in r.stdout else r)


def report_command():
    r = run(HOTLOCK, "report", "-o", "p.html", "--", PLANTED, "idle")
    check("hotlock report writes the page and names it",
          None if r.returncode == 0 and r.stdout == "p.html\n" and os.path.exists("p.html") else r)


# ---- bad input

def bad():
    top = (HOTLOCK, "top")
    check_bad("nothing to watch", "give -- CMD", *top)
    check_bad("two things to watch", "watch one of them", *top, "-p", "1", "--", PLANTED, "idle")
    check_bad("probes without a process", "give -p PID", *top, "--uprobes", "--", PLANTED, "idle")
    check_bad("no such program", "./none", *top, "--", "./none")
    check_bad("a static program", "static", *top, "--", STATIC)
    check_bad("unknown form", "nearest is 'json'", *top, "--format", "jsn", "--", PLANTED, "idle")
    check_bad("a file of no known form", "does not say its form", *top, "-o", "x.doc", "--", "true")
    check_bad("a file that is there", "is there already", *top, "-o", "r.json", "--", "true")
    os.symlink("elsewhere.json", "link.json")
    check_bad("a link", "is there already", *top, "-o", "link.json", "--", "true")
    check("nothing was written through it", os.path.exists("elsewhere.json") and "it was")
    check_bad("no such directory", "none/x.json", *top, "-o", "none/x.json", "--", "true")
    check_bad("unknown lock", "tikcet", *top, "--lock", "tikcet", "--", PLANTED, "idle")
    check_bad("a sweep that is none", "has no results", *top, "--sweep", "r.json", "--", "true")
    check_bad("no directory of symbols", "no directory", *top, "--symbols", "none", "--", "true")
    check_bad("counters of nobody", "no such process", *top, "--counters", "4194303")
    check_bad("report without a file", "use -o", HOTLOCK, "report", "--", "true")
    r = run(*top, "--", "true")
    check("a program without locks: exit 1 and it says so",
          None if r.returncode == 1 and "No lock was taken." in r.stdout else r)


def stripped():
    """Without a symbol all is there but names: one line says so, and the report is whole."""
    shutil.copy(PLANTED, "bare")
    if not shutil.which("strip") or run("strip", "bare").returncode:
        check("a stripped program # SKIP no strip here", None)
        return
    r = run(HOTLOCK, "top", "--json", "--", "./bare", "hot")
    check("a stripped program: one line and exit 2", None if r.returncode == 2 and re.fullmatch(
        r"hotlock top: \./bare hot: stripped, .* holds; .*--symbols DIR\n", r.stderr) else r)
    report = json.loads(r.stdout or '{"locks": [], "notes": []}')
    counts = [l["acquisitions"] for l in report["locks"]]
    check("and every call is counted all the same", None if counts == [1200, 1200] else r)
    check("its locks are told by file and place", None if all(
        re.fullmatch(r"bare\+0x[0-9a-f]+", l["name"]) for l in report["locks"]) else
          [l["name"] for l in report["locks"]])
    check("and it is said what is missing, and the mend", None if any(
        "stripped" in n and "--symbols" in n for n in report["notes"]) else report["notes"])


# ---- ends

def left_over():
    shm = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"
    return sorted(n for n in os.listdir(shm) if re.match(r"hotlock-\d+-", n) and
                  not os.path.exists(f"/proc/{n.split('-')[1]}"))


def wait_for(path):
    end = time.monotonic() + PATIENCE
    while not os.path.exists(path) and time.monotonic() < end:
        select.select([], [], [], 0.01)  # the program has no other way to tell


def interrupted():
    env = dict(os.environ, TRUTH=os.path.join(WORK, "begun"))
    with subprocess.Popen([HOTLOCK, "top", "--json", "--", PLANTED, "forever"], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        wait_for("begun")
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=PATIENCE)
    report = json.loads(out or "{}")
    check("Ctrl-C prints what was gathered, and says it is partial", None if p.returncode == 130 and
          report.get("partial") and report["locks"][0]["acquisitions"] > 20 else (out[:200], err))
    pid = report.get("pid")
    check("the program is gone", None if pid and not os.path.exists(f"/proc/{pid}") else pid)
    check("no record is left behind", left_over() or None)
    r = run(HOTLOCK, "top", "--json", "--time", "2", "--", PLANTED, "forever", env=env)
    report = json.loads(r.stdout or "{}")
    check("--time ends the watching", None if r.returncode == 0 and report.get("partial") else r)


def live(rows, columns):
    """What is on a terminal of this size: all of what matters, each whole."""
    if os.path.exists("begun"):
        os.unlink("begun")
    where = f"live, {columns}x{rows}"
    t = Terminal([HOTLOCK, "top", "--live", "--", PLANTED, "forever"], rows, columns,
                 TRUTH=os.path.join(WORK, "begun"))
    whole = ("held", "freed with somebody waiting", "waited", "threads on average")
    # A screen may be looked at while it is drawn: wait for the last of what is asked for below.
    shown = t.until(lambda lines: all(w in " ".join(" ".join(lines).split()) for w in whole) and
                    (rows < 24 or any("made others wait" in line for line in lines)), PATIENCE)
    lines = t.screen.text()
    words = " ".join(" ".join(lines).split())
    check(f"{where}: shows the lock, its verdict and its stacks", None if shown and
          lines[2].startswith("store.lock ") and "store.lock (mutex)" in words else lines)
    check(f"{where}: says which keys there are", None if lines[0].endswith("(h: help, q: end)")
          else lines[0])
    check(f"{where}: the table's columns are whole", None if lines[1].split()[0] == "lock" and
          lines[1].split()[-1] == "held" and lines[2].endswith("%") else lines[1:3])
    check(f"{where}: the arithmetic is whole", None if all(w in words for w in whole) else lines)
    check(f"{where}: nothing is written beyond it", t.screen.beyond or None)
    t.key("h")
    check(f"{where}: h shows the keys", None if t.until(
        lambda lines: any("stop watching" in line for line in lines), PATIENCE) else
          t.screen.text())
    t.key("hsq")
    code = t.end(PATIENCE)
    check(f"{where}: q ends with the report", None if code == 130 else code)


# ---- counters of named locks

def counters():
    with subprocess.Popen([COUNTED], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as p:
        p.stdout.readline()  # it has named and taken them
        r = run(HOTLOCK, "top", "--counters", p.pid, "--json")
        prom = run(HOTLOCK, "top", "--counters", p.pid, "--format", "prometheus")
        p.stdin.close()
        code = p.wait(timeout=PATIENCE)
    locks = {l["name"]: l for l in json.loads(r.stdout or '{"locks": []}')["locks"]}
    db = locks.get("db mutex")
    check("named locks are read from a running program",
          None if db and db["acquisitions"] == 1000 and "log" in locks else r)
    check("its waits too", None if db and db["contended"] == 1 and db["wait_ns"] > 0 else db)
    check("for Prometheus", None if 'lock="db mutex"' in prom.stdout else prom)
    check("the program went on undisturbed", code or None)
    r = run(HOTLOCK, "top", "--json", "--", COUNTED)
    check("hotlock top -- CMD shows them beside the others", None if any(
        l["name"] == "db mutex" and l["acquisitions"] == 1000
        for l in json.loads(r.stdout)["locks"]) else r)


def live_views():
    for size in ((24, 80), (15, 60), (24, 100)):
        live(*size)


run_parts(forms, report_command, bad, stripped, interrupted, live_views, counters)
done()
