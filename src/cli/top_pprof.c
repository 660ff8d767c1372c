// SPDX-License-Identifier: MIT
// top_pprof.c - pprof's profile.proto, gzipped, as Go's mutex profile writes it: sample types
// contentions/count and delay/nanoseconds, charged to the stack that made others wait.
//
// The waiters' own stacks are there too, as waits/count and wait/nanoseconds: the same time seen
// from the other side, so it is another sample type and never added to the first. CPU time sampled
// in loops is spin/nanoseconds. The label "lock" is the lock (pprof -tagfocus=NAME).
//
// The wire format is varints and length-prefixed messages (protobuf encoding guide); zlib packs it.
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cli.h"
#include "top.h"

// ------------------------------------------------------------------------- protobuf
typedef struct {
    unsigned char *bytes;
    size_t used, room;
} message_t;

static void put(message_t *m, const void *bytes, size_t count)
{
    if (m->used + count > m->room) {
        m->room = 2 * (m->used + count);
        m->bytes = cli_grow(m->bytes, m->room, 1);
    }
    if (count)
        memcpy(m->bytes + m->used, bytes, count);
    m->used += count;
}

static void varint(message_t *m, uint64_t value)
{
    unsigned char byte;
    for (; value >= 0x80; value >>= 7) {
        byte = (unsigned char)(value | 0x80);
        put(m, &byte, 1);
    }
    byte = (unsigned char)value;
    put(m, &byte, 1);
}

static void number(message_t *m, unsigned field, uint64_t value)
{
    if (!value)
        return;
    varint(m, field << 3);
    varint(m, value);
}

static void bytes(message_t *m, unsigned field, const void *data, size_t count)
{
    varint(m, field << 3 | 2);
    varint(m, count);
    put(m, data, count);
}

static void submessage(message_t *m, unsigned field, message_t *inner)
{
    bytes(m, field, inner->bytes, inner->used);
    free(inner->bytes);
    *inner = (message_t){0};
}

// ------------------------------------------------------------------------- strings
// Numbered in the order of first use; number 0 is "".
typedef struct {
    message_t *profile;
    char **text;
    size_t count, room;
    uint32_t *index;  // hash -> number + 1
    size_t index_room;
} strings_t;

static size_t string_slot(const strings_t *s, const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (const char *c = text; *c; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211u;
    size_t at = h & (s->index_room - 1);
    while (s->index[at] && strcmp(s->text[s->index[at] - 1], text) != 0)
        at = (at + 1) & (s->index_room - 1);
    return at;
}

static void grow_strings(strings_t *s)
{
    free(s->index);
    s->index_room = s->index_room ? 2 * s->index_room : 256;
    s->index = cli_alloc(s->index_room * sizeof *s->index);
    for (size_t i = 0; i < s->count; i++)
        s->index[string_slot(s, s->text[i])] = (uint32_t)i + 1;
}

static uint64_t string(strings_t *s, const char *text)
{
    if (2 * (s->count + 1) > s->index_room)
        grow_strings(s);
    size_t at = string_slot(s, text);
    if (s->index[at])
        return s->index[at] - 1;
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->text = cli_grow(s->text, s->room, sizeof *s->text);
    }
    s->text[s->count++] = cli_printf("%s", text);
    s->index[at] = (uint32_t)s->count;
    return s->count - 1;
}

// ------------------------------------------------------------------------- profile.proto
// Fields of message Profile, and of those inside it, by their numbers in pprof's profile.proto.
enum { P_SAMPLE_TYPE = 1, P_SAMPLE, P_MAPPING, P_LOCATION, P_FUNCTION, P_STRING, P_DROP = 7,
       P_DURATION = 10, P_PERIOD_TYPE, P_PERIOD, P_COMMENT, P_DEFAULT_TYPE };

enum { VALUES = 5 }; // of a sample, in the order of the sample types

static void value_type(message_t *m, unsigned field, strings_t *s, const char *type,
                       const char *unit)
{
    message_t v = {0};
    number(&v, 1, string(s, type));
    number(&v, 2, string(s, unit));
    submessage(m, field, &v);
}

static void label(message_t *sample, strings_t *s, const char *key, const char *value)
{
    message_t l = {0};
    number(&l, 1, string(s, key));
    number(&l, 2, string(s, value));
    submessage(sample, 3, &l);
}

