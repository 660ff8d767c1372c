# SPDX-License-Identifier: MIT
"""What a variant must pass: boots with 1, 4 and 8 processors, and what runs in them."""
import os
import re

import boot
import guest
from common import say

WORK = ["hackbench:2:4:100", "stat:8:100:5", "fcntl:8:300", "ranges:8:300", "bpf:8:300"]
SELF = ["selftest:ali", "selftest:nmcs", "cost:spin:4:1000", "cost:nmcs:4:1000",
        "cost:nmcs16:4:1000", "cost:ali:4:1000", "cost:ali-plain:4:1000",
        "cost:kmalloc:4:6400"]
LIMIT = 2400  # seconds for a boot and its jobs, on a busy host


def torture(seconds):
    return [f"torture:spin_lock:{seconds}", f"torture:spin_lock_irq:{seconds}"]


def plan(full, seconds, hotplug):
    """[(name, processors, jobs)]"""
    if not full:
        return [("4", 4, SELF + WORK), ("8", 8, WORK[:2] + torture(seconds))]
    boots = [("1", 1, WORK), ("4", 4, SELF + WORK), ("8", 8, WORK + torture(seconds))]
    if hotplug:
        boots.append(("hotplug", 4, ["hotplug:10"]))
    return boots


def tortured(b, kind):
    """"SUCCESS, 12345 sections" from what locktorture printed."""
    with open(b.log, errors="replace") as f:
        text = f.read()
    end = re.search(rf"{kind}-torture:--- End of test: (\w+)", text)
    writes = re.findall(r"Writes:  Total: (\d+).*?Fail: (\d+)", text[:end.end()] if end else text)
    if not end or not writes:
        return "no result"
    return f"{end.group(1)}, {writes[-1][0]} sections, {writes[-1][1]} failed"


def judge(b, jobs):
    """None, or the reason why the boot does not pass."""
    reason = b.failed()
    if reason:
        return reason
    for job in jobs:
        kind, *args = job.split(":")
        if kind == "torture":
            words = tortured(b, args[0])
            if not words.startswith("SUCCESS") or not words.endswith(" 0 failed"):
                return f"{args[0]}: {words}"
        elif f"{kind}-{args[0]}" in ("selftest-ali", "selftest-nmcs"):
            if "exit 0" not in b.words(f"{kind}-{args[0]}"):
                return f"{job} did not pass"
        elif "exit 0" not in b.words(kind):
            return f"{job} did not pass"
    return None


def run(build, out, variant, full, seconds, hotplug=False):
    """All gates of one variant: a row of the table."""
    image = guest.initramfs(build, out)
    row = {"variant": variant, "boots": [], "torture": {}, "passed": True}
    for name, cpus, jobs in plan(full, seconds, hotplug):
        say(f"{variant}: boot with {cpus} processors ({name}: {', '.join(jobs)})")
        log = os.path.join(build, "logs", f"{variant}.{name}.console")
        b = boot.run(variant, out, image, cpus, jobs, log, LIMIT)
        reason = judge(b, jobs)
        row["boots"].append({"name": name, "processors": cpus, "seconds": round(b.seconds),
                             "reason": reason, "log": log})
        row["passed"] &= reason is None
        for job in jobs:
            if job.startswith("torture:"):
                kind = job.split(":")[1]
                row["torture"][kind] = tortured(b, kind)
        if reason:
            say(f"{variant}: boot {name}: {reason} (see {log})")
    return row
