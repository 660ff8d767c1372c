# SPDX-License-Identifier: MIT
"""kernel/passed.stamp: the hash of what passed the gates last, so that they need not run again."""
import os

from common import KERNEL, digest, files, headers

STAMP = os.path.join(KERNEL, "passed.stamp")
NOT_IN_KERNELS = (".gitignore",)


def now():
    """The hash of kernel/ and of all lock headers: which of them kernels share may change, and a
    header may include another."""
    ours = [f for f in files(KERNEL) if os.path.basename(f) not in NOT_IN_KERNELS]
    return digest(ours + files(headers()))


def passed():
    try:
        with open(STAMP, encoding="utf-8") as f:
            return f.read().strip() == now()
    except OSError:
        return False


def write():
    """In a source tree that can be written; an installed one needs no stamp."""
    if os.access(KERNEL, os.W_OK):
        with open(STAMP, "w", encoding="utf-8") as f:
            f.write(now() + "\n")
