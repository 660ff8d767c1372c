// SPDX-License-Identifier: MIT
// exceptions.cpp - the debug build in C++: exceptions CASE. What it has to say is in debug.py.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include <hotlock/hotlock.hpp>

namespace {

hl_ali_t plain = HL_ALI_INIT;
hotlock::ali lock;
std::mutex other;
thread_local int counter;

void throws(void *) { throw std::runtime_error("out of the section"); }

// hl_ali_run() is C: an exception leaves the lock held.
void out_of_run() {
    try {
        hl_ali_run(&plain, throws, nullptr);
    } catch (const std::runtime_error &) {
    }
}

// The class brings what was thrown to the requester. A lambda may have commas in it.
void through_class() {
    int caught = 0;
    try {
        lock.run([] { throw std::runtime_error("for the requester"); });
    } catch (const std::runtime_error &) {
        caught++;
    }
    hl_ali_run(&plain, [](void *arg) {
        int one = 1, two = 2;
        *static_cast<int *>(arg) += one * two;
    }, &caught);
    std::lock_guard<hotlock::ali> held(lock);
    if (caught != 3) std::abort();
}

void unlocks() {
    other.lock();
    lock.run([] { other.unlock(); });
}

void counts() {
    lock.run([] { counter++; });
}

}  // namespace

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!std::strcmp(name, "out-of-run")) out_of_run();
    else if (!std::strcmp(name, "through-class")) through_class();
    else if (!std::strcmp(name, "unlocks")) unlocks();
    else if (!std::strcmp(name, "counts")) counts();
    else return 2;
    std::printf("%u\n", hl_debug_violations());
}
