# SPDX-License-Identifier: MIT
"""What the tests of hotlock top share: the parts of a test, all or those whose names are in $ONLY
(mutants.py), and when somebody watches."""
import contextlib
import os
import re


def run_parts(*parts):
    only = os.environ.get("ONLY", "").split()
    for part in parts:
        if not only or part.__name__ in only:
            part()


def holds(pid, what):
    """Does this process have such an open file?"""
    with contextlib.suppress(OSError):
        return any(what in os.readlink(f"/proc/{pid}/fd/{fd}")
                   for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def counts(pid, what):
    """Does this watcher have all of it open, and now only wait for what there is to read?"""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/wchan", encoding="ascii") as f:
        return re.search("poll|select|nanosleep", f.read()) and holds(pid, what)
    return False
