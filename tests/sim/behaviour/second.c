// SPDX-License-Identifier: MIT
// second.c - makes a second process, in each of the ways there are.
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "fork";
    if (strcmp(how, "fork") == 0 && fork() == 0) _exit(0);
    if (strcmp(how, "vfork") == 0 && vfork() == 0) _exit(0);
    if (strcmp(how, "clone") == 0) syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
    printf("went on\n");
    return 0;
}
