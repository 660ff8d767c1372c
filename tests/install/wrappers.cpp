// SPDX-License-Identifier: MIT
// wrappers.cpp - a user's C++ program against the installed hotlock.hpp.
#include <hotlock/hotlock.hpp>

#include <mutex>
#include <thread>

int main() {
    hotlock::nmcs lock;
    hotlock::ali ali;
    int count = 0, runs = 0;
    auto work = [&] {
        for (int i = 0; i < 1000; i++) {
            std::lock_guard guard(lock);
            count++;
            ali.run([&] { runs++; });
        }
    };
    std::thread other(work);
    work();
    other.join();
    return count == 2000 && runs == 2000 ? 0 : 1;
}
