# SPDX-License-Identifier: MIT
"""What the parts of the harness share: places, words for the user, commands with a log."""
import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import time

KERNEL = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the folder kernel/
PR_SET_PDEATHSIG = 1


class Bad(Exception):
    """What the user can mend: one line, exit code 2."""


class Failed(Exception):
    """A build or a boot that did not come out right: one line, exit code 1."""


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def headers():
    """The folder of the lock headers: in the source tree, or where they are installed."""
    for at in ("../include/hotlock", "../../../include/hotlock"):
        path = os.path.normpath(os.path.join(KERNEL, at))
        if os.path.exists(os.path.join(path, "nmcs4.h")):
            return path
    raise Bad("the lock headers are not beside kernel/; run it from hotlock's source tree")


def digest(paths, *words):
    """One name for the contents of files and some words."""
    h = hashlib.sha256()
    for path in sorted(paths):
        h.update(os.path.basename(path).encode() + b"\0")
        with open(path, "rb") as f:
            h.update(hashlib.sha256(f.read()).digest())
    for word in words:
        h.update(str(word).encode() + b"\0")
    return h.hexdigest()[:16]


def files(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
            if not name.endswith((".pyc", ".stamp"))]


def die_with_parent():
    """In a child: the kernel ends it when this process is gone, whatever ended this process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command, log, cwd=None, env=None):
    """Runs a command, its output added to the log; True if it ended well."""
    with open(log, "ab") as out:
        return subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT, preexec_fn=die_with_parent).returncode == 0


def last_error(log):
    """The line of a build log that says most about what went wrong."""
    with open(log, errors="replace") as f:
        lines = [line.strip() for line in f]
    for line in lines:
        if "error:" in line.lower() or "undefined reference" in line:
            return line
    return lines[-1] if lines else "no output"
