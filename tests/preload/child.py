# SPDX-License-Identifier: MIT
"""child.py: runs a command, or keeps a server, with a limit, and leaves nothing of it behind."""
import os
import signal
import subprocess
import time


def environment(preload="", lock=""):
    """Ours, without meson's search path: programs must find their libraries by their own."""
    unwanted = ("LD_PRELOAD", "HOTLOCK", "LD_LIBRARY_PATH")
    env = {k: v for k, v in os.environ.items() if k not in unwanted}
    if preload:
        env.update(LD_PRELOAD=preload, HOTLOCK=f"lock={lock}")
    return env


def run(command, limit, preload="", lock="", **options):
    """Exit code (or "hang") and output, stderr included, of an argument list or a shell line."""
    with subprocess.Popen(command, shell=isinstance(command, str),
                          env=environment(preload, lock), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True, **options) as child:
        try:
            out, code = child.communicate(timeout=limit)[0], child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its own session: pipelines and forks as well
            out, code = child.communicate()[0], "hang"
    return code, out.decode(errors="replace")


class Server:
    """A server of our own: started, waited for until it answers, ended by its own number."""

    def __init__(self, command, answers, limit, log, preload="", lock=""):
        self.log, self.limit = log, limit
        with open(log, "wb") as out:
            self.process = subprocess.Popen(command, env=environment(preload, lock),
                                            stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + limit
        self.up = False
        while not self.up and self.process.poll() is None and time.monotonic() < end:
            self.up = answers()
            time.sleep(0.01)

    def stop(self):
        """Exit code after SIGTERM, or "hang"."""
        self.process.terminate()
        try:
            code = self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            code = "hang"
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        return code

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()
