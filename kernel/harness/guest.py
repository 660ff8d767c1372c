# SPDX-License-Identifier: MIT
"""The guest's root: busybox, hackbench, our workloads and the variant's modules, as an initramfs."""
import functools
import glob
import gzip
import os
import re
import shutil
import subprocess

from common import KERNEL, Bad, Failed, run

MODULES = ("torture", "locktorture", "test-ali", "test-nmcs", "lockcost")
DIRS = ("bin", "dev", "proc", "sys", "tmp")
APPLETS = ("sh", "mount", "cat", "grep", "echo", "sleep", "insmod", "rmmod", "reboot", "tr", "kill")


def record(name, mode, data=b"", number=[0]):
    """One entry of a newc archive (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    number[0] += 1
    raw = name.encode() + b"\0"
    fields = (number[0], mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + raw
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def libraries(program):
    """The shared libraries a program needs, the loader too."""
    done = subprocess.run(["ldd", program], text=True, capture_output=True, check=False)
    return re.findall(r"(/\S+)", re.sub(r"\(0x[0-9a-f]+\)", "", done.stdout))


def tool(name, package):
    path = shutil.which(name)
    if not path:
        raise Bad(f"{name} is missing (run: apt-get install {package})")
    return path


def workloads(build):
    """Compiles what runs in the guest, statically."""
    out, log = os.path.join(build, "load"), os.path.join(build, "logs", "guest.log")
    sources = glob.glob(os.path.join(KERNEL, "guest", "*.c"))
    if not run(["gcc", "-O2", "-Wall", "-static", "-pthread", "-o", out, *sources], log):
        raise Failed(f"the guest's workloads do not compile: see {log}")
    return out


@functools.lru_cache(None)
def tsc_khz(build):
    """The host's counter, which an emulated guest reads as well; "" where there is none."""
    try:
        done = subprocess.run([os.path.join(build, "load"), "tsc", "200"], text=True,
                              capture_output=True, check=False, timeout=60)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def initramfs(build, out):
    """Writes the initramfs of the variant in `out`; gives its path. The same bytes every time."""
    with open(os.path.join(KERNEL, "guest", "init"), "rb") as f:
        parts = [record("init", 0o100755, f.read())]
    hackbench = tool("hackbench", "rt-tests")
    content = {"bin/busybox": tool("busybox", "busybox-static"), "bin/hackbench": hackbench,
               "bin/load": workloads(build)}
    for library in libraries(hackbench):
        content[library.lstrip("/")] = library
    for module in MODULES:
        found = glob.glob(os.path.join(out, "**", f"{module}.ko"), recursive=True)
        if found:
            content[f"{module}.ko"] = found[0]
    folders = set(DIRS)
    for name in content:
        while (name := os.path.dirname(name)):
            folders.add(name)
    parts += [record(d, 0o040755) for d in sorted(folders)]
    parts += [record(f"bin/{a}", 0o120777, b"busybox") for a in APPLETS]
    for name, path in sorted(content.items()):
        with open(path, "rb") as f:
            parts.append(record(name, 0o100755, f.read()))
    parts.append(record("TRAILER!!!", 0))
    path = os.path.join(out, "initramfs.gz")
    with open(path, "wb") as f:
        f.write(gzip.compress(b"".join(parts), 6, mtime=0))
    return path
