// SPDX-License-Identifier: MIT
// hotlock.hpp - the locks as C++17 classes.
//
// hotlock::tas, ticket, nmcs, nmcs4, mcsflag, qspin, park, ali and any (chosen at run time) are
// TimedLockable: std::lock_guard, std::unique_lock and std::scoped_lock work on them. hotlock::mcs
// keeps the caller's queue node in a hotlock::mcs::place, which is TimedLockable in its stead.
// ali and any also take a section as a callable:
//
//     int total = lock.run([&] { return count += n; });
//
// The callable may run on another thread (see docs/locks/ali.md); what it throws is thrown again
// from run() in the thread that called it. Nothing here allocates; the C++ run time itself does
// when an exception is thrown.
#ifndef HOTLOCK_HPP
#define HOTLOCK_HPP

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "hotlock.h"

// What is inside the wrappers is not analysed for -Wthread-safety; what they promise is.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

namespace hotlock {

namespace detail {

// The deadline, in nanoseconds of CLOCK_MONOTONIC, `wait` from now; never past HL_NO_DEADLINE.
template <class Rep, class Period>
std::uint64_t deadline_after(const std::chrono::duration<Rep, Period> &wait) {
    // Floating point, because hours::max() does not fit in nanoseconds.
    const long double ns = std::chrono::duration<long double, std::nano>(wait).count();
    const std::uint64_t now = hl_now_ns();
    if (!(ns > 0)) return now;
    if (ns >= static_cast<long double>(HL_NO_DEADLINE - now)) return HL_NO_DEADLINE;
    return now + static_cast<std::uint64_t>(ns);
}

// Waits for `try_until(deadline_ns)` until `when` has passed on its own clock, which may be set
// back or forth meanwhile.
template <class Clock, class Duration, class TryUntil>
bool until(const std::chrono::time_point<Clock, Duration> &when, TryUntil try_until) {
    for (;;) {
        const auto now = Clock::now();
        if (try_until(when > now ? deadline_after(when - now) : hl_now_ns())) return true;
        if (Clock::now() >= when) return false;
    }
}

// One section on its way to the thread that runs it: the callable by reference, and its outcome.
template <class F>
class section {
public:
    using result = std::invoke_result_t<F &>;

    explicit section(F &f) noexcept : f_(std::addressof(f)) {}
    section(const section &) = delete;
    section &operator=(const section &) = delete;

    // What a lock calls, perhaps on another thread: nothing may be thrown through the lock.
    static void call(void *self) noexcept { static_cast<section *>(self)->invoke(); }

    // For the requester, after completion.
    result take() {
        if (thrown_) std::rethrow_exception(std::move(thrown_));
        if constexpr (std::is_reference_v<result>)
            return static_cast<result>(**value_);
        else if constexpr (!std::is_void_v<result>)
            return std::move(*value_);
    }

private:
    struct nothing {};
    using stored = std::conditional_t<
        std::is_void_v<result>, nothing,
        std::conditional_t<std::is_reference_v<result>, std::remove_reference_t<result> *,
                           std::remove_cv_t<result>>>;

    void invoke() noexcept {
        try {
            if constexpr (std::is_void_v<result>) {
                std::invoke(*f_);
            } else if constexpr (std::is_reference_v<result>) {
                auto &&r = std::invoke(*f_);
                value_.emplace(std::addressof(r));
            } else {
                value_.emplace(std::invoke(*f_));
            }
        } catch (...) {
            thrown_ = std::current_exception();
        }
    }

