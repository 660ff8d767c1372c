// SPDX-License-Identifier: MIT
// study.c - goes through the probes of `hotlock size` once, for a processor that counts: the study in
// docs/inlining.md runs it under QEMU. STUDY_TABLE chooses the form.
#include <string.h>

#include "size_probe.h"

__attribute__((noinline)) void size_mark(void *lock, void *node) {
    __asm__ volatile("" : : "r"(lock), "r"(node) : "memory");
}

int main(void) {
    static _Alignas(64) char lock[64], node[64];
    for (size_t i = 0; i < STUDY_COUNT; i++) {
        if (i % 4 == 1) memset(lock, 0, sizeof lock);  // the next lock
        STUDY_TABLE[i].probe(lock, node);
    }
    return 0;
}
