#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The simulator built with -Dfibers=threads gives the same results. portable.py HOTLOCK LIBRARY; TAP.

The command finds its parts beside itself: in a folder of its own it gets LIBRARY, whose virtual CPUs are
threads that hand over, and builds three workloads with it; in another the build's own.
"""
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(sys.argv[1]).resolve().parents[1]   # src of the build tree
HOST = re.compile(r'"(accesses_per_host_s|with_waits_per_host_s|peak_kib|file)": [^,\n]*')
WORKLOADS = {"counter": ("pthread_mutex,mcs,ticket", "0.1"), "slab": ("park,ali", "0.1"),
             "runqueue": ("pthread_spin,nmcs", "1")}
count = bad = 0


def check(good, what, seen=""):
    global count, bad
    count += 1
    bad += not good
    print("" if good else "".join(f"# {line}\n" for line in str(seen).splitlines()), end="")
    print(f"{'ok' if good else 'not ok'} {count} - {what}", flush=True)


def run(*words):
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.returncode, done.stdout


def command(folder, library):
    """A command with this library below the programs it builds."""
    os.makedirs(folder / "src/cli")
    os.makedirs(folder / "src/sim/programs")
    os.symlink(BUILD.parent / "machines", folder / "machines")
    shutil.copy2(sys.argv[1], folder / "src/cli/hotlock")
    # the build's own may be thin, which cannot be moved
    run("ld", "-r", "-o", str(folder / "all.o"), "--whole-archive", library)
    run("ar", "cq", str(folder / "src/sim/libhotlock-sim.a"), str(folder / "all.o"))
    for part in ("libhotlock-sim-model.a", "redirect.syms", "sim-redirect.syms"):
        shutil.copy2(BUILD / "sim" / part, folder / "src/sim")
    return str(folder / "src/cli/hotlock")


def workload(folder, hotlock, name):
    """What it does with each seed, in a program laid out alike, whatever the library."""
    programs, (locks, ms) = BUILD / "sim" / "programs", WORKLOADS[name]
    built = run(hotlock, "sim", "--build", str(folder / "src/sim/programs" / f"sim-{name}"), "--library", "m",
                *(str(programs / f"libsim-{part}.a") for part in (name, "frame", "modules")))
    code, said = run(hotlock, "sim", name, "--seeds", "2", "--threads", "1,5", "--time", ms, "--lock", locks, "--json",
                     "--each-seed")
    return HOST.sub("", said) if code == built[0] == 0 else built[1] + said


def main(top):
    folders = [top / "hand", top / "turn"]
    commands = [command(*pair) for pair in zip(folders, (str(BUILD / "sim/libhotlock-sim.a"), sys.argv[2]))]
    for hotlock, hosts in zip(commands, (1, 4)):
        code, said = run(hotlock, "sim", str(HERE / "behaviour/fibers.c"), "--machine", "graviton3", "--seeds", "1",
                         "--threads", "4", "--lock", "libc", "--json", "--metric", "host ([0-9])")
        check(code == 0 and f'"rate": {hosts}.0' in said, f"4 virtual CPUs, {hosts} of the host", said)
    for name in WORKLOADS:
        seen = [workload(*pair, name).splitlines() for pair in zip(folders, commands)]
        check(seen[0] == seen[1] and "".join(seen[0]).count('"fault": ""') >= 8, f"{name}: the same, seed by seed",
              "\n".join(list(difflib.unified_diff(*seen, lineterm="", n=0)) or seen[0]))


with tempfile.TemporaryDirectory() as d:
    main(pathlib.Path(d))
print(f"1..{count}")
sys.exit(bad > 0)