    std::remove_reference_t<F> *f_;
    std::optional<stored> value_;
    std::exception_ptr thrown_;
};

struct tas_ops {
    using word = hl_tas_t;
    static void lock(word &w) noexcept { hl_tas_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_tas_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_tas_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_tas_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_tas_is_locked(&w); }
};

struct ticket_ops {
    using word = hl_ticket_t;
    static void lock(word &w) noexcept { hl_ticket_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_ticket_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept {
        return hl_ticket_lock_until(&w, t);
    }
    static void unlock(word &w) noexcept { hl_ticket_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_ticket_is_locked(&w); }
};

struct nmcs_ops {
    using word = hl_nmcs_t;
    static void lock(word &w) noexcept { hl_nmcs_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_nmcs_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_nmcs_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_nmcs_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_nmcs_is_locked(&w); }
};

struct nmcs4_ops {
    using word = hl_nmcs4_t;
    static void lock(word &w) noexcept { hl_nmcs4_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_nmcs4_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_nmcs4_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_nmcs4_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_nmcs4_is_locked(&w); }
};

struct mcsflag_ops {
    using word = hl_mcsflag_t;
    static void lock(word &w) noexcept { hl_mcsflag_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_mcsflag_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept {
        return hl_mcsflag_lock_until(&w, t);
    }
    static void unlock(word &w) noexcept { hl_mcsflag_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_mcsflag_is_locked(&w); }
};

struct qspin_ops {
    using word = hl_qspin_t;
    static void lock(word &w) noexcept { hl_qspin_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_qspin_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_qspin_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_qspin_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_qspin_is_locked(&w); }
};

struct park_ops {
    using word = hl_park_t;
    static void lock(word &w) noexcept { hl_park_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_park_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_park_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_park_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_park_is_locked(&w); }
};

struct ali_ops {
    using word = hl_ali_t;
    static void lock(word &w) noexcept { hl_ali_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_ali_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_ali_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_ali_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_ali_is_locked(&w); }
};

struct any_ops {
    using word = hl_lock_t;
    static void lock(word &w) noexcept { hl_lock(&w); }
    static bool try_lock(word &w) noexcept { return hl_trylock(&w); }
    static bool lock_until(word &w, std::uint64_t t) noexcept { return hl_lock_until(&w, t); }
    static void unlock(word &w) noexcept { hl_unlock(&w); }
    static bool is_locked(const word &w) noexcept { return hl_is_locked(&w); }
};

}  // namespace detail

// A lock in one object, TimedLockable. All-zero memory is an unlocked lock, so a static one needs
// no constructor to have run.
template <class Ops>
class HL_CAPABILITY basic_lock {
public:
    using native_handle_type = typename Ops::word *;

    constexpr basic_lock() noexcept = default;
    basic_lock(const basic_lock &) = delete;
    basic_lock &operator=(const basic_lock &) = delete;

    void lock() noexcept HL_ACQUIRES(this) { Ops::lock(word_); }
    [[nodiscard]] bool try_lock() noexcept HL_ACQUIRES_IF(true, this) {
        return Ops::try_lock(word_);
    }
    void unlock() noexcept HL_RELEASES(this) { Ops::unlock(word_); }

