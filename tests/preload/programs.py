#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""programs.py PRELOAD: unmodified Debian programs under each lock.

Each must end with the exit code and, numbers that are times apart, the output that it has natively,
and must not hang. Reports in TAP, one case a program; a program that is not installed is skipped.
"""
import concurrent.futures
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
import child  # noqa: E402

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


# name, package, command, what of its output must be the same
PROGRAMS = [
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
]


def judge(program, preload):
    """The cells of one program and what is wrong with it; None: not installed."""
    _, _, command, same = program
    if not all(shutil.which(part.split()[0]) for part in command.split(" | ")):
        return None
    code, out = child.run(command, LIMIT)
    want, cells, wrong = (code, same(out)), [], []
    if code != 0:
        wrong.append(f"native: exit={code} {out.strip()[-200:]}")
    for lock in LOCKS:
        code, out = child.run(command, LIMIT, preload, lock)
        got = (code, same(out))
        cells.append("+" if got == want else "H" if code == "hang" else "F")
        if got != want:
            wrong.append(f"{lock}: exit={code} {out.strip()[-200:]!r}")
    return cells, wrong


def main():
    preload = os.path.abspath(sys.argv[1])
    print(f"1..{len(PROGRAMS)}", flush=True)
    table, bad = [], 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = [(p, pool.submit(judge, p, preload)) for p in PROGRAMS]
        for number, (program, job) in enumerate(jobs, 1):
            name, package = program[:2]
            if job.result() is None:
                print(f"ok {number} - {name} # SKIP {package} is not installed", flush=True)
                continue
            cells, wrong = job.result()
            table.append((name, cells))
            bad += bool(wrong)
            print(f"{'not ' if wrong else ''}ok {number} - {name}", flush=True)
            for line in wrong:
                print("#   " + line.replace("\n", " "), flush=True)
    print("# " + " " * 18, " ".join(LOCKS))
    for name, cells in table:
        print("# " + name.ljust(18), " ".join(c.center(len(k)) for c, k in zip(cells, LOCKS)))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
