#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the simulator must get right and what it must refuse. behaviour.py HOTLOCK INCLUDE; TAP."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent / "behaviour"
HOTLOCK, INCLUDE = sys.argv[1:3]
SMALL = ["--seeds", "2", "--threads", "4", "--machine", "graviton3"]
count = bad = 0


def check(good, what, seen=""):
    global count, bad
    count += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {count} - {what}", flush=True)
    if not good:
        print("".join(f"# {line}\n" for line in str(seen).splitlines()), end="", flush=True)


def sim(*words, **more):
    return subprocess.run([HOTLOCK, *words], capture_output=True, text=True, check=False, timeout=300, **more)


def refused(words, wanted, what):
    done = sim(*words)
    lines = done.stderr.splitlines()
    good = done.returncode == 2 and len(lines) == 1 and re.search(wanted, lines[0]) and not done.stdout
    check(good, f"refused with one line: {what}", f"exit {done.returncode}\n{done.stdout}{done.stderr}")


def cells(done):
    return json.loads(done.stdout)["cells"]


def programs():
    source = str(HERE / "counter.c")
    done = sim("sim", source, *SMALL, "--json", "--", "{threads}")
    check(done.returncode == 0 and all(not c["fault"] for c in cells(done)),
          "an ordinary program runs right under libc's mutex and each of ours", done.stdout + done.stderr)
    again = sim("sim", source, *SMALL, "--json", "--", "{threads}")
    host = re.compile(r'"(accesses_per_host_s|with_waits_per_host_s|peak_kib)": [^,\n]*')
    check(host.sub("", done.stdout) == host.sub("", again.stdout), "the same seeds give the same result")
    check("SIMULATED" in done.stdout and "fitted: block" in done.stdout and "2 seeds" in done.stdout,
          "the result says that it is simulated, with seeds and what was fitted")
    done = sim("sim", source, "--seeds", "1", "--threads", "300", "--machine", "graviton3", "--lock", "libc,nmcs4",
               "--json", "--", "{threads}")
    check(done.returncode == 0 and all(not c["fault"] for c in cells(done)), "more threads than CPUs",
          done.stdout + done.stderr)
    for compiler in ("gcc", "clang"):
        done = sim("sim", source, "--cc", compiler, *SMALL, "--lock", "park", "--", "{threads}")
        check(done.returncode == 0, f"built by {compiler}", done.stderr)


    done = sim("sim", str(HERE / "waiting.c"), *SMALL, "--json", "--metric", "right ([0-9])")
    check(done.returncode == 0 and all(c["rate"] == 1 for c in cells(done)),
          "conditions, barriers, read-write locks, semaphores, once, spin locks", done.stdout + done.stderr)
    done = sim("sim", str(HERE / "wide.cpp"), *SMALL, "--lock", "libc", "--json", "--metric", "sum ([0-9]+)",
               "--cflag", "-mcx16" if os.uname().machine == "x86_64" else "-O2")
    check(done.returncode == 0 and cells(done)[0]["rate"] == 800, "C++ with atomics of 16 bytes",
          done.stdout + done.stderr)


def waits():
    done = sim("sim", str(HERE / "bounded.c"), "--seeds", "1", "--threads", "1", "--lock", "libc", "--json",
               "--metric", r"turns ([0-9]+)")
    check(done.returncode == 0 and cells(done)[0]["rate"] == 1000, "a bounded spin makes every turn", done.stdout)
    wanted = {"waited": (50000, 56000), "timed 1": (200000, 230000), "woken": (300000, 400000),
              "again": (600000, 800000)}
    for name, (least, most) in wanted.items():
        done = sim("sim", str(HERE / "bounded.c"), "--seeds", "1", "--threads", "1", "--lock", "libc", "--json",
                   "--metric", name + r" ([0-9]+)")
        value = cells(done)[0]["rate"] if done.returncode == 0 else None
        check(value is not None and least <= value <= most, f"a wait ends when it should: {name}", value)


def stuck():
    done = sim("sim", str(HERE / "deadlock.c"), *SMALL, "--lock", "libc")
    check(done.returncode == 3 and "deadlock" in done.stdout and "forth" in done.stdout and "back" in done.stdout,
          "a deadlock is reported with each thread's stack, exit 3", done.stdout + done.stderr)


def machine(change):
    shipped = sim("machines", "graviton3", "--json")
    numbers = {n["number"]: {"ns" if n["number"] not in PLAIN else "value": n["value"], "kind": n["kind"],
                             "source": n["source"]} for n in json.loads(shipped.stdout)["numbers"]}
    m = {"name": "test", "topology": "pack:1 l3:1 core:4 pu:1", "numbers": numbers}
    change(m)
    file = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
    json.dump(m, file)
    file.close()
    return file.name


PLAIN = ("clock_ghz", "smt_slow", "disorder", "nearest", "migratory", "buffer")


