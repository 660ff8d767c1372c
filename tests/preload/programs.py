#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""programs.py PRELOAD [DRIVER...] [--only WORD] [--locks NAME,...] [--measure ROUNDS]

Unmodified Debian programs and libraries, and servers under load, natively and under each lock. Each
must end with the exit code and, numbers that are times apart, the output that it has natively, and
must not hang. Reports in TAP, one case a program; what is not installed is skipped.

--measure runs each natively and under park in turn,
ROUNDS times, and prints the ratio and the longest wait; then nothing is judged by its figures.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import child  # noqa: E402
import served  # noqa: E402

LOCKS = ["park", "tas", "ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin"]
LIMIT = float(os.environ.get("HOTLOCK_PROGRAM_LIMIT", 60))  # seconds; a longer run is a hang
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = "seq 300000"


def exact(text):
    return text


def last_line(text):
    return text.strip().rsplit("\n", 1)[-1]


def without_numbers(text):
    """The words of a report whose figures are times, in order."""
    return re.findall(r"[A-Za-z]+", re.sub(r"\d+\.\d+e[-+]?\d+", "", text))


def exit_code_only(_):
    return ""


# Name, package, command, what of its output must be the same. FOLDER is made new for each run.
COMMANDS = [
    ("kccachetest", "kyotocabinet-utils",
     "kccachetest wicked -th 4 -capcnt 10000 10000", last_line),
    ("sysbench mutex", "sysbench",
     "sysbench mutex --threads=8 --mutex-num=1 --mutex-locks=3000 --mutex-loops=100 run",
     without_numbers),
    ("sysbench threads", "sysbench",
     "sysbench threads --threads=8 --thread-locks=2 --thread-yields=10 --events=300 run",
     without_numbers),
    # By time, not by --mutex-ops: a worker that is done too soon fails, natively too.
    ("stress-ng mutex", "stress-ng", "stress-ng --mutex 1 --timeout 1 --quiet", exit_code_only),
    ("stress-ng pthread", "stress-ng", "stress-ng --pthread 1 --timeout 1 --quiet", exit_code_only),
    ("python3", "python3", f"/usr/bin/python3 {HERE}/threads.py", exact),
    ("xz", "xz-utils", f"{DATA} | xz -1 -T4 --block-size=256KiB | xz -d -T4 | md5sum", exact),
    ("pigz", "pigz", f"{DATA} | pigz -p 4 -b 32 | pigz -d | md5sum", exact),
    ("pbzip2", "pbzip2", f"{DATA} | pbzip2 -p4 -1 -c | pbzip2 -d -c | md5sum", exact),
    ("openssl", "openssl", "openssl speed -multi 4 -seconds 1 -bytes 1024 sha256 2>/dev/null",
     lambda text: re.findall(r"^sha256|^version: \S+", text, re.M)),
    ("node", "nodejs", f"node {HERE}/drivers/workers.js", exact),
    ("java", "default-jdk-headless", f"java {HERE}/drivers/Locks.java", exact),
]
# Drivers of libraries, by the end of their name: package, arguments behind the folder.
DRIVERS = {
    "sqlite": ("libsqlite3-dev", "8 400"),
    "leveldb": ("libleveldb-dev", "8 3000"),
    "rocksdb": ("librocksdb-dev", "8 1500"),
}


class Command:
    def __init__(self, name, package, command, same):
        self.name, self.package, self.command, self.same = name, package, command, same

    def installed(self):
        return all(shutil.which(part.split()[0]) for part in self.command.split(" | "))

    def run(self, preload, lock):
        """Exit code, what must be the same, operations a second, longest wait in ms."""
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            code, out = child.run(self.command.replace("FOLDER", folder), LIMIT, preload, lock,
                                  cwd=folder)
            seconds = time.monotonic() - begin
        rate = re.search(r"ops/s: ([\d.]+)|events per second: +([\d.]+)", out)
        worst = re.search(r"worst ms: ([\d.]+)|max: +([\d.]+)", out)
        return (code, self.same(out), float(rate[1] or rate[2]) if rate else 1 / seconds,
                float(worst[1] or worst[2]) if worst else None)


