#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The virtual machine on aarch64, built with Debian's cross compiler and run under QEMU: programs of
behaviour/ on its hand-written fibers and on threads that hand over. arm.py SOURCE; TAP.

What the command does on its own machine (compile, rename, link, run) is done here by hand: the
command itself is not built for aarch64.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
PREFIX = "aarch64-linux-gnu"
FLAGS = ["-O2", "-g", "-D_GNU_SOURCE", "-Wno-tsan", "-fno-pic", "-fno-pie", "-fno-stack-protector",
         "-U_FORTIFY_SOURCE", f"-I{SOURCE / 'include'}"]
SEEN = ["-fsanitize=thread", "-fsanitize-coverage=trace-pc", "--param", "tsan-distinguish-volatile=1"]
# times in ps, as the command hands them over; what they are does not matter here
MACHINE = ("cycle=400 block=1200 block_smt=1200 hit=1600 smt=8000 rmw=8000 pause=40000 clock=10000 call=0 "
           "dirty_l3=46000 clean_l3=40000 serve_l3=6000 memory=90000 upgrade=20000 invalidate=1000 bus=0 disorder=0.25 "
           "nearest=0 migratory=0 buffer=40 syscall=100000 futex_wake=700000 wake=3000000 switch=1500000 "
           "migrate=2000000 slice=3000000000 granularity=1000000000 jitter=0.05 seeds=1 jobs=1 lock=-1 skip_main=0 "
           "seconds=60")
CPUS = ",".join(f"{i}.0.0.0" for i in range(16))
# program, and what it must print
PROGRAMS = {"counter": r"number 800 sum 800", "waiting": r"right 1", "affinity": r"right 1", "bounded": r"turns 1000",
            "fibers": r"right 1"}
count = bad = 0


def check(good, what, seen=""):
    global count, bad
    count += 1
    bad += not good
    print("".join(f"# {line}\n" for line in str(seen).splitlines()[-20:]), end="")
    print(f"{'ok' if good else 'not ok'} {count} - {what}", flush=True)
    return good


def run(*words, **more):
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
                          **more)
    return done.returncode, done.stdout


def must(*words):
    code, said = run(*words)
    if code != 0:
        raise SystemExit(f"Bail out! {' '.join(words[:1])}: {said}")


def library(folder):
    """The objects of src/sim/meson.build, and the one that is part of the program."""
    build = (SOURCE / "src/sim/meson.build").read_text()
    names = re.findall(r"'([a-z./]+\.c)'", build.split("sim_lib")[0])
    objects = []
    for file in [SOURCE / "src/sim" / name for name in names]:
        objects.append(f"{folder}/vm-{file.stem}.o")
        must(f"{PREFIX}-gcc", *FLAGS, "-fno-optimize-sibling-calls", "-c", str(file), "-o", objects[-1])
    must(f"{PREFIX}-gcc", *FLAGS, "-fsanitize=thread", '-DVM_LOCKS="../sim/locks.h"', "-c",
         str(SOURCE / "src/vm/pthread.c"), "-o", f"{folder}/model.o")
    return objects


def build(folder, name, objects):
    must(f"{PREFIX}-gcc", *FLAGS, *SEEN, "-c", str(SOURCE / "tests/sim/behaviour" / f"{name}.c"), "-o", f"{folder}/a.o")
    must(f"{PREFIX}-ld", "-r", "-d", "-o", f"{folder}/all.o", f"{folder}/a.o", f"{folder}/model.o")
    must(f"{PREFIX}-objcopy", f"--redefine-syms={SOURCE / 'src/vm/redirect.syms'}",
         f"--redefine-syms={SOURCE / 'src/sim/redirect.syms'}", f"{folder}/all.o")
    must(f"{PREFIX}-gcc", "-no-pie", f"{folder}/all.o", *objects, "-o", f"{folder}/{name}")


def main():
    missing = [t for t in (f"{PREFIX}-gcc", f"{PREFIX}-ld", f"{PREFIX}-objcopy", "qemu-aarch64") if not shutil.which(t)]
    if not check(not missing, "aarch64: compiler and QEMU",
                 f"missing: {' '.join(missing)}; scripts/need check installs them" if missing else ""):
        return
    with tempfile.TemporaryDirectory() as folder:
        objects = library(folder)
        for name, wanted in PROGRAMS.items():
            build(folder, name, objects)
            for way, hosts in (("by hand", "host 1"), ("threads", "host 4")):
                env = dict(os.environ, HOTLOCK_SIM=MACHINE, HOTLOCK_SIM_CPUS=CPUS, HOTLOCK_FIBERS=way,
                           HOTLOCK_SIM_REPORT=f"{folder}/report", THREADS="4")
                code, said = run("qemu-aarch64", "-L", f"/usr/{PREFIX}", f"{folder}/{name}", env=env)
                report = pathlib.Path(f"{folder}/report.1")
                said += report.read_text()[:300] if report.exists() else ""
                printed = pathlib.Path(f"{folder}/report.1.out").read_text()
                good = code == 0 and re.search(wanted, printed) and (name != "fibers" or hosts in printed)
                check(good, f"{name} under QEMU, fibers {way}", "" if good else f"exit {code}\n{said}{printed}")


main()
print(f"1..{count}")
sys.exit(bad > 0)
