/* SPDX-License-Identifier: MIT */
/* What this machine supports, and what on it is set badly for locks or for measuring them. */
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli.h"
#include "doctor.h"
#include "preload.h"

/* The first line of a small file, "" if there is none. */
static const char *line_of(const char *path)
{
    static char line[4096];
    FILE *f = fopen(path, "re");
    line[0] = '\0';
    if (f && !fgets(line, sizeof line, f))
        line[0] = '\0';
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

/* Does a line of /proc/cpuinfo that begins so hold this word? */
static bool processor_has(const char *word)
{
    char line[8192], spaced[64];
    bool found = false;
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(spaced, sizeof spaced, " %s ", word);
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = ' ';
        found = strncmp(line, "flags", 5) == 0 && strstr(line, spaced);
    }
    if (f)
        fclose(f);
    return found;
}

/* ---- processors ---- */

static void look_at_processors(doctor_t *d)
{
    cpu_set_t set;
    char state[64];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    snprintf(state, sizeof state, "%d of %ld", allowed, online);
    if (allowed == 1)
        doctor_row(d, DOCTOR_NOTE, "processors", state,
                   "with one processor nobody runs while a waiter spins: use park");
    else if (allowed < online)
        doctor_row(d, DOCTOR_NOTE, "processors", state,
                   "the affinity mask leaves some out: more threads than that share them");
    else
        doctor_row(d, DOCTOR_OK, "processors", state, "all can be used");
}

/* The CPU quota of this process's control group, in processors; 0: none. */
static double quota(void)
{
    char path[4300], group[4096] = "";
    FILE *f = fopen("/proc/self/cgroup", "re");
    long long most, period;
    while (f && fgets(group, sizeof group, f))
        if (strncmp(group, "0::", 3) == 0)
            break;
    if (f)
        fclose(f);
    group[strcspn(group, "\n")] = '\0';
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max",
             strncmp(group, "0::", 3) == 0 ? group + 3 : "");
    if (sscanf(line_of(path), "%lld %lld", &most, &period) == 2 && period > 0)
        return (double)most / (double)period;
    return 0;
}

static void look_at_quota(doctor_t *d)
{
    char state[64] = "none";
    double most = quota();
    if (most > 0)
        snprintf(state, sizeof state, "%.2g processors", most);
    if (most > 0)
        doctor_row(d, DOCTOR_NOTE, "CPU quota", state,
                   "with more threads than that a spinning waiter burns the holder's time: use park");
    else
        doctor_row(d, DOCTOR_OK, "CPU quota", state, "no container takes the processor away");
}

static void look_at_machine(doctor_t *d)
{
    double load[1] = {0};
    char state[64];
    if (processor_has("hypervisor"))
        doctor_row(d, DOCTOR_NOTE, "machine", "virtual",
                   "the host may stop a processor that holds a lock; figures are noisier");
    else
        doctor_row(d, DOCTOR_OK, "machine", "real", "or it does not say otherwise");
    if (getloadavg(load, 1) == 1) {
        snprintf(state, sizeof state, "%.2f", load[0]);
        doctor_row(d, load[0] > 0.3 ? DOCTOR_NOTE : DOCTOR_OK, "load", state,
                   load[0] > 0.3 ? "others are running; comparisons need more runs"
                                 : "quiet enough to measure");
    }
    const char *governor = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if (*governor)
        doctor_row(d, strcmp(governor, "performance") ? DOCTOR_NOTE : DOCTOR_OK, "governor",
                   governor, strcmp(governor, "performance")
                                 ? "the clock follows the load; 'performance' gives steadier figures"
                                 : "steady clock");
}

