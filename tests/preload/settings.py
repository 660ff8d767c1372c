#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""settings.py PRELOAD LOADER: what HOTLOCK accepts, refuses and says. Reports in TAP."""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

preload, loader = map(os.path.abspath, sys.argv[1:3])
number = bad = 0


def case(name, good, seen=""):
    global number, bad
    number += 1
    bad += not good
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    if not good:
        print(f"#   saw {seen!r}")


def run(setting, command=("sh", "-c", "echo out"), **env):
    """Runs one process under the preload: exit code, stdout, stderr."""
    full = {k: v for k, v in os.environ.items() if k != "HOTLOCK"}
    full.update(LD_PRELOAD=preload, **env)
    if setting is not None:
        full["HOTLOCK"] = setting
    done = subprocess.run(command, env=full, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def quiet(setting):
    seen = run(setting)
    case(f"HOTLOCK={setting} says nothing", seen == (0, "out\n", ""), seen)


def refused(setting, word):
    code, out, err = run(setting)
    good = (code, out) == (0, "out\n") and err.count("\n") == 1 and f"'{word}'" in err
    case(f"HOTLOCK={setting}: one line, libc's locks", good and "using libc's locks" in err, err)


def checked(setting, name):
    err = run(setting, ("true",))[2]
    reached = re.fullmatch(r"hotlock: check: lock=(\w+): (\d+) of (\d+) functions reach the "
                           r"preload\n", err)
    good = reached and reached[1] == name and reached[2] == reached[3]
    case(f"HOTLOCK={setting}: every function is reached", good, err)


def static_tls():
    """dlopen finds little room for it late in a program's life (jemalloc 937, mimalloc 147)."""
    with open(preload, "rb") as f:
        elf = f.read()
    at, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", elf, at + i * size) for i in range(count)]
    used = sum(h[6] for h in headers if h[0] == 7)  # PT_TLS
    case("static thread-local storage of at most 64 bytes", 0 < used <= 64, used)


def secure_mode():
    """A set-user-ID program must not listen to its caller's environment."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("# not root, or no setpriv: secure mode not tried")
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(loader, folder)
        library = shutil.copy(preload, folder)
        os.chmod(program, 0o4755)
        os.chmod(library, 0o755)
        command = ("setpriv", "--reuid=65534", "--clear-groups", program, library)
        env = {"PATH": os.environ["PATH"], "HOTLOCK": "lock=nonsense"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        seen = (done.returncode, done.stdout, done.stderr)
        if "secure=0" in done.stdout:
            print("# the file system ignores set-user-ID: secure mode not tried")
            return
        case("secure mode ignores HOTLOCK", seen == (0, "secure=1 lock=0 unlock=0\n", ""), seen)


LOCKS = ["park", "tas", "ticket", "mcs", "nmcs", "nmcs4", "mcsflag", "qspin", "libc"]
for setting in [None, "", "wait=yield", "lock=tas,wait=spin", "check=0,", "rwlock=libc", "rwlock=rw",
                "for=nmcs:1:c:0+10@/bin/sh,report=0", "for=nmcs:1:d:0+10@/no/such",
                *map("lock={}".format, LOCKS)]:
    quiet(setting)
refused("lock=prak", "lock=prak")
refused("lock=ali", "lock=ali")
refused("nmcs", "nmcs")
refused("lock=tas,wait=long", "wait=long")
refused("lock=tas,check=yes", "check=yes")
refused("lock=", "lock=")
refused("lock=tas,,", "")
refused("rwlock=park", "rwlock=park")
refused("report=2", "report=2")
refused("for=nmcs", "for=nmcs")
refused("for=nncs:1:c:0+10@/bin/sh", "for=nncs:1:c:0+10@/bin/sh")
refused("for=nmcs:1:x:0+10@/bin/sh", "for=nmcs:1:x:0+10@/bin/sh")
refused("for=nmcs:64:c:0+10@/bin/sh", "for=nmcs:64:c:0+10@/bin/sh")
refused("for=nmcs:1:c:0+10@sh", "for=nmcs:1:c:0+10@sh")
refused("lock=tas,for=nmcs:1:c:0+10@/bin/sh", "for=")
refused("lock=" + "x" * 300, "lock=" + "x" * 55)
for lock in LOCKS:
    checked(f"lock={lock},check=1", lock)
checked("check=1", "park")
seen = run("lock=nonsense", (loader, preload))
case("loaded at run time", seen[1] == "secure=0 lock=0 unlock=0\n", seen)
static_tls()
secure_mode()
print(f"1..{number}")
sys.exit(1 if bad else 0)
