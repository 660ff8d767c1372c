/* SPDX-License-Identifier: MIT */
/* One table, four ways out: text for a terminal, CSV, Markdown, JSON rows. */
#include "table.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli.h"
#include "output.h"

#define GAP 2           /* spaces between columns */
#define NARROWEST 12    /* a column of words is never made narrower than this */
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

typedef struct {
    char *text;    /* for people */
    json_t *value; /* for programs */
} cell_t;

struct table {
    const table_column_t *columns;
    size_t count;
    cell_t *cells; /* row by row */
    size_t used, room;
};

/* ---- UTF-8 ---- */

/* Bytes of the character at s and its code; 0 bytes if what is there is not UTF-8. */
static size_t decode(const char *s, wchar_t *code)
{
    const unsigned char *u = (const unsigned char *)s;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = u[0] >> 5 == 6 ? 2 : u[0] >> 4 == 14 ? 3 : u[0] >> 3 == 30 ? 4 : u[0] < 0x80;
    if (length < 2) {
        *code = u[0];
        return length;
    }
    uint32_t c = u[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (u[i] >> 6 != 2)
            return 0;
        c = c << 6 | (u[i] & 0x3f);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *code = (wchar_t)c;
    return length;
}

static int char_width(wchar_t code)
{
    int width = wcwidth(code);
    return width < 0 ? 1 : width;
}

int table_text_width(const char *utf8)
{
    int width = 0;
    while (*utf8) {
        wchar_t code;
        size_t length = decode(utf8, &code);
        width += length ? char_width(code) : 1;
        utf8 += length ? length : 1;
    }
    return width;
}

/* A copy in valid UTF-8; control characters become spaces unless kept. */
static char *clean(const char *bytes, bool keep_control)
{
    char *copy = cli_alloc(strlen(bytes) * strlen(REPLACEMENT) + 1), *to = copy;
    while (*bytes) {
        wchar_t code;
        size_t length = decode(bytes, &code);
        if (length == 0) {
            to = stpcpy(to, REPLACEMENT);
            bytes++;
            continue;
        }
        if (!keep_control && (code < 0x20 || (code >= 0x7f && code < 0xa0)))
            *to++ = ' ';
        else
            to = mempcpy(to, bytes, length);
        bytes += length;
    }
    return copy;
}

json_t *table_json_string(const char *bytes)
{
    char *valid = clean(bytes, true);
    json_t *value = json_string(valid);
    free(valid);
    return value;
}

/* ---- filling ---- */

table_t *table_new(const table_column_t *columns, size_t count)
{
    table_t *t = cli_alloc(sizeof *t);
    t->columns = columns;
    t->count = count;
    return t;
}

void table_free(table_t *t)
{
    for (size_t i = 0; i < t->used; i++) {
        free(t->cells[i].text);
        json_decref(t->cells[i].value);
    }
    free(t->cells);
    free(t);
}

static void add(table_t *t, char *text, json_t *value)
{
    if (t->used == t->room) {
        t->room = t->room ? 2 * t->room : 4 * t->count;
        t->cells = cli_grow(t->cells, t->room, sizeof *t->cells);
    }
    t->cells[t->used++] = (cell_t){text, value};
}

static char *format_clean(const char *format, va_list args)
{
    char *raw;
    if (vasprintf(&raw, format, args) < 0)
        cli_bad("out of memory");
    char *text = clean(raw, false);
    free(raw);
    return text;
}

void table_text(table_t *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_clean(format, args);
    va_end(args);
    add(t, text, json_string(text));
}

void table_cell(table_t *t, json_t *value, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_clean(format, args);
    va_end(args);
    add(t, text, value);
}

void table_int(table_t *t, long long value)
{
    table_cell(t, json_integer(value), "%lld", value);
}

void table_real(table_t *t, double value, int decimals)
{
    if (isfinite(value))
        table_cell(t, json_real(value), "%.*f", decimals, value);
    else
        table_none(t);
}

void table_none(table_t *t)
{
    table_cell(t, json_null(), "-");
}

static size_t row_count(const table_t *t)
{
    return t->used / t->count;
}

static const cell_t *cell_at(const table_t *t, size_t row, size_t column)
{
    return &t->cells[row * t->count + column];
}

/* ---- text ---- */

/* A column of words with nothing in it is left out for people. */
static bool for_people(const table_t *t, size_t column)
{
    const table_column_t *c = &t->columns[column];
    if (c->readers == TABLE_PROGRAMS || c->align == TABLE_RIGHT)
        return c->readers != TABLE_PROGRAMS;
    for (size_t row = 0; row < row_count(t); row++)
        if (cell_at(t, row, column)->text[0])
            return true;
    return false;
}

static int natural_width(const table_t *t, size_t column)
{
    int width = table_text_width(t->columns[column].title);
    for (size_t row = 0; row < row_count(t); row++) {
        int w = table_text_width(cell_at(t, row, column)->text);
        width = w > width ? w : width;
    }
    return width;
}

typedef struct {
    size_t column;
    int width;
} shown_t;

static int total_width(const shown_t *shown, size_t count)
{
    int total = count ? (int)(count - 1) * GAP : 0;
    for (size_t i = 0; i < count; i++)
        total += shown[i].width;
    return total;
}

/* Takes what is too much from the widest columns of words, the widest first. */
static void shrink(const table_t *t, shown_t *shown, size_t count)
{
    int excess;
    while ((excess = total_width(shown, count) - TABLE_WIDTH) > 0) {
        shown_t *widest = NULL;
        for (size_t i = 0; i < count; i++)
            if (t->columns[shown[i].column].align == TABLE_LEFT && shown[i].width > NARROWEST &&
                (!widest || shown[i].width > widest->width))
                widest = &shown[i];
        if (!widest)
            return;
        widest->width = widest->width - excess > NARROWEST ? widest->width - excess : NARROWEST;
    }
}

/* Bytes of text that fit in width columns, broken after a word where one ends in time. */
static size_t line_bytes(const char *text, int width)
{
    size_t at = 0, word_end = 0;
    int used = 0;
    while (text[at]) {
        wchar_t code;
        size_t length = decode(text + at, &code);
        if (text[at] == ' ')
            word_end = at;
        used += char_width(code);
        if (used > width && at > 0)
            return word_end ? word_end : at;
        at += length;
    }
    return at;
}

typedef struct {
    FILE *out;
    int pending; /* spaces owed; never written at the end of a line */
} line_t;

static void put_padded(line_t *line, const char *text, size_t bytes, int width, table_align_t align)
{
    char *part = strndup(text, bytes);
    int pad = width - table_text_width(part);
    pad = pad > 0 ? pad : 0;
    line->pending += align == TABLE_RIGHT ? pad : 0;
    if (bytes)
        fprintf(line->out, "%*s%s", line->pending, "", part);
    line->pending = (bytes ? 0 : line->pending) + (align == TABLE_RIGHT ? 0 : pad) + GAP;
    free(part);
}

/* One row over as many lines as its longest cell needs; texts[i] is what shown[i] holds. */
static void print_row(const table_t *t, const shown_t *shown, size_t count, const char **texts,
                      FILE *out)
{
    bool more = true;
    while (more) {
        line_t line = {out, 0};
        more = false;
        for (size_t i = 0; i < count; i++) {
            size_t bytes = line_bytes(texts[i], shown[i].width);
            put_padded(&line, texts[i], bytes, shown[i].width, t->columns[shown[i].column].align);
            texts[i] += bytes;
            texts[i] += strspn(texts[i], " ");
            more = more || texts[i][0];
        }
        fputc('\n', out);
    }
}

static void print_block(const table_t *t, const shown_t *shown, size_t count, FILE *out)
{
    const char **texts = cli_alloc(count * sizeof *texts);
    for (size_t i = 0; i < count; i++)
        texts[i] = t->columns[shown[i].column].title;
    print_row(t, shown, count, texts, out);
    for (size_t row = 0; row < row_count(t); row++) {
        for (size_t i = 0; i < count; i++)
            texts[i] = cell_at(t, row, shown[i].column)->text;
        print_row(t, shown, count, texts, out);
    }
    free(texts);
}

static void print_text(const table_t *t, FILE *out)
{
    shown_t *shown = cli_alloc(t->count * sizeof *shown);
    size_t count = 0;
    for (size_t c = 0; c < t->count; c++)
        if (for_people(t, c))
            shown[count++] = (shown_t){c, natural_width(t, c)};
    shrink(t, shown, count);

    /* As many columns as fit; the rest below, again beside the first column. */
    shown_t *block = cli_alloc((count + 1) * sizeof *block);
    for (size_t next = 0; next < count;) {
        size_t n = 0;
        if (next > 0) {
            fputc('\n', out);
            block[n++] = shown[0];
        }
        do
            block[n++] = shown[next++];
        while (next < count && total_width(block, n) + GAP + shown[next].width <= TABLE_WIDTH);
        print_block(t, block, n, out);
    }
    free(block);
    free(shown);
}

/* ---- Markdown ---- */

static char *escape_bars(const char *text)
{
    char *escaped = cli_alloc(2 * strlen(text) + 1), *to = escaped;
    for (; *text; text++) {
        if (*text == '|')
            *to++ = '\\';
        *to++ = *text;
    }
    return escaped;
}

static void print_markdown(const table_t *t, FILE *out)
{
    for (size_t c = 0; c < t->count; c++)
        if (for_people(t, c))
            fprintf(out, "| %s ", t->columns[c].title);
    fputs("|\n", out);
    for (size_t c = 0; c < t->count; c++)
        if (for_people(t, c))
            fputs(t->columns[c].align == TABLE_RIGHT ? "|--:" : "|---", out);
    fputs("|\n", out);
    for (size_t row = 0; row < row_count(t); row++) {
        for (size_t c = 0; c < t->count; c++)
            if (for_people(t, c)) {
                char *text = escape_bars(cell_at(t, row, c)->text);
                fprintf(out, "| %s ", text);
                free(text);
            }
        fputs("|\n", out);
    }
}

/* ---- CSV (RFC 4180, but lines end with a plain newline) ---- */

static void put_csv(const char *text, FILE *out)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"%c" : "%c", *text);
    fputc('"', out);
}

