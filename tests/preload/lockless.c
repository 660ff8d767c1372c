// SPDX-License-Identifier: MIT
// lockless.c - a program without a lock, for hotlock doctor.
int main(void) { return 0; }
