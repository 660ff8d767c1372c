// SPDX-License-Identifier: MIT
// cxx.cc - what libstdc++ makes of the pthread functions: the clock variants above all, which the
// published interposers leave to libc, so that wait_for() sleeps with the mutex held.
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "scenario.h"

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using wall = std::chrono::system_clock;

// True if the mutex is free while the other thread waits, which is what waiting is for.
template <class Wait> static void notified(Wait wait) {
    std::mutex m;
    std::condition_variable cv;
    bool waiting = false, go = false;
    std::thread t([&] {
        std::unique_lock<std::mutex> lock(m);
        waiting = true;
        cv.notify_all();
        say("woken=%d", wait(cv, lock, [&] { return go; }));
    });
    {
        std::unique_lock<std::mutex> lock(m);
        cv.wait(lock, [&] { return waiting; });
        go = true;
        cv.notify_all();
    }
    t.join();
}

SCENARIO(cxx_wait_for) {  // wolfcw/libfaketime 469
    notified([](auto &cv, auto &lock, auto go) { return cv.wait_for(lock, 60s, go); });
    notified([](auto &cv, auto &lock, auto go) {
        return cv.wait_until(lock, steady::now() + 60s, go);
    });
    notified([](auto &cv, auto &lock, auto go) {
        return cv.wait_until(lock, wall::now() + 60s, go);
    });
}

SCENARIO(cxx_wait_timeout) {
    std::mutex m;
    std::condition_variable cv;
    std::unique_lock<std::mutex> lock(m);
    auto begin = steady::now();
    say("woken=%d", cv.wait_for(lock, 20ms, [] { return false; }));
    expect(steady::now() - begin >= 20ms, "too early");
    auto wall_begin = wall::now();
    say("woken=%d", cv.wait_until(lock, wall_begin + 20ms, [] { return false; }));
    expect(wall::now() - wall_begin >= 20ms, "too early");
    say("past=%d", cv.wait_until(lock, wall_begin - 1h) == std::cv_status::timeout);
}

template <class Mutex> static void timed(const char *what) {  // llvm 62623
    Mutex m;
    say("%s", what);
    say("free=%d", m.try_lock_for(5ms));
    std::thread([&] {
        say("held=%d", m.try_lock_for(5ms));
        say("held=%d", m.try_lock_until(wall::now() + 5ms));
        say("held=%d", m.try_lock());
    }).join();
    m.unlock();
    std::thread([&] {
        m.lock();
        m.unlock();
    }).join();
    std::vector<std::thread> threads;
    long count = 0;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int k = 0; k < 2000; k++) {
                while (!m.try_lock_for(1ms)) continue;
                count++;
                m.unlock();
            }
        });
    }
    for (auto &t : threads) t.join();
    say("count=%ld", count);
}
SCENARIO(cxx_timed_mutex) { timed<std::timed_mutex>("timed"); }
SCENARIO(cxx_recursive_timed_mutex) { timed<std::recursive_timed_mutex>("recursive"); }
SCENARIO(cxx_shared_timed_mutex) { timed<std::shared_timed_mutex>("shared"); }

SCENARIO(cxx_recursive_mutex) {
    std::recursive_mutex m;
    for (int i = 0; i < 5; i++) m.lock();
    std::thread([&] { say("try=%d", m.try_lock()); }).join();
    for (int i = 0; i < 5; i++) m.unlock();
    std::thread([&] {
        say("try=%d", m.try_lock());
        m.unlock();
    }).join();
}

SCENARIO(cxx_exceptions) {  // unwinding releases the lock, on the right thread
    std::mutex m;
    std::vector<std::thread> threads;
    long caught = 0, flying = 0;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&] {
            for (int k = 0; k < 1000; k++) {
                try {
                    std::lock_guard<std::mutex> lock(m);
                    throw std::runtime_error("out");
                } catch (const std::exception &) {
                    std::lock_guard<std::mutex> lock(m);
                    caught++;
                    flying += std::uncaught_exceptions();
                }
            }
        });
    }
    for (auto &t : threads) t.join();
    say("caught=%ld flying=%ld", caught, flying);
}

// A cancelled wait unwinds through C++ frames, whose destructors find the mutex locked.
SCENARIO(cxx_cancel_unwinds) {
    std::mutex m;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    bool waiting = false;
    std::thread t([&] {
        std::unique_lock<std::mutex> lock(m);
        waiting = true;
        for (;;) pthread_cond_wait(&cond, m.native_handle());
    });
    for (bool seen = false; !seen; std::this_thread::yield()) {
        std::lock_guard<std::mutex> lock(m);
        seen = waiting;
    }
    pthread_cancel(t.native_handle());
    t.join();
    say("try=%d", m.try_lock());
    m.unlock();
}

SCENARIO(cxx_condition_any) {
    std::recursive_mutex m;
    std::condition_variable_any cv;
    bool go = false;
    std::thread t([&] {
        std::unique_lock<std::recursive_mutex> lock(m);
        say("woken=%d", cv.wait_for(lock, 60s, [&] { return go; }));
    });
    {
        std::lock_guard<std::recursive_mutex> lock(m);
        go = true;
    }
    cv.notify_one();
    t.join();
}

SCENARIO(cxx_futures) {
    std::vector<std::future<int>> futures;
    std::once_flag once;
    int calls = 0;
    for (int i = 0; i < 40; i++) {
        futures.push_back(std::async(std::launch::async, [&, i] {
            std::call_once(once, [&] { calls++; });
            return i;
        }));
    }
    int sum = 0;
    for (auto &f : futures) {
        f.wait_for(60s);
        sum += f.get();
    }
    say("sum=%d calls=%d", sum, calls);
}

SCENARIO(cxx_lock_several) {
    std::mutex a, b, c;
    long count = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&, i] {
            for (int k = 0; k < 1000; k++) {
                if (i % 2) {
                    std::scoped_lock lock(a, b, c);
                    count++;
                } else {
                    std::scoped_lock lock(c, b, a);
                    count++;
                }
            }
        });
    }
    for (auto &t : threads) t.join();
    say("count=%ld", count);
}
