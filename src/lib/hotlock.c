// SPDX-License-Identifier: MIT
// hotlock.c - libhotlock: every operation of every header, compiled once, out of line.
//
// HL_LIBRARY turns the headers' inline functions into exported ones; there is no other source.
#define HL_LIBRARY

#include <hotlock/hotlock.h>
