# SPDX-License-Identifier: MIT
"""served.py: servers under the preload, each with a load that is not.

A session starts the server on a Unix socket, or on the loopback address where its load knows no
other, loads it, and ends it. It gives how the server ended, what of the load's report must be the same
as natively, and, if the load says so, operations a second and the longest wait in milliseconds.
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import threading

import child

ROOT = ["--user=root"] if os.geteuid() == 0 else []


def listens(address):
    """A function that says whether somebody answers at a Unix path or a port."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET

    def ask():
        with socket.socket(family, socket.SOCK_STREAM) as s:
            try:
                s.connect(address)
                return True
            except OSError:
                return False
    return ask


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Session:
    """One run of one server and its load, in a folder of its own."""

    def __init__(self, folder, limit, preload, lock):
        self.folder, self.limit, self.preload, self.lock = folder, limit, preload, lock
        self.failed = None

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def serve(self, command, answers, load):
        """Exit code, what must be the same, rate, worst wait; load() gives the last three.
        ANSWERS: where it listens, or a function that says whether it is ready."""
        server = child.Server(command, answers if callable(answers) else listens(answers),
                              self.limit, self.path("log"), self.preload, self.lock)
        result = load() if server.up else ("server is not up: " + server.said()[-300:], None, None)
        code = server.stop()
        return (self.failed or code, *result)

    def load(self, command):
        code, out = child.run(command, self.limit)
        if code != 0 and not self.failed:
            self.failed = f"{command[0]} ended with {code}: {out[-300:]}"
        return out


# ------------------------------------------------------------------------- redis
# Without --io-threads: on two processors they spin for each other, a time slice each, natively too.
# The threads in the background (the log, freeing) have mutexes and conditions, as jemalloc has.
def redis(s):
    at = s.path("socket")
    # Debian's redis-tools has the same program under another name, and no service that starts.
    program = shutil.which("redis-server") or s.path("redis-server")
    if program == s.path("redis-server"):
        os.symlink(shutil.which("redis-check-rdb"), program)
    server = [program, "--port", "0", "--unixsocket", at, "--save", "", "--appendonly", "yes",
              "--appendfsync", "everysec", "--lazyfree-lazy-server-del", "yes",
              "--lazyfree-lazy-user-flush", "yes", "--dir", s.folder]

    def load():
        out = s.load(["redis-benchmark", "-s", at, "-t", "set,get,incr,lpush,lrange_100", "-n",
                      "20000", "-c", "16", "-P", "4", "--csv"])
        s.load(["redis-cli", "-s", at, "flushall"])
        rows = [[f.strip('"') for f in line.split(",")] for line in out.splitlines() if '"' in line]
        figures = [r for r in rows[1:] if len(r) > 7]
        rate = sum(float(r[1]) for r in figures)
        return [r[0] for r in rows] or out, rate, max((float(r[7]) for r in figures), default=None)
    return s.serve(server, at, load)


# ------------------------------------------------------------------------- memcached
def memcached(s):
    at = s.path("socket")
    root = ["-u", "root"] if os.geteuid() == 0 else []
    bad = []

    def client(number):
        with socket.socket(socket.AF_UNIX) as c, c.makefile("rb") as answers:
            c.settimeout(s.limit)
            c.connect(at)
            for i in range(30):
                c.sendall(b"".join(b"set k%d-%d 0 0 4\r\nabcd\r\nget k%d-%d\r\nincr n 1\r\n" %
                                   (number, k, number, k) for k in range(50)))
                got = [answers.readline() for _ in range(50 * 5)]
                if got[:4] != [b"STORED\r\n", b"VALUE k%d-0 0 4\r\n" % number, b"abcd\r\n",
                               b"END\r\n"]:
                    bad.append(got[:4])

    def load():
        with socket.socket(socket.AF_UNIX) as c, c.makefile("rb") as answers:
            c.connect(at)
            c.sendall(b"set n 0 0 1\r\n0\r\n")
            answers.readline()
            threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            c.sendall(b"get n\r\n")
            answers.readline()
            return (answers.readline(), bad), None, None
    return s.serve(["memcached", "-s", at, "-t", "4", *root], at, load)


# ------------------------------------------------------------------------- nginx, haproxy
def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


def wrk(s, port):
    out = s.load(["wrk", "-t2", "-c16", "-d1s", f"http://127.0.0.1:{port}/"])
    rate = re.search(r"Requests/sec: +([\d.]+)", out)
    latency = re.search(r"Latency +\S+ +\S+ +(\S+)", out)
    wrong = [line for line in out.splitlines() if "errors" in line or "Non-2xx" in line]
    if not rate or not latency:
        return out, None, None
    return wrong, float(rate[1]), milliseconds(latency[1])


