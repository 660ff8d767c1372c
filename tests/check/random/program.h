// SPDX-License-Identifier: MIT
// program.h - the little programs of the differential test, and their notation.
//
// Threads are separated by '|', operations by ';'. x, y are locations 0 to 3, r a register 0 to 3
// of the thread, o an order (r relaxed, a acquire, l release, b acq_rel, s seq_cst):
//   S x v o    store            L x r o     load          D x r o   store of register r plus 1
//   A x v r o  fetch-add        X x v r o   exchange      C x e v r o f  compare-exchange
//   F o        fence            W x v o     wait until x == v
//   I r v n    skip the next n operations unless register r == v
//   K x e v r o f  weak compare-exchange
//   P x v      plain store      Q x r       plain load
//   of half h of the location, 0 the lower: B x h v o  store   H x h r o  load   Y x h v r o 
//   exchange
#ifndef HL_RANDOM_PROGRAM_H
#define HL_RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stdlib.h>

enum { THREADS_MOST = 4, OPS_MOST = 12, LOCATIONS = 4, REGISTERS = 4, PLAIN = -1 };

typedef struct { char kind; int x, h, v, r, e, order, failure; } op_t;
typedef struct {
    int threads, ops[THREADS_MOST];
    op_t op[THREADS_MOST][OPS_MOST];
} program_t;

static inline int order_of(char c) {
    switch (c) {
    case 'a': return __ATOMIC_ACQUIRE;
    case 'l': return __ATOMIC_RELEASE;
    case 'b': return __ATOMIC_ACQ_REL;
    case 's': return __ATOMIC_SEQ_CST;
    default: return __ATOMIC_RELAXED;
    }
}

static inline char *blanks(char *s) {
    while (*s == ' ') s++;
    return s;
}
static inline int number(char **s) { return (int)strtol(*s, s, 10); }
static inline int letter(char **s) {
    *s = blanks(*s);
    return order_of(*(*s)++);
}

// Reads one operation; the text is known to be well formed (the generator wrote it).
static inline op_t parse_op(char **s) {
    op_t o = {0};
    *s = blanks(*s);
    o.kind = *(*s)++;
    switch (o.kind) {
    case 'S': o.x = number(s); o.v = number(s); o.order = letter(s); break;
    case 'L': o.x = number(s); o.r = number(s); o.order = letter(s); break;
    case 'D': o.x = number(s); o.r = number(s); o.order = letter(s); break;
    case 'A':
    case 'X': o.x = number(s); o.v = number(s); o.r = number(s); o.order = letter(s); break;
    case 'C':
    case 'K':
        o.x = number(s); o.e = number(s); o.v = number(s); o.r = number(s);
        o.order = letter(s); o.failure = letter(s);
        break;
    case 'B': o.x = number(s); o.h = number(s); o.v = number(s); o.order = letter(s); break;
    case 'H': o.x = number(s); o.h = number(s); o.r = number(s); o.order = letter(s); break;
    case 'Y':
        o.x = number(s); o.h = number(s); o.v = number(s); o.r = number(s);
        o.order = letter(s);
        break;
    case 'F': o.order = letter(s); break;
    case 'P': o.x = number(s); o.v = number(s); o.order = PLAIN; break;
    case 'Q': o.x = number(s); o.r = number(s); o.order = PLAIN; break;
    case 'W': o.x = number(s); o.v = number(s); o.order = letter(s); break;
    case 'I': o.r = number(s); o.v = number(s); o.x = number(s); break;
    default: abort();
    }
    return o;
}

static inline void parse_program(char *s, program_t *p) {
    p->threads = 1;
    for (;;) {
        int t = p->threads - 1;
        s = blanks(s);
        if (*s && *s != '|' && *s != ';') p->op[t][p->ops[t]++] = parse_op(&s);
        s = blanks(s);
        if (!*s) return;
        if (*s++ == '|') p->threads++;
    }
}

// Is location x one that no atomic access touches?
static inline bool is_plain(const program_t *p, int x) {
    bool plain = false, atomic = false;
    for (int t = 0; t < p->threads; t++)
        for (int i = 0; i < p->ops[t]; i++) {
            const op_t *o = &p->op[t][i];
            if (o->kind == 'F' || o->kind == 'I' || o->x != x) continue;
            *(o->order == PLAIN ? &plain : &atomic) = true;
        }
    return plain && !atomic;
}

#endif
