#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pipeline HOTLOCK KERNEL: the whole of hotlock kernel on tools that are not the real ones.

make, the compiler and QEMU are stand-ins that take a moment; all the rest is what users run: options,
unpacking, configuring, the order of boots, command lines, judging, ranking, tables. The stand-in
for QEMU keeps a journal of how it was called. TAP on stdout.
"""
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

HOTLOCK, KERNEL = (os.path.abspath(p) for p in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "workloads"))
sys.dont_write_bytecode = True
from tap import check, done  # noqa: E402

MAKE = """#!/bin/sh
for a; do case $a in O=*) out=${a#O=} ;; KCONFIG_ALLCONFIG=*) config=${a#*=} ;; esac; done
if [ "$config" ]; then cp "$config" "$out/.config"
elif [ "$MOOD" = error ]; then echo "mm/slab.c:7:1: error: no slab" >&2; exit 2
else mkdir -p "$out/arch/x86/boot"; echo x >"$out/arch/x86/boot/bzImage"; fi
"""
GCC = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo x >"$2"; shift; done
"""
NM = """#!/bin/sh
case $3 in *calls*) n=0400 ;; *inline*) n=0440 ;; *) n=0410 ;; esac
echo "0000000000001000 000000000000$n T schedule"
echo "0000000000002000 0000000000009999 D data"
"""
# The real check, but for its limits and for the place of the stamp.
CHECK = """#!/usr/bin/env python3
import os, runpy, sys
sys.dont_write_bytecode = True
sys.path.insert(0, {harness!r})
import boot, stamp
boot.QUIET_LIMIT = int(os.environ["QUIET"])
stamp.STAMP = {stamp!r}
sys.argv[0] = {check!r}
runpy.run_path({check!r}, run_name="__main__")
"""


class Place:
    """A hotlock whose kernel/check runs with other tools."""

    def __init__(self, folder):
        self.folder, self.bin = folder, os.path.join(folder, "tools")
        self.stamp, self.journal = (os.path.join(folder, n) for n in ("stamp", "journal"))
        self.hotlock = os.path.join(folder, "bin", "hotlock")
        share = os.path.join(folder, "share", "hotlock", "kernel")
        for path in (self.bin, os.path.dirname(self.hotlock), share):
            os.makedirs(path)
        os.link(HOTLOCK, self.hotlock) if os.stat(HOTLOCK).st_dev == os.stat(folder).st_dev else \
            subprocess.run(["cp", HOTLOCK, self.hotlock], check=True)
        self.script(os.path.join(share, "check"), CHECK.format(
            harness=os.path.join(KERNEL, "harness"), stamp=self.stamp,
            check=os.path.join(KERNEL, "check")))
        for name, text in (("make", MAKE), ("gcc", GCC), ("nm", NM), ("ldd", "#!/bin/sh\n"),
                           *((n, "#!/bin/sh\n") for n in ("flex", "bison", "bc", "patch",
                                                          "hackbench", "busybox"))):
            self.script(os.path.join(self.bin, name), text)
        os.symlink(os.path.join(HERE, "qemu"), os.path.join(self.bin, "qemu-system-x86_64"))
        self.source = os.path.join(folder, "linux.tar.xz")
        with tarfile.open(self.source, "w:xz") as tar:
            for name, text in (("Makefile", b"VERSION = 6\nPATCHLEVEL = 1\n"),
                               ("include/linux/hotlock/atomic.h", b"\n")):
                info = tarfile.TarInfo(f"linux-source/{name}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))

    @staticmethod
    def script(path, text):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def run(self, *options, mood="", quiet=240):
        """Exit code, output, what was said, and the journal's lines."""
        if os.path.exists(self.journal):
            os.unlink(self.journal)
        env = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", JOURNAL=self.journal,
                   MOOD=mood, QUIET=str(quiet))
        r = subprocess.run([self.hotlock, "kernel", "--build", os.path.join(self.folder, "build"),
                            "--source", self.source, *options], text=True, capture_output=True,
                           timeout=240, env=env, check=False)
        lines = []
        if os.path.exists(self.journal):
            with open(self.journal, encoding="utf-8") as f:
                lines = [json.loads(line) for line in f]
        return r.returncode, r.stdout, r.stderr, lines

    def results(self):
        with open(os.path.join(self.folder, "build", "results.json"), encoding="utf-8") as f:
            return json.load(f)


def wrong(condition, *words):
    return None if condition else " ".join(str(w) for w in words)


def speed(place):
    """--kvm: the command lines, the turns, the pinning, the ranking."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    listed = ",".join(map(str, cpus))
    code, out, err, boots = place.run("--kvm", "--rounds", "5", "--host-cpus", listed,
                                      "--variants", "queued,nmcs")
    check("--kvm ends well", wrong(code == 0, code, err))
    rounds = boots[1:]
    check("a guest is tried before the rounds, and every machine is KVM's",
          wrong(boots and all(b["kvm"] for b in boots) and not boots[0]["jobs"], boots))
    check("the variants take turns",
          wrong([b["variant"] for b in rounds] == ["queued", "nmcs"] * 5, rounds))
    check("the guest has as many processors as were listed",
          wrong(all(b["cpus"] == len(cpus) for b in rounds), rounds))
    check("each of them is bound to its own",
          wrong(all(b["bound"] == [[c] for c in cpus] for b in rounds), rounds))
    row = next((li.split() for li in out.split("\n") if li.startswith("nmcs") and " spin" in li), [])
    check("medians and a ratio with its interval",
          wrong(row == ["nmcs", "spin", "2004", "2.000", "2.000", "2.000"], row or out))
    seconds = [li.split() for li in out.split("\n") if "hackbench" in li]
    check("hackbench is seconds",
          wrong([s[2] for s in seconds] == ["0.5000", "1.0000"], seconds))
    check("nothing is said about emulation", "emulation" in out and out)
    check("all rounds are in results.json", wrong(len(place.results()["samples"]) == 10))


def partial(place):
    """A round that goes wrong ranks nothing, and keeps what there was."""
    code, out, err, _ = place.run("--kvm", "--rounds", "3", "--variants", "queued,nmcs",
                                  mood="bug:nmcs:2")
    check("a BUG in a round: exit 1, a line that names the variant and the log",
          wrong(code == 1 and "nmcs: the kernel said: " in err and "BUG: x" in err and
                "nmcs.round2.console" in err, code, err))
    check("and what was measured is printed as a part",
          wrong("This is a part of the results" in out and len(place.results()["samples"]) == 3, out))
    code, out, err, boots = place.run("--kvm", mood="refuse")
    check("without KVM: exit 2, one line, nothing is built or booted", wrong(
        code == 2 and err.count("\n") == 1 and "no KVM here" in err and not boots, code, err, boots))


def emulated(place):
    """The gates, the counts and the bytes, with a boot that does not come up at first."""
    code, out, err, boots = place.run("--variants", "queued,nmcs", mood="flake:queued:1")
    check("the gates pass", wrong(code == 0, code, err))
    gates = [(b["variant"], b["cpus"]) for b in boots if not b["icount"]]
    check("1, 4 and 8 processors, hotplug for nmcs, the flake once more, lockdep", wrong(
        gates == [("queued", n) for n in (1, 1, 4, 8)] + [("nmcs", n) for n in (1, 4, 8, 4)] +
        [("nmcs-lockdep", n) for n in (1, 4, 8)], gates))
    check("the try that did not come up is told", wrong("boot 1 did not come up" in err, err))
    check("and its console is kept", wrong(os.path.exists(
        os.path.join(place.folder, "build", "logs", "queued.1.console.flake1"))))
    check("instructions are counted twice, with one processor, of each kernel", wrong(
        [b["cpus"] for b in boots if b["icount"]] == [1] * 12, boots))
    check("locktorture ran a minute each with 8 processors", wrong(all(
        "torture:spin_lock:60" in b["jobs"] and "torture:spin_lock_irq:60" in b["jobs"]
        for b in boots if b["cpus"] == 8), boots))
    check("the tables have them", wrong(all(w in out for w in (
        "SUCCESS, 1234 sections, 0 failed", "queued-calls", "1024", "1088", "+64 (+6.25 %)",
        "no ranking of speed")), out))
    check("a stamp is only for the variants of --quick", os.path.exists(place.stamp) and "stamped")


def quick(place):
    code, _, err, boots = place.run("--quick")
    check("--quick passes and stamps", wrong(code == 0 and os.path.exists(place.stamp), code, err))
    check("nmcs and ali with 4 and 8 processors, ten seconds each", wrong(
        [(b["variant"], b["cpus"]) for b in boots] ==
        [(v, n) for v in ("nmcs", "ali") for n in (4, 8)] and
        all("torture:spin_lock:10" in b["jobs"] for b in boots if b["cpus"] == 8), boots))
    os.unlink(place.stamp)
    code, out, err, boots = place.run("--quick", mood="hang:ali:1", quiet=3)
    check("a guest that hangs fails its gate, and nothing is stamped", wrong(
        code == 1 and "FAIL" in out and not os.path.exists(place.stamp), code, out))
    check("where it hung is said", wrong("hung or ran out of time after" in err, err))
    gone = [b["pid"] for b in boots if os.path.exists(f"/proc/{b['pid']}")]
    check("and no QEMU is left", wrong(not gone, gone))


def broken(place):
    """A kernel that does not compile is never taken for one that did, of whatever source."""
    only = ("--variants", "queued", "--only", "text")
    code, _, err, _ = place.run(*only)
    check("a kernel is built", wrong(code == 0, code, err))
    code, _, err, _ = place.run(*only)
    check("and not again", wrong(code == 0 and "building" not in err, code, err))
    was = os.stat(place.source).st_mtime
    os.utime(place.source, (1, 1))  # another source
    code, _, err, _ = place.run(*only, mood="error")
    last = err.strip().split("\n")[-1]
    check("a build error: exit 1, one line with the compiler's words and the log", wrong(
        code == 1 and "queued: the build failed: mm/slab.c:7:1: error: no slab (see " in last
        and os.path.exists(last.split("(see ")[-1][:-1]), err))
    os.utime(place.source, (was, was))
    code, _, err, _ = place.run(*only)
    check("after it, the first source is built again", wrong(
        code == 0 and "queued: building" in err, code, err))


def options(place):
    code, _, err, boots = place.run("--variants", "queued", mood="refuse")
    check("a QEMU that does not start: exit 1, one line with its words", wrong(
        code == 1 and "QEMU did not start: qemu: no KVM here" in err and not boots, code, err))
    for name, line, *given in (
            ("a part that is not there", "--only: no 'count'; there are gates", "--only", "count"),
            ("--host-cpus without --kvm", "--host-cpus needs --kvm beside it", "--host-cpus", "0"),
            ("--rounds without --kvm", "--rounds needs --kvm beside it", "--rounds", "3"),
            ("--only with --kvm", "--only needs no --kvm beside it", "--kvm", "--only", "text"),
            ("--quick with --kvm", "--quick needs no --kvm beside it", "--kvm", "--quick"),
            ("--variants with --quick", "--variants needs no --quick beside it", "--quick",
             "--variants", "nmcs")):
        code, out, err, boots = place.run(*given)
        check(f"{name}: one line, exit 2", wrong(
            code == 2 and not out and err.count("\n") == 1 and line in err and not boots, code, err))


with tempfile.TemporaryDirectory() as top:
    at = Place(top)
    speed(at)
    partial(at)
    emulated(at)
    quick(at)
    broken(at)
    options(at)
done()
