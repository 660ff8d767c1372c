#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hotlock top -p and -a against a program that knows its own locks: names, kinds, shares, stacks;
then what must be refused, and that a program watched a hundred times is none the worse.

bpf.py HOTLOCK PLANTED SCENES
"""
import contextlib
import ctypes
import functools
import json
import mmap
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "workloads"),
                str(pathlib.Path(__file__).parents[1])]
from parts import counts, run_parts  # noqa: E402
from tap import PATIENCE, check, done, run  # noqa: E402

HOTLOCK, PLANTED, SCENES = sys.argv[1:4]  # SCENES: ../planted.c
LOCKS = ["registry", "session", "table", "gate", "turnstile"]
NAMES = {"registry": "registry.shard[2].guard", "session": "struct session.door",
         "table": "table.latch", "gate": "gate.busy", "turnstile": "turnstile"}
KINDS = {"registry": "mutex", "session": "mutex", "table": "rwlock", "gate": "home-made loop",
         "turnstile": "spinlock"}
TIMES = 100  # of attaching and leaving
TRIES = 8    # to see what needs two threads at once


class Sums(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("wait", "waits", "hold", "spin")]


class Truth(ctypes.Structure):
    _fields_ = [("now", ctypes.c_uint64), ("cpu", ctypes.c_uint64), ("lock", Sums * len(LOCKS)),
                ("jobs", ctypes.c_uint64), ("work", ctypes.c_uint64)]


class Planted:
    """The program, and what it has measured of itself."""

    def __init__(self, folder, program=PLANTED, **more):
        self.file = pathlib.Path(folder) / "truth"
        self.process = subprocess.Popen([program, self.file], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, **more)
        self.process.stdout.readline()
        with open(self.file, "rb") as f:
            self.bytes = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)

    @property
    def pid(self):
        return str(self.process.pid)

    def truth(self):
        return Truth.from_buffer_copy(self.bytes)

    def end(self):
        """Its last line and exit code."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        text = self.process.stdout.read()
        return text.strip(), self.process.wait()


def delta(before, after):
    """Of each lock: what the program measured between two moments."""
    return {name: {field: getattr(after.lock[i], field) - getattr(before.lock[i], field)
                   for field, _ in Sums._fields_} for i, name in enumerate(LOCKS)}


def top(*options, code=0):
    """The result of hotlock top as a dictionary, and what is wrong if there is none."""
    r = run(HOTLOCK, "top", *options, "--json")
    if r.returncode != code:
        return None, f"exit {r.returncode}: {r.stderr}"
    return json.loads(r.stdout), None


def watched(planted, *options):
    """The report on the program; what it measured of itself meanwhile, over how many ns of time and
    of CPU time; and what is wrong. Again, if one of the two stood still while the other went on."""
    for _ in range(TRIES):
        before = planted.truth()
        result, problem = top("-p", planted.pid, *options)
        after = planted.truth()
        if problem or 0.8 < (after.now - before.now) / 1e9 / result["wall_s"] < 2:
            break
    return result, delta(before, after), after.now - before.now, after.cpu - before.cpu, problem


def lock_of(result, name):
    return next((l for l in result["locks"] if l["name"] == NAMES[name]), None)


def apart(what, got, want, tolerance):
    """A complaint if two figures differ by more than this factor."""
    if got and want and want / tolerance <= got <= want * tolerance:
        return ""
    return f"{what}: {got} instead of {want} (within a factor of {tolerance})\n"


# ------------------------------------------------------------------------- what it finds
def check_found(result):
    problem = ""
    for name in LOCKS:
        lock = lock_of(result, name)
        if not lock:
            problem += f"no {NAMES[name]} among {[l['name'] for l in result['locks']]}\n"
        elif lock["kind"] != KINDS[name]:
            problem += f"{NAMES[name]} is a {lock['kind']} instead of a {KINDS[name]}\n"
    check("every kind of lock is found and named", problem)
    text = json.dumps(result["locks"])
    check("a thread waiting for work waits for no lock",
          "jobs_there" in text and "jobs_there is listed")


