// SPDX-License-Identifier: MIT
// load.h - what the guest's workloads share. Each says what it counted and what was due.
#ifndef LOAD_H
#define LOAD_H

// Ends the program with one line if `bad`.
void load_fail_if(int bad, const char *what);

// Prints "counted N, due N"; gives the exit code.
int load_verdict(unsigned long counted, unsigned long due);

int load_stat(int threads, int files, int rounds);
int load_fcntl(int processes, int times);
int load_ranges(int processes, int times);
int load_bpf(int threads, int times);

#endif
