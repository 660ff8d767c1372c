/* SPDX-License-Identifier: MIT */
/* Reads machine files: JSON by jansson, topology by hwloc; refuses what cannot be. */
#include "machine.h"

#include <dirent.h>
#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "nearest.h"

enum { CPUS_MOST = 1024, L3_MOST = 64 };

const char *const machine_kind_names[KINDS] = {"measured", "published", "estimated", "fitted"};

/* ---- the numbers there are ---- */

typedef enum { NEED_ALWAYS, NEED_SOCKET, NEED_REMOTE, NEED_FAR, NEED_SMT, OPTIONAL } need_t;

typedef struct {
    const char *key;
    need_t need;
    bool time;           /* in ns or cycles; else a plain number */
    double least, most;  /* ns */
    double fallback;     /* of an optional one */
} rule_t;

static const rule_t rules[] = {
    {"clock_ghz", NEED_ALWAYS, false, 0.05, 10, 0},
    {"block", NEED_ALWAYS, true, 0.01, 100, 0},
    {"hit", NEED_ALWAYS, true, 0.05, 100, 0},
    {"smt", NEED_SMT, true, 0.1, 1000, 0},
    {"smt_slow", NEED_SMT, false, 1, 4, 1},
    {"rmw", NEED_ALWAYS, true, 0.1, 1000, 0},
    {"pause", NEED_ALWAYS, true, 0, 1000, 0},
    {"clock", NEED_ALWAYS, true, 0, 10000, 0},
    {"call", OPTIONAL, true, 0, 1000, 0},
    {"dirty_l3", NEED_ALWAYS, true, 1, 5000, 0},
    {"dirty_socket", NEED_SOCKET, true, 1, 5000, 0},
    {"dirty_remote", NEED_REMOTE, true, 1, 10000, 0},
    {"dirty_far", NEED_FAR, true, 1, 20000, 0},
    {"clean_l3", NEED_ALWAYS, true, 1, 5000, 0},
    {"clean_socket", NEED_SOCKET, true, 1, 5000, 0},
    {"clean_remote", NEED_REMOTE, true, 1, 10000, 0},
    {"clean_far", NEED_FAR, true, 1, 20000, 0},
    {"serve_l3", NEED_ALWAYS, true, 0, 5000, 0},
    {"serve_socket", NEED_SOCKET, true, 0, 5000, 0},
    {"serve_remote", NEED_REMOTE, true, 0, 10000, 0},
    {"serve_far", NEED_FAR, true, 0, 20000, 0},
    {"memory", NEED_ALWAYS, true, 1, 5000, 0},
    {"upgrade", NEED_ALWAYS, true, 0.1, 5000, 0},
    {"invalidate", NEED_ALWAYS, true, 0, 1000, 0},
    {"bus", OPTIONAL, true, 0, 5000, 0},
    {"disorder", NEED_ALWAYS, false, 0, 1, 0},
    {"nearest", OPTIONAL, false, 0, 1, 0},
    {"home", OPTIONAL, false, 0, 1, 0},
    {"migratory", OPTIONAL, false, 0, 1, 0},
    {"buffer", NEED_ALWAYS, false, 1, 64, 0},
    {"syscall", NEED_ALWAYS, true, 1, 1e5, 0},
    {"futex_wake", NEED_ALWAYS, true, 1, 1e6, 0},
    {"wake", NEED_ALWAYS, true, 1, 1e7, 0},
    {"switch", NEED_ALWAYS, true, 1, 1e6, 0},
    {"migrate", NEED_ALWAYS, true, 0, 1e7, 0},
    {"slice", NEED_ALWAYS, true, 1e3, 1e9, 0},
    {"granularity", NEED_ALWAYS, true, 0, 1e9, 0},
};
enum { RULES = sizeof rules / sizeof *rules };

static const rule_t *rule_of(const char *key)
{
    for (size_t i = 0; i < RULES; i++)
        if (strcmp(rules[i].key, key) == 0)
            return &rules[i];
    return NULL;
}

const char *machine_absurd(const char *key, double value)
{
    const rule_t *r = rule_of(key);
    if (!r)
        return "no such number";
    if (!isfinite(value) || value < r->least)
        return "too small to be true";
    return value > r->most ? "too large to be true" : NULL;
}

/* ---- where machine files are ---- */

