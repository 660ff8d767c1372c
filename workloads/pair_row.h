/* SPDX-License-Identifier: MIT */
/* Body: one row of the table of lone pairs. */
{ LOCK_NAME, LOCK_SECTIONS ? LOCK_FN(sections) : NULL,
  LOCK_COMBINES ? LOCK_FN(functions) : NULL },
