# SPDX-License-Identifier: MIT
"""threads.py: Python threads at work: locks, a queue, a pool, a shared SQLite database."""
import queue
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor


def run_all(count, body):
    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def locks():
    lock, total = threading.RLock(), [0]

    def body(_):
        for _ in range(3000):
            with lock, lock:
                total[0] += 1
    run_all(6, body)
    return total[0]


def queues():
    todo, done = queue.Queue(maxsize=4), []

    def work(i):
        if i == 0:
            for k in range(2000):
                todo.put(k)
            for _ in range(4):
                todo.put(None, timeout=60)
            return
        while (item := todo.get(timeout=60)) is not None:
            done.append(item)
    run_all(5, work)
    return sum(done)


def database():
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    db.execute("create table t (x integer)")

    def body(i):
        for k in range(300):
            db.execute("insert into t values (?)", (i * 1000 + k,))
    run_all(4, body)
    return db.execute("select count(*), sum(x) from t").fetchone()


with ThreadPoolExecutor(8) as pool:
    squares = sum(pool.map(lambda x: x * x, range(2000)))
print(locks(), queues(), database(), squares)
