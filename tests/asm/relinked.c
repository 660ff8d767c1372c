// SPDX-License-Identifier: MIT
// relinked.c - every lock once; compiled once, with calls, and linked in two ways.
#include <hotlock/hotlock.h>

static hl_tas_t tas;
static hl_ticket_t ticket;
static hl_mcs_t mcs;
static hl_nmcs_t nmcs;
static hl_nmcs4_t nmcs4;
static hl_mcsflag_t mcsflag;
static hl_qspin_t qspin;
static hl_park_t park;
static hl_ali_t ali;
volatile int sections;

#define SECTION(lock, ...)                   \
    hl_##lock##_lock(&lock, ##__VA_ARGS__);  \
    sections++;                              \
    hl_##lock##_unlock(&lock, ##__VA_ARGS__)

int main(void) {
    hl_mcs_node_t node;
    SECTION(tas);
    SECTION(ticket);
    SECTION(mcs, &node);
    SECTION(nmcs);
    SECTION(nmcs4);
    SECTION(mcsflag);
    SECTION(qspin);
    SECTION(park);
    SECTION(ali);
    return sections != 9;
}
