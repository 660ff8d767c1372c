# SPDX-License-Identifier: MIT
"""child.py: runs a command with a limit and leaves nothing of it behind."""
import os
import signal
import subprocess


def run(command, limit, preload="", lock=""):
    """Exit code (or "hang") and output, stderr included, of an argument list or a shell line."""
    # Without meson's search path: programs must find their libraries by their own.
    unwanted = ("LD_PRELOAD", "HOTLOCK", "LD_LIBRARY_PATH")
    env = {k: v for k, v in os.environ.items() if k not in unwanted}
    if preload:
        env.update(LD_PRELOAD=preload, HOTLOCK=f"lock={lock}")
    with subprocess.Popen(command, shell=isinstance(command, str), env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, start_new_session=True) as child:
        try:
            out, code = child.communicate(timeout=limit)[0], child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its own session: pipelines and forks as well
            out, code = child.communicate()[0], "hang"
    return code, out.decode(errors="replace")
