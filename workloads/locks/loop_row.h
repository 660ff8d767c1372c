/* SPDX-License-Identifier: MIT */
/* Body: one row of a workload's table of loops; LOOP names them. */
{ LOCK_NAME, LOCK_FN(LOOP) },
