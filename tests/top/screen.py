# SPDX-License-Identifier: MIT
"""Just enough of a VT100 to see what a program of ncurses shows on it."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

TOKEN = re.compile(
    r"\x1b\[([?0-9;]*)([A-Za-z@])|\x1b[()][A-Z0-9]|\x1b[=>78HMDE]|[\x00-\x1f]|.", re.S)


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns, self.y, self.x = rows, columns, 0, 0
        self.beyond = []  # what did not fit
        self.cells = [[" "] * columns for _ in range(rows)]

    def text(self):
        return ["".join(row).rstrip() for row in self.cells]

    def _erase(self, cells):
        for y, x in cells:
            self.cells[y][x] = " "

    def _control(self, words, letter):
        n = [int(w) if w.isdigit() else 0 for w in words.split(";")]
        one = max(1, n[0])
        everywhere = [(y, x) for y in range(self.rows) for x in range(self.columns)]
        here = (self.y, self.x)
        if letter in "Hf":
            self.y, self.x = max(1, n[0]) - 1, max(1, (n + [1])[1]) - 1
        elif letter in "ABCD":
            self.y += {"A": -one, "B": one}.get(letter, 0)
            self.x += {"D": -one, "C": one}.get(letter, 0)
        elif letter == "J":
            self._erase([c for c in everywhere if n[0] == 2 or (c >= here) == (n[0] == 0)])
        elif letter == "K":
            self._erase([c for c in everywhere if c[0] == self.y and
                         (n[0] == 2 or (c[1] >= self.x) == (n[0] == 0))])
        elif letter not in "mhlrt":
            self.beyond.append(f"ESC [ {words} {letter}")
        self.y, self.x = min(max(self.y, 0), self.rows - 1), min(max(self.x, 0), self.columns - 1)

    def feed(self, text):
        for m in TOKEN.finditer(text):
            token = m.group(0)
            if m.group(2):
                self._control(m.group(1), m.group(2))
            elif token == "\r":
                self.x = 0
            elif token == "\n":
                self.y = min(self.y + 1, self.rows - 1)
            elif token == "\b":
                self.x = max(0, self.x - 1)
            elif token >= " ":
                if self.x >= self.columns:
                    self.beyond.append(token)
                else:
                    self.cells[self.y][self.x] = token
                self.x += 1


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command, rows, columns, **env):
        self.screen = Screen(rows, columns)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            for name in ("LINES", "COLUMNS"):
                os.environ.pop(name, None)
            os.environ.update(env, TERM="vt100")
            os.execv(command[0], command)

    def until(self, seen, patience):
        """Reads until the screen satisfies SEEN, the program has ended or patience has."""
        end = time.monotonic() + patience
        while time.monotonic() < end and not seen(self.screen.text()):
            if not self._read(1):
                return False
        return seen(self.screen.text())

    def _read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            self.screen.feed(os.read(self.fd, 65536).decode("utf-8", "replace"))
            return True
        except OSError:
            return False

    def key(self, text):
        os.write(self.fd, text.encode())

    def end(self, patience):
        """Its exit code, with what it still prints read."""
        end = time.monotonic() + patience
        while time.monotonic() < end and self._read(1):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