static void look_at_counter(doctor_t *d)
{
#if defined(__x86_64__)
    bool steady = processor_has("constant_tsc") && processor_has("nonstop_tsc");
    const char *source =
        line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    char *state = cli_printf("%s%s", steady ? "steady" : "not steady", *source ? ", " : "");
    char *both = cli_printf("%s%s", state, source);
    doctor_row(d, steady ? DOCTOR_OK : DOCTOR_NOTE, "cycle counter", both,
               steady ? "waits are as long as they say"
                      : "its rate may change: waits may be some times shorter or longer");
    free(state);
    free(both);
    doctor_row(d, getauxval(AT_HWCAP2) & 2 ? DOCTOR_OK : DOCTOR_NOTE, "FSGSBASE",
               getauxval(AT_HWCAP2) & 2 ? "yes" : "no", getauxval(AT_HWCAP2) & 2
                   ? "hotlock sim and check switch threads without a system call"
                   : "hotlock sim and check are slower");
#else
    (void)d;
#endif
}

/* ---- kernel ---- */

static void look_at_kernel(doctor_t *d)
{
    struct utsname u;
    uname(&u);
    doctor_row(d, DOCTOR_OK, "kernel", u.release, "%s; futexes that tell sleepers apart", u.machine);
    bool rseq = syscall(SYS_rseq, NULL, 0, 0, 0) == 0 || getauxval(27 /* AT_RSEQ_FEATURE_SIZE */);
    doctor_row(d, rseq ? DOCTOR_OK : DOCTOR_NOTE, "rseq", rseq ? "yes" : "not seen",
               rseq ? "a reader-writer lock asks for its processor without a system call"
                    : "asking for the processor may cost a system call");
    long runtime = atol(line_of("/proc/sys/kernel/sched_rt_runtime_us"));
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_RTPRIO, &limit);
    if (runtime < 0)
        doctor_row(d, DOCTOR_NOTE, "real-time limit", "off",
                   "a real-time thread that spins for a lock may stop the machine");
    else
        doctor_row(d, DOCTOR_OK, "real-time limit", "on", "others get %ld us of each second",
                   1000000 - runtime);
}

static void look_at_tracing(doctor_t *d)
{
    bool root = geteuid() == 0;
    const char *paranoid = line_of("/proc/sys/kernel/perf_event_paranoid");
    bool open_ = root || (*paranoid && atoi(paranoid) <= 1);
    doctor_row(d, open_ ? DOCTOR_OK : DOCTOR_NOTE, "perf events",
               *paranoid ? paranoid : "no such file",
               open_ ? "samples of processes can be taken"
                     : "/proc/sys/kernel/perf_event_paranoid must be 1 or less, or be root");
    bool btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
    doctor_row(d, btf && root ? DOCTOR_OK : DOCTOR_NOTE, "BPF",
               btf ? root ? "yes" : "not as this user" : "no BTF",
               btf ? root ? "locks of the kernel can be watched" : "watching the kernel needs root"
                   : "the kernel was built without type information: its locks cannot be watched");
    const char *scope = line_of("/proc/sys/kernel/yama/ptrace_scope");
    if (*scope && atoi(scope) > 0 && !root)
        doctor_row(d, DOCTOR_NOTE, "ptrace", scope, "only child processes can be looked into");
}

/* ---- C library and preload ---- */

static void look_at_library(doctor_t *d, const char *preload)
{
    int major = 0, minor = 0;
    const char *version = gnu_get_libc_version();
    sscanf(version, "%d.%d", &major, &minor);
    bool known = major > 2 || minor >= 31;
    doctor_row(d, known ? DOCTOR_OK : DOCTOR_BAD, "glibc", version,
               known ? "the preload knows its objects"
                     : "the preload is made for 2.31 and later");
    bool works = preload_accepts(preload, "lock=park");
    doctor_row(d, works ? DOCTOR_OK : DOCTOR_BAD, "preload", works ? "works" : "does not work", "%s",
               preload);
}

void doctor_host(doctor_t *d, const char *preload)
{
    look_at_processors(d);
    look_at_quota(d);
    look_at_machine(d);
    look_at_counter(d);
    look_at_kernel(d);
    look_at_tracing(d);
    look_at_library(d, preload);
}
