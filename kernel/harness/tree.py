# SPDX-License-Identifier: MIT
"""The kernel tree: unpack Debian's source, apply the series, copy the lock headers, configure, build."""
import filecmp
import glob
import lzma
import os
import re
import shutil
import tarfile

from common import KERNEL, Bad, Failed, digest, headers, last_error, run, say

SERIES = os.path.join(KERNEL, "linux-6.1")
SHARED = ("queue.h", "nmcs.h", "nmcs4.h", "ali.h")  # the same in programs and in the kernel
NEEDED_GB = 4
KEY = ".hotlock-key"
HALF = "linux-half"  # src/cli/kernel.c knows it too

OPERATIONS = ("TRYLOCK", "TRYLOCK_BH", "LOCK", "LOCK_BH", "LOCK_IRQ", "LOCK_IRQSAVE", "UNLOCK",
              "UNLOCK_BH", "UNLOCK_IRQ", "UNLOCK_IRQRESTORE")
INLINE_ALL = ["SPINLOCK_INLINE_CHOICE"] + [f"SPINLOCK_INLINE_{o}" for o in OPERATIONS]
INLINE_NONE = ["SPINLOCK_INLINE_CHOICE"] + [f"SPINLOCK_INLINE_{o}=n" for o in OPERATIONS]
ALI = ["SLAB_ALI", "FILE_LOCKS_ALI"]
LOCKDEP = ["PROVE_LOCKING", "DEBUG_SPINLOCK", "DEBUG_LOCK_ALLOC", "DEBUG_ATOMIC_SLEEP", "DEBUG_ALI"]

# What each variant sets beside minimal.config. The first six are the ones of the gates.
VARIANTS = {
    "queued": ["SPINLOCK_QUEUED"],
    "ticket": ["SPINLOCK_TICKET"],
    "nmcs": ["SPINLOCK_NMCS"],
    "nmcs16": ["SPINLOCK_NMCS16"],
    "nmcs-inline": ["SPINLOCK_NMCS"] + INLINE_ALL,
    "ali": ["SPINLOCK_QUEUED"] + ALI,
    "nmcs-lockdep": ["SPINLOCK_NMCS"] + ALI + LOCKDEP,
    "queued-inline": ["SPINLOCK_QUEUED"] + INLINE_ALL,
    "queued-calls": ["SPINLOCK_QUEUED"] + INLINE_NONE,
    "nmcs-calls": ["SPINLOCK_NMCS"] + INLINE_NONE,
}
SIX = ("queued", "ticket", "nmcs", "nmcs16", "nmcs-inline", "ali")


def version(tarball):
    """"6.1", from the Makefile at the head of the archive."""
    try:
        with tarfile.open(tarball) as tar:
            for member in tar:
                if member.name.count("/") == 1 and member.name.endswith("/Makefile"):
                    text = tar.extractfile(member).read(500).decode()
                    return ".".join(re.search(rf"^{k} = (\d+)", text, re.M).group(1)
                                    for k in ("VERSION", "PATCHLEVEL"))
    except (OSError, EOFError, ValueError, AttributeError, lzma.LZMAError, tarfile.TarError) as e:
        first = str(e).split("\n", 1)[0].rstrip(":")
        raise Bad(f"{tarball}: not a kernel source archive: {first}") from e
    raise Bad(f"{tarball}: no kernel Makefile in it; give Debian's linux-source-6.1.tar.xz")


def series():
    return sorted(glob.glob(os.path.join(SERIES, "[0-9]*.patch")))


def tree_key(tarball):
    shared = [os.path.join(headers(), h) for h in SHARED]
    return digest(series() + shared, os.path.getsize(tarball), int(os.path.getmtime(tarball)))


def tree_has(tree):
    """The key of the tree that is there."""
    try:
        with open(os.path.join(tree, KEY)) as f:
            return f.read()
    except OSError:
        return None


def fill(tree, tarball, log):
    """Makes the patched tree in an empty folder."""
    if not run(["tar", "xf", tarball, "-C", tree, "--strip-components=1"], log):
        raise Failed(f"unpacking {tarball} failed: see {log}")
    for patch in series():
        if not run(["patch", "-p1", "-s", "-F0", "-i", patch], log, cwd=tree):
            raise Failed(f"{os.path.basename(patch)} does not apply: see {log}")
    for header in SHARED:
        shutil.copy(os.path.join(headers(), header), os.path.join(tree, "include/linux/hotlock"))


