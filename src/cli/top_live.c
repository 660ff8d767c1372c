// SPDX-License-Identifier: MIT
// top_live.c - the view of `hotlock top --live`: the table as it changes, and the selected lock's
// verdict and stacks below it. Drawn by ncurses on the terminal itself, whatever stdout is.
//
// Everything is cut to the window, however small; below 8 lines or 40 columns only the table is
// left.
#include <curses.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../trace/symbols.h"
#include "cli.h"
#include "top.h"

typedef enum { SORT_WAIT, SORT_CPU, SORT_CONTENDED, SORT_TAKEN, SORTS } sort_t;

typedef struct {
    pid_t pid;
    uint64_t address, acquisitions, wait_ns;
} before_t;

struct top_live {
    FILE *terminal;
    SCREEN *screen;
    const char *what;
    sort_t sort;
    size_t selected;
    bool paused, help, stacks, changed;
    before_t *before; // what the locks had counted at the last look, to tell rates
    size_t before_count;
    double last, span; // time of the last look; seconds between it and the one before
    profile_t shown;   // of the last look, drawn again when a key changes what is to be seen
};

static const char *const sort_names[SORTS] = {"waiting", "CPU", "contended", "taken"};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// ------------------------------------------------------------------------- begin and end
top_live_t *top_live_begin(const char *what)
{
    top_live_t *v = cli_alloc(sizeof *v);
    const char *kind = getenv("TERM");
    v->what = what;
    v->stacks = true;
    profile_init(&v->shown);
    v->terminal = fopen("/dev/tty", "r+e");
    if (!v->terminal)
        cli_bad("--live needs a terminal; leave it out for a report at the end");
    v->screen = newterm(kind ? kind : "vt100", v->terminal, v->terminal);
    if (!v->screen)
        cli_bad("--live does not know the terminal '%s'; set TERM", kind ? kind : "");
    set_term(v->screen);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    mvprintw(0, 0, "waiting for the first second...");
    refresh();
    v->last = seconds();
    return v;
}

void top_live_end(top_live_t *v)
{
    endwin();
    delscreen(v->screen);
    fclose(v->terminal);
    profile_free(&v->shown);
    free(v->before);
    free(v);
}

// ------------------------------------------------------------------------- order
static sort_t order;

static double weight(const profile_lock_t *l)
{
    switch (order) {
    case SORT_CPU: return isnan(l->cpu_spin_share) ? 0 : l->cpu_spin_share;
    case SORT_CONTENDED: return (double)l->contended;
    case SORT_TAKEN: return (double)l->acquisitions;
    default: return (double)l->wait_ns;
    }
}

static int by_weight(const void *a, const void *b)
{
    double x = weight(a), y = weight(b);
    return x < y ? 1 : x > y ? -1 : 0;
}

// ------------------------------------------------------------------------- rates
static const before_t *before_of(const top_live_t *v, const profile_lock_t *l)
{
    static const before_t nothing;
    for (size_t i = 0; i < v->before_count; i++)
        if (v->before[i].address == l->address && v->before[i].pid == l->pid)
            return &v->before[i];
    return &nothing;
}

// Only of the locks on the screen: a program may have a hundred thousand.
static void remember(top_live_t *v, const profile_t *p)
{
    v->before_count = p->lock_count < 200 ? p->lock_count : 200;
    v->before = cli_grow(v->before, v->before_count + 1, sizeof *v->before);
    for (size_t i = 0; i < v->before_count; i++) {
        const profile_lock_t *l = &p->locks[i];
        v->before[i] = (before_t){l->pid, l->address, l->acquisitions, l->wait_ns};
    }
}

