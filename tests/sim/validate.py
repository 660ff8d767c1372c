#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the simulator against published curves and against closed forms.

validate.py HOTLOCK INCLUDE [--seeds N] [--write docs/validation.md]: TAP on stdout; each gate of
published.json is one test. With --write the tables go to that file too.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
MS = 20  # simulated; in a quarter of it few threads on a flat curve keep the order they began in


def simulate(hotlock, include, program, flags, machine, place, threads, seeds, ms):
    command = [hotlock, "sim", str(HERE / "clients" / program), "-I", include, *flags, "--machine", machine,
               "--place", place, "--threads", ",".join(map(str, threads)), "--lock", "libc", "--seeds",
               str(seeds), "--time", str(ms), "--metric", "rate: ([0-9.]+)", "--json", "--", "{threads}",
               "{seconds}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"Bail out! {program}: {done.stderr or done.stdout}")
    result = json.loads(done.stdout)
    return [cell["rate"] for cell in result["cells"]], result


def order_kept(simulated, published):
    """Of the pairs whose published rates differ by more than a tenth: how many are the same way round."""
    kept = asked = 0
    for i, p in enumerate(published):
        for j in range(i):
            if abs(p - published[j]) > 0.1 * max(p, published[j]):
                asked += 1
                kept += (p > published[j]) == (simulated[i] > simulated[j])
    return kept / asked if asked else 1


class Tap:
    def __init__(self):
        self.count = 0
        self.bad = 0

    def check(self, good, what):
        self.count += 1
        self.bad += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {what}", flush=True)


def gate(tap, curve, rate):
    """The tests of one curve; gives its mean absolute error in percent."""
    published = curve["rate"]
    errors = [100 * (s / p - 1) for s, p in zip(rate, published)]
    rules = curve["gate"]
    if rules["absolute"]:
        counted = [abs(e) for t, e in zip(curve["threads"], errors) if t not in rules.get("except", [])]
        tap.check(max(counted) <= rules["absolute"],
                  f"{curve['id']}: every point within {rules['absolute']} % (worst {max(counted):.0f} %)")
    if rules["ratio"]:
        low, high, within = rules["ratio"]
        i, j = curve["threads"].index(low), curve["threads"].index(high)
        off = 100 * ((rate[i] / rate[j]) / (published[i] / published[j]) - 1)
        tap.check(abs(off) <= within, f"{curve['id']}: ratio of {low} to {high} threads within {within} % ({off:+.0f} %)")
    if rules["order"]:
        kept = 100 * order_kept(rate, published)
        tap.check(kept >= rules["order"], f"{curve['id']}: order of the points ({kept:.0f} % of the pairs)")
    return errors


def changed(directory, name, without=(), **values):
    """The machine with some numbers left out and some changed."""
    machine = json.loads((HERE.parents[1] / "machines" / f"{name}.json").read_text())
    for key in without:
        del machine["numbers"][key]
    for key, value in values.items():
        unit = "ns" if key == "pause" else "value"
        machine["numbers"][key] = {unit: value, "kind": "estimated", "source": "this test"}
    file = pathlib.Path(directory) / f"{name}-changed.json"
    file.write_text(json.dumps(machine))
    return str(file)


def oracles(tap, arguments, directory):
    """What can be computed by hand: contended atomics, ping-pong, the ticket lock, who is served, a pause."""
    rows = []

    def numbers_of(machine):
        done = subprocess.run([arguments.hotlock, "machines", machine, "--json"], check=True, capture_output=True, text=True)
        return {n["number"]: n["value"] for n in json.loads(done.stdout)["numbers"]}

    ns = numbers_of("graviton3")

    def compare(name, flags, threads, expected, within, machine="graviton3"):
        rate, _ = simulate(arguments.hotlock, arguments.include, "oracle.c", flags, machine, "spread",
                           [threads], 2, 2)
        note(name, threads, 1e9 / rate[0], expected, within)

    def note(name, threads, got, expected, within):
        off = 100 * (got / expected - 1)
        rows.append((name, threads, expected, got, off))
        tap.check(abs(off) <= within, f"{name}: {got:.1f} ns, by hand {expected:.1f} ({off:+.1f} %)")

    compare("contended add: a transfer and an add", ["-DADD"], 16, ns["dirty_l3"] + ns["rmw"], 5,
            changed(directory, "graviton3", ["home"]))
    compare("the same, less the way to the line's home", ["-DADD"], 16,
            ns["dirty_l3"] - ns["clean_l3"] / 2 + ns["rmw"], 5)
    compare("compare-exchange that fails: the same", ["-DFAIL"], 16,
            ns["dirty_l3"] - ns["clean_l3"] / 2 + ns["rmw"], 5)
    # Served nearest first, two sockets' threads never have to wait for a line from the other one.
    two = numbers_of("e5-2699v3-2s")
    compare("contended add on two sockets, the nearest first", ["-DADD"], 32, two["dirty_l3"] + two["rmw"], 5,
            changed(directory, "e5-2699v3-2s", ["home"], nearest=1, disorder=0))
    compare("ping-pong: a transfer to read, one to write what both have", ["-DPING"], 2, 2 * ns["dirty_l3"], 10)
    pauses, short, long = 16, 10, 110
    times = [1e9 / simulate(arguments.hotlock, arguments.include, "oracle.c", [f"-DPAUSE={pauses}"],
                            changed(directory, "graviton3", pause=each), "spread", [1], 2, 1)[0][0]
             for each in (short, long)]
    note(f"{pauses} pauses of {long} ns instead of {short}", 1, times[1] - times[0], pauses * (long - short), 1)
    # Boyd-Wickizer, Kaashoek, Morris and Zeldovich (Linux Symposium 2012): with k waiters a hand-over
    # takes s + c k / 2: half of them read the line before the one whose turn it is. The section here
    # is empty, so its owner's next store waits for the other half too: s + c k.
    few, many = 16, 48
    rate, _ = simulate(arguments.hotlock, arguments.include, "oracle.c", ["-DTICKET"], "graviton3", "spread",
                       [few, many], 2, 2)
    note(f"ticket lock: {many - few} waiters more", many, 1e9 / rate[1] - 1e9 / rate[0],
         (many - few) * (ns["invalidate"] + ns["serve_l3"]), 20)
    return rows


def table(rows, heads):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hotlock")
    parser.add_argument("include")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--write")
    arguments = parser.parse_args()
    tap, text, summary = Tap(), [], []
    for curve in json.loads((HERE / "published.json").read_text())["curves"]:
        rate, result = simulate(arguments.hotlock, arguments.include, curve["program"], curve["flags"],
                                curve["machine"], curve["place"], curve["threads"], arguments.seeds, MS)
        rate = [r / 1e6 for r in rate]
        errors = gate(tap, curve, rate)
        mean = sum(map(abs, errors)) / len(errors)
        counted = [abs(e) for t, e in zip(curve["threads"], errors) if t not in curve["gate"].get("except", [])]
        summary.append([curve["id"], curve["machine"], f"{mean:.1f} %", f"{sum(counted) / len(counted):.1f} %",
                        f"{max(map(abs, errors)):.0f} %", "yes" if curve["gate"]["absolute"] else "no"])
        print(f"# {curve['id']}: mean absolute error {mean:.1f} %")
        text += [f"## {curve['id']}: {curve['what']}", "", f"Published: {curve['source']}.", "",
                 f"Simulated: `tests/sim/clients/{curve['program']}` {' '.join(curve['flags'])}, threads placed "
                 f"{curve['place']}. {result['conditions']}.", "", f"Note: {curve['note']}.", ""]
        text += table([["published", *(f"{v:.2f}" for v in curve["rate"])],
                       ["simulated", *(f"{v:.2f}" for v in rate)],
                       ["error", *(f"{e:+.0f} %" for e in errors)]], ["threads", *map(str, curve["threads"])])
        text.append("")
    with tempfile.TemporaryDirectory() as directory:
        rows = oracles(tap, arguments, directory)
    print(f"1..{tap.count}")
    if arguments.write:
        write(arguments, text, summary, rows)
    raise SystemExit(tap.bad > 0)


def write(arguments, text, summary, rows):
    head = (HERE / "validation.head.md").read_text().rstrip().split("\n")
    lines = head + [""] + table(summary, ["curve", "machine", "mean error", "without rows that count for nothing",
                                          "worst", "gated"])
    lines += ["", *text, "## Closed forms", ""]
    lines += table([[name, str(threads), f"{want:.1f}", f"{got:.1f}", f"{off:+.1f} %"]
                    for name, threads, want, got, off in rows],
                   ["what", "threads", "by hand, ns", "simulated, ns", "error"])
    pathlib.Path(arguments.write).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
