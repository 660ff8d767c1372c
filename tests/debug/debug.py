#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""debug.py SECTIONS EXCEPTIONS: each broken rule is reported once, in the right words, and a
program that breaks none hears nothing. TAP on stdout."""
import os
import re
import subprocess
import sys

PATIENCE = 60  # seconds; only a hung program needs them
SECTIONS, EXCEPTIONS = sys.argv[1:3]
FOREIGN = " [for another thread]"
number = failed = 0

P = r"0x[0-9a-f]+"


def at(function, program="sections"):
    return rf"{function}\+0x[0-9a-f]+ \({program}\)"


# The lines that a case must print, after "hotlock: ".
REPORTS = {
    "unlock-mutex": [r"unlock-outside: section unlocks_mutex \(sections\) calls "
                     rf"pthread_mutex_unlock\(\) at .+: it has not taken lock {P} itself"],
    "unlock-tas": [rf"unlock-outside: section unlocks_tas \(sections\) calls hl_tas_unlock\(\) at "
                   rf"{at('unlocks_tas')}: it has not taken lock {P} itself"],
    "lock-kept": [rf"lock-kept: section keeps_tas \(sections\) returns holding lock {P}, on "
                  "whichever thread ran it"],
    "self-timed": [r"self-deadlock: section tries_again \(sections\) calls hl_ali_lock_until\(\) "
                   rf"at {at('tries_again')} on lock {P}, whose section it is: it waits for "
                   "itself"],
    "order-asked-first": [rf"lock-order: section takes_mutex \(sections\) calls pthread_mutex_lock"
                          rf"\(\) at {at('takes_mutex')} for lock {P}, and threads hold that when "
                          rf"they use {P}"],
    "block-sleep": [rf"blocking-call: section sleeps \(sections\) calls nanosleep\(\) at "
                    rf"{at('sleeps')}: all who wait, wait longer"],
    "block-condition": [rf"blocking-call: section waits_for_condition \(sections\) calls "
                        rf"pthread_cond_timedwait\(\) at {at('waits_for_condition')}: all who "
                        "wait, wait longer"],
    "block-mutex": [r"blocking-call: section takes_mutex \(sections\) calls "
                    rf"pthread_mutex_lock\(\) at {at('takes_mutex')}: all who wait, wait longer"],
    "tls": [r"thread-local: section counts_in_tls \(sections\) writes the thread-local tls_counter "
            r"\(sections, offset \d+\)",
            r"thread-local: section counts_twice \(sections\) writes the thread-local tls_other "
            r"\(sections, offset \d+\)"],
    "errno": [r"errno: section sets_errno \(sections\) changes errno, which is the running "
              r"thread's \(0 to 2\)"],
    "long": [r"long-section: section burns \(sections\) runs for \d+ us of processor time, the "
             "limit is 10000"],
}
OWN_ONLY = {  # these are always run by the thread that asked
    "order-taken-first": [rf"lock-order: hl_ali_run\(\) at .+ uses lock {P} while "
                          rf"lock {P} is held, which its sections take"],
    "order-left": [rf"lock-order: hl_ali_unlock\(\) at {at('order_left')} uses lock {P} while lock "
                   rf"{P} is held, which its sections take"],
    "block-write": [r"blocking-call: section writes \(sections\) calls write\(\) at "
                    rf"{at('writes')}: all who wait, wait longer"],
    "tls-nested": [r"thread-local: section counts_in_tls \(sections\) writes the thread-local "
                   r"tls_counter \(sections, offset \d+\)"],
    "leave-jump": [r"left-section: section jumps_out \(sections\) is left by longjmp\(\): its lock "
                   "stays held"],
    "leave-exit": [r"left-section: section exits_thread \(sections\) is left by an exception, a "
                   r"cancellation or pthread_exit\(\): its lock stays held"],
}
SELF = {
    "self-run": rf"self-deadlock: section runs_again \(sections\) calls hl_ali_run\(\) at "
                rf"{at('runs_again')} on lock {P}, whose section it is: it waits for itself",
    "self-lock": rf"self-deadlock: section locks_again \(sections\) calls hl_ali_lock\(\) at .+ on "
                 rf"lock {P}, whose section it is: it waits for itself",
}
CPLUSPLUS = {
    "through-class": [],
    "out-of-run": [r"left-section: section .*throws.* \(exceptions\) is left by an exception, a "
                   r"cancellation or pthread_exit\(\): its lock stays held"],
    "unlocks": [rf"unlock-outside: section .+ \(exceptions\) calls pthread_mutex_unlock\(\) at .+: "
                rf"it has not taken lock {P} itself"],
    "counts": [r"thread-local: section .+ \(exceptions\) writes the thread-local .*counter.* "
               r"\(exceptions, offset \d+\)"],
}


def check(name, problem):
    global number, failed
    number += 1
    failed += bool(problem)
    print(f"{'not ' if problem else ''}ok {number} - {name}", flush=True)
    for line in (problem or "").splitlines():
        print(f"# {line}", flush=True)


def run(*command, **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOTLOCK_DEBUG")}
    env.update(settings)
    r = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, timeout=PATIENCE, env=env)
    return r.returncode, r.stdout, r.stderr


def differs(want, got):
    """None if the lines of `got` are those of `want`, each whole."""
    lines = got.splitlines()
    if len(lines) == len(want) and all(re.fullmatch(w, g) for w, g in zip(want, lines)):
        return None
    return "wanted:\n" + "\n".join(want) + "\ngot:\n" + got


def expect(name, command, reports, **settings):
    n = len(reports)
    want = ["hotlock: " + r for r in reports]
    if n:
        want.append(f"hotlock: {n} violation{'s' if n > 1 else ''} reported")
    code, out, err = run(*command, **settings)
    check(name, (f"exit {code}\n{err}" if code else None) or differs(want, err) or
          (None if out == f"{n}\n" else f"hl_debug_violations() gave {out}"))


for way in "", "foreign":
    words = [way] if way else []
    mark = re.escape(FOREIGN) if way else ""
    # Waiting for the other thread to ask may take long on a busy machine.
    calm = {} if not way else {"HOTLOCK_DEBUG_LONG_US": "0"}
    expect(f"clean {way}", [SECTIONS, "clean", *words], [], **calm)
    for case, reports in REPORTS.items():
        if case == "long" and way:
            continue
        expect(f"{case} {way}", [SECTIONS, case, *words], [r + mark for r in reports], **calm)
for case, reports in OWN_ONLY.items():
    expect(case, [SECTIONS, case], reports)
for case, reports in CPLUSPLUS.items():
    expect(f"C++ {case}", [EXCEPTIONS, case], reports)

# A deadlock is reported before it happens.
for case, report in SELF.items():
    code, _, err = run(SECTIONS, case, HOTLOCK_DEBUG="abort")
    check(f"{case}, abort", differs(["hotlock: " + report], err) or
          (None if code == -6 else f"exit {code}, not by SIGABRT"))

code, out, err = run(SECTIONS, "tls", HOTLOCK_DEBUG="off")
check("off", None if (code, out, err) == (0, "0\n", "") else f"exit {code}\n{out}{err}")
expect("no limit", [SECTIONS, "long"], [], HOTLOCK_DEBUG_LONG_US="0")

code, out, err = run(SECTIONS, "many-held")
check("what did not fit is said", None if code else differs(
    ["hotlock: not checked, for want of room: 8 locks held by a thread that holds very many"], err))

for setting, value, mend in (("HOTLOCK_DEBUG", "yes", "say report, abort or off"),
                             ("HOTLOCK_DEBUG_LONG_US", "1ms", "say microseconds, 0 for no limit")):
    code, out, err = run(SECTIONS, "clean", **{setting: value})
    check(f"{setting}={value}", differs([f"hotlock: {setting}={value}: {mend}"], err) or
          (None if code == 2 and not out else f"exit {code}"))

print(f"1..{number}")
sys.exit(1 if failed else 0)
