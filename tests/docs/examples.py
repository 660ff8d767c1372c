#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""examples.py SOURCE_DIR: the examples in docs/ are what they say. TAP on stdout.

Each ```c and ```cpp block of the pages on locks is a whole file: it compiles without a warning,
with GCC and Clang, and if it has a main() that ends with 0. Each relative link leads to a file,
and its #anchor, if it has one, to a heading.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(sys.argv[1])
PAGES = sorted((SOURCE / "docs" / "locks").glob("*.md")) + [
    SOURCE / "docs" / name
    for name in ("choosing.md", "inlining.md", "top.md", "when-not-to-spin.md")]
BLOCK = re.compile(r"^```(c|cpp)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#:]*)(#[^)]*)?\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)
COMPILERS = {"c": (("gcc", "clang"), ["-xc", "-std=gnu11", "-Wstrict-prototypes"]),
             "cpp": (("g++", "clang++"), ["-xc++", "-std=gnu++17"])}
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wmissing-declarations", "-Werror"]
PATIENCE = 60  # seconds; only a hung example needs them
number = failed = 0


def check(name, problem):
    global number, failed
    number += 1
    failed += bool(problem)
    print(f"{'not ' if problem else ''}ok {number} - {name}", flush=True)
    for line in (problem or "").splitlines()[:20]:
        print(f"# {line}", flush=True)


def run(command):
    return subprocess.run(command, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def example(language, text, compiler, folder):
    """What is wrong with one example, or None."""
    source, program = folder / "example", folder / "program"
    source.write_text(text)
    runs = re.search(r"^int main\(", text, re.M)
    flags = COMPILERS[language][1] + WARNINGS + ["-I", str(SOURCE / "include"), "-pthread", "-O1"]
    done = run([compiler, *flags, str(source), "-o", str(program)] + ([] if runs else ["-c"]))
    if done.returncode or not runs:
        return done.stdout if done.returncode else None
    done = run([str(program)])
    return f"exit {done.returncode}\n{done.stdout}" if done.returncode else None


def prose(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    """GitHub's: lower case, words joined by dashes, punctuation dropped."""
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(prose(page))}


def links(page):
    wrong = []
    for path, anchor in LINK.findall(prose(page)):
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            wrong.append(f"{path}: no such file")
        elif anchor and anchor not in anchors(target):
            wrong.append(f"{path}{anchor}: no such heading")
    return "\n".join(wrong)


with tempfile.TemporaryDirectory() as scratch:
    for page in PAGES:
        name = page.relative_to(SOURCE)
        for i, (language, text) in enumerate(BLOCK.findall(page.read_text()), 1):
            for compiler in COMPILERS[language][0]:
                check(f"{name} example {i} {compiler}",
                      example(language, text, compiler, pathlib.Path(scratch)))
        check(f"{name} links", links(page))
print(f"1..{number}")
sys.exit(1 if failed else 0)
