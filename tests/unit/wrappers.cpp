// SPDX-License-Identifier: MIT
// wrappers.cpp - hotlock.hpp: the C++17 classes behave as the standard's named requirements say.
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <csetjmp>
#include <cstdlib>
#include <new>

extern "C" {
#include <setjmp.h>
#include <cmocka.h>
}

#include <hotlock/hotlock.hpp>

using namespace std::chrono_literals;

// ------------------------------------------------------------------------- nothing allocates
static thread_local long allocations;

void *operator new(std::size_t bytes) {
    allocations++;
    if (void *p = std::malloc(bytes ? bytes : 1)) return p;
    throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

// ------------------------------------------------------------------------- TimedLockable
// Runs `check` on every lock that is locked without a node.
template <class Check>
static void every_lock(Check check) {
    std::tuple<hotlock::tas, hotlock::ticket, hotlock::nmcs, hotlock::nmcs4, hotlock::mcsflag,
               hotlock::qspin, hotlock::park, hotlock::ali, hotlock::any>
        locks;
    std::apply([&](auto &...lock) { (check(lock), ...); }, locks);
    for (int kind = 0; kind < HL_KINDS; kind++) {
        hotlock::any lock(static_cast<hl_kind_t>(kind));
        check(lock);
    }
    hotlock::mcs word;
    hotlock::mcs::place place(word);
    check(place);
}

template <class Lock>
static bool taken(Lock &lock) {
    if (!lock.try_lock()) return true;
    lock.unlock();
    return false;
}

static void guards_lock_and_unlock(void **) {
    every_lock([](auto &lock) {
        using lock_type = std::remove_reference_t<decltype(lock)>;
        {
            std::lock_guard<lock_type> guard(lock);
            if constexpr (!std::is_same_v<lock_type, hotlock::mcs::place>)
                assert_true(taken(lock));
        }
        assert_false(taken(lock));
        std::unique_lock<lock_type> unique(lock, std::try_to_lock);
        assert_true(unique.owns_lock());
        unique.unlock();
        assert_false(taken(lock));
    });
}

static void timed_forms_wait_and_give_up(void **) {
    every_lock([](auto &lock) {
        assert_true(lock.try_lock_for(0s));
        lock.unlock();
        assert_true(lock.try_lock_for(std::chrono::hours::max()));
        lock.unlock();
        assert_true(lock.try_lock_until(std::chrono::steady_clock::now() - 1s));
        lock.unlock();
        assert_true(lock.try_lock_until(std::chrono::system_clock::now() + 1h));
        lock.unlock();
    });
}

static void timed_forms_fail_on_a_held_lock(void **) {
    std::timed_mutex reference;  // the standard's own, held to the same questions
    auto check = [](auto &lock, auto &other) {
        lock.lock();
        bool got[5], late = false;
        std::thread([&] {
            got[0] = other.try_lock();
            got[1] = other.try_lock_for(-1s);
            got[2] = other.try_lock_for(1.5ms);
            auto when = std::chrono::system_clock::now() + 2ms;
            got[3] = other.try_lock_until(when);
            late = std::chrono::system_clock::now() >= when;
            got[4] = other.try_lock_until(std::chrono::steady_clock::time_point::min());
        }).join();
        lock.unlock();
        for (bool g : got) assert_false(g);
        assert_true(late);
        assert_false(taken(lock));
    };
    check(reference, reference);
    every_lock([&](auto &lock) {
        using lock_type = std::remove_reference_t<decltype(lock)>;
        if constexpr (!std::is_same_v<lock_type, hotlock::mcs::place>) check(lock, lock);
    });
    hotlock::mcs word;
    hotlock::mcs::place mine(word), theirs(word);
    check(mine, theirs);
}

static void scoped_lock_takes_two(void **) {
    hotlock::nmcs a;
    hotlock::park b;
    {
        std::scoped_lock both(a, b);
        assert_true(a.is_locked() && b.is_locked());
    }
    assert_false(a.is_locked() || b.is_locked());
}

static void mcs_guard_holds(void **) {
    hotlock::mcs lock;
    {
        hotlock::mcs::guard guard(lock);
        assert_true(lock.is_locked());
    }
    assert_false(lock.is_locked());
}

static void classes_add_no_bytes(void **) {
    static_assert(sizeof(hotlock::tas) == 1 && sizeof(hotlock::ticket) == 4);
    static_assert(sizeof(hotlock::nmcs) == 16 && sizeof(hotlock::nmcs4) == 4);
    static_assert(sizeof(hotlock::mcsflag) == 16 && sizeof(hotlock::qspin) == 4);
    static_assert(sizeof(hotlock::park) == 4 && sizeof(hotlock::ali) == 8);
    static_assert(sizeof(hotlock::mcs) == 8 && sizeof(hotlock::any) == sizeof(hl_lock_t));
    static_assert(!std::is_copy_constructible_v<hotlock::nmcs>);
    static_assert(!std::is_move_constructible_v<hotlock::ali>);
}

static void no_operation_allocates(void **) {
    every_lock([](auto &lock) {
        long before = allocations;
        lock.lock();
        lock.unlock();
        assert_true(lock.try_lock_for(1ms));
        lock.unlock();
        assert_int_equal(allocations, before);
    });
    hotlock::ali ali;
    hotlock::any any(HL_ALI);
    long before = allocations;
    int sum = ali.run([&] { return 1; }) + any.run([&] { return 2; });
    hotlock::ali::request later(ali, [&] { return 4; });
    sum += later.get();
    assert_int_equal(sum, 7);
    assert_int_equal(allocations, before);
}

// ------------------------------------------------------------------------- sections as callables
static void run_gives_the_result(void **) {
    hotlock::ali lock;
    int value = 5;
    assert_int_equal(lock.run([&] { return value + 1; }), 6);
    int &same = lock.run([&]() -> int & { return value; });
    assert_ptr_equal(&same, &value);
    std::unique_ptr<int> moved = lock.run([] { return std::make_unique<int>(9); });
    assert_int_equal(*moved, 9);
    lock.run([&] { value = 7; });
    assert_int_equal(value, 7);
    bool inside = false;
    auto section = [&] { inside = lock.is_locked(); };
    lock.run(section);
    assert_true(inside);
    assert_false(lock.is_locked());
}

static int twice_two() { return 4; }

static void run_takes_any_callable(void **) {
    hotlock::ali lock;
    assert_int_equal(lock.run(twice_two), 4);
    auto pinned = [own = std::make_unique<int>(3)] { return *own; };  // cannot be copied
    assert_int_equal(lock.run(pinned), 3);
    auto counts = [n = 0]() mutable { return ++n; };
    lock.run(counts);
    assert_int_equal(lock.run(counts), 2);  // by reference: the same object both times
}

static void exceptions_reach_the_requester(void **) {
    for (int kind = 0; kind < HL_KINDS; kind++) {
        hotlock::any lock(static_cast<hl_kind_t>(kind));
        bool caught = false;
        try {
            lock.run([]() -> int { throw std::runtime_error("mine"); });
        } catch (const std::runtime_error &e) {
            caught = std::string(e.what()) == "mine";
        }
        assert_true(caught);
        assert_false(lock.is_locked());
    }
}

// Sections that throw and sections that do not, from many threads, whoever runs them: each
// requester gets its own outcome.
static void outcomes_are_not_mixed_up(void **) {
    enum { THREADS = 8, ROUNDS = 2000 };
    hotlock::ali lock;
    long total = 0, wrong[THREADS] = {};
    std::vector<std::thread> threads;
    for (int me = 0; me < THREADS; me++)
        threads.emplace_back([&, me] {
            for (int i = 0; i < ROUNDS; i++) {
                int mine = me * ROUNDS + i, got = -1;
                try {
                    got = lock.run([&] {
                        total++;
                        if (mine % 7 == 0) throw mine;
                        return mine;
                    });
                    if (mine % 7 == 0) wrong[me]++;
                } catch (int thrown) {
                    got = thrown;
                    if (mine % 7 != 0) wrong[me]++;
                }
                if (got != mine) wrong[me]++;
            }
        });
    for (auto &t : threads) t.join();
    for (long w : wrong) assert_int_equal(w, 0);
    assert_int_equal(total, THREADS * ROUNDS);
}

static void requests_complete_later(void **) {
    hotlock::ali lock;
    int runs = 0;
    {
        std::unique_lock<hotlock::ali> held(lock);
        hotlock::ali::request first(lock, [&] { return ++runs; });
        hotlock::ali::request failing(lock, [&]() -> int { throw std::logic_error("later"); });
        hotlock::ali::request dropped(lock, [&] { ++runs; });
        assert_false(first.done());
        assert_int_equal(runs, 0);
        held.unlock();
        assert_int_equal(first.get(), 1);
        assert_true(first.done());
        bool caught = false;
        try {
            failing.get();
        } catch (const std::logic_error &) {
            caught = true;
        }
        assert_true(caught);
    }  // the destructor waits for the one that nobody asked for
    assert_int_equal(runs, 2);
    assert_false(lock.is_locked());
}

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(guards_lock_and_unlock),
        cmocka_unit_test(timed_forms_wait_and_give_up),
        cmocka_unit_test(timed_forms_fail_on_a_held_lock),
        cmocka_unit_test(scoped_lock_takes_two),
        cmocka_unit_test(mcs_guard_holds),
        cmocka_unit_test(classes_add_no_bytes),
        cmocka_unit_test(no_operation_allocates),
        cmocka_unit_test(run_gives_the_result),
        cmocka_unit_test(run_takes_any_callable),
        cmocka_unit_test(exceptions_reach_the_requester),
        cmocka_unit_test(outcomes_are_not_mixed_up),
        cmocka_unit_test(requests_complete_later),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