    template <class Rep, class Period>
    [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
        HL_ACQUIRES_IF(true, this) {
        return Ops::lock_until(word_, detail::deadline_after(wait));
    }
    template <class Clock, class Duration>
    [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
        HL_ACQUIRES_IF(true, this) {
        return detail::until(when, [this](std::uint64_t t) { return Ops::lock_until(word_, t); });
    }

    bool is_locked() const noexcept { return Ops::is_locked(word_); }  // a hint
    native_handle_type native_handle() noexcept { return &word_; }

protected:
    typename Ops::word word_{};
};

using tas = basic_lock<detail::tas_ops>;
using ticket = basic_lock<detail::ticket_ops>;
using nmcs = basic_lock<detail::nmcs_ops>;
using nmcs4 = basic_lock<detail::nmcs4_ops>;
using mcsflag = basic_lock<detail::mcsflag_ops>;
using qspin = basic_lock<detail::qspin_ops>;
using park = basic_lock<detail::park_ops>;

// The combining lock: ordinary sections, and sections given as callables.
class ali : public basic_lock<detail::ali_ops> {
public:
    // Runs f under the lock, perhaps on another thread, and gives its result (or exception) back.
    template <class F>
    std::invoke_result_t<F &> run(F &&f) {
        detail::section<F> s(f);
        hl_ali_run(&word_, &detail::section<F>::call, &s);
        return s.take();
    }

    template <class F>
    class request;
};

// The asynchronous form: the section is submitted when the request is made, and the requester
// does other work until it wants the result. The destructor waits if nobody has.
//
//     hotlock::ali::request r(lock, [&] { return ++count; });
//     ... other work ...
//     int n = r.get();
template <class F>
class ali::request {
public:
    request(ali &lock, F f) : lock_(lock.native_handle()), f_(std::move(f)), section_(f_) {
        hl_ali_submit(lock_, &req_, &detail::section<F>::call, &section_);
    }
    ~request() { wait(); }
    request(const request &) = delete;
    request &operator=(const request &) = delete;

    // True once f has run; may itself run what is queued.
    [[nodiscard]] bool done() noexcept {
        if (!done_) done_ = hl_ali_done(lock_, &req_);
        return done_;
    }
    void wait() noexcept {
        if (!done_) hl_ali_wait(lock_, &req_);
        done_ = true;
    }
    // Once: the result of f, or the exception it threw.
    typename detail::section<F>::result get() {
        wait();
        return section_.take();
    }

private:
    hl_ali_t *lock_;
    F f_;
    detail::section<F> section_;
    hl_ali_req_t req_{};
    bool done_ = false;
};

// The lock chosen at run time; without a choice, park.
class any : public basic_lock<detail::any_ops> {
public:
    constexpr any() noexcept = default;
    explicit any(hl_kind_t kind) noexcept { hl_lock_init(&word_, kind); }

    // Runs f under the lock: on an ali lock perhaps on another thread, else on this one.
    template <class F>
    std::invoke_result_t<F &> run(F &&f) {
        detail::section<F> s(f);
        hl_run(&word_, &detail::section<F>::call, &s);
        return s.take();
    }
};

// The lock with an explicit node: one place per thread that waits, reused as often as it likes.
class mcs {
public:
    using native_handle_type = hl_mcs_t *;

    constexpr mcs() noexcept = default;
    mcs(const mcs &) = delete;
    mcs &operator=(const mcs &) = delete;

    bool is_locked() const noexcept { return hl_mcs_is_locked(&word_); }  // a hint
    native_handle_type native_handle() noexcept { return &word_; }

    // A lock and this thread's node for it. TimedLockable.
    class HL_CAPABILITY place {
    public:
        explicit place(mcs &lock) noexcept : word_(&lock.word_) {}
        place(const place &) = delete;
        place &operator=(const place &) = delete;

        void lock() noexcept HL_ACQUIRES(this) { hl_mcs_lock(word_, &node_); }
        [[nodiscard]] bool try_lock() noexcept HL_ACQUIRES_IF(true, this) {
            return hl_mcs_trylock(word_, &node_);
        }
        void unlock() noexcept HL_RELEASES(this) { hl_mcs_unlock(word_, &node_); }

        template <class Rep, class Period>
        [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
            HL_ACQUIRES_IF(true, this) {
            return hl_mcs_lock_until(word_, &node_, detail::deadline_after(wait));
        }
        template <class Clock, class Duration>
        [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
            HL_ACQUIRES_IF(true, this) {
            return detail::until(
                when, [this](std::uint64_t t) { return hl_mcs_lock_until(word_, &node_, t); });
        }

    private:
        hl_mcs_t *word_;
        hl_mcs_node_t node_{};
    };

    // A place that is locked for as long as it lives.
    class guard {
    public:
        explicit guard(mcs &lock) noexcept : place_(lock) { place_.lock(); }
        ~guard() { place_.unlock(); }
        guard(const guard &) = delete;
        guard &operator=(const guard &) = delete;

    private:
        place place_;
    };

private:
    hl_mcs_t word_{};
};

}  // namespace hotlock

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

#endif
