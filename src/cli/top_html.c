// SPDX-License-Identifier: MIT
// top_html.c - the result as one HTML page that loads nothing: what the lock costs, why, and where.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top_svg.h"

static const char style[] =
    ":root{--bg:#fff;--fg:#1b1f24;--dim:#5b6570;--line:#d9dee3;--card:#f6f8fa;--held:#4477aa;"
    "--handing:#ee8866;--free:#e8ecf0;--waiting:#aa3377;--lock:#cc3311;--f1:#f2c572;--f2:#eeb155;"
    "--f3:#f6d89a;--flame:#1b1f24}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#e6e9ec;--dim:#9aa5b1;--line:"
    "#313a44;--card:#1d232a;--held:#6699cc;--handing:#ee8866;--free:#2a323b;--waiting:#cc6699}}"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:0 auto;"
    "max-width:1100px;padding:24px}"
    "h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:19px;margin:36px 0 8px;"
    "border-bottom:1px solid var(--line);padding-bottom:4px}h3{font-size:16px;margin:28px 0 6px;"
    "overflow-wrap:anywhere}h4{font-size:14px;margin:14px 0 4px;color:var(--dim);font-weight:600}"
    "code,pre{font:13px/1.5 ui-monospace,monospace}pre{background:var(--card);padding:10px 12px;"
    "border-radius:6px;overflow-x:auto}"
    ".cards{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}.card{background:var(--card);"
    "border-radius:8px;padding:12px 16px;min-width:140px}.card b{display:block;font-size:24px}"
    ".card span,.note{color:var(--dim);font-size:13px}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;width:100%}"
    "th,td{padding:5px 8px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}"
    "th:nth-child(-n+2),td:nth-child(-n+2){text-align:left;white-space:normal;"
    "overflow-wrap:anywhere}"
    ".verdict{border-left:4px solid var(--handing);background:var(--card);padding:8px 14px;"
    "border-radius:0 6px 6px 0}.verdict p{margin:2px 0}"
    "svg{width:100%;height:auto;display:block}svg text{font:12px ui-monospace,monospace;"
    "fill:var(--fg)}svg .axis{fill:var(--dim);font-size:11px}"
    ".grid{stroke:var(--line)}.held{fill:var(--held)}.handing{fill:var(--handing)}"
    ".free{fill:var(--free)}.waiting{fill:var(--waiting)}"
    ".flame{cursor:pointer}.flame text{font-size:11px;fill:var(--flame);pointer-events:none}"
    ".flame .lock{fill:var(--lock)}.flame .f1{fill:var(--f1)}.flame .f2{fill:var(--f2)}"
    ".flame .f3{fill:var(--f3)}.flame rect:hover{stroke:var(--fg)}.flame .lock+title+text"
    "{fill:#fff}"
    ".key i{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 4px 0 14px;"
    "vertical-align:-1px}.line{fill:none;stroke-width:2}.dot{stroke:none}"
    ".c0{stroke:#4477aa;fill:#4477aa}.c1{stroke:#ee6677;fill:#ee6677}.c2{stroke:#228833;"
    "fill:#228833}.c3{stroke:#ccbb44;fill:#ccbb44}.c4{stroke:#66ccee;fill:#66ccee}.c5{stroke:"
    "#aa3377;fill:#aa3377}.c6{stroke:#888;fill:#888}.c7{stroke:#ee8866;fill:#ee8866}.c8{stroke:"
    "#8c510a;fill:#8c510a}.c9{stroke:#5e3c99;fill:#5e3c99}polyline.line{fill:none}"
    "details{margin:6px 0}summary{cursor:pointer}";

// A click on a frame makes it as wide as the page; on the same again, or above it, back.
static const char script[] =
    "document.querySelectorAll('svg.flame').forEach(function(s){var z=null;"
    "s.addEventListener('click',function(e){var g=e.target.closest('.fr');if(!g)return;"
    "var d=g.dataset,x0=+d.x,w0=+d.w,r0=+d.r;if(z===g||w0>999.5){z=null;x0=0;w0=1000;r0=-1}"
    "else z=g;s.querySelectorAll('.fr').forEach(function(f){var x=+f.dataset.x,w=+f.dataset.w,"
    "r=+f.dataset.r,k=1000/w0,inside=x+w>x0+.01&&x<x0+w0-.01;f.style.display=inside?'':'none';"
    "if(!inside)return;var a=Math.max(0,(x-x0)*k),b=Math.min(1000,(x+w-x0)*k),q=f.children[0],"
    "t=f.querySelector('text');q.setAttribute('x',a);q.setAttribute('width',b-a);"
    "t.setAttribute('x',a+3);t.textContent=b-a>25?t.dataset.n.slice(0,Math.floor((b-a-6)/6.7)):''"
    "})})});";

// ------------------------------------------------------------------------- pieces
static void element(FILE *out, const char *tag, const char *text)
{
    fprintf(out, "<%s>", tag);
    svg_text(out, text);
    fprintf(out, "</%.*s>\n", (int)strcspn(tag, " "), tag);
}

static void card(FILE *out, const char *value, const char *what)
{
    fputs("<div class='card'><b>", out);
    svg_text(out, value);
    fputs("</b><span>", out);
    svg_text(out, what);
    fputs("</span></div>\n", out);
}

static void share_card(FILE *out, double share, const char *what)
{
    char text[32];
    if (!isfinite(share))
        return;
    snprintf(text, sizeof text, "%.1f %%", 100 * share);
    card(out, text, what);
}