static void put_csv_value(const json_t *value, FILE *out)
{
    if (json_is_null(value))
        return;
    if (json_is_string(value)) {
        put_csv(json_string_value(value), out);
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    put_csv(text, out);
    free(text);
}

void table_csv(const table_t *t, FILE *out, int with_heading)
{
    for (size_t row = with_heading ? 0 : 1; row <= row_count(t); row++) {
        bool first = true;
        for (size_t c = 0; c < t->count; c++) {
            if (t->columns[c].readers == TABLE_PEOPLE)
                continue;
            if (!first)
                fputc(',', out);
            first = false;
            if (row == 0)
                put_csv(t->columns[c].key, out);
            else
                put_csv_value(cell_at(t, row - 1, c)->value, out);
        }
        fputc('\n', out);
    }
}

/* ---- JSON ---- */

json_t *table_rows(const table_t *t)
{
    json_t *rows = json_array();
    for (size_t row = 0; row < row_count(t); row++) {
        json_t *object = json_object();
        for (size_t c = 0; c < t->count; c++)
            if (t->columns[c].readers != TABLE_PEOPLE)
                json_object_set(object, t->columns[c].key, cell_at(t, row, c)->value);
        json_array_append_new(rows, object);
    }
    return rows;
}

void table_print(const table_t *t, table_format_t format, FILE *out)
{
    switch (format) {
    case TABLE_TEXT:
        print_text(t, out);
        return;
    case TABLE_CSV:
        table_csv(t, out, 1);
        return;
    case TABLE_MARKDOWN:
        print_markdown(t, out);
        return;
    case TABLE_JSON:
        output_json(table_rows(t), out);
        return;
    }
}