def refusals():
    source = str(HERE / "counter.c")
    refused(["sim"], "no program given", "no program")
    refused(["sim", "nosuch"], "neither a workload nor a file", "no such program")
    refused(["sim", "/bin/true"], "not built to be simulated.*--build", "a program not instrumented")
    refused(["sim", str(HERE / "hidden.c")], "take\\(\\).*inline assembly", "a lock in inline assembly, by function")
    refused(["sim", str(HERE.parent / "clients" / "torture.c"), "-I", INCLUDE, "--cflag", "-Dmain=other"],
            "cannot link.*undefined reference", "what does not link")
    refused(["sim", source, "--machine", "graviton4"], "nearest is 'graviton3'", "an unknown machine")
    refused(["sim", source, "--lock", "tikcet"], "nearest is 'ticket'", "an unknown lock")
    refused(["sim", source, "--threads", "0"], "--threads '0'", "no threads")
    refused(["sim", source, "--place", "0-99", "--machine", "graviton3"], "CPUs 0 to 63", "a CPU it does not have")
    changes = {
        "a missing number": (lambda m: m["numbers"].pop("dirty_l3"), "dirty_l3 is missing"),
        "an absurd number": (lambda m: m["numbers"]["rmw"].update(ns=1e9), "rmw: 1e\\+09 ns is too large"),
        "a number without a source": (lambda m: m["numbers"]["hit"].pop("source"), "hit: 'source' is missing"),
        "an unknown number": (lambda m: m["numbers"].update(rmv=1), "unknown number 'rmv'; nearest is 'rmw'"),
        "a topology that is none": (lambda m: m.update(topology="four cores"), "no topology"),
    }
    for what, (change, wanted) in changes.items():
        file = machine(change)
        refused(["sim", source, "--machine", file], re.escape(file) + ".*" + wanted, what)
        os.unlink(file)


def objects():
    with tempfile.TemporaryDirectory() as d:
        plain, program = f"{d}/plain.o", f"{d}/program"
        subprocess.run(["gcc", "-c", str(HERE / "counter.c"), "-o", plain], check=True)
        refused(["sim", plain], "not instrumented.*-fsanitize=thread", "an object not instrumented")
        done = sim("sim", "--build", program, str(HERE / "counter.c"))
        check(done.returncode == 0 and os.access(program, os.X_OK), "--build writes a program", done.stderr)
        done = sim("sim", program, *SMALL, "--lock", "mcs", "--csv", "-o", f"{d}/out.csv", "--", "{threads}")
        check(done.returncode == 0 and "SIMULATED" in pathlib.Path(f"{d}/out.csv").read_text(),
              "a built program is simulated, and even its CSV says so", done.stderr)


def calibration():
    with tempfile.TemporaryDirectory() as d:
        if len(os.sched_getaffinity(0)) < 2:
            print("# one CPU only: nothing to calibrate")
            return
        done = sim("calibrate", "-o", f"{d}/host.json")
        check(done.returncode == 0, "calibrate writes a machine file", done.stderr)
        done = sim("machines", f"{d}/host.json", "--json")
        kinds = {n["number"]: n["kind"] for n in json.loads(done.stdout)["numbers"]} if done.stdout else {}
        check(kinds.get("dirty_l3") in ("measured", "estimated") and kinds.get("pause") == "measured",
              "with the kind of each number", done.stdout + done.stderr)
        done = sim("sim", str(HERE / "counter.c"), "--machine", f"{d}/host.json", "--seeds", "1", "--threads", "2",
                   "--lock", "libc,mcs", "--", "{threads}")
        check(done.returncode == 0, "which can be simulated", done.stdout + done.stderr)


def topologies():
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["lstopo-no-graphics", "-i", "pack:2 l3:1 core:4 pu:2", f"{d}/shape.xml"], check=True,
                       capture_output=True)
        shipped = sim("machines", "e5-2699v3-2s", "--json")
        numbers = {n["number"]: {"ns" if n["number"] not in PLAIN else "value": n["value"], "kind": n["kind"],
                                 "source": n["source"]} for n in json.loads(shipped.stdout)["numbers"]}
        pathlib.Path(f"{d}/box.json").write_text(json.dumps(
            {"name": "box", "topology_xml": "shape.xml", "numbers": numbers}))
        done = sim("sim", str(HERE / "counter.c"), "--machine", f"{d}/box.json", "--seeds", "1", "--lock",
                   "libc", "--json", "--", "{threads}")
        seen = [c["threads"] for c in cells(done)] if done.returncode == 0 else done.stderr
        check(seen == [1, 2, 4, 8, 16], "a topology from lstopo's XML; all threads up to its edge", seen)


programs()
waits()
stuck()
refusals()
objects()
calibration()
topologies()
print(f"1..{count}")
sys.exit(bad > 0)