static void cards(FILE *out, const profile_t *p)
{
    char text[64], time[32];
    uint64_t waited = 0;
    for (size_t i = 0; i < p->lock_count; i++)
        waited += p->locks[i].wait_ns;
    fputs("<div class='cards'>\n", out);
    share_card(out, p->spin_share, "of the CPU time spent spinning for locks");
    share_card(out, p->kernel_spin_share, "of the CPU time in the kernel's spinlocks");
    card(out, top_duration((double)waited, time), "waited for locks, all threads together");
    snprintf(text, sizeof text, "%.2f s", p->wall_s);
    card(out, text, p->partial ? "watched, until it was stopped" : "from begin to end");
    if (p->threads) {
        snprintf(text, sizeof text, "%u / %u", p->threads, p->processors);
        card(out, text, "threads / processors");
    }
    fputs("</div>\n", out);
}

// The table of the other forms, its cells as people read them.
static void table(FILE *out, const top_result_t *r)
{
    char *markdown = NULL, *line, *rest;
    size_t size;
    table_t *t = top_table(r);
    FILE *f = open_memstream(&markdown, &size);
    table_print(t, TABLE_MARKDOWN, f);
    fclose(f);
    table_free(t);
    fputs("<div class='scroll'><table>\n", out);
    size_t number = 0;
    for (line = strtok_r(markdown, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (number++ == 1)
            continue; // the line under the heading
        fputs("<tr>", out);
        char *at = line + 2;
        while (at && *at) {
            char *end = strstr(at, " |");
            while (end && end > at && end[-1] == '\\')
                end = strstr(end + 1, " |");
            if (!end)
                break;
            *end = '\0';
            element(out, number == 1 ? "th" : "td", at);
            at = end[2] ? end + 3 : NULL;
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
    free(markdown);
}

static bool has_role(const profile_lock_t *l, profile_role_t role)
{
    return top_role_ns(l, role) > 0;
}

static void one_lock(FILE *out, const top_result_t *r, size_t i)
{
    const profile_t *p = r->profile;
    const profile_lock_t *l = &p->locks[i];
    const diagnosis_t *d = &r->diagnoses[i];
    char *title = cli_printf("%zu. %s (%s)", i + 1, l->name, l->kind);
    element(out, "h3", title);
    free(title);
    if (l->where)
        element(out, "p class='note'", l->where);
    fputs("<div class='verdict'>", out);
    element(out, "p", d->verdict);
    element(out, "p class='note'", d->arithmetic);
    char *advice = cli_printf("To do: %s.", d->advice);
    element(out, "p", advice);
    free(advice);
    fputs("</div>", out);
    svg_histograms(out, l);
    static const struct { profile_role_t role; const char *title; } graphs[] = {
        {STACK_WAITER, "Who waited"},
        {STACK_HOLDER, "Who made them wait"},
        {STACK_SPINNER, "Who burned CPU time spinning"}};
    for (size_t g = 0; g < 3; g++) {
        if (!has_role(l, graphs[g].role))
            continue;
        element(out, "h4", graphs[g].title);
        svg_flame(out, p, l, graphs[g].role);
    }
}

static void remarks(FILE *out, const profile_t *p)
{
    char **all = top_remarks(p);
    fputs("<h2>How this was measured</h2>\n<ul>\n", out);
    element(out, "li", p->how);
    for (char **one = all; *one; free(*one++))
        element(out, "li", *one);
    fputs("</ul>\n", out);
    free(all);
}

static void first_words(FILE *out, const top_result_t *r)
{
    const profile_t *p = r->profile;
    if (!p->lock_count) {
        element(out, "p", "No lock was taken.");
        return;
    }
    fputs("<div class='verdict'>", out);
    char *text = cli_printf("%s: %s.", p->locks[0].name, r->diagnoses[0].verdict);
    element(out, "p", text);
    free(text);
    text = top_next(r);
    if (text) {
        element(out, "p", "Next:");
        element(out, "pre", text);
    }
    free(text);
    fputs("</div>\n", out);
}

bool top_html(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    char *summary = top_summary(p);
    fputs("<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
          "<meta name='viewport' content='width=device-width,initial-scale=1'>"
          "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'\"><title>", out);
    svg_text(out, p->what);
    fprintf(out, ": hot locks</title><style>%s</style></head><body>\n", style);
    element(out, "h1", p->what);
    element(out, "p class='note'", summary);
    cards(out, p);
    first_words(out, r);
    fputs("<h2>Where the time of each lock went</h2>\n<p class='note key'><i style='background:"
          "var(--held)'></i>held<i style='background:var(--handing)'></i>free although somebody "
          "waits (that, and time in its calls, is all that a better lock can save)<i style='background:var(--free)'></i>free and "
          "unwanted</p>\n", out);
    svg_shares(out, r);
    if (r->sweep) {
        fputs("<h2>Sweep</h2>\n", out);
        if (!svg_sweep(out, r->sweep))
            element(out, "p class='note'", "The file of --sweep has nothing that varies.");
    }
    fputs("<h2>Locks</h2>\n", out);
    table(out, r);
    fputs("<h2>All waiting, by who waited</h2>\n<p class='note'>Width is time; a click widens, a "
          "click on the same again goes back.</p>\n", out);
    svg_flame(out, p, NULL, STACK_WAITER);
    fputs("<h2>All waiting, by who made others wait</h2>\n", out);
    svg_flame(out, p, NULL, STACK_HOLDER);
    fputs("<h2>The hottest locks</h2>\n", out);
    for (size_t i = 0; i < p->lock_count && i < r->detailed; i++)
        if (i == 0 || r->diagnoses[i].limit != LIMIT_NONE)
            one_lock(out, r, i);
    remarks(out, p);
    fprintf(out, "<p class='note'>hotlock %s</p><script>%s</script></body></html>\n",
            HOTLOCK_VERSION, script);
    free(summary);
    return true;
}
