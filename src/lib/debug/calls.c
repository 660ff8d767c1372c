// SPDX-License-Identifier: MIT
// calls.c - the C library's calls that sections should not make, and its locks.
//
// Each function below stands before libc's in the search order: it looks whether its thread is
// inside a section, and goes on to libc's. Calls that libc makes itself (printf's write) do not
// come by.
#undef _FILE_OFFSET_BITS  // it renames pread() to pread64(), and both are defined here
#include "debug.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SITE __builtin_return_address(0)

// What comes after us in the search order.
static void *next(void **slot, const char *name) {
    void *f = __atomic_load_n(slot, __ATOMIC_RELAXED);
    if (!f) {
        f = dlsym(RTLD_NEXT, name);
        __atomic_store_n(slot, f, __ATOMIC_RELAXED);
    }
    return f;
}

// The next function of this name, as a pointer of its type.
#define NEXT(name) ({ static void *slot_; (__typeof__(&name))next(&slot_, #name); })

// ------------------------------------------------------------------------- calls that may block
#define BLOCKING(type, name, parameters, arguments) \
    HL_EXPORT type name parameters {                \
        dbg_blocking(#name, SITE);                  \
        return NEXT(name) arguments;                \
    }

BLOCKING(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
BLOCKING(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
BLOCKING(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
BLOCKING(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
BLOCKING(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
BLOCKING(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
BLOCKING(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
BLOCKING(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
BLOCKING(int, fsync, (int fd), (fd))
BLOCKING(int, fdatasync, (int fd), (fd))

BLOCKING(unsigned, sleep, (unsigned s), (s))
BLOCKING(int, usleep, (useconds_t us), (us))
BLOCKING(int, nanosleep, (const struct timespec *t, struct timespec *rest), (t, rest))
BLOCKING(int, clock_nanosleep,
         (clockid_t clock, int flags, const struct timespec *t, struct timespec *rest),
         (clock, flags, t, rest))
BLOCKING(int, pause, (void), ())

BLOCKING(int, poll, (struct pollfd *p, nfds_t n, int ms), (p, n, ms))
BLOCKING(int, ppoll, (struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *set),
         (p, n, t, set))
BLOCKING(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t))
BLOCKING(int, pselect,
         (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *set),
         (n, r, w, e, t, set))
BLOCKING(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), (fd, e, n, ms))

BLOCKING(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
BLOCKING(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags), (fd, a, n, flags))
BLOCKING(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))
BLOCKING(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
BLOCKING(ssize_t, recvfrom,
         (int fd, void *p, size_t n, int flags, struct sockaddr *a, socklen_t *bytes),
         (fd, p, n, flags, a, bytes))
BLOCKING(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
BLOCKING(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
BLOCKING(ssize_t, sendto,
         (int fd, const void *p, size_t n, int flags, const struct sockaddr *a, socklen_t bytes),
         (fd, p, n, flags, a, bytes))
BLOCKING(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))

BLOCKING(pid_t, wait, (int *status), (status))
BLOCKING(pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags))

BLOCKING(int, sem_wait, (sem_t *s), (s))
BLOCKING(int, sem_timedwait, (sem_t *s, const struct timespec *t), (s, t))
BLOCKING(int, pthread_join, (pthread_t id, void **value), (id, value))
BLOCKING(int, pthread_barrier_wait, (pthread_barrier_t *b), (b))
BLOCKING(int, pthread_cond_wait, (pthread_cond_t *c, pthread_mutex_t *m), (c, m))
BLOCKING(int, pthread_cond_timedwait,
         (pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t), (c, m, t))
BLOCKING(int, pthread_cond_clockwait,
         (pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *t),
         (c, m, clock, t))

// What _FORTIFY_SOURCE makes of some of them; libc declares these nowhere.
ssize_t __read_chk(int fd, void *p, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *p, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *p, size_t n, off64_t at, size_t room);
ssize_t __recv_chk(int fd, void *p, size_t n, size_t room, int flags);
int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t room);
BLOCKING(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t room), (fd, p, n, room))
BLOCKING(ssize_t, __pread_chk, (int fd, void *p, size_t n, off_t at, size_t room),
         (fd, p, n, at, room))
BLOCKING(ssize_t, __pread64_chk, (int fd, void *p, size_t n, off64_t at, size_t room),
         (fd, p, n, at, room))
BLOCKING(ssize_t, __recv_chk, (int fd, void *p, size_t n, size_t room, int flags),
         (fd, p, n, room, flags))
BLOCKING(int, __poll_chk, (struct pollfd *p, nfds_t n, int ms, size_t room), (p, n, ms, room))

// ------------------------------------------------------------------------- libc's locks
// EOWNERDEAD: the holder died, and the lock is ours.
static int taken(const volatile void *l, int error) {
    if (dbg_mode == DBG_OFF) return error;
    if (!error || error == EOWNERDEAD) dbg_held(l);
    else dbg_thread.waiting = false;
    return error;
}

static void before(const volatile void *l, const char *op, const void *site) {
    if (dbg_mode == DBG_OFF) return;
    dbg_wait(l, op, site);
    dbg_thread.waiting = false;  // what blocks in here is the program's
}

#define TAKES(name, lock, parameters, arguments)                           \
    HL_EXPORT int name parameters {                                        \
        before((const volatile void *)(lock), #name, SITE);                \
        return taken((const volatile void *)(lock), NEXT(name) arguments); \
    }
#define TRIES(name, lock, parameters, arguments)                           \
    HL_EXPORT int name parameters {                                        \
        return taken((const volatile void *)(lock), NEXT(name) arguments); \
    }
#define RELEASES(name, lock, parameters, arguments)                                       \
    HL_EXPORT int name parameters {                                                       \
        if (dbg_mode != DBG_OFF) dbg_release((const volatile void *)(lock), #name, SITE); \
        return NEXT(name) arguments;                                                      \
    }

// To see whether it blocks, a section tries first.
HL_EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    before(m, "pthread_mutex_lock", SITE);
    int error = EBUSY;
    if (dbg_thread.inside) error = NEXT(pthread_mutex_trylock)(m);
    if (error == EBUSY) {
        dbg_blocking("pthread_mutex_lock", SITE);
        error = NEXT(pthread_mutex_lock)(m);
    }
    return taken(m, error);
}

TRIES(pthread_mutex_trylock, m, (pthread_mutex_t *m), (m))
TAKES(pthread_mutex_timedlock, m, (pthread_mutex_t *m, const struct timespec *t), (m, t))
TAKES(pthread_mutex_clocklock, m, (pthread_mutex_t *m, clockid_t clock, const struct timespec *t),
      (m, clock, t))
RELEASES(pthread_mutex_unlock, m, (pthread_mutex_t *m), (m))

TAKES(pthread_spin_lock, l, (pthread_spinlock_t *l), (l))
TRIES(pthread_spin_trylock, l, (pthread_spinlock_t *l), (l))
RELEASES(pthread_spin_unlock, l, (pthread_spinlock_t *l), (l))

TAKES(pthread_rwlock_rdlock, l, (pthread_rwlock_t *l), (l))
TAKES(pthread_rwlock_wrlock, l, (pthread_rwlock_t *l), (l))
TRIES(pthread_rwlock_tryrdlock, l, (pthread_rwlock_t *l), (l))
TRIES(pthread_rwlock_trywrlock, l, (pthread_rwlock_t *l), (l))
TAKES(pthread_rwlock_timedrdlock, l, (pthread_rwlock_t *l, const struct timespec *t), (l, t))
TAKES(pthread_rwlock_timedwrlock, l, (pthread_rwlock_t *l, const struct timespec *t), (l, t))
RELEASES(pthread_rwlock_unlock, l, (pthread_rwlock_t *l), (l))

// ------------------------------------------------------------------------- jumps
// glibc keeps the stack pointer of a jmp_buf rotated by 17 bits and mixed with a secret that lies
// in the thread's header; elsewhere a jump is seen at the thread's next lock operation.
#if defined(__x86_64__)
static void jumps(struct __jmp_buf_tag *to) {
    uintptr_t sp = (uintptr_t)to->__jmpbuf[6], secret;
    if (dbg_mode == DBG_OFF) return;
    __asm__("mov %%fs:0x30, %0" : "=r"(secret));
    sp = ((sp >> 17) | (sp << 47)) ^ secret;
    dbg_left((const char *)sp, "by longjmp()");
}
#else
static void jumps(struct __jmp_buf_tag *to) { (void)to; }
#endif

#define JUMPS(name)                                                                        \
    HL_EXPORT __attribute__((noreturn)) void name(struct __jmp_buf_tag to[1], int value) { \
        jumps(to);                                                                         \
        NEXT(name)(to, value);                                                             \
        __builtin_unreachable();                                                           \
    }

void __longjmp_chk(struct __jmp_buf_tag to[1], int value) __attribute__((noreturn));
JUMPS(longjmp)
JUMPS(_longjmp)
JUMPS(siglongjmp)
JUMPS(__longjmp_chk)