def nginx(s):
    port = free_port()
    s.write("index.html", "hot lock\n" * 5000)
    user = "user root;" if os.geteuid() == 0 else ""
    conf = s.write("conf", f"""{user} daemon off; worker_processes 2; pid {s.path("pid")};
        thread_pool default threads=4; error_log {s.path("errors")};
        events {{ worker_connections 100; accept_mutex on; }}
        http {{ access_log off; client_body_temp_path {s.path("b")}; proxy_temp_path {s.path("p")};
            fastcgi_temp_path {s.path("f")}; uwsgi_temp_path {s.path("u")};
            scgi_temp_path {s.path("s")};
            server {{ listen 127.0.0.1:{port}; root {s.folder}; aio threads; sendfile off;
                output_buffers 1 8k; }} }}""")
    command = ["nginx", "-e", s.path("errors"), "-c", conf]
    return s.serve(command, ("127.0.0.1", port), lambda: wrk(s, port))


def haproxy(s):
    port = free_port()
    conf = s.write("conf", f"""global
    nbthread 4
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend f
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string "hot lock"
""")
    return s.serve(["haproxy", "-db", "-f", conf], ("127.0.0.1", port), lambda: wrk(s, port))


# ------------------------------------------------------------------------- mariadb
def mariadb(s):
    at, data = s.path("socket"), s.path("data")
    small = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"]
    made = subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", *ROOT, *small,
                           "--auth-root-authentication-method=normal", "--skip-test-db"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode:
        return made.returncode, made.stdout[-300:], None, None
    server = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={at}", "--skip-networking",
              "--innodb-flush-log-at-trx-commit=0", *ROOT, *small]
    sysbench = ["sysbench", "oltp_read_write", f"--mysql-socket={at}", "--mysql-user=root",
                "--mysql-db=hot", "--tables=1", "--table-size=2000", "--threads=8"]

    def load():
        s.load(["mariadb", f"--socket={at}", "--user=root", "-e", "create database hot"])
        s.load([*sysbench, "prepare"])
        out = s.load([*sysbench, "--events=1500", "--time=0", "run"])
        rate = re.search(r"transactions: +\d+ +\(([\d.]+) per sec", out)
        worst = re.search(r"max: +([\d.]+)", out)
        same = s.load(["mariadb", f"--socket={at}", "--user=root", "-N", "-e",
                       "select count(*) from hot.sbtest1"])
        if not rate or not worst:
            return out[-300:], None, None
        return same, float(rate[1]), float(worst[1])
    return s.serve(server, at, load)


# ------------------------------------------------------------------------- postgresql
# A cluster of its own in the session's folder. It refuses root: then it runs as nobody. Its locks
# between processes are its own; pthread's are those of the libraries it is linked with.
POSTGRES = max(glob.glob("/usr/lib/postgresql/*/bin"), default="/nowhere")
NOBODY = 65534


def postgresql(s):
    data, user = s.path("data"), []
    if os.geteuid() == 0:
        os.chown(s.folder, NOBODY, NOBODY)
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    made = subprocess.run([*user, f"{POSTGRES}/initdb", "-D", data, "-U", "hot", "-A", "trust",
                           "--no-sync"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if made.returncode:
        return made.returncode, made.stdout[-300:], None, None
    server = [*user, f"{POSTGRES}/postgres", "-D", data, "-k", s.folder, "-c", "fsync=off", "-c",
              "listen_addresses=", "-c", "shared_buffers=16MB"]
    to = ["-h", s.folder, "-U", "hot"]

    def ready():  # it listens before it is
        return subprocess.run([f"{POSTGRES}/pg_isready", "-q", *to]).returncode == 0

    def load():
        s.load([f"{POSTGRES}/pgbench", *to, "-i", "-q", "postgres"])
        out = s.load([f"{POSTGRES}/pgbench", *to, "-c", "8", "-t", "50", "postgres"])
        rate = re.search(r"^tps = ([\d.]+)", out, re.M)
        same = s.load([f"{POSTGRES}/psql", *to, "-At", "-c",
                       "select count(*) from pgbench_history", "postgres"])
        return (same, float(rate[1]), None) if rate else (out[-300:], None, None)
    return s.serve(server, ready, load)


# Name, package, the files it needs, the session.
SERVED = [
    ("redis", "redis-tools", ["redis-check-rdb", "redis-benchmark", "redis-cli"], redis),
    ("memcached", "memcached", ["memcached"], memcached),
    ("nginx", "nginx, wrk", ["nginx", "wrk"], nginx),
    ("haproxy", "haproxy, wrk", ["haproxy", "wrk"], haproxy),
    ("mariadb", "mariadb-server-core, sysbench",
     ["mariadbd", "mariadb-install-db", "mariadb", "sysbench"], mariadb),
    ("postgresql", "postgresql", [f"{POSTGRES}/postgres", f"{POSTGRES}/pgbench", "setpriv"],
     postgresql),
]


def installed(needs):
    return all(shutil.which(n, path=os.environ.get("PATH", "") + ":/usr/sbin") for n in needs)
