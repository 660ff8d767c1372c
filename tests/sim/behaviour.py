#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the simulator must get right and what it must refuse. behaviour.py HOTLOCK INCLUDE; TAP."""
import csv
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


LAST = None


def sim(*words):
    global LAST
    with subprocess.Popen([HOTLOCK, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as LAST:
        try:
            out, err = LAST.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            LAST.terminate()
            raise
    return subprocess.CompletedProcess(words, LAST.returncode, out, err)


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
    done = sim("sim", str(HERE / "shared.c"), *SMALL, "--lock", "libc,ticket", "--json", "--metric", "right ([0-9])")
    check(done.returncode == 0 and all(c["rate"] == 1 for c in cells(done)),
          "objects made for sharing between processes", done.stdout + done.stderr)
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


    for compiler in ("gcc", "clang"):
        done = sim("sim", str(HERE / "delays.c"), "--seeds", "1", "--threads", "3", "--machine", "graviton3", "--lock",
                   "libc", "--json", "--cc", compiler, "--metric", "late ([0-9]+)")
        cell = cells(done)[0] if done.returncode == 0 else {"rate": 1e9}
        check(cell["rate"] < 200 and cell["with_waits_per_host_s"] > 3 * cell["accesses_per_host_s"],
              f"delays by the clock end in time, though most of their turns are not run, {compiler}", cell)


def stuck():
    done = sim("sim", str(HERE / "deadlock.c"), *SMALL, "--lock", "libc")
    check(done.returncode == 3 and "deadlock" in done.stdout and "forth" in done.stdout and "back" in done.stdout,
          "a deadlock is reported with each thread's stack, exit 3", done.stdout + done.stderr)


    done = sim("sim", str(HERE / "crash.c"), *SMALL, "--lock", "libc")
    stacks = [line.strip() for line in done.stdout.splitlines() if line.startswith("  thread ")]
    check(done.returncode == 3 and "crashed: SIGSEGV at address 0, in thread 1" in done.stdout and len(stacks) == 3 and
          "broken (crash.c:10)" in stacks[1] and "holder" in stacks[1] and "waiter" in stacks[2],
          "a crash is reported with the signal, the line and each thread's stack, exit 3", done.stdout + done.stderr)
    done = sim("sim", str(HERE / "crash.c"), *SMALL, "--lock", "libc", "--cflag", "-DABORT")
    check(done.returncode == 3 and "called abort()" in done.stdout and "holder (crash.c:" in done.stdout,
          "and so is a call of abort()", done.stdout + done.stderr)
    done = sim("sim", str(HERE / "overflow.c"), *SMALL, "--lock", "libc", "--cflag", "-Wno-infinite-recursion")
    check(done.returncode == 3 and re.search("SIGSEGV at address 0x[0-9a-f]+, in thread 2", done.stdout) and
          "deeper (overflow.c:" in done.stdout, "a stack that is used up meets its guard page", done.stdout + done.stderr)
    left = [f for f in os.listdir(tempfile.gettempdir()) if f.startswith(f"hotlock-sim.{LAST.pid}")]
    check(not left, "neither leaves a file behind", left)


def interrupted():
    with subprocess.Popen([HOTLOCK, "sim", "counter", "--lock", "mcs,qspin", "--threads", "1,2,4", "--time", "2000",
                           "--seeds", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
        while run.poll() is None and not children.read_text().split():
            pass
        run.terminate()
        out = run.communicate(timeout=120)[0]
    lines = [line for line in out.splitlines() if "no result" in line or "PARTIAL: interrupted; " in line]
    check(run.returncode == 130 and lines == ["PARTIAL: interrupted; 6 of 6 results are missing"] and
          "PARTIAL" in out.split("\n\n", maxsplit=1)[0], "an interruption is told in one line, exit 130", out)


def second_process():
    for how in ("fork", "vfork", "clone"):
        done = sim("sim", str(HERE / "second.c"), *SMALL, "--lock", "libc", "--", how)
        said = [line for line in done.stdout.splitlines() if f"calls {how}()" in line]
        check(done.returncode == 2 and len(said) == 1 and "use threads" in said[0],
              f"{how}() is refused with one line, exit 2", done.stdout + done.stderr)


def c11():
    done = sim("sim", str(HERE / "c11.c"), *SMALL, "--json")
    check(done.returncode == 0 and all(not c["fault"] for c in cells(done)),
          "C11's mutex and condition variable, in memory that held something else", done.stdout + done.stderr)


def affinity():
    for compiler in ("gcc", "clang"):
        done = sim("sim", str(HERE / "affinity.c"), *SMALL, "--lock", "libc", "--json", "--metric", "right ([0-9])",
                   "--cc", compiler)
        check(done.returncode == 0 and cells(done)[0]["rate"] == 1,
              f"threads run where they are bound, {compiler}", done.stdout + done.stderr)
    done = sim("sim", str(HERE / "placed.c"), "--machine", "e7-8895v3-4s", "--threads", "4", "--lock", "libc",
               "--seeds", "1", "--json", "--metric", "sockets ([0-9])")
    check(done.returncode == 0 and cells(done)[0]["rate"] == 4,
          "threads that sleep until all are there are spread over the sockets", done.stdout + done.stderr)


def fibers():
    for way, hosts in (("by hand", 1), ("threads", 4)):
        os.environ["HOTLOCK_FIBERS"] = way
        done = sim("sim", str(HERE / "fibers.c"), *SMALL, "--lock", "libc", "--json", "--metric", "host ([0-9])")
        check(done.returncode == 0 and cells(done)[0]["rate"] == hosts, f"virtual CPUs, {way}", done.stdout + done.stderr)
        done = sim("sim", str(HERE / "waiting.c"), *SMALL, "--json", "--metric", "right ([0-9])")
        check(done.returncode == 0 and all(c["rate"] == 1 for c in cells(done)), f"a program on them, {way}",
              done.stdout + done.stderr)
    del os.environ["HOTLOCK_FIBERS"]


def per_seed():
    words = ["sim", str(HERE / "counter.c"), *SMALL, "--lock", "libc,mcs", "--csv"]
    rows = {}
    for more in ([], ["--each-seed"]):
        done = sim(*words, *more, "--", "{threads}")
        rows[bool(more)] = list(csv.DictReader(line for line in done.stdout.splitlines() if line[:1] != "#"))
    each = [(r["lock"], r["seed"]) for r in rows[True]]
    check(each == [("libc", "1"), ("libc", "2"), ("mcs", "1"), ("mcs", "2")], "--each-seed gives a row per seed", each)
    mean = sum(float(r["rate"]) for r in rows[True][:2]) / 2
    check(len(rows[False]) == 2 and abs(mean / float(rows[False][0]["rate"]) - 1) < 1e-6,
          "and without it their median", rows)
    done = sim("sim", "counter", "--lock", "mcs:spin", "--threads", "4", "--seeds", "1", "--lines")
    check(re.search(r"counter\.c:[0-9]+ +section in counter_mcs ", done.stdout) and
          re.search(r"hl_[a-z_]+ in hl_mcs_unlock", done.stdout),
          "--lines names the inlined function and the one it is in", done.stdout + done.stderr)


def workloads():
    if os.path.isdir("/dev/shm"):
        os.environ["TMPDIR"] = "/dev/shm"  # stat makes 15000 files
    for name in ("counter", "slab", "runqueue", "stat", "fcntl"):
        done = sim("sim", name, "--seeds", "1", "--threads", "3", "--lock", "pthread_mutex,pthread_spin,ali", "--json")
        good = done.returncode == 0 and all(c["rate"] and not c["fault"] for c in cells(done))
        check(good, f"workload {name}", done.stdout + done.stderr)
        spun = [c["spin_share"] for c in cells(done)] if good else []
        check(good and all(0 <= share <= 1 for share in spun), f"{name} spins no longer than it runs", spun)
    source, parts = HERE.parents[2], pathlib.Path(HOTLOCK).resolve().parents[1] / "sim" / "programs"
    with tempfile.TemporaryDirectory() as d:
        program = f"{d}/pair"
        built = sim("sim", "--build", program, "-I", INCLUDE, "--library", "m", "--library", "jansson",
                    *(str(source / "workloads" / f"{f}.c") for f in ("pair", "pair_inline", "pair_called")),
                    *(str(source / "src" / "lib" / f"{f}.c") for f in ("hotlock", "count")),
                    str(parts / "libsim-frame.a"), str(parts / "libsim-modules.a"))
        done = sim("sim", program, "--seeds", "1", "--threads", "1", "--lock", "libc", "--json", "--metric",
                   '"lock":"exchange.store","form":"reference","min_ns":([0-9.]+)', "--", "--seconds=0.001", "--json")
        check(done.returncode == 0 and 10 < cells(done)[0]["rate"] < 15, "workload pair: an exchange and a store, alone",
              built.stderr + done.stdout + done.stderr)
        check("'jansson' is not simulated" in built.stderr and "'m'" not in built.stderr,
              "a library that is not simulated is named", built.stderr)
    done = sim("sim", "counter", "--seeds", "1", "--threads", "384", "--machine", "epyc-9654-2s", "--lock", "mcs:spin",
               "--time", "0.2", "--json")
    os.environ.pop("TMPDIR", None)
    check(done.returncode == 0 and cells(done)[0]["peak_kib"] < 1 << 20, "384 CPUs in less than 1 GB", done.stdout)


def debugger():
    with tempfile.TemporaryDirectory() as d:
        commands = pathlib.Path(d) / "commands"
        commands.write_text("set breakpoint pending on\nbreak take_token\nrun\nbacktrace\ndelete\ncontinue\n")
        done = sim("sim", str(HERE / "waiting.c"), "--threads", "4", "--lock", "libc", "--debugger",
                   f"gdb -q -nx -batch -x {commands} --args")
        check(re.search(r"Breakpoint 1, take_token \(\)", done.stdout) and re.search(r"#1 .* work \(arg=", done.stdout)
              and "vm_thread_body" in done.stdout and "right 1" in done.stdout,
              "gdb stops in a simulated function, knows its callers and goes on", done.stdout + done.stderr)


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


PLAIN = ("clock_ghz", "smt_slow", "home", "disorder", "nearest", "migratory", "buffer")


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
        if "correct it by hand" in done.stderr:
            print(f"# this machine is too busy: {done.stderr}", end="")
            return
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
interrupted()
second_process()
affinity()
c11()
fibers()
per_seed()
workloads()
debugger()
refusals()
objects()
calibration()
topologies()
print(f"1..{count}")
sys.exit(bad > 0)
