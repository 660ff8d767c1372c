#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""many.py HOTLOCK PLANTED: a million locks, and a million stacks. Memory stays within the bounds
that docs/top.md states, and what was dropped is counted and said."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "workloads"))
from parts import run_parts  # noqa: E402
from tap import PATIENCE, check, done, run  # noqa: E402

HOTLOCK, PLANTED = sys.argv[1:3]
WORK = tempfile.mkdtemp()
TRUTH = os.path.join(WORK, "truth")
MANY = 1000000
RECORDER_KB = 80 * 1024   # in the program: the file of records
TOP_KB = 400 * 1024       # the command itself, and every process it starts


def measured(*options, scene):
    """Exit code, output, the largest process in kB, and what the scene says of itself."""
    with open(os.path.join(WORK, "out"), "w+b") as out:
        p = subprocess.Popen([HOTLOCK, "top", *options, "--", PLANTED, scene], stdout=out,
                             stdin=subprocess.DEVNULL, env=dict(os.environ, TRUTH=TRUTH))
        status, used = os.wait4(p.pid, 0)[1:]
        p.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode()
    with open(TRUTH, encoding="ascii") as f:
        return p.returncode, text, used.ru_maxrss, json.load(f)


def alone(scene):
    subprocess.run([PLANTED, scene], env=dict(os.environ, TRUTH=TRUTH), check=True,
                   timeout=PATIENCE)
    with open(TRUTH, encoding="ascii") as f:
        return json.load(f)["rss"]


def locks():
    before = alone("many")
    _, text, kb, truth = measured("--json", scene="many")
    report = json.loads(text)
    listed = sum(l["acquisitions"] for l in report["locks"])
    lost = report["dropped"]["acquisitions"]
    check("a million locks: those that are kept are listed", None if 1000 < len(report["locks"]) <=
          65535 else len(report["locks"]))
    check("and each other acquisition is counted as dropped",
          None if lost > 0 and listed + lost == truth["taken"] == MANY else (listed, lost))
    check(f"the recorder takes at most {RECORDER_KB >> 10} MB in the program",
          None if truth["rss"] - before < RECORDER_KB else (before, truth["rss"]))
    check(f"the command at most {TOP_KB >> 10} MB, JSON of them all included", None if kb < TOP_KB
          else kb)
    _, text, kb, _ = measured("--limit", "5", scene="many")
    check("the report says how many were dropped",
          None if f"dropped: {MANY - 65535} acquisitions" in text or
          (lost != MANY - 65535 and "dropped: " in text) else text)


def stacks():
    before = alone("paths")
    _, text, kb, truth = measured(scene="paths")
    words = " ".join(text.split())
    check("a million stacks: what is kept of them is bounded, the rest counted",
          None if f"dropped: the stacks of {MANY - 8192} waits and holds" in words else text)
    check("and a million locks made and gone one after the other use one place",
          None if f"not listed: {MANY} locks" in words else text)
    check("in little memory, here and there", None if truth["rss"] - before < RECORDER_KB and
          kb < TOP_KB else (before, truth["rss"], kb))


def outside():
    env = dict(os.environ, TRUTH=TRUTH)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(TRUTH)
    with subprocess.Popen([PLANTED, "words"], stdin=subprocess.PIPE, env=env) as planted:
        end = time.monotonic() + PATIENCE
        while not os.path.exists(TRUTH) and time.monotonic() < end:
            os.sched_yield()
        with open(os.path.join(WORK, "out"), "w+b") as out:
            said = os.path.join(WORK, "said.txt")
            p = subprocess.Popen([HOTLOCK, "top", "--json", "-o", said, "--frequency", "0", "-p",
                                  str(planted.pid)], stdout=out)
            # Attached once it has a ring to read: then the words may come.
            while p.poll() is None and not attached(p.pid) and time.monotonic() < end:
                os.sched_yield()
            planted.stdin.write(b"\n")
            planted.stdin.close()
            status, used = os.wait4(p.pid, 0)[1:]
            p.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            report = json.loads(out.read())
    dropped, listed = report["dropped"], len(report["locks"])
    check("from outside: as many words as there is room for",
          None if 0 < listed <= 8192 else listed)
    slept = sum(l["contended"] for l in report["locks"])
    check("and the sleeps on others are counted: there are none that are neither",
          None if dropped["waits"] and 0.9 < (slept + dropped["waits"]) / (MANY / 10) < 1.01
          else (dropped, slept))
    words = " ".join(pathlib.Path(said).read_text(encoding="utf-8").split())
    check("and said", None if f"dropped: {dropped['waits']} waits for locks beyond" in words
          else words[-2000:])
    check("in little memory", None if used.ru_maxrss < TOP_KB else used.ru_maxrss)


def attached(pid):
    """BPF programs attached: links among its open files."""
    try:
        return any("bpf_link" in os.readlink(f"/proc/{pid}/fd/{fd}")
                   for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


run_parts(locks, stacks)
if run(HOTLOCK, "top", "-a", "--time", "0.01", "--json").returncode == 2:
    print("# not asked: from outside, for BPF is not allowed here", flush=True)
else:
    run_parts(outside)
done()