static void sample(message_t *m, strings_t *s, const profile_lock_t *l, const profile_stack_t *k)
{
    const uint64_t values[VALUES] = {
        k->role == STACK_HOLDER ? k->count : 0,  k->role == STACK_HOLDER ? k->ns : 0,
        k->role == STACK_WAITER ? k->count : 0,  k->role == STACK_WAITER ? k->ns : 0,
        k->role == STACK_SPINNER ? k->ns : 0};
    message_t one = {0}, packed = {0};
    for (uint32_t i = 0; i < k->depth; i++)
        varint(&packed, (uint64_t)k->frame[i] + 1);
    submessage(&one, 1, &packed);
    for (size_t i = 0; i < VALUES; i++)
        varint(&packed, values[i]);
    submessage(&one, 2, &packed);
    label(&one, s, "lock", l->name);
    submessage(m, P_SAMPLE, &one);
}

// One location and one function for each frame; the same function at two lines is two of them,
// which pprof puts together by name.
static void location(message_t *m, strings_t *s, const profile_frame_t *f, uint64_t id)
{
    message_t place = {0}, line = {0}, function = {0};
    char *other = f->function ? NULL : top_frame_text(f);
    uint64_t name = string(s, f->function ? f->function : other);
    number(&line, 1, id);
    number(&line, 2, (uint64_t)f->line);
    number(&place, 1, id);
    number(&place, 2, 1);
    number(&place, 3, f->pc);
    submessage(&place, 4, &line);
    submessage(m, P_LOCATION, &place);
    number(&function, 1, id);
    number(&function, 2, name);
    number(&function, 3, name);
    number(&function, 4, string(s, f->file ? f->file : ""));
    submessage(m, P_FUNCTION, &function);
    free(other);
}

static void mapping(message_t *m, strings_t *s, const profile_t *p)
{
    message_t map = {0};
    number(&map, 1, 1);
    number(&map, 3, ~0ull >> 1);
    number(&map, 5, string(s, p->what));
    number(&map, 7, 1); // functions, files and lines are known: pprof need not look for them
    number(&map, 8, 1);
    number(&map, 9, 1);
    submessage(m, P_MAPPING, &map);
}

static void write_profile(message_t *m, const top_result_t *r)
{
    const profile_t *p = r->profile;
    strings_t s = {0};
    string(&s, "");
    value_type(m, P_SAMPLE_TYPE, &s, "contentions", "count");
    value_type(m, P_SAMPLE_TYPE, &s, "delay", "nanoseconds");
    value_type(m, P_SAMPLE_TYPE, &s, "waits", "count");
    value_type(m, P_SAMPLE_TYPE, &s, "wait", "nanoseconds");
    value_type(m, P_SAMPLE_TYPE, &s, "spin", "nanoseconds");
    for (size_t i = 0; i < p->lock_count; i++)
        for (size_t k = 0; k < p->locks[i].stack_count; k++)
            if (p->locks[i].stacks[k].role < STACK_INIT)
                sample(m, &s, &p->locks[i], &p->locks[i].stacks[k]);
    mapping(m, &s, p);
    for (size_t i = 0; i < p->frame_count; i++)
        location(m, &s, &p->frames[i], i + 1);
    number(m, P_DURATION, (uint64_t)(p->wall_s * 1e9));
    value_type(m, P_PERIOD_TYPE, &s, "contentions", "count");
    number(m, P_PERIOD, 1);
    number(m, P_COMMENT, string(&s, "written by hotlock top"));
    number(m, P_DEFAULT_TYPE, string(&s, "delay"));
    for (size_t i = 0; i < s.count; i++) {
        bytes(m, P_STRING, s.text[i], strlen(s.text[i]));
        free(s.text[i]);
    }
    free(s.text);
    free(s.index);
}

// ------------------------------------------------------------------------- gzip
static bool compress_to(const message_t *m, FILE *out)
{
    z_stream z = {0};
    unsigned char chunk[16384];
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    z.next_in = m->bytes;
    z.avail_in = (uInt)m->used;
    int state;
    do {
        z.next_out = chunk;
        z.avail_out = sizeof chunk;
        state = deflate(&z, Z_FINISH);
        fwrite(chunk, 1, sizeof chunk - z.avail_out, out);
    } while (state == Z_OK);
    deflateEnd(&z);
    return state == Z_STREAM_END;
}

bool top_pprof(const top_result_t *r, FILE *out)
{
    message_t m = {0};
    write_profile(&m, r);
    bool good = compress_to(&m, out);
    free(m.bytes);
    return good;
}
