/* SPDX-License-Identifier: MIT */
/* Body: one row of the catalogue. */
{ LOCK_NAME, sizeof(LOCK_T), LOCK_NODE_BYTES, LOCK_ATOMICS, LOCK_SHARED, LOCK_SECTIONS,
  LOCK_COMBINES, LOCK_FUTEX_HIDDEN, LOCK_FN(setup) },