def check_figures(result, measured, wall, cpu):
    problem = ""
    for name in ("registry", "session", "table"):
        problem += apart(f"threads waiting for {name} on average",
                         (lock_of(result, name)["wait_ns"] or 0) / 1e9 / result["wall_s"],
                         measured[name]["wait"] / wall, 1.4)
    check("waiting, as the program's own clock has it", problem)
    problem = ""
    for name in ("registry", "session", "table", "turnstile"):
        got, want = lock_of(result, name)["utilisation"], measured[name]["hold"] / wall
        if got is None or abs(got - want) > 0.15:
            problem += f"{name} is held {got} of the time instead of {want:.2f}\n"
    check("the share of time each lock is held", problem)
    problem = ""
    for name in ("gate", "turnstile"):
        got, want = lock_of(result, name)["cpu_spin_share"], measured[name]["spin"] / cpu
        if got is None or abs(got - want) > 0.15:
            problem += f"spinning for {name} takes {got} of the CPU time instead of {want:.2f}\n"
    check("the share of CPU time spent spinning", problem)


def stacks(lock, role):
    """Function names, without what the compiler adds to a copy of its own."""
    if not lock:
        return []
    return [[(f["function"] or "?").split(".")[0] for f in s["frames"]]
            for s in lock["stacks"] if s["role"] == role]


def check_stacks(result):
    problem = ""
    for name in ("registry", "session", "table"):
        lock = lock_of(result, name)
        waiter, holder = stacks(lock, "waiter"), stacks(lock, "holder")
        if not waiter or waiter[0][0] != f"want_{name}":
            problem += f"{name} is waited for in {waiter[:1]}\n"
        if not holder or holder[0][0] != f"hold_{name}":
            problem += f"{name} is held in {holder[:1]}\n"
        if waiter and f"wants_{name}" not in waiter[0]:
            problem += f"who called want_{name}() is lost: {waiter[0]}\n"
    # Either may have lost its processor while it had the gate, and the other spun the longer.
    spinner = stacks(lock_of(result, "gate"), "spinner")
    if not spinner or spinner[0][:2] not in (["gate_lock", "want_gate"],
                                             ["gate_lock", "hold_gate"]):
        problem += f"the inlined loop is in {spinner[:1]}\n"
    check("who waits and who made them wait", problem)


def check_program(folder):
    planted = Planted(folder)
    result, *measured, problem = watched(planted, "--time", "3")
    check("a running program can be watched", problem)
    if result:
        check_found(result)
        if all(lock_of(result, name) for name in LOCKS):
            check_figures(result, *measured)
            check_stacks(result)
        words = f" -- {PLANTED} {planted.file}"
        check("what to type next has the words it was started with", not (result["next"] and all(
            words in line or line == "hotlock sim hold.c" for line in result["next"])) and
              str(result["next"]))
    planted.end()