def touched():
    """Paths in the tree that the series or the headers write."""
    paths = {f"include/linux/hotlock/{header}" for header in SHARED}
    for patch in series():
        with open(patch, encoding="utf-8") as f:
            paths |= set(re.findall(r"^\+\+\+ b/(\S+)", f.read(), re.M))
    return paths


def keep_times(tree, old):
    """Files that are as they were before keep their time, so make does not build all again."""
    for path in touched():
        new_file, old_file = os.path.join(tree, path), os.path.join(old, path)
        if os.path.exists(old_file) and filecmp.cmp(new_file, old_file, shallow=False):
            shutil.copystat(old_file, new_file)


def prepare(build, tarball):
    """Gives the patched tree. It is made in a folder of its own, which an interrupted run may leave (hotlock
    kernel removes it then), and renamed: what is in its place is whole."""
    if not os.path.exists(tarball):
        raise Bad(f"{tarball}: no such file; install linux-source-6.1, or give --source")
    tree, half, key = os.path.join(build, "linux"), os.path.join(build, HALF), tree_key(tarball)
    shutil.rmtree(half, ignore_errors=True)
    if tree_has(tree) == key:
        return tree
    found = version(tarball)
    if found != "6.1":
        raise Bad(f"{tarball}: Linux {found}; the series is for 6.1")
    free = shutil.disk_usage(build).free / 1e9
    if free < NEEDED_GB:
        raise Bad(f"{build}: {free:.1f} GB free, about {NEEDED_GB} are needed")
    log = os.path.join(build, "logs", "tree.log")
    say("unpacking and patching the kernel")
    new = os.path.join(half, "new")
    os.makedirs(new)
    try:
        fill(new, tarball, log)
        keep_times(new, tree)
        with open(os.path.join(new, KEY), "w") as f:
            f.write(key)
        if os.path.exists(tree):
            os.rename(tree, os.path.join(half, "old"))
        os.rename(new, tree)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return tree


def config_text(variant):
    with open(os.path.join(KERNEL, "minimal.config")) as f:
        text = f.read()
    for option in VARIANTS[variant]:
        text += f"CONFIG_{option if '=' in option else option + '=y'}\n"
    return text


def check_config(variant, out):
    """What was asked for and is not in .config was dropped for a dependency: say so now."""
    with open(os.path.join(out, ".config")) as f:
        have = set(f.read().split("\n"))
    for line in config_text(variant).split("\n"):
        if line.startswith("CONFIG_") and not line.endswith("=n") and line not in have:
            raise Failed(f"{variant}: the kernel's configuration has dropped {line}")


def make(tree, out, log, jobs, *targets):
    env = dict(os.environ, KBUILD_BUILD_TIMESTAMP="2026-01-01", KBUILD_BUILD_USER="hotlock",
               KBUILD_BUILD_HOST="hotlock", LC_ALL="C")
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"):  # of a make above us
        env.pop(name, None)
    cc = "gcc"
    if shutil.which("ccache"):
        cc = "ccache gcc"
        env.update(CCACHE_DIR=os.path.join(os.path.dirname(out), "ccache"), CCACHE_MAXSIZE="3G",
                   CCACHE_BASEDIR=os.path.dirname(out))
    return run(["make", "-s", f"-j{jobs}", "-C", tree, f"O={out}", f"CC={cc}", *targets], log, env=env)


def build(build_dir, tree, variant, jobs):
    """Builds a variant unless it is there already; gives its folder."""
    out = os.path.join(build_dir, variant)
    log = os.path.join(build_dir, "logs", f"{variant}.build.log")
    key = digest([], tree_has(tree), config_text(variant))
    stamp = os.path.join(out, "hotlock.key")
    if os.path.exists(stamp) and open(stamp).read() == key:
        return out
    os.makedirs(out, exist_ok=True)
    if os.path.exists(stamp):
        os.unlink(stamp)  # what is there is of no key until the build has ended
    open(log, "w").close()
    config = os.path.join(out, "hotlock.config")
    with open(config, "w") as f:
        f.write(config_text(variant))
    say(f"{variant}: building")
    if not make(tree, out, log, jobs, f"KCONFIG_ALLCONFIG={config}", "allnoconfig"):
        raise Failed(f"{variant}: configuring failed: {last_error(log)} (see {log})")
    check_config(variant, out)
    if not make(tree, out, log, jobs, "bzImage", "modules"):
        raise Failed(f"{variant}: the build failed: {last_error(log)} (see {log})")
    with open(stamp, "w") as f:
        f.write(key)
    return out
