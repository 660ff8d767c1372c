# SPDX-License-Identifier: MIT
"""The parts of a test of hotlock top: all, or those whose names are in $ONLY (mutants.py)."""
import os


def run_parts(*parts):
    only = os.environ.get("ONLY", "").split()
    for part in parts:
        if not only or part.__name__ in only:
            part()