class Served:
    def __init__(self, name, package, needs, session):
        self.name, self.package, self.needs, self.session = name, package, needs, session

    def installed(self):
        return served.installed(self.needs)

    def run(self, preload, lock):
        with tempfile.TemporaryDirectory() as folder:
            return self.session(served.Session(folder, LIMIT, preload, lock))


def programs(drivers):
    found = [Command(*c) for c in COMMANDS]
    for path in drivers:
        name = path.rsplit("-", 1)[-1]
        package, words = DRIVERS[name]
        found.append(Command(name, package, f"{os.path.abspath(path)} FOLDER {words}",
                             lambda text: re.sub(r"(ops/s|worst ms): [\d.]+", "", text)))
    return found + [Served(*s) for s in served.SERVED]


def judge(program, preload, locks):
    """The cells of one program and what is wrong with it."""
    native = program.run("", "")[:2]
    cells, wrong = [], []
    if native[0] not in (0, -15):  # some servers leave SIGTERM as it is
        wrong.append(f"native: exit={native[0]} {native[1]!r}")
    for lock in locks:
        got = program.run(preload, lock)[:2]
        cells.append("+" if got == native else "H" if got[0] == "hang" else "F")
        if got != native:
            wrong.append(f"{lock}: exit={got[0]} {str(got[1])[-300:]!r}")
    return cells, wrong


def check(found, preload, locks):
    print(f"1..{len(found)}", flush=True)
    table, bad = [], 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [(p, pool.submit(judge, p, preload, locks) if p.installed() else None)
                for p in found]
        for number, (program, job) in enumerate(jobs, 1):
            if not job:
                print(f"ok {number} - {program.name} # SKIP {program.package} is not installed",
                      flush=True)
                continue
            cells, wrong = job.result()
            table.append((program.name, cells))
            bad += bool(wrong)
            print(f"{'not ' if wrong else ''}ok {number} - {program.name}", flush=True)
            for line in wrong:
                print("#   " + line.replace("\n", " "), flush=True)
    print("# " + " " * 18, " ".join(locks))
    for name, cells in table:
        print("# " + name.ljust(18), " ".join(c.center(len(k)) for c, k in zip(cells, locks)))
    return 1 if bad else 0


def measure(found, preload, lock, rounds):
    """Ratios above 1: better than native. Pairs run back to back, natively first every other time."""
    print(f"{'program':18} {'rate to native':>14}  {'lowest':>6} {'highest':>7}  "
          f"{'worst ms, native':>16}  {lock:>8}")
    for program in found:
        if not program.installed():
            continue
        pairs = []
        for i in range(rounds):
            order = [("", ""), (preload, lock)]
            got = [program.run(*how) for how in (order if i % 2 else order[::-1])]
            pairs.append(got if i % 2 else got[::-1])
        ratios = [b[2] / a[2] for a, b in pairs if a[2] and b[2]]
        if not ratios:
            print(f"{program.name:18} {'no figure':>14}")
            continue
        worst = [statistics.median(p[k][3] for p in pairs) if pairs[0][0][3] else None
                 for k in (0, 1)]
        words = [f"{w:.1f}" if w else "-" for w in worst]
        print(f"{program.name:18} {statistics.median(ratios):14.2f}  {min(ratios):6.2f} "
              f"{max(ratios):7.2f}  {words[0]:>16}  {words[1]:>8}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("preload")
    parser.add_argument("driver", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--locks", default=",".join(LOCKS))
    parser.add_argument("--measure", type=int, metavar="ROUNDS")
    args = parser.parse_args()
    preload, locks = os.path.abspath(args.preload), args.locks.split(",")
    found = [p for p in programs(args.driver) if args.only in p.name]
    if args.measure:
        measure(found, preload, locks[0], args.measure)
        return 0
    return check(found, preload, locks)


if __name__ == "__main__":
    sys.exit(main())
