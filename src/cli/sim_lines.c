/* SPDX-License-Identifier: MIT */
/* Source lines of a simulated program, by its debug information: which of them move cache lines,
 * and where every thread is when it cannot go on. Inlined functions are named too. */
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "sim.h"

enum { LINES_MOST = 12 };

/* ---- the program's debug information ---- */

typedef struct {
    char *file, *function; /* "?" if unknown; "lock in main" where lock is inlined into main */
    int line;
} source_t;

static Dwfl *open_program(const char *path)
{
    static char *debug_path;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &debug_path,
    };
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (!dwfl)
        return NULL;
    dwfl_report_begin(dwfl);
    if (!dwfl_report_offline(dwfl, path, path, -1))
        path = NULL;
    dwfl_report_end(dwfl, NULL, NULL);
    if (path)
        return dwfl;
    dwfl_end(dwfl);
    return NULL;
}

/* The innermost function the address is in, and the one whose code that is. */
static char *function_at(Dwfl_Module *m, Dwarf_Addr pc)
{
    Dwarf_Addr bias;
    Dwarf_Die *cu = dwfl_module_addrdie(m, pc, &bias), *scopes = NULL, *outer = NULL;
    const char *inner = NULL, *within = NULL;
    int count = cu ? dwarf_getscopes(cu, pc - bias, &scopes) : 0;
    if (count > 0) {
        Dwarf_Die innermost = scopes[0];
        count = dwarf_getscopes_die(&innermost, &outer);
    }
    for (int i = 0; i < count && !within; i++) {
        int tag = dwarf_tag(&outer[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        if (!inner)
            inner = dwarf_diename(&outer[i]);
        if (tag == DW_TAG_subprogram)
            within = dwarf_diename(&outer[i]);
    }
    if (!inner)
        inner = dwfl_module_addrname(m, pc);
    char *text = within && strcmp(inner, within) != 0 ? cli_printf("%s in %s", inner, within)
                                                      : cli_printf("%s", inner ? inner : "?");
    free(outer);
    free(scopes);
    return text;
}

static source_t source_at(Dwfl *dwfl, Dwarf_Addr pc)
{
    source_t s = {0};
    Dwfl_Module *m = dwfl ? dwfl_addrmodule(dwfl, pc) : NULL;
    Dwfl_Line *line = m ? dwfl_module_getsrc(m, pc) : NULL;
    const char *file = line ? dwfl_lineinfo(line, NULL, &s.line, NULL, NULL, NULL) : NULL;
    const char *slash = file ? strrchr(file, '/') : NULL;
    s.file = cli_printf("%s", slash ? slash + 1 : file ? file : "?");
    s.function = m ? function_at(m, pc) : cli_printf("?");
    return s;
}

/* ---- where every thread is ---- */

char *sim_stacks(const char *program, const json_t *report)
{
    char *text;
    size_t size, i;
    json_t *t;
    FILE *f = open_memstream(&text, &size);
    Dwfl *dwfl = open_program(program);
    json_array_foreach(json_object_get(report, "threads"), i, t) {
        json_t *calls = json_object_get(t, "calls");
        fprintf(f, "\n  thread %zu, CPU %.0f, %s:", i,
                json_number_value(json_object_get(t, "cpu")),
                json_string_value(json_object_get(t, "state")));
        for (size_t k = json_array_size(calls); k-- > 0;) { /* the call is just before */
            Dwarf_Addr pc = (Dwarf_Addr)json_integer_value(json_array_get(calls, k)) - 1;
            source_t s = source_at(dwfl, pc);
            fprintf(f, " %s (%s:%d)%s", s.function, s.file, s.line, k ? " <-" : "");
            free(s.file);
            free(s.function);
        }
    }
    dwfl_end(dwfl);
    fclose(f);
    return text;
}

/* ---- lines that move ---- */

void sim_note_lines(sim_cell_t *c, const json_t *report)
{
    size_t i;
    json_t *p;
    json_array_foreach(json_object_get(report, "places"), i, p) {
        unsigned long pc = (unsigned long)json_integer_value(json_object_get(p, "pc"));
        size_t at = 0;
        while (at < c->line_count && c->lines[at].pc != pc)
            at++;
        if (at == c->line_count) {
            c->lines = cli_grow(c->lines, at + 1, sizeof *c->lines);
            c->lines[at] = (sim_line_t){.pc = pc};
            c->line_count++;
        }
        json_t *moves = json_object_get(p, "moves");
        for (size_t d = 0; d < SIM_DISTANCES; d++)
            c->lines[at].moves[d] += json_number_value(json_array_get(moves, d));
        c->lines[at].ns += json_number_value(json_object_get(p, "ns"));
    }
}

static int by_time(const void *a, const void *b)
{
    const sim_line_t *x = a, *y = b;
    return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

static void drop_line(sim_line_t *line)
{
    free(line->file);
    free(line->function);
}

/* Adds a line to the one it is the same as; false: there is none yet. */
static bool merge(sim_line_t *known, size_t count, const sim_line_t *line)
{
    for (size_t k = 0; k < count; k++) {
        if (known[k].line != line->line || strcmp(known[k].file, line->file) != 0 ||
            strcmp(known[k].function, line->function) != 0)
            continue;
        for (size_t d = 0; d < SIM_DISTANCES; d++)
            known[k].moves[d] += line->moves[d];
        known[k].ns += line->ns;
        return true;
    }
    return false;
}

/* Several instructions of one line become one; the hottest are kept; the rest is per section. */
void sim_name_lines(const sim_t *s, sim_cell_t *c)
{
    double sections = 0;
    size_t kept = 0;
    Dwfl *dwfl = open_program(s->path);
    for (size_t i = 0; i < c->line_count; i++) {
        sim_line_t line = c->lines[i];
        source_t source = source_at(dwfl, line.pc ? line.pc - 1 : 0);
        line.file = source.file;
        line.line = source.line;
        line.function = source.function;
        if (merge(c->lines, kept, &line))
            drop_line(&line);
        else
            c->lines[kept++] = line;
    }
    dwfl_end(dwfl);
    qsort(c->lines, kept, sizeof *c->lines, by_time);
    while (kept > LINES_MOST)
        drop_line(&c->lines[--kept]);
    c->line_count = kept;
    for (size_t i = 0; i < c->count; i++)
        sections += c->seeds[i].sections;
    for (size_t i = 0; i < kept && sections > 0; i++) {
        for (size_t d = 0; d < SIM_DISTANCES; d++)
            c->lines[i].moves[d] /= sections;
        c->lines[i].ns /= sections;
    }
}

void sim_drop_lines(sim_cell_t *c)
{
    for (size_t i = 0; i < c->line_count; i++)
        drop_line(&c->lines[i]);
    free(c->lines);
}
