/* SPDX-License-Identifier: MIT */
/* How much of the machine others used while we measured: /proc/stat less our own CPU time. */
#ifndef HOTLOCK_FOREIGN_H
#define HOTLOCK_FOREIGN_H

#define FOREIGN_MUCH 0.10 /* share of all processors above which results deserve a note */

typedef struct {
    double capacity; /* CPU seconds the machine offered while watched */
    double foreign;  /* of these, used by others or taken by a hypervisor */
    double busy_at_begin, wall_at_begin;
} foreign_t;

/* Bracket each measured run; sums over all brackets. own: CPU seconds our processes used in it. */
void foreign_begin(foreign_t *f);
void foreign_end(foreign_t *f, double own);

double foreign_share(const foreign_t *f); /* 0 to 1; NaN if nothing was watched */

#endif
