// SPDX-License-Identifier: MIT
// library.c - the lock's operations out of line, as libhotlock has them; to be checked with lock.c
// compiled with -DHL_INLINE_LOCK=0 and so on.
#define HL_LIBRARY
#undef HL_INLINE_LOCK
#undef HL_INLINE_TRYLOCK
#undef HL_INLINE_UNLOCK

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#include STRING(hotlock/LOCK.h)
