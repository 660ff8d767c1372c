#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""harness KERNEL: the kernel harness judges consoles rightly and refuses bad input; the series is whole.

Needs no kernel source, no QEMU and no compiler. TAP on stdout.
"""
import glob
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

KERNEL = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(KERNEL, "harness"), os.path.join(HERE, "..", "workloads")]
sys.dont_write_bytecode = True
import boot  # noqa: E402
import gates  # noqa: E402
import tree  # noqa: E402
from tap import check, done  # noqa: E402

JOBS = ["stat:8:100:5", "selftest:ali", "torture:spin_lock:60"]
GOOD = """[    0.1] hotlock: up: 8 processors
[    0.2] hotlock: stat: counted 4000, due 4000
[    0.2] hotlock: stat: exit 0
[    0.3] test-ali: SUCCESS: 12 sections, 9 threads
[    0.3] hotlock: selftest-ali: exit 0
[    1.0] spin_lock-torture: Writes:  Total: 1234  Max/Min: 9/8   Fail: 0
[    2.0] spin_lock-torture:--- End of test: SUCCESS (debug) locktorture
[    2.1] hotlock: torture-spin_lock: exit 0
[    2.2] hotlock: end
"""


def judge(console, jobs=JOBS):
    with tempfile.NamedTemporaryFile("w", suffix=".console") as f:
        f.write(console)
        f.flush()
        b = boot.Boot(f.name)
        b.read()
        return gates.judge(b, jobs)


def consoles():
    check("a good console passes", judge(GOOD))
    insert = "[    0.3] hotlock: selftest-ali"
    for name, line in {
            "BUG": "BUG: spinlock bad magic on CPU#1, load/7",
            "WARN": "WARNING: CPU: 1 PID: 7 at mm/slab.c:2 x+0x1/0x2",
            "soft lockup": "watchdog: BUG: soft lockup - CPU#3 stuck for 130s! [load:7]",
            "RCU stall": "rcu: INFO: rcu_sched self-detected stall on CPU",
            "lockdep": "WARNING: possible circular locking dependency detected",
            "hung task": "INFO: task load:7 blocked for more than 120 seconds.",
            "panic": "Kernel panic - not syncing: Attempted to kill init!"}.items():
        said = judge(GOOD.replace(insert, f"[    0.3] {line}\n{insert}"))
        check(f"a console with a {name} fails", None if said and line in said else f"{said}")
    for name, console, word in (
            ("a wrong count", GOOD.replace("stat: exit 0", "stat: exit 1"), "stat ended with exit 1"),
            ("a job that is missing", GOOD.replace("stat: exit 0", "stat: more"), "did not pass"),
            ("failed sections", GOOD.replace("Fail: 0", "Fail: 3"), "3 failed"),
            ("torture without an end", re.sub(r".*End of test.*\n", "", GOOD), "no result"),
            ("torture that fails", GOOD.replace("SUCCESS (debug)", "FAILURE (debug)"), "FAILURE"),
            ("a hang", GOOD.replace("hotlock: end", ""), "hung or ran out of time after"),
            ("no first line", "[    0.0] Linux version 6.1\n", "did not come up")):
        said = judge(console)
        check(f"a console with {name} fails", None if said and word in said else f"{said}")


def tarball(folder, version, patchlevel):
    path = os.path.join(folder, f"linux-{version}.{patchlevel}.tar.xz")
    text = f"# x\nVERSION = {version}\nPATCHLEVEL = {patchlevel}\nSUBLEVEL = 1\n".encode()
    with tarfile.open(path, "w:xz") as tar:
        info = tarfile.TarInfo("linux-source/Makefile")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return path


def refuses(name, pattern, *options, env=None):
    with tempfile.TemporaryDirectory() as folder:
        r = subprocess.run([os.path.join(KERNEL, "check"), "--build", folder, "--results",
                            os.path.join(folder, "r.json"), *options], text=True,
                           capture_output=True, timeout=60, env=env, check=False)
        left = [f for f in os.listdir(folder) if f != "logs"]
    good = r.returncode == 2 and r.stderr.count("\n") == 1 and pattern in r.stderr and not left
    check(f"{name}: one line, exit 2, nothing left",
          None if good else f"exit {r.returncode}, left {left}: {r.stderr}")


def stubs(folder, absent=None):
    """A PATH with every tool the harness asks for but one."""
    for tool in ("make", "gcc", "flex", "bison", "bc", "xz", "patch", "nm", "qemu-system-x86_64",
                 "hackbench", "busybox", "tar", "ldd"):
        if tool != absent:
            path = os.path.join(folder, tool)
            with open(path, "w") as f:
                f.write("#!/bin/sh\n")
            os.chmod(path, 0o755)
    os.symlink(sys.executable, os.path.join(folder, "python3"))
    return dict(os.environ, PATH=f"{folder}")


def bad_input():
    with tempfile.TemporaryDirectory() as folder:
        env = stubs(folder)
        refuses("a file that is not there", "no such file; install linux-source-6.1",
                "--source", "/nowhere.tar.xz", env=env)
        refuses("another version", "Linux 5.10; the series is for 6.1",
                "--source", tarball(folder, 5, 10), env=env)
        junk = os.path.join(folder, "junk.tar.xz")
        with open(junk, "w") as f:
            f.write("junk")
        refuses("no archive", "not a kernel source archive", "--source", junk, env=env)
        with open(tarball(folder, 6, 1), "rb") as f:
            whole = f.read()
        with open(junk, "wb") as f:
            f.write(whole[:len(whole) // 2])
        refuses("half an archive", "not a kernel source archive", "--source", junk, env=env)
        refuses("a variant that is not there", "--variants: no 'mcs'; there are queued",
                "--variants", "mcs", env=env)
        refuses("a processor that is not there", "--host-cpus 9999: processor 9999 is not there",
                "--host-cpus", "9999", "--kvm", "--source", tarball(folder, 6, 1), env=env)
        tree.NEEDED_GB, needed = 1e9, tree.NEEDED_GB
        try:
            tree.prepare(folder, tarball(folder, 6, 1))
            said = "accepted"
        except tree.Bad as e:
            said = str(e)
        tree.NEEDED_GB = needed
        check("too little space is said", None if "GB free" in said else said)
    with tempfile.TemporaryDirectory() as folder:
        refuses("a missing tool", "bison is missing (run: apt-get install bison)",
                env=stubs(folder, "bison"))


def half_patched():
    """A patch that does not apply leaves no tree behind, and the one that was there as it was."""
    with tempfile.TemporaryDirectory() as folder:
        for path in ("logs", "linux", "linux-half/new/fs"):  # as an interrupted run may leave it
            os.makedirs(os.path.join(folder, path))
        old = os.path.join(folder, "linux", tree.KEY)
        with open(old, "w", encoding="utf-8") as f:
            f.write("old")
        try:
            tree.prepare(folder, tarball(folder, 6, 1))
            said = "accepted"
        except tree.Failed as e:
            said = str(e)
        left = sorted(f for f in os.listdir(folder) if not f.endswith(".xz"))
        kept = tree.tree_has(os.path.join(folder, "linux")) == "old"
    good = "does not apply: see" in said and left == ["linux", "logs"] and kept
    check("a tree that cannot be patched is not left behind", None if good else f"{said}; {left}")


def series():
    names = sorted(glob.glob(os.path.join(KERNEL, "linux-6.1", "*.patch")))
    check("the series is there", None if len(names) >= 10 else f"{names}")
    for n, path in enumerate(names, 1):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        subject = re.search(r"^Subject: \[PATCH \d+/\d+\] (.+(?:\n .+)*)$", text, re.M)
        problems = []
        if not os.path.basename(path).startswith(f"{n:04d}-"):
            problems.append("out of order")
        if not subject or len(re.sub(r"\n ", " ", subject.group(1))) > 72:
            problems.append("no subject, or a long one")
        if not re.search(r"^Signed-off-by: .+ <.+@.+>$", text, re.M):
            problems.append("not signed off")
        body = text.split("\n---\n")[0]
        if any(len(line) > 75 for line in body.split("\n\n", 1)[1].split("\n")
               if not line.startswith("Signed-off-by: ")):
            problems.append("a message of more than 75 columns")
        for new in re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)\n@@.*\n\+(.*)$", text, re.M):
            if "SPDX-License-Identifier: GPL-2.0-only" not in new[1]:
                problems.append(f"{new[0]}: no licence line")
        for header in tree.SHARED:
            if f"+++ b/include/linux/hotlock/{header}\n" in text:
                problems.append(f"has a copy of {header}")
        check(f"{os.path.basename(path)}", "; ".join(problems) or None)


def stamps():
    """What makes the gate due, and what does not."""
    ask = "import sys; sys.path.insert(0, sys.argv[1]); import stamp; print(stamp.now())"
    with tempfile.TemporaryDirectory() as folder:
        copy, include = os.path.join(folder, "kernel"), os.path.join(folder, "include", "hotlock")
        shutil.copytree(KERNEL, copy)
        shutil.copytree(os.path.join(KERNEL, "..", "include", "hotlock"), include)

        def now():
            return subprocess.run([sys.executable, "-B", "-c", ask, os.path.join(copy, "harness")],
                                  text=True, capture_output=True, check=True).stdout

        def grown(*path):
            before = now()
            with open(os.path.join(folder, *path), "a", encoding="utf-8") as f:
                f.write("// \n")
            return before != now()

        check("a change of a shared header makes the gate due",
              None if grown("include", "hotlock", "ali.h") else "it does not")
        check("so does one of the configuration",
              None if grown("kernel", "minimal.config") else "it does not")
        check("and one of any other header", None if grown("include", "hotlock", "tas.h") else
              "it does not")
        check("one of the stamp itself does not", grown("kernel", "passed.stamp") and "it does")


consoles()
bad_input()
half_patched()
series()
stamps()
done()
