/* SPDX-License-Identifier: MIT */
/*
 * A preload that replaces nothing, so that the tests of the command do not depend on the locks.
 * With REFUSE in the environment it refuses that setting, in the words of the real one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void start(void)
{
    const char *refuse = getenv("REFUSE"), *setting = getenv("HOTLOCK");
    if (refuse && setting && strstr(setting, refuse))
        fprintf(stderr, "hotlock: HOTLOCK: '%s' is no lock of the preload\n", setting);
}