// ------------------------------------------------------------------------- drawing
static void line(int y, attr_t attributes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void line(int y, attr_t attributes, const char *format, ...)
{
    va_list args;
    char *text;
    if (y < 0 || y >= LINES)
        return;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        cli_bad("out of memory");
    va_end(args);
    attrset(attributes);
    mvaddnstr(y, 0, text, COLS);
    attrset(A_NORMAL);
    free(text);
}

// The columns of the table; the least telling are left out where there is no room.
static void row(int y, attr_t look, const char *lock, const char *waiting, const char *cpu,
                const char *rate, const char *waited, const char *hold, const char *held)
{
    if (COLS >= 70)
        line(y, look, "%-*.*s %8s %8s %9s %8s %9s %7s  ", COLS - 58, COLS - 58, lock, waiting, cpu,
             rate, waited, hold, held);
    else if (COLS >= 50)
        line(y, look, "%-*.*s %8s %8s %9s %7s ", COLS - 37, COLS - 37, lock, waiting, cpu, hold,
             held);
    else
        line(y, look, "%-12.12s %8s %8s", lock, waiting, held);
}

static void show_lock(const top_live_t *v, const profile_t *p, size_t i, int y, double span)
{
    const profile_lock_t *l = &p->locks[i];
    const before_t *b = before_of(v, l);
    char rate[32] = "-", waiting[32] = "-", cpu[32] = "-", hold[32] = "-", held[32] = "-";
    char waited[32] = "-";
    if (l->has & HAS_ACQUISITIONS)
        snprintf(rate, sizeof rate, "%.0f", (double)(l->acquisitions - b->acquisitions) / span);
    if (l->has & HAS_WAIT)
        snprintf(waiting, sizeof waiting, "%.2f", (double)(l->wait_ns - b->wait_ns) / 1e9 / span);
    if (l->has & HAS_CONTENDED && l->acquisitions)
        snprintf(waited, sizeof waited, "%.1f %%",
                 100 * (double)l->contended / (double)l->acquisitions);
    if (l->has & HAS_CPU && isfinite(l->cpu_spin_share))
        snprintf(cpu, sizeof cpu, "%.1f %%", 100 * l->cpu_spin_share);
    if (l->has & HAS_HOLD && l->acquisitions)
        top_duration((double)l->hold_ns / (double)l->acquisitions, hold);
    double used = top_utilisation(p, l);
    if (isfinite(used))
        snprintf(held, sizeof held, "%.0f %%", 100 * used);
    attr_t look = i == v->selected ? A_REVERSE : A_NORMAL;
    row(y, look, l->name, waiting, cpu, rate, waited, hold, held);
}

// A sentence over several lines; the one below it.
static int sentence(int y, attr_t attributes, const char *text)
{
    while (*text) {
        size_t length = strlen(text), fits = (size_t)COLS;
        if (length > fits) {
            for (length = fits; length > 0 && text[length] != ' ';)
                length--;
            length = length ? length : fits;
        }
        line(y++, attributes, "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
    return y;
}

static int show_stacks(const top_live_t *v, const profile_t *p, const profile_lock_t *l, int y)
{
    static const struct { profile_role_t role; const char *title; } parts[] = {
        {STACK_WAITER, "waited here"}, {STACK_HOLDER, "made others wait"},
        {STACK_SPINNER, "spun here"}};
    for (size_t k = 0; k < 3 && v->stacks; k++) {
        uint64_t total = top_role_ns(l, parts[k].role);
        size_t shown = 0;
        for (size_t i = 0; i < l->stack_count && shown < 3; i++) {
            const profile_stack_t *s = &l->stacks[i];
            if (s->role != parts[k].role || !s->ns)
                continue;
            if (!shown++)
                line(y++, A_BOLD, "%s", parts[k].title);
            char *text = top_stack_text(p, s, 6);
            line(y++, A_NORMAL, "%5.1f %%  %s", 100 * (double)s->ns / (double)total, text);
            free(text);
        }
    }
    return y;
}

static void show_help(void)
{
    static const char *const text[] = {
        "up, down   choose a lock", "s          sort by the next: waiting, CPU, contended, taken",
        "d          show or hide the stacks of the chosen lock", "p, space   pause, go on",
        "h, ?       this help", "q          stop watching and print the report"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        line((int)i + 2, A_NORMAL, "%s", text[i]);
}

static void show(const top_live_t *v)
{
    const profile_t *p = &v->shown;
    erase();
    uint64_t waited = 0;
    for (size_t i = 0; i < p->lock_count; i++)
        waited += p->locks[i].wait_ns;
    char spin[48] = "";
    if (isfinite(p->spin_share))
        snprintf(spin, sizeof spin, ", %.1f %% of the CPU time spinning", 100 * p->spin_share);
    static const char keys[] = " (h: help, q: end)";
    const char *slash = strrchr(v->what, '/');
    line(0, A_BOLD, "%s  %.0f s, by %s%s, %zu locks%s", slash ? slash + 1 : v->what, p->wall_s,
         sort_names[v->sort], v->paused ? ", paused" : "", p->lock_count, spin);
    if (COLS > (int)sizeof keys)
        mvaddstr(0, COLS - (int)sizeof keys + 1, keys);
    if (v->help) {
        show_help();
        refresh();
        return;
    }
    row(1, A_UNDERLINE, "lock", "waiting", "CPU", "taken/s", "waited", "a hold", "held");
    bool roomy = LINES >= 8 && COLS >= 40;
    size_t rows = (size_t)(roomy ? LINES / 2 - 2 : LINES - 2);
    rows = LINES < 3 ? 0 : rows;
    size_t first = v->selected >= rows && rows ? v->selected - rows + 1 : 0;
    size_t i = first;
    int y = 2;
    for (; i < p->lock_count && i < first + rows; i++)
        show_lock(v, p, i, y++, v->span);
    if (roomy && v->selected < p->lock_count) {
        diagnosis_t *d = diagnose(p);
        const profile_lock_t *l = &p->locks[v->selected];
        line(++y, A_BOLD, "%s (%s)%s%s", l->name, l->kind, l->where ? ", " : "",
             l->where ? l->where : "");
        y = sentence(y + 1, A_NORMAL, d[v->selected].verdict);
        y = sentence(y, A_DIM, d[v->selected].arithmetic);
        show_stacks(v, p, l, y);
        diagnosis_free(d, p->lock_count);
    }
    refresh();
}

// ------------------------------------------------------------------------- keys
// False: the user has had enough.
static bool keys(top_live_t *v)
{
    size_t locks = v->shown.lock_count;
    for (int key; (key = getch()) != ERR;) {
        v->changed = true;
        switch (key) {
        case 'q':
            return false;
        case 's':
            v->sort = (v->sort + 1) % SORTS;
            break;
        case 'd':
            v->stacks = !v->stacks;
            break;
        case 'p':
        case ' ':
            v->paused = !v->paused;
            break;
        case 'h':
        case '?':
            v->help = !v->help;
            break;
        case KEY_UP:
        case 'k':
            v->selected -= v->selected > 0;
            break;
        case KEY_DOWN:
        case 'j':
            v->selected += v->selected + 1 < locks;
            break;
        default:
            break;
        }
    }
    return true;
}

static void take(top_live_t *v, profile_t *p)
{
    double now = seconds();
    remember(v, &v->shown);
    profile_free(&v->shown);
    v->shown = *p;
    profile_init(p);
    symbols_resolve(&v->shown, NULL);
    profile_finish(&v->shown);
    v->span = now > v->last ? now - v->last : 1;
    v->last = now;
}

bool top_live_look(profile_t *p, void *live)
{
    top_live_t *v = live;
    profile_t *s = &v->shown;
    v->changed = false;
    if (!keys(v))
        return false;
    if (p && !v->paused) {
        take(v, p);
        v->changed = true;
    }
    if (!v->changed)
        return true;
    order = v->sort;
    if (s->lock_count)
        qsort(s->locks, s->lock_count, sizeof *s->locks, by_weight);
    if (v->selected >= s->lock_count)
        v->selected = s->lock_count ? s->lock_count - 1 : 0;
    show(v);
    return true;
}
