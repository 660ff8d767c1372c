// SPDX-License-Identifier: MIT
// sample.h - CPU samples of a program that this process starts: what share of its CPU time went
// into spinning, for which lock and where, home-made loops included. Needs no BPF.
#ifndef HOTLOCK_SAMPLE_H
#define HOTLOCK_SAMPLE_H

#include "profile.h"

typedef struct sampler sampler_t;

// To be called before the program is started: everything this thread starts from now on is
// sampled once it executes a program. NULL: the kernel does not let us (a note says so).
sampler_t *sampler_start(unsigned hz, const char *symbols, profile_t *p);

// Takes what has piled up; every 50 ms or so, from one thread at a time.
void sampler_poll(sampler_t *s);

// Adds what was found to the locks that were recorded, and loops that are no lock of libc's.
void sampler_fill(sampler_t *s, profile_t *p);
void sampler_stop(sampler_t *s);

#endif
