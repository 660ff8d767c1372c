# SPDX-License-Identifier: MIT
"""One boot: QEMU with a time limit, the console in a file, and what the guest said."""
import os
import re
import shutil
import signal
import subprocess
import time

import guest
from common import Failed, die_with_parent, say

UP_LIMIT = 180     # seconds until the guest's first line; an idle host needs 3
TRIES = 3          # boots that do not come up are tried again: the host was too busy
QUIET_LIMIT = 240  # seconds without a new line on the console

# What a kernel prints when something is wrong with it.
TROUBLE = re.compile(
    r"\bBUG\b|WARNING|\bOops\b|Kernel panic|general protection|soft lockup|hard LOCKUP|"
    r"blocked for more than|detected stall|detected expedited stall|rcu.*stall|"
    r"possible (circular|recursive|irq)|inconsistent lock state|suspicious RCU|"
    r"INVALID|FAILURE|FAILED|End of test: (?!SUCCESS)|!!!")
# Said by every kernel under this machine, and harmless.
HARMLESS = re.compile(r"ommand line:|Tainted|RCU CPU stall|\*\*\*|microcode|TSC doesn't count|MP-BIOS bug")
SAID = re.compile(r"hotlock: ([^:]+): ?(.*)")

FLAGS = ("console=ttyS0 panic=-1 panic_on_warn=0 printk.devkmsg=on no_timer_check tsc=reliable "
         "rcupdate.rcu_cpu_stall_timeout=150 watchdog_thresh=60 norandmaps")


class Boot:
    """What one boot came to: .said is [(job, words)], .trouble the lines that should not be."""

    def __init__(self, log):
        self.log, self.said, self.trouble, self.seconds = log, [], [], 0.0
        self.ended = False

    def read(self):
        with open(self.log, errors="replace") as f:
            lines = f.read().split("\n")
        self.said, self.trouble = [], []
        for line in lines:
            if (m := SAID.search(line)):
                self.said.append((m.group(1), m.group(2).strip()))
                self.ended |= m.group(1).strip() == "end"
            if TROUBLE.search(line) and not HARMLESS.search(line):
                self.trouble.append(line.strip())
        self.ended |= any("hotlock: end" in line for line in lines)

    def up(self):
        return any(job == "up" for job, _ in self.said)

    def words(self, job):
        return [words for name, words in self.said if name == job]

    def failed(self):
        """Why this boot does not pass, or None."""
        if not self.up():
            return "did not come up"
        if self.trouble:
            return f"the kernel said: {self.trouble[0]}"
        for job, words in self.said:
            if words.startswith("exit ") and words != "exit 0":
                return f"{job} ended with {words}"
        if not self.ended:
            return f"hung or ran out of time after {self.said[-1][0]}"
        return None


def machine(cpus, mode):
    kind = {"tcg": ["-cpu", "max", "-accel", "tcg,thread=multi"],
            "icount": ["-cpu", "max", "-accel", "tcg,thread=single", "-icount",
                       "shift=3,sleep=off", "-seed", "1", "-rtc", "base=2026-01-01,clock=vm"],
            "kvm": ["-cpu", "host", "-enable-kvm"]}[mode]
    return ["qemu-system-x86_64", "-name", "hotlock,debug-threads=on", "-machine", "pc,hpet=off",
            *kind, "-m", "768", "-smp", f"{cpus},sockets={cpus}", "-nodefaults", "-display", "none"]


def refusal(mode):
    """What QEMU says when it cannot make such a machine; nothing if it can."""
    done = subprocess.run([*machine(2, mode), "-S", "-monitor", "stdio"], input="quit\n", text=True,
                          capture_output=True, timeout=60, preexec_fn=die_with_parent, check=False)
    if not done.returncode:
        return ""
    return (done.stderr.strip() or f"exit {done.returncode}").split("\n", 1)[0]


def clock(out, mode):
    """On a busy host a guest cannot calibrate its clock, and then counts ticks, of which it loses
    most. Counting instructions, it gets what it always got."""
    khz = guest.tsc_khz(os.path.dirname(out)) if mode == "tcg" else ""
    return f" tsc_early_khz={khz}" if khz else ""


def command(out, initramfs, cpus, jobs, log, mode):
    return [*machine(cpus, mode), "-no-reboot", "-serial", f"file:{log}",
            "-kernel", os.path.join(out, "arch/x86/boot/bzImage"), "-initrd", initramfs,
            "-append", f"{FLAGS}{clock(out, mode)} hl.do={','.join(jobs)}"]


def restricted(host_cpus):
    def before():
        die_with_parent()
        if host_cpus:
            os.sched_setaffinity(0, host_cpus)
    return before


def pin(process, host_cpus):
    """Each processor of the guest on one of the host's: QEMU names its threads "CPU 3/KVM"."""
    tasks = f"/proc/{process.pid}/task"
    try:
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm", encoding="utf-8") as f:
                name = re.match(r"CPU (\d+)/", f.read())
            if name:
                os.sched_setaffinity(int(task), {host_cpus[int(name.group(1))]})
    except (FileNotFoundError, ProcessLookupError):
        if process.poll() is None:  # not gone, so this matters
            raise


def wait(process, boot, limit, host_cpus):
    """Until the guest switches itself off, or hangs, or the time is up."""
    begin, size, fresh, pinned = time.monotonic(), 0, time.monotonic(), not host_cpus
    while process.poll() is None:
        time.sleep(0.2)  # polling a file, not synchronisation: nobody waits for us
        now, have = time.monotonic(), os.path.getsize(boot.log)
        if have > size:
            size, fresh = have, now
            boot.read()
        if boot.up() and not pinned:
            pinned = True
            pin(process, host_cpus)
        if now - begin > limit or (now - fresh > QUIET_LIMIT if boot.up() else
                                   now - begin > UP_LIMIT):
            process.send_signal(signal.SIGKILL)
            process.wait()
    boot.seconds = time.monotonic() - begin
    boot.read()


def once(out, initramfs, cpus, jobs, log, limit, mode="tcg", host_cpus=None):
    open(log, "w").close()  # QEMU may need a while to make it
    boot = Boot(log)
    process = subprocess.Popen(command(out, initramfs, cpus, jobs, log, mode),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, preexec_fn=restricted(host_cpus))
    try:
        wait(process, boot, limit, host_cpus)
    finally:
        if process.poll() is None:
            process.kill()
        words = process.stderr.read().decode(errors="replace").strip()
        process.wait()
    if process.returncode > 0:  # it has words for why it did not start, and no other failure
        raise Failed(f"QEMU did not start: {words or process.returncode}")
    return boot


def run(name, *args, **kw):
    """Boots until the guest has come up; each try that did not is told."""
    for n in range(TRIES):
        boot = once(*args, **kw)
        if boot.up():
            return boot
        last = open(boot.log, errors="replace").read().strip().split("\n")[-1]
        say(f"{name}: boot {n + 1} did not come up in {boot.seconds:.0f} s (last: {last[:60]!r})")
        shutil.copy(boot.log, f"{boot.log}.flake{n + 1}")
    return boot