def check_uprobes(folder):
    """Every call counted from outside, to the last: the program counts them too."""
    go, file = pathlib.Path(folder) / "go", pathlib.Path(folder) / "taken"
    with subprocess.Popen([SCENES, "rate"], env=dict(os.environ, GO=go, TRUTH=file),
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        watcher = subprocess.Popen([HOTLOCK, "top", "-p", str(program.pid), "--uprobes", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while watcher.poll() is None and not counts(watcher.pid, "perf_event"):
            os.sched_yield()
        go.touch()
        text, error = watcher.communicate(timeout=PATIENCE)
    check("lock calls can be counted from outside", watcher.returncode and error)
    locks = json.loads(text)["locks"] if text else []
    truth = json.loads(file.read_text())
    four = [l for l in locks if l["name"].startswith("four[")]
    check("every acquisition of each lock is, while the program runs", None if len(four) == 4 and
          sum(l["acquisitions"] for l in four) == truth["taken"] else
          (truth["taken"], [(l["name"], l["acquisitions"]) for l in locks]))
    check("holds are, too", None if four and all(l["hold_samples"] == l["acquisitions"] and
          l["hold_ns"] and l["hold_worst_ns"] for l in four) else four)
    planted = Planted(folder)
    result, *_, problem = watched(planted, "--uprobes", "--time", "3")
    check("and waits and stacks are what they are without", problem)
    if result:
        check_stacks(result)
    planted.end()


def mmap_holders(result):
    """Of each address space of programs named so, who had its lock: another such may run."""
    return [{f["function"] for s in l["stacks"] if s["role"] == "holder" for f in s["frames"]}
            for l in result["locks"] if l["name"] == "mmap_lock of planted"]


def check_kernel(folder):
    planted = Planted(folder)
    own = {f"planted (process {planted.pid})"}
    for _ in range(TRIES):  # who had it is known of waits that a writer caused
        result, problem = top("-a", "-p", planted.pid, "--time", "2")
        if problem or own in mmap_holders(result):
            break
    check("the kernel and a program can be watched together", problem)
    if result:
        names = {l["name"]: l["kind"] for l in result["locks"]}
        check("the kernel's lock of the address space is there and named",
              names.get("mmap_lock of planted") != "kernel rwsem" and str(names))
        holders = mmap_holders(result)
        check("it is the program itself that had it", None if own in holders else holders)
        check("and in the same table the program's", NAMES["registry"] not in names and str(names))
    planted.end()


def of_machine(scene):
    """The kernel's locks and a program's, in one table."""
    r = run(HOTLOCK, "top", "-a", "--json", "--", SCENES, scene)
    if r.returncode:
        check(f"-a and -- CMD go together: {scene}", f"exit {r.returncode}: {r.stderr}")
    return json.loads(r.stdout or '{"locks": []}')["locks"]


def bucket_of(locks):
    return [l for l in locks if l["name"] == "futex bucket of store.lock"]


def check_bucket():
    # The bucket is waited for only while two threads of the program run at once: on a busy machine
    # that may not come about in one run.
    for _ in range(TRIES):
        locks = of_machine("bucket")
        if bucket_of(locks):
            break
    store = next((l for l in locks if l["name"] == "store.lock"), None)
    check("the program's mutex is there, with what only its recorder counts",
          None if store and store["acquisitions"] == 2 and store["contended"] == 1 else store)
    bucket = bucket_of(locks)
    check("and the kernel's spinlock of its futex under its name, joined by its address",
          None if bucket and store and bucket[0]["joined"] == store["address"] and
          bucket[0]["kind"] == "kernel spinlock" else [(l["name"], l["joined"]) for l in locks[:20]])


def check_globals():
    """A lock there is one of: by its symbol, or where the kernel does not tell, by who takes it."""
    for _ in range(TRIES):  # as above
        locks = of_machine("threads")
        found = next((l for l in locks if l["name"] == "pidmap_lock"), None)
        if found:
            break
    takers = {f["function"] for s in (found or {"stacks": []})["stacks"] for f in s["frames"][:2]}
    check("the lock of the table of process numbers is named", None if found and
          found["kind"] == "kernel spinlock" else [l["name"] for l in locks[:30]])
    check("and taken where a thread begins or ends", None if takers & {"alloc_pid", "free_pid"}
          else takers)
    told = [l.split()[0] for l in open("/proc/kallsyms", encoding="ascii", errors="replace")
            if l.split()[2] == "pidmap_lock"]
    if told and found:
        check("its address is the symbol's", None if found["address"] and
              int(found["address"], 16) == int(told[0], 16) else (found["address"], told))
    else:
        print("# this kernel does not tell where its variables are (CONFIG_KALLSYMS_ALL)", flush=True)


def check_stripped(folder):
    program = pathlib.Path(folder) / "stripped"
    shutil.copy(PLANTED, program)
    run("strip", program)
    planted = Planted(folder, program)
    result, problem = top("-p", planted.pid, "--time", "1", code=2)
    check("a stripped program is watched: exit 2, for names are missing", problem)
    if result:
        mutexes = [l for l in result["locks"] if l["kind"] == "mutex"]
        check("its locks have addresses, and it is said that names are missing",
              not (mutexes and all(l["address"] for l in mutexes) and
                   any("symbols" in n for n in result["notes"])) and json.dumps(result["notes"]))
    planted.end()


# ------------------------------------------------------------------------- what it refuses
def refuses(name, pattern, *command):
    r = run(*command)
    good = r.returncode == 2 and not r.stdout and r.stderr.count("\n") == 1 and pattern in r.stderr
    check(name, not good and f"exit {r.returncode}, wanted '{pattern}' in: {r.stderr}{r.stdout}")


def without_tracepoint(folder, name, *command):
    """The command where the kernel's types do not tell of this tracepoint."""
    types = pathlib.Path("/sys/kernel/btf/vmlinux").read_bytes()
    word = f"btf_trace_{name}\0".encode()
    fewer = pathlib.Path(folder) / name
    fewer.write_bytes(types.replace(word, word.replace(b"trace", b"ecart")))
    return ("unshare", "-m", "sh", "-c", f"mount --bind {fewer} /sys/kernel/btf/vmlinux && "
            'exec "$@"', "sh", *command)


def check_tracepoints(folder, pid):
    for name, *options in (("contention_begin", "-a"), ("contention_end", "-a"),
                           ("sched_switch", "-p", pid), ("sched_waking", "-p", pid)):
        refuses(f"a kernel without the tracepoint {name} is told so, and what works named",
                f"no tracepoint {name}",
                *without_tracepoint(folder, name, HOTLOCK, "top", *options))
    r = run(*without_tracepoint(folder, "contention_begin", HOTLOCK, "top", "-p", pid, "--time",
                                "0.5", "--json"))
    check("-p needs none of the kernel's lock tracepoints", r.returncode and r.stderr)


def check_namespaces():
    refuses("a kernel that does not describe its types is told from one that does", "BTF",
            "unshare", "-m", "sh", "-c",
            f"mount -t tmpfs none /sys/kernel/btf && exec '{HOTLOCK}' top -a")
    refuses("in a container of its own it says to go outside", "on the host", "unshare", "-p",
            "-f", "--mount-proc", HOTLOCK, "top", "-a")


def check_refusals(folder):
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    refuses("one that has ended is refused", "has ended", HOTLOCK, "top", "-p", ended.pid)
    ended.wait()
    refuses("a number that is no process is refused", "no process", HOTLOCK, "top", "-p",
            ended.pid)
    refuses("a thread of the kernel is refused", "thread of the kernel", HOTLOCK, "top", "-p", "2")
    planted = Planted(folder)
    thread = next(t for t in os.listdir(f"/proc/{planted.pid}/task") if t != planted.pid)
    refuses("a thread is refused, and its process named", f"-p {planted.pid}", HOTLOCK, "top",
            "-p", thread)
    nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
              "--bounding-set=-all"]
    refuses("another user's process is refused", "another user", *nobody, HOTLOCK, "top", "-p",
            planted.pid)
    refuses("without capabilities -a is refused, and what works named", "CMD", *nobody, HOTLOCK,
            "top", "-a")
    if run("unshare", "-m", "true").returncode == 0:
        check_tracepoints(folder, planted.pid)
        check_namespaces()
    else:  # a changed root that is no mount point
        print("# not asked: namespaces, for unshare -m is not allowed here", flush=True)
    planted.end()
    # Its own process it may look into, and yet not attach to.
    with tempfile.TemporaryDirectory() as own:
        os.chmod(own, 0o777)
        theirs = Planted(own, user="nobody", group="nogroup")
        refuses("without capabilities -p is refused, and what works named", "CAP_BPF", *nobody,
                HOTLOCK, "top", "-p", theirs.pid)
        theirs.end()


# ------------------------------------------------------------------------- what it leaves behind
def programs():
    """Numbers of hotlock's BPF programs that are loaded, and held by no process that lives."""
    listed = json.loads(run("bpftool", "prog", "show", "--json").stdout)
    return {p["id"] for p in listed if not p.get("pids") and p.get("name") in (
        "switched", "waking", "tick", "lock_begins", "lock_ends", "wait_begins", "unlock_begins")}


def code_of(pid):
    """What stands in the program's memory where its code is: --uprobes writes there."""
    code = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            span, rights, *_, path = line.split()
            if rights == "r-xp" and path.startswith("/"):
                start, end = (int(n, 16) for n in span.split("-"))
                mem.seek(start)
                code[span, path] = hash(mem.read(end - start))
    return code


def programs_left(others):
    """Of those not there before; the kernel frees them a little after their process ended."""
    left = {0}
    for _ in range(1000):
        left = programs() - others
        if not left:
            break
    return left


def check_untouched(folder):
    planted, others = Planted(folder), programs()
    code = code_of(planted.pid)
    problem, work = "", planted.truth().work
    for i in range(TIMES // 4):
        # Four at a time, and some of them killed without a chance to clean up.
        four = [subprocess.Popen([HOTLOCK, "top", "-p", planted.pid, "--time", "0.01", "--json",
                                  "--frequency", "50" if i % 2 else "0",
                                  *(["--uprobes"] if i % 5 == 0 and k in (1, 2) else [])],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for k in range(4)]
        if i % 5 == 0:
            four[1].send_signal(signal.SIGKILL)
        for p in four:
            error = p.communicate()[1]
            if p.returncode not in (0, 1, -signal.SIGKILL):  # 1: nobody waited in that time
                problem += f"exit {p.returncode}: {error}"
        now = planted.truth().work
        if planted.process.poll() is not None:
            problem += "the program has ended\n"
            break
        work = now
    check(f"attaching {TIMES} times works", problem)
    left = programs_left(others)
    check("no BPF program is left", left and f"{left} are")
    after = code_of(planted.pid)
    changed = [k for k in code if code[k] != after.get(k)]
    check("its code is where it was, and what it was", changed)
    status = open(f"/proc/{planted.pid}/status").read()
    check("nobody traces it", "TracerPid:\t0\n" not in status and status)
    check("it worked all the time", not work and "no work done")
    end = planted.end()
    check("it ends as if nothing had happened", end != ("ended well", 0) and str(end))


def watching(top_process, planted):
    """Waits until this hotlock is attached, and has had something to see."""
    folder, begun = f"/proc/{top_process.pid}/fd", None
    while top_process.poll() is None:
        with contextlib.suppress(OSError):
            if begun is None and any("perf_event" in os.readlink(f"{folder}/{fd}")
                                     for fd in os.listdir(folder)):
                begun = planted.truth().lock[0].waits
        if begun is not None and planted.truth().lock[0].waits > begun + 40:
            return
        os.sched_yield()


def check_interrupt(folder):
    planted = Planted(folder)
    p = subprocess.Popen([HOTLOCK, "top", "-p", planted.pid, "--json"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    watching(p, planted)
    p.send_signal(signal.SIGINT)
    text, error = p.communicate()
    good = p.returncode == 130 and json.loads(text)["partial"] and json.loads(text)["locks"]
    check("Ctrl-C prints what there is, and says it is not all",
          not good and f"exit {p.returncode}: {error}{text[:200]}")
    planted.end()
    # And a program that ends while it is watched.
    planted = Planted(folder)
    p = subprocess.Popen([HOTLOCK, "top", "-p", planted.pid, "--json"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    watching(p, planted)
    planted.end()
    text, error = p.communicate()
    check("the end of the program is the end of watching it",
          p.returncode and f"exit {p.returncode}: {error}")


def main():
    probe = run(HOTLOCK, "top", "-a", "--time", "0.01", "--json")
    if probe.returncode == 2:
        print(f"1..0 # SKIP no BPF here: {probe.stderr.strip()}")
        return
    with tempfile.TemporaryDirectory() as folder:
        def of(part):
            return functools.wraps(part)(lambda: part(folder))
        first = map(of, (check_program, check_uprobes, check_kernel))
        last = map(of, (check_stripped, check_refusals, check_interrupt, check_untouched))
        run_parts(*first, check_bucket, check_globals, *last)
    done()


main()
