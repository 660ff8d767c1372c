# SPDX-License-Identifier: MIT
"""What the tests of the workloads share: TAP cases, and running a program to its end."""
import json
import subprocess
import sys

PATIENCE = 60  # seconds; only a hung program needs them

_number = 0
_failed = 0


def check(name, problem):
    """One case: problem is None or False if all is well, else says what is wrong."""
    global _number, _failed
    _number += 1
    print(f"{'not ' if problem else ''}ok {_number} - {name}", flush=True)
    if problem:
        _failed += 1
        for line in str(problem).splitlines():
            print(f"# {line}", flush=True)


def done():
    print(f"1..{_number}")
    sys.exit(1 if _failed else 0)


def run(*command, env=None, cwd=None):
    return subprocess.run([str(word) for word in command], text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                          env=env, cwd=cwd)


def result(*command, env=None):
    """The JSON a command prints, and what is wrong if it prints none."""
    r = run(*command, env=env)
    if r.returncode:
        return None, f"exit {r.returncode}: {r.stderr}"
    try:
        return json.loads(r.stdout), None
    except ValueError as error:
        return None, f"{error}: {r.stdout[:200]}"


def check_bad(name, pattern, *command):
    """Bad input: exit 2, nothing on stdout, one line on stderr that has the pattern."""
    r = run(*command)
    good = r.returncode == 2 and not r.stdout and r.stderr.count("\n") == 1 and pattern in r.stderr
    check(f"{name}: one line and exit 2",
          None if good else f"exit {r.returncode}, wanted '{pattern}' in: {r.stderr}{r.stdout}")
