// SPDX-License-Identifier: MIT
// bpf_allowed.c - says in one line why BPF cannot be used here, and what can.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "../cli/cli.h"
#include "bpf_watch.h"

#define MAP_BYTES (64u << 20) // of kernel memory, all processors together

static char complaint[256];

static int keep_complaint(enum libbpf_print_level level, const char *format, va_list args)
{
    if (level != LIBBPF_WARN)
        return 0;
    char line[256];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = 0;
    if (line[0] && !strstr(line, "BEGIN PROG LOAD LOG"))
        snprintf(complaint, sizeof complaint, "%s", line);
    return 0;
}

void bpf_collect_complaints(void)
{
    complaint[0] = 0;
    libbpf_set_print(keep_complaint);
}

const char *bpf_complaint(void)
{
    return complaint[0] ? complaint : strerror(errno);
}

unsigned bpf_entries(size_t bytes, unsigned most)
{
    int cpus = libbpf_num_possible_cpus();
    size_t entries = MAP_BYTES / (bytes + 64) / (size_t)(cpus > 0 ? cpus : 1);
    return entries < most ? (unsigned)entries : most;
}

static bool may(unsigned capability)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    return data[capability / 32].effective >> (capability % 32) & 1;
}

// By the types it describes, which is where the BPF programs find them too: no tracefs is needed.
static void check_tracepoints(const char *const tracepoint[], const char *instead)
{
    struct btf *types = btf__load_vmlinux_btf();
    for (; types && *tracepoint; tracepoint++) {
        char name[64];
        snprintf(name, sizeof name, "btf_trace_%s", *tracepoint);
        if (btf__find_by_name_kind(types, name, BTF_KIND_TYPEDEF) < 0)
            cli_bad("this kernel has no tracepoint %s (Linux 5.19 or later is needed): what it "
                    "would tell cannot be watched; %s", *tracepoint, instead);
    }
    btf__free(types);
}

void bpf_check_allowed(const char *const tracepoint[], const char *instead)
{
    bool admin = may(CAP_SYS_ADMIN);
    if (!admin && !(may(CAP_BPF) && may(CAP_PERFMON)))
        cli_bad("attaching needs the capabilities CAP_BPF and CAP_PERFMON: run it as root; %s",
                instead);
    if (access("/sys/kernel/btf/vmlinux", R_OK) != 0)
        cli_bad("this kernel does not describe its types (/sys/kernel/btf/vmlinux; it needs "
                "CONFIG_DEBUG_INFO_BTF): BPF cannot be attached; %s", instead);
    struct stat own;
    // Processes have other numbers in here than the kernel shows to BPF.
    if (stat("/proc/self/ns/pid", &own) == 0 && own.st_ino != 0xeffffffcu)
        cli_bad("this is a container with process numbers of its own: run it on the host, with "
                "the host's number; %s", instead);
    check_tracepoints(tracepoint, instead);
}

static bool wide_program(pid_t pid)
{
    char path[64];
    unsigned char head[5] = {0};
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true; // said elsewhere
    bool wide = read(fd, head, sizeof head) != (ssize_t)sizeof head || head[4] == 2;
    close(fd);
    return wide;
}

void bpf_check_process(pid_t pid)
{
    char path[64], link[8];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &st) != 0)
        cli_bad("no process has the number %d", (int)pid);
    if (geteuid() != 0 && st.st_uid != geteuid())
        cli_bad("process %d belongs to another user: run it as that user, or as root", (int)pid);
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int group = pid;
    bool ended = false;
    while (f && getline(&line, &room, f) > 0) {
        sscanf(line, "Tgid: %d", &group);
        ended |= strncmp(line, "State:\tZ", 8) == 0;
    }
    free(line);
    if (f)
        fclose(f);
    if (ended)
        cli_bad("process %d has ended and waits for its parent: nothing is left to watch",
                (int)pid);
    if (group != pid)
        cli_bad("%d is a thread of process %d: give -p %d", (int)pid, group, group);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (readlink(path, link, sizeof link) < 0)
        cli_bad(errno == EACCES || errno == EPERM
                    ? "process %d may not be looked into: run it as root"
                    : "%d is a thread of the kernel: hotlock top -a shows the kernel's locks",
                (int)pid);
    if (!wide_program(pid))
        cli_bad("process %d is a 32-bit program: only 64-bit ones can be watched from outside",
                (int)pid);
}