/* The source or build tree's folder beside this binary, else the installed one. */
static char *machines_directory(void)
{
    char *self = realpath("/proc/self/exe", NULL);
    if (self)
        *strrchr(self, '/') = '\0';
    char *places[] = {
        cli_printf("%s/../../machines", self ? self : "."),
        cli_printf("%s/../share/hotlock/machines", self ? self : "."),
        cli_printf(HOTLOCK_PREFIX "/share/hotlock/machines"),
    };
    char *found = NULL;
    free(self);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!found && access(places[i], R_OK) == 0)
            found = cli_printf("%s", places[i]);
        free(places[i]);
    }
    if (!found)
        cli_bad("cannot find the machine files; install hotlock, or build all of it");
    return found;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **machine_names(void)
{
    char *directory = machines_directory(), **names = cli_alloc(sizeof *names);
    size_t count = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t length = strlen(e->d_name);
        if (length < 6 || strcmp(e->d_name + length - 5, ".json") != 0)
            continue;
        names = cli_grow(names, count + 2, sizeof *names);
        names[count++] = cli_printf("%.*s", (int)length - 5, e->d_name);
        names[count] = NULL;
    }
    if (d)
        closedir(d);
    free(directory);
    qsort(names, count, sizeof *names, by_name);
    return names;
}

static char *find_file(const char *name)
{
    if (strchr(name, '/') || strstr(name, ".json"))
        return cli_printf("%s", name);
    char *directory = machines_directory();
    char *file = cli_printf("%s/%s.json", directory, name);
    free(directory);
    if (access(file, R_OK) == 0)
        return file;
    char **names = machine_names();
    size_t count = 0;
    while (names[count])
        count++;
    const char *near = nearest_name(name, (const char *const *)names, count);
    cli_bad(
        "unknown machine '%s'; nearest is '%s' (a file of your own needs a / or .json in its name)",
        name, near ? near : "none");
}

/* ---- topology ---- */

static int index_in(hwloc_topology_t t, hwloc_obj_t pu, hwloc_obj_type_t type)
{
    hwloc_obj_t o = hwloc_get_ancestor_obj_by_type(t, type, pu);
    return o ? (int)o->logical_index : -1;
}

static void read_cpu(place_machine_t *m, hwloc_topology_t t, hwloc_obj_t pu)
{
    place_cpu_t *c = &m->cpus[m->cpu_count++];
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
    hwloc_obj_t pack = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, pu);
    c->socket = pack ? (int)pack->logical_index : 0;
    c->core = core ? (int)core->logical_index : (int)pu->logical_index;
    c->l3 = index_in(t, pu, HWLOC_OBJ_L3CACHE);
    if (c->l3 < 0)
        c->l3 = c->socket;
    c->group = index_in(t, pu, HWLOC_OBJ_GROUP);
    if (c->group < 0)
        c->group = 0;
    c->rank_thread = core ? (int)pu->sibling_rank : 0;
    unsigned before = 0; /* cores in earlier sockets */
    for (hwloc_obj_t p = pack ? pack->prev_cousin : NULL; p; p = p->prev_cousin)
        before += (unsigned)hwloc_get_nbobjs_inside_cpuset_by_type(t, p->cpuset, HWLOC_OBJ_CORE);
    c->rank_core = c->core - (int)before;
}

static void count_parts(place_machine_t *m)
{
    for (size_t i = 0; i < m->cpu_count; i++) {
        const place_cpu_t *c = &m->cpus[i];
        m->sockets = c->socket >= m->sockets ? c->socket + 1 : m->sockets;
        m->cores = c->core >= m->cores ? c->core + 1 : m->cores;
        m->l3s = c->l3 >= m->l3s ? c->l3 + 1 : m->l3s;
    }
}

static void read_topology(place_machine_t *m)
{
    hwloc_topology_t t;
    const char *text = json_string_value(json_object_get(m->root, "topology"));
    const char *xml = json_string_value(json_object_get(m->root, "topology_xml"));
    if (!text == !xml)
        cli_bad("%s: give either 'topology' (an hwloc synthetic description) or 'topology_xml' (a "
                "file of lstopo)", m->file);
    m->topology = text ? text : xml;
    hwloc_topology_init(&t);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_ALL);
    char *path = xml && *xml != '/' && strrchr(m->file, '/')
        ? cli_printf("%.*s%s", (int)(strrchr(m->file, '/') + 1 - m->file), m->file, xml)
        : cli_printf("%s", xml ? xml : "");
    int bad = text ? hwloc_topology_set_synthetic(t, text) : hwloc_topology_set_xml(t, path);
    if (bad || hwloc_topology_load(t) != 0)
        cli_bad("%s: %s '%s' is no topology hwloc understands", m->file,
                text ? "topology" : "topology_xml", m->topology);
    int count = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    if (count < 1 || count > CPUS_MOST)
        cli_bad("%s: topology '%s' has %d hardware threads; 1 to %d can be simulated", m->file,
                m->topology, count, CPUS_MOST);
    m->cpus = cli_alloc((size_t)count * sizeof *m->cpus);
    for (int i = 0; i < count; i++)
        read_cpu(m, t, hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, (unsigned)i));
    hwloc_topology_destroy(t);
    free(path);
    count_parts(m);
    if (m->l3s > L3_MOST)
        cli_bad("%s: topology '%s' has %d L3 caches; at most %d can be simulated", m->file,
                m->topology, m->l3s, L3_MOST);
}

