#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""series KERNEL [SOURCE]: the mails of kernel/series apply with git am, each builds on the last, they give
the tree that the harness builds, and checkpatch has nothing to say but what is explained.

Only where Debian's linux-source-6.1 is installed, for only the files that the series changes are
unpacked. TAP on stdout.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

KERNEL = os.path.abspath(sys.argv[1])
SOURCE = sys.argv[2] if len(sys.argv) > 2 else "/usr/src/linux-source-6.1.tar.xz"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(KERNEL, "harness"), os.path.join(HERE, "..", "workloads")]
sys.dont_write_bytecode = True
import tree  # noqa: E402
from tap import check, done  # noqa: E402

CHECKPATCH = ["scripts/checkpatch.pl", "scripts/spelling.txt", "scripts/const_structs.checkpatch"]
# What checkpatch says and docs/kernel.md explains: in each mail, and in those of these subjects.
EVERYWHERE = {"FILE_PATH_CHANGES"}  # no MAINTAINERS entry
EXPLAINED = {
    "add the layer under the hotlock headers": {"NEW_TYPEDEFS", "COMPLEX_MACRO"},
    "add the K42 queue lock": {"EXPORT_SYMBOL", "NEW_TYPEDEFS"},
    "combine the hot sections": {"AVOID_BUG"},
}
THEIR_STYLE = "import the hotlock headers"


def run(*command, cwd=None):
    return subprocess.run(command, text=True, capture_output=True, cwd=cwd, check=False)


def old_files():
    """Paths of the source that the series changes; what an earlier patch makes is not among them."""
    old, new = set(), set()
    for patch in tree.series():
        with open(patch, encoding="utf-8") as f:
            text = f.read()
        new |= set(re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)", text, re.M))
        old |= set(re.findall(r"^--- a/(\S+)", text, re.M))
    return sorted(old - new)


def unpack(folder):
    """The files that matter, as the first commit of a repository."""
    names = [f"linux-source-6.1/{p}" for p in old_files() + CHECKPATCH]
    r = run("tar", "xf", SOURCE, "-C", folder, "--strip-components=1", "--occurrence=1", *names)
    for command in (("init", "-q", "."), ("add", "-A", "-f"), ("commit", "-q", "-m", "base"),
                    ("tag", "base")):
        r = r if r.returncode else git(folder, *command)
    return r.stderr if r.returncode else None


def git(folder, *words):
    return run("git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@example.org", *words)


def spoken(folder, mail):
    """The kinds of what checkpatch says about a mail, and its words."""
    r = run("perl", "scripts/checkpatch.pl", "--no-tree", "--terse", "--show-types", mail,
            cwd=folder)
    kinds = set(re.findall(r"(?:ERROR|WARNING|CHECK):([A-Z_]+):", r.stdout))
    broken = not re.search(r"total: \d+ errors", r.stdout)
    return (kinds | {"did not run"} if broken else kinds), r.stdout + r.stderr


def allowed(subject):
    return EVERYWHERE.union(*(kinds for key, kinds in EXPLAINED.items() if key in subject))


def same_as_patched(folder):
    """The tree of git am against the one of patch and copy, which the harness builds."""
    with tempfile.TemporaryDirectory() as other:
        git(folder, "worktree", "add", "-q", "--detach", other, "base")
        for patch in tree.series():
            r = run("patch", "-p1", "-s", "-F0", "-i", patch, cwd=other)
            if r.returncode:
                return f"{os.path.basename(patch)}: {r.stdout}"
        for header in tree.SHARED:
            run("cp", os.path.join(tree.headers(), header),
                os.path.join(other, "include/linux/hotlock"))
        r = run("diff", "-r", "-q", "-x", ".git", folder, other)
        git(folder, "worktree", "remove", "--force", other)
        os.makedirs(other, exist_ok=True)
        return r.stdout or r.stderr


def main():
    with tempfile.TemporaryDirectory() as top:
        folder, mails = os.path.join(top, "linux"), os.path.join(top, "mails")
        os.mkdir(folder)
        problem = unpack(folder)
        check("the source has every file that the series changes", problem)
        if problem:
            return
        check("kernel/series writes the mails",
              run(os.path.join(KERNEL, "series"), mails).returncode and "it does not")
        paths = sorted(glob.glob(os.path.join(mails, "*.patch")))
        count = len(tree.series()) + 1
        check("one for each patch, and one for the headers",
              None if len(paths) == count else f"{paths}")
        r = git(folder, "am", "-q", *paths)
        check("git am takes them", r.returncode and r.stdout + r.stderr)
        subjects = git(folder, "log", "--reverse", "--format=%s", "base..").stdout.splitlines()
        check("a commit each", None if len(subjects) == count else f"{subjects}")
        check("the tree is the one that the harness builds", same_as_patched(folder))
        for path, subject in zip(paths, subjects):
            if THEIR_STYLE in subject:
                continue
            kinds, words = spoken(folder, path)
            more = kinds - allowed(subject)
            check(f"checkpatch: {subject}", more and words)
            check("and what is explained of it is still to be explained",
                  None if allowed(subject) - EVERYWHERE <= kinds else f"{kinds}")


if not os.path.exists(SOURCE):
    print("1..0 # SKIP linux-source-6.1 is not installed")
    sys.exit(0)
main()
done()
