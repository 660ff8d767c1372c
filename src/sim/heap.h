// SPDX-License-Identifier: MIT
// heap.h - events in order of time: a 4-ary heap. While it is empty its first key is EMPTY, so that
// looking at what comes next is one load.
#ifndef HL_SIM_HEAP_H
#define HL_SIM_HEAP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct { uint64_t key, arg; } event_t;   // time and sequence; what and whose
typedef struct { event_t *e; size_t count, room; } heap_t;
#define HEAP_EMPTY UINT64_MAX

static inline bool heap_grow(heap_t *h) {
    size_t room = h->room ? h->room * 2 : 1024;
    event_t *e = realloc(h->e, room * sizeof *e);
    if (!e) return false;
    if (!h->room) e[0].key = HEAP_EMPTY;
    h->e = e;
    h->room = room;
    return true;
}

// There is room for it.
static inline void heap_push(heap_t *h, event_t e) {
    size_t i = h->count++;
    while (i) {
        size_t up = (i - 1) >> 2;
        if (h->e[up].key <= e.key) break;
        h->e[i] = h->e[up];
        i = up;
    }
    h->e[i] = e;
}

static inline void heap_replace_first(heap_t *h, event_t e) {
    event_t *heap = h->e;
    size_t i = 0, child;
    while ((child = 4 * i + 1) + 4 <= h->count) {
        const event_t *k = &heap[child];   // without jumps, which nobody could predict
        size_t left = k[1].key < k[0].key, right = 2 + (k[3].key < k[2].key);
        size_t least = child + (k[right].key < k[left].key ? right : left);
        if (heap[least].key >= e.key) break;
        heap[i] = heap[least];
        i = least;
    }
    if (child + 4 > h->count && child < h->count) {
        size_t least = child;
        for (size_t k = child + 1; k < h->count; k++)
            if (heap[k].key < heap[least].key) least = k;
        if (heap[least].key < e.key) {
            heap[i] = heap[least];
            i = least;
        }
    }
    heap[i] = e;
}

static inline event_t heap_pop(heap_t *h) {
    event_t first = h->e[0];
    if (--h->count) heap_replace_first(h, h->e[h->count]);
    else h->e[0].key = HEAP_EMPTY;
    return first;
}

#endif