/* ---- numbers ---- */

static bool needed(const place_machine_t *m, need_t need)
{
    bool far = false;
    for (size_t i = 0; i < m->cpu_count; i++)
        far = far || m->cpus[i].group != m->cpus[0].group;
    switch (need) {
    case NEED_ALWAYS: return true;
    case NEED_SOCKET: return m->l3s > m->sockets;
    case NEED_REMOTE: return m->sockets > 1;
    case NEED_FAR: return far;
    case NEED_SMT: return m->cpu_count > (size_t)m->cores;
    case OPTIONAL: return false;
    }
    return false;
}

static number_kind_t kind_of(const place_machine_t *m, const char *key, json_t *entry)
{
    const char *text = json_string_value(json_object_get(entry, "kind"));
    for (int k = 0; text && k < KINDS; k++)
        if (strcmp(text, machine_kind_names[k]) == 0)
            return (number_kind_t)k;
    cli_bad("%s: %s: 'kind' must be measured, published, estimated or fitted", m->file, key);
}

static double value_of(const place_machine_t *m, const rule_t *r, json_t *entry)
{
    json_t *ns = json_object_get(entry, "ns"), *cycles = json_object_get(entry, "cycles");
    json_t *plain = json_object_get(entry, "value");
    if (r->time && !json_is_number(ns) && !json_is_number(cycles))
        cli_bad("%s: %s: a time needs a number under 'ns' or 'cycles'", m->file, r->key);
    if (!r->time && !json_is_number(plain))
        cli_bad("%s: %s: needs a number under 'value'", m->file, r->key);
    double v = !r->time ? json_number_value(plain)
               : json_is_number(ns) ? json_number_value(ns) : json_number_value(cycles) / m->ghz;
    const char *absurd = machine_absurd(r->key, v);
    if (absurd)
        cli_bad("%s: %s: %g%s is %s (%g to %g)", m->file, r->key, v, r->time ? " ns" : "", absurd,
                r->least, r->most);
    return v;
}

static void read_number(place_machine_t *m, const rule_t *r)
{
    json_t *entry = json_object_get(json_object_get(m->root, "numbers"), r->key);
    number_t *n = &m->numbers[m->number_count++];
    *n = (number_t){.key = r->key, .value = r->fallback, .source = "not given"};
    if (!entry && needed(m, r->need))
        cli_bad("%s: %s is missing", m->file, r->key);
    if (!entry)
        return;
    n->kind = kind_of(m, r->key, entry);
    n->value = value_of(m, r, entry);
    n->source = json_string_value(json_object_get(entry, "source"));
    n->given = true;
    if (!n->source || !*n->source)
        cli_bad("%s: %s: 'source' is missing: where does the number come from?", m->file, r->key);
}

static void refuse_unknown(const place_machine_t *m)
{
    const char *key, *names[RULES];
    json_t *value;
    for (size_t i = 0; i < RULES; i++)
        names[i] = rules[i].key;
    json_object_foreach(json_object_get(m->root, "numbers"), key, value)
        if (!rule_of(key))
            cli_bad("%s: unknown number '%s'; nearest is '%s'", m->file, key,
                    nearest_name(key, names, RULES));
}

