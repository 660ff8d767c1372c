/* SPDX-License-Identifier: MIT */
/* Descriptor: no lock at all. Only in test builds: proof that the exclusion check can fail. */
#define LOCK busted
#define LOCK_T char
#define LOCK_ATOMICS 0
#define LOCK_SHARED 1
#define LOCK_ENTER(l, me) ((void)(l))
#define LOCK_LEAVE(l, me) __asm__ __volatile__("" ::: "memory")
