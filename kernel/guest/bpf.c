// SPDX-License-Identifier: MIT
// bpf.c - bpf_spin_lock without a BPF program: updates and look-ups of a map with BPF_F_LOCK copy
// the element under the lock that stands in it, so nobody may ever see half of another's value.
#include <linux/bpf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "load.h"

#define WORDS 62

typedef struct { uint32_t lock, word[WORDS]; } element_t;

// The types of key and element, in the binary form of the kernel's documentation (BTF): int,
// struct bpf_spin_lock { int val; }, an array of int, and the element.
#define KIND(kind, members) ((uint32_t)(kind) << 24 | (members))
enum { INT = 1, ARRAY = 3, STRUCT = 4 };
static const char names[] = "\0int\0bpf_spin_lock\0val\0element\0lock\0word";
enum { N_INT = 1, N_SPIN = 5, N_VAL = 19, N_ELEMENT = 23, N_LOCK = 31, N_WORD = 36 };
static const uint32_t types[] = {
    N_INT, KIND(INT, 0), 4, 32,                                       // 1: int
    N_SPIN, KIND(STRUCT, 1), 4, N_VAL, 1, 0,                          // 2: struct bpf_spin_lock
    0, KIND(ARRAY, 0), 0, 1, 1, WORDS,                                // 3: int[WORDS]
    N_ELEMENT, KIND(STRUCT, 2), sizeof(element_t), N_LOCK, 2, 0, N_WORD, 3, 32, // 4
};

static struct {
    uint16_t magic;
    uint8_t version, flags;
    uint32_t head, type_at, type_size, name_at, name_size;
    uint8_t data[sizeof types + sizeof names];
} blob = {0xeb9f, 1, 0, 24, 0, sizeof types, sizeof types, sizeof names, {0}};

static int map, rounds;
static unsigned long torn;

static long call(int command, union bpf_attr *a) { return syscall(SYS_bpf, command, a, sizeof *a); }

static int make_map(void) {
    union bpf_attr a = {0};
    memcpy(blob.data, types, sizeof types);
    memcpy(blob.data + sizeof types, names, sizeof names);
    a.btf = (uintptr_t)&blob;
    a.btf_size = 24 + sizeof types + sizeof names;  // not its padding
    int btf = (int)call(BPF_BTF_LOAD, &a);
    load_fail_if(btf < 0, "BPF_BTF_LOAD");
    memset(&a, 0, sizeof a);
    a.map_type = BPF_MAP_TYPE_ARRAY;
    a.key_size = 4;
    a.value_size = sizeof(element_t);
    a.max_entries = 1;
    a.btf_fd = (uint32_t)btf;
    a.btf_key_type_id = 1;
    a.btf_value_type_id = 4;
    return (int)call(BPF_MAP_CREATE, &a);
}

static int access_element(int command, element_t *e) {
    uint32_t key = 0;
    union bpf_attr a = {0};
    a.map_fd = (uint32_t)map;
    a.key = (uintptr_t)&key;
    a.value = (uintptr_t)e;
    a.flags = BPF_F_LOCK;
    return (int)call(command, &a);
}

static void *user(void *arg) {
    uint32_t me = (uint32_t)(uintptr_t)arg;
    element_t e = {0};
    for (int i = 0; i < rounds; i++) {
        for (int w = 0; w < WORDS; w++) e.word[w] = me;
        load_fail_if(access_element(BPF_MAP_UPDATE_ELEM, &e), "update with BPF_F_LOCK");
        load_fail_if(access_element(BPF_MAP_LOOKUP_ELEM, &e), "look-up with BPF_F_LOCK");
        for (int w = 1; w < WORDS; w++)
            if (e.word[w] != e.word[0]) {
                __atomic_fetch_add(&torn, 1, __ATOMIC_RELAXED);
                break;
            }
    }
    return NULL;
}

int load_bpf(int threads, int times) {
    pthread_t thread[512];
    rounds = times;
    map = make_map();
    load_fail_if(map < 0, "BPF_MAP_CREATE");
    for (int i = 0; i < threads; i++)
        load_fail_if(pthread_create(&thread[i], NULL, user, (void *)(uintptr_t)(i + 1)), "thread");
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    return load_verdict(torn, 0);
}
