# SPDX-License-Identifier: MIT
"""Figures that an emulator gives exactly: instructions with one processor, and bytes of text."""
import os
import re
import subprocess

import boot
import guest
from common import Failed, say

# The same work for every variant. Names as the guest says them, without "count-".
COUNTED = {
    "hackbench": "count:hackbench:2:4:100",
    "stat": "count:stat:4:100:5",
    "fcntl": "count:fcntl:4:300",
    "kmalloc": "count:cost:kmalloc:1:128000",
    "spin": "count:cost:spin:1:100000",
}
LIMIT = 600


def instructions(build, out, variant):
    """{work: instructions}, the same in two boots or it is no result."""
    image, seen = guest.initramfs(build, out), []
    for n in (1, 2):
        say(f"{variant}: counting instructions ({n} of 2)")
        log = os.path.join(build, "logs", f"{variant}.count{n}.console")
        b = boot.run(variant, out, image, 1, list(COUNTED.values()), log, LIMIT, mode="icount")
        if b.failed():
            raise Failed(f"{variant}: counting: {b.failed()} (see {log})")
        found = {}
        for name in COUNTED:
            for words in b.words(f"count-{name}"):
                if (m := re.match(r"instructions (\d+)", words)):
                    found[name] = int(m.group(1))
        seen.append(found)
    return {"variant": variant, "same": seen[0] == seen[1], "counts": seen[0], "again": seen[1]}


def text_bytes(out, variant):
    """Sum of the sizes of the functions: the sections are padded to huge pages."""
    done = subprocess.run(["nm", "-S", "--defined-only", os.path.join(out, "vmlinux")], text=True,
                          capture_output=True, check=True)
    total = 0
    for line in done.stdout.split("\n"):
        words = line.split()
        if len(words) == 4 and words[2] in "tTwW":
            total += int(words[1], 16)
    return {"variant": variant, "bytes": total}


def sample(b, variant, number):
    """What one boot of the ranking came to."""
    row = {"variant": variant, "round": number}
    for words in b.words("cost"):
        if (m := re.match(r"(\S+) \d+ \d+ wall (\d+)", words)):
            row[m.group(1)] = int(m.group(2))
    for name in ("stat", "fcntl", "ranges"):
        for words in b.words(name):
            if (m := re.match(r"seconds ([0-9.]+)", words)):
                row[name] = float(m.group(1))
    for words in b.words("hackbench"):
        if (m := re.match(r"Time: ([0-9.]+)", words)):
            row["hackbench"] = float(m.group(1))
    return row


def samples(build, built, rounds, mode, host_cpus):
    """For real hardware: cycles of sections and hackbench's seconds, variants taken in turn. A row
    for each boot, as it comes."""
    threads = len(host_cpus)
    jobs = [f"cost:{lock}:{threads}:1000000" for lock in ("spin", "ali", "kmalloc")]
    jobs += ["hackbench:10:20:1000", "stat:8:1000:20", "fcntl:8:10000", "ranges:8:10000"]
    for n in range(1, rounds + 1):
        for variant, out in built.items():
            say(f"round {n} of {rounds}: {variant}")
            log = os.path.join(build, "logs", f"{variant}.round{n}.console")
            b = boot.run(variant, out, guest.initramfs(build, out), threads, jobs, log, 3600,
                         mode=mode, host_cpus=host_cpus)
            if b.failed():
                raise Failed(f"{variant}: {b.failed()} (see {log})")
            yield sample(b, variant, n)
