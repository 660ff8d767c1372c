#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""orders HOTLOCK INCLUDE CLIENTS [LOCK...]: is every memory order of our locks needed?

Asks hotlock check --orders several questions for each lock and joins the answers: an order is needed if
any question needs it. What no question needs must be in ACCEPTED, with the reason. Takes minutes, so it
is not part of make check. Prints TAP, one line per order.
"""
import json
import os
import subprocess
import sys

from locks import LOCKS, PARK, QUIET, SMALL, SPIN

TIMED = ("--expiries", "1", "--spurious", "0", "--sleeps", "0")
QUESTIONS = (
    ("lock", ("-t", "2", *SPIN, *TIMED, "-D", "WAYS=LU")),
    ("lock", ("-t", "2", *SPIN, *TIMED, "-D", "WAYS=U")),
    ("lock", ("-t", "2", *SPIN, *QUIET, "-D", "WAYS=LT")),
    ("lock", ("-t", "2", *PARK, *QUIET)),
    ("lock", ("-t", "2", *SPIN, *QUIET, "-D", "SECTIONS=2")),
    ("lock", ("-t", "2", *PARK, *QUIET, "-D", "SECTIONS=2")),
    ("lock", ("-t", "3", *SPIN, *QUIET)),
)
ALI = tuple(("ali", ("-t", str(len(ways)), *SPIN, *(TIMED if "U" in ways else QUIET), "-D",
                     f"WAYS={ways}", "-D", "HL_ALI_CAP=1"))
            for ways in ("RR", "LL", "SD", "XA", "DR", "UR", "UA", "TA", "LRR", "RRR", "AAR", "RRL"))

RW = tuple(("rw", ("-t", str(len(ways)), *policy, *(TIMED if set("UV") & set(ways) else QUIET), "-D",
                   f"WAYS={ways}", *row))
           for ways, policy in (("WR", SPIN), ("WR", PARK), ("WW", SPIN), ("WW", PARK), ("RU", SPIN),
                                ("WV", SPIN), ("WT", SPIN), ("Wt", SPIN), ("RT", SPIN), ("WP", SPIN),
                                ("WRR", SPIN), ("WWR", SPIN), ("WRt", SPIN), ("WUR", SPIN))
           for row in ((), ("-D", "ROW")) if len(ways) == 2 or not row)

# Orders that no question needs: header and function, and why they stay.
ACCEPTED = {}


def ask(hotlock, include, clients, lock, client, options):
    extra = {"mcs": ("-D", "NODE"), "ali": ("-D", "RUN")}.get(lock, ())
    run = subprocess.run([hotlock, "check", os.path.join(clients, client + ".c"), "-I", include, *SMALL,
                          "-D", f"LOCK={lock}", *extra, *options, "--orders", "--json", "--time-limit",
                          "30"], capture_output=True, text=True)
    return json.loads(run.stdout)["orders"] if run.stdout.startswith("{") else []


def main():
    hotlock, include, clients, *names = sys.argv[1:]
    number = failed = 0
    for lock in names or (*LOCKS, "rw"):
        verdicts, asked = {}, QUESTIONS + (ALI if lock == "ali" else ())
        asked = RW if lock == "rw" else asked
        for client, options in asked:
            for row in ask(hotlock, include, clients, lock, client, options):
                key = (row["where"], row["operation"], row["order"], row["weakened"])
                if verdicts.get(key, ("",))[0] != "needed":
                    verdicts[key] = (row["verdict"], row["reason"])
        for (where, operation, order, weakened), (verdict, reason) in sorted(verdicts.items()):
            if where.split(":")[0].endswith(".c"):
                continue  # the client's and the checker's own
            number += 1
            good = verdict == "needed" or where.split(" ")[-1] in ACCEPTED
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {lock}: {where} {operation} {order} -> "
                  f"{weakened}: {verdict}, {reason}", flush=True)
    print(f"1..{number}")
    sys.exit(failed > 0 or not number)


main()