/* What is further away cannot be nearer in time. */
static void check_order(const place_machine_t *m)
{
    static const char *const pairs[][2] = {
        {"hit", "dirty_l3"}, {"dirty_l3", "dirty_socket"}, {"dirty_l3", "dirty_remote"},
        {"dirty_remote", "dirty_far"}, {"clean_l3", "clean_remote"}, {"hit", "clean_l3"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double near = machine_number(m, pairs[i][0]), far = machine_number(m, pairs[i][1]);
        if (far > 0 && near > far)
            cli_bad("%s: %s: %g ns is less than %s, %g ns", m->file, pairs[i][1], far, pairs[i][0],
                    near);
    }
}

place_machine_t *machine_load(const char *name)
{
    place_machine_t *m = cli_alloc(sizeof *m);
    json_error_t error;
    m->file = find_file(name);
    if (access(m->file, R_OK) != 0)
        cli_bad("%s: %s", m->file, strerror(errno));
    m->root = json_load_file(m->file, 0, &error);
    if (!m->root)
        cli_bad("%s:%d: %s", m->file, error.line, error.text);
    m->name = json_string_value(json_object_get(m->root, "name"));
    m->about = json_string_value(json_object_get(m->root, "about"));
    if (!m->name || !json_is_object(json_object_get(m->root, "numbers")))
        cli_bad("%s: not a machine file: 'name' or 'numbers' is missing", m->file);
    read_topology(m);
    refuse_unknown(m);
    m->numbers = cli_alloc(RULES * sizeof *m->numbers);
    for (size_t i = 0; i < RULES; i++) {
        read_number(m, &rules[i]);
        if (i == 0)
            m->ghz = m->numbers[0].value; /* cycles are converted by it */
    }
    check_order(m);
    machine_place(m, "spread");
    return m;
}

void machine_free(place_machine_t *m)
{
    json_decref(m->root);
    free(m->file);
    free(m->numbers);
    free(m->cpus);
    free(m);
}

double machine_number(const place_machine_t *m, const char *key)
{
    for (size_t i = 0; i < m->number_count; i++)
        if (strcmp(m->numbers[i].key, key) == 0)
            return m->numbers[i].value;
    return 0;
}

/* ---- placement ---- */

static bool spread; /* for the comparison */

static int by_place(const void *x, const void *y)
{
    const place_cpu_t *a = x, *b = y;
    int first = a->rank_thread - b->rank_thread;
    int core = a->rank_core - b->rank_core, socket = a->socket - b->socket;
    if (first)
        return first;
    if (spread)
        return core ? core : socket;
    return socket ? socket : core;
}

static void place_list(place_machine_t *m, const char *list)
{
    place_cpu_t *in = cli_alloc(m->cpu_count * sizeof *in);
    size_t count = 0;
    spread = false;
    qsort(m->cpus, m->cpu_count, sizeof *m->cpus, by_place);
    char **items = cli_list("--place", list);
    for (char **i = items; *i; i++) {
        unsigned from, to;
        int end = 0;
        if (sscanf(*i, "%u-%u%n", &from, &to, &end) == 2 && !(*i)[end])
            ;
        else if (sscanf(*i, "%u%n", &from, &end) == 1 && !(*i)[end])
            to = from;
        else
            cli_bad("--place '%s' is neither spread, compact nor a list of CPUs", list);
        for (; from <= to; from++) {
            if (from >= m->cpu_count || count == m->cpu_count)
                cli_bad("--place '%s': the machine has CPUs 0 to %zu, each to be named once", list,
                        m->cpu_count - 1);
            in[count++] = m->cpus[from];
        }
    }
    cli_free_list(items);
    free(m->cpus);
    m->cpus = in;
    m->cpu_count = count;
}

void machine_place(place_machine_t *m, const char *how)
{
    spread = strcmp(how, "spread") == 0;
    if (spread || strcmp(how, "compact") == 0)
        qsort(m->cpus, m->cpu_count, sizeof *m->cpus, by_place);
    else
        place_list(m, how);
}

/* ---- for the simulated process ---- */

char *machine_settings(const place_machine_t *m)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    double cycle = 1000 / m->ghz, block = machine_number(m, "block");
    fprintf(f, "cycle=%.0f block_smt=%.0f", cycle, 1000 * block * machine_number(m, "smt_slow"));
    for (size_t i = 1; i < RULES; i++) {
        const number_t *n = &m->numbers[i];
        if (rules[i].time)
            fprintf(f, " %s=%.0f", n->key, n->value * 1000);
        else
            fprintf(f, " %s=%g", n->key, n->value);
    }
    fclose(f);
    return text;
}

char *machine_cpus(const place_machine_t *m)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    for (size_t i = 0; i < m->cpu_count; i++)
        fprintf(f, "%s%d.%d.%d.%d", i ? "," : "", m->cpus[i].core, m->cpus[i].l3, m->cpus[i].socket,
                m->cpus[i].group);
    fclose(f);
    return text;
}

char *machine_fitted(const place_machine_t *m)
{
    char *text = cli_printf("%s", "");
    for (size_t i = 0; i < m->number_count; i++) {
        const number_t *n = &m->numbers[i];
        if (!n->given || n->kind != KIND_FITTED)
            continue;
        char *more = cli_printf("%s%s%s", text, *text ? ", " : "", n->key);
        free(text);
        text = more;
    }
    if (*text)
        return text;
    free(text);
    return cli_printf("nothing");
}
