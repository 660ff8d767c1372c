#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mutants HOTLOCK INCLUDE CLIENTS [NAME...]: seeded bugs in our locks; the checker must kill each.

A mutant is one replaced piece of one header, and the smallest question that shows it. The piece must
occur exactly once: a mutant that no longer fits its header fails. Killed is a mutant with a
counterexample, or whose loops go beyond a bound that the lock itself never meets (locks.py). A time
limit kills nothing. Prints TAP and the score.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from locks import EXTRA, LEFT, fair

# Questions: client, then options. 2 threads unless said otherwise.
SMALL = ("-D", "HL_POOL_NODES=16", "-D", "HL_SPIN_NS=0", "-D", "HL_PARK_SPIN_NS=0", "-D",
         "HL_BYPASS_NS=0", "--loops", "8", "--time-limit", "60")
ONE = ("-t", "2", "--expiries", "0", "--spurious", "0", "--sleeps", "0")
TWICE = ("-t", "2", "-D", "SECTIONS=2", "--expiries", "0", "--spurious", "0", "--sleeps", "0")
THREE = ("-t", "3", "--expiries", "0", "--spurious", "0", "--sleeps", "0")
TIMED = ("-t", "2", "-D", "WAYS=LU", "--expiries", "1", "--spurious", "0", "--sleeps", "0")
TRY = ("-t", "2", "-D", "WAYS=LT", "--expiries", "0")
SPIN, PARK = ("-D", "POLICY=HL_WAIT_SPIN"), ("-D", "POLICY=HL_WAIT_PARK", "--no-timers")
FREE = ("-D", "LAST_FREES")
SUSPENDED = ("-D", "HL_SUSPENDABLE=1")  # as the preload compiles the queue locks


def ali(ways, *more):
    return ("ali", ("-t", str(len(ways)), "-D", f"WAYS={ways}", "--expiries", "0", "--spurious", "0",
                    "--sleeps", "0", *SPIN, *more))


def on(lock, *options):
    extra = EXTRA.get(lock, ())
    return ("lock", ("-D", f"LOCK={lock}", *extra, *(o for part in options for o in part)))


# Who has been seen to wait enters before whoever comes later; a sleeper is overtaken HL_ROUNDS times.
def order(lock, threads, *options):
    extra = {"mcs": ("-D", "NODE"), "ali": ("-D", "RUN"), "mcsflag": ("-D", "FLAG"),
             "qspin": ("-D", "FLAG")}.get(lock, ())
    return ("order", ("-t", str(threads), "-D", f"LOCK={lock}", *extra, "--expiries", "0", *options))


def bypass(lock):
    extra = ("-D", "NODE") if lock == "mcs" else ()
    return ("bypass", ("-D", f"LOCK={lock}", *extra, "-D", "HL_ROUNDS=2", "--loops", "16", "--expiries",
                       "0", "--spurious", "0"))


JUMPS = ("--expiries", "1")
DRAWN = ("--search", "random", "--samples", "100000")
# A deadline passes in the queue (clients/late.c): executions are drawn, for there are too many.
LATE_HEIR = ("late", ("-D", "LOCK=nmcs", "--expiries", "1", "--spurious", "0", "--sleeps", "0", *DRAWN))
def preload(part, ways, *parts):
    quiet = () if any("--expiries" in p for p in parts) else ("--expiries", "0")
    return (f"preload_{part}", ("-t", str(len(ways)), "-D", f"WAYS={ways}", *quiet, "--spurious", "0",
                                "--sleeps", "0", *(o for p in parts for o in p)))


def fairness(*ways):
    return ("fair", ("-t", "2", *fair(*ways)))


ROW = ("-D", "ROW")


def rw(ways, *parts):
    quiet = () if any("--expiries" in part for part in parts) else ("--expiries", "0")
    return ("rw", ("-t", str(len(ways)), "-D", f"WAYS={ways}", *quiet, "--spurious", "0", "--sleeps",
                   "0", *(o for part in parts for o in part)))


# Name, header, what is there, what is put there, question.
MUTANTS = [
    # --- tas, ticket, park
    ("tas: lock does not acquire", "tas.h", "if (!hl_xchg_acq(&l->held, 1)) return true;",
     "if (!hl_xchg_rel(&l->held, 1)) return true;", on("tas", ONE, SPIN)),
    ("tas: unlock does not release", "tas.h", "hl_store_rel(&l->held, 0);", "hl_store(&l->held, 0);",
     on("tas", ONE, SPIN)),
    ("tas: test, then set, in two steps", "tas.h",
     "if (!hl_xchg_acq(&l->held, 1)) return true;",
     "if (!hl_load_acq(&l->held)) { hl_store(&l->held, 1); return true; }", on("tas", TWICE, SPIN)),
    ("tas: trylock stores", "tas.h", "return !hl_load(&l->held) && !hl_xchg_acq(&l->held, 1);",
     "if (hl_load_acq(&l->held)) return false; hl_store(&l->held, 1); return true;",
     on("tas", TRY, SPIN)),
    ("tas: unlock writes once more after the release", "tas.h", "hl_store_rel(&l->held, 0);",
     "hl_store_rel(&l->held, 0); (void)hl_load(&l->held);", on("tas", ONE, SPIN, FREE)),
    ("ticket: a waiter does not acquire", "ticket.h", "hl_load_acq(&l->half.owner);  // pairs",
     "hl_load(&l->half.owner);  // pairs", on("ticket", ONE, SPIN)),
    ("ticket: unlock does not release", "ticket.h",
     "hl_store_rel(&l->half.owner, (uint16_t)(owner + 1));",
     "hl_store(&l->half.owner, (uint16_t)(owner + 1));", on("ticket", ONE, SPIN)),
    ("ticket: the first comer does not acquire", "ticket.h",
     "hl_load_acq(&l->half.owner) != mine", "hl_load(&l->half.owner) != mine", on("ticket", ONE, SPIN)),
    ("ticket: trylock does not acquire", "ticket.h", "hl_cas_acq(&l->word, was, was + HL_TICKET_ONE)",
     "hl_cas(&l->word, was, was + HL_TICKET_ONE)", on("ticket", TRY, SPIN)),
    ("ticket: unlock skips a number", "ticket.h", "(uint16_t)(owner + 1));  // pairs",
     "(uint16_t)(owner + 2));  // pairs", on("ticket", ONE, SPIN)),
    ("ticket: trylock takes a number in any case", "ticket.h",
     "return hl_ticket_free(was) && hl_cas_acq(", "return hl_cas_acq(", on("ticket", TRY, SPIN)),
    ("park: lock does not acquire", "park.h", "if (hl_unlikely(hl_xchg_acq(&l->byte.held, 1)))",
     "if (hl_unlikely(hl_xchg_rel(&l->byte.held, 1)))", on("park", ONE, SPIN)),
    ("park: unlock does not release", "park.h", "else hl_store_rel(&l->byte.held, 0);",
     "else hl_store(&l->byte.held, 0);", on("park", ONE, SPIN)),
    ("park: the sleeper's exchange does not acquire", "park.h",
     "if (!hl_cas_acq(&l->word, was, new_)) continue;", "if (!hl_cas(&l->word, was, new_)) continue;",
     on("park", ONE, ("-D", "POLICY=HL_WAIT_PARK"))),
    ("park: the slow unlock does not release", "park.h",
     "while (!hl_cas_rel(&l->word, was, was & HL_PARK_SHARED))",
     "while (!hl_cas(&l->word, was, was & HL_PARK_SHARED))",
     on("park", ONE, ("-D", "POLICY=HL_WAIT_PARK"))),
    ("park: a held lock is taken for free", "park.h", "if (!(was & HL_PARK_HELD)) return true;",
     "if (!(was & HL_PARK_ASLEEP)) return true;", on("park", ONE, ("-D", "POLICY=HL_WAIT_PARK"))),

    # --- the queue locks
    ("queue: the next waiter's link is not awaited", "queue.h",
     "    for (bool begun = false; hl_unlikely(!(n = hl_load_acq(link))); begun = true) {\n",
     "    for (bool begun = false; (n = hl_load_acq(link)), false; begun = true) {\n", on("mcs", ONE, SPIN)),
    ("queue: a waiter does not acquire", "queue.h", "uintptr_t s = hl_load_acq(&me->state);",
     "uintptr_t s = hl_load(&me->state);", on("mcs", ONE, SPIN)),
    ("queue: the hand-over does not release", "queue.h", "if (hl_cas_rel(&n->state, s, new_)) return was;",
     "if (hl_cas(&n->state, s, new_)) return was;", on("mcs", ONE, SPIN)),
    ("queue: the link is read without acquire", "queue.h", "hl_unlikely(!(n = hl_load_acq(link)))",
     "hl_unlikely(!(n = hl_load(link)))", on("nmcs", TWICE, SPIN)),
    ("queue: a free lock is taken without acquire", "queue.h",
     "return hl_can_take(seen) && hl_tail_cas_acq(", "return hl_can_take(seen) && hl_tail_cas(",
     on("nmcs", TWICE, SPIN)),
    ("queue: the sleeper is not woken", "queue.h",
     "    hl_futex_wake(hl_low_half(&n->state), HL_FUTEX_PRIVATE);", "    (void)n;",
     on("nmcs", ONE, PARK)),
    ("queue: sleeps without saying so", "queue.h",
     "if (s == HL_SLEEPING || hl_cas(&me->state, HL_WAITING, HL_SLEEPING))\n"
     "            hl_futex_wait(hl_low_half(&me->state), HL_SLEEPING,",
     "hl_futex_wait(hl_low_half(&me->state), (uint32_t)s,", on("nmcs", ONE, PARK)),
    ("queue: the lock goes to a sleeper nobody wakes", "queue.h",
     "if (s == HL_SLEEPING) was = HL_WAS_ASLEEP, new_ = HL_HEIR;", "", on("nmcs", ONE, PARK)),
    ("queue: the heir takes a held lock", "queue.h", "        if (seen & HL_FREE) {\n"
     "            if (hl_tail_cas_acq(t, seen, seen & ~HL_FLAGS)) return true;",
     "        if (seen & HL_BARGE) {\n"
     "            if (hl_tail_cas_acq(t, seen, seen & ~HL_FLAGS)) return true;",
     on("nmcs", THREE, ("-D", "POLICY=HL_WAIT_PARK"))),
    ("queue: the heir does not acquire", "queue.h",
     "            if (hl_tail_cas_acq(t, seen, seen & ~HL_FLAGS)) return true;",
     "            if (hl_tail_cas(t, seen, seen & ~HL_FLAGS)) return true;",
     on("nmcs", TWICE, ("-D", "POLICY=HL_WAIT_PARK"))),
    ("queue: freeing past a sleeper does not release", "queue.h",
     "while (!hl_tail_cas_rel(t, seen, seen | flags))",
     "while (!hl_tail_cas(t, seen, seen | flags))",
     on("nmcs", THREE, ("-D", "POLICY=HL_WAIT_PARK"))),
    ("queue: the sleeping heir is not woken", "queue.h",
     "    if (was == HL_WAS_ASLEEP) hl_node_wake(first);\n    return was != HL_WAS_GONE;",
     "    return was != HL_WAS_GONE;", on("nmcs", ONE, PARK)),
    ("queue: a waiter's link does not release", "queue.h", "    hl_store_rel(link, me);",
     "    hl_store(link, me);", on("mcs", ONE, SPIN)),
    ("queue: a timed-out node is freed as well as left", "queue.h",
     "if (hl_cas_rel(&me->state, s, (uintptr_t)lock)) return false;",
     "if (hl_cas_rel(&me->state, s, (uintptr_t)lock)) { hl_node_free(me); return false; }",
     on("nmcs", TIMED, SPIN, ("-D", "SECTIONS=2", "-D", "WAYS=LLUU", "-D", "HL_POOL_NODES=4"))),
    ("queue: a timed-out waiter is handed the lock", "queue.h", 
     "if (hl_is_gone(s)) was = HL_WAS_GONE, new_ = HL_OUT;", "", on("nmcs", TIMED, SPIN)),
    ("mcs: unlock stores 0 instead of exchanging", "mcs.h",
     "if (hl_unlikely(hl_load(&me->next) || !hl_cas_rel(&l->tail, (uintptr_t)me, 0)))",
     "if (!hl_load(&me->next)) hl_store_rel(&l->tail, 0); else", on("mcs", ONE, SPIN)),
    ("mcs: unlock does not release", "mcs.h",
     "if (hl_unlikely(hl_load(&me->next) || !hl_cas_rel(&l->tail, (uintptr_t)me, 0)))",
     "if (hl_unlikely(hl_load(&me->next) || !hl_cas(&l->tail, (uintptr_t)me, 0)))",
     on("mcs", ONE, SPIN)),
    ("mcs: the first comer does not acquire", "mcs.h", "return hl_cas_acqrel(&l->tail, 0, (uintptr_t)me);",
     "return hl_cas_rel(&l->tail, 0, (uintptr_t)me);", on("mcs", ONE, SPIN)),
    ("mcs: the node is made ready after it joined", "mcs.h",
     "        if (!heir && !hl_link(&hl_named(tail, seen)->next, me)) {",
     "        hl_node_ready(me, HL_WAITING);\n"
     "        if (!heir && !hl_link(&hl_named(tail, seen)->next, me)) {", on("mcs", THREE, SPIN)),
    ("nmcs: unlock does not release", "nmcs.h",
     "if (hl_unlikely(!hl_cas_rel(&l->tail, HL_HELD, 0))) hl_nmcs_unlock_slow(l);",
     "if (hl_unlikely(!hl_cas(&l->tail, HL_HELD, 0))) hl_nmcs_unlock_slow(l);", on("nmcs", ONE, SPIN)),
    ("nmcs: lock does not acquire", "nmcs.h",
     "if (hl_unlikely(!hl_cas_acq(&l->tail, 0, HL_HELD))) hl_nmcs_lock_slow(l);",
     "if (hl_unlikely(!hl_cas(&l->tail, 0, HL_HELD))) hl_nmcs_lock_slow(l);", on("nmcs", ONE, SPIN)),
    ("nmcs: leaves the queue by a store", "nmcs.h",
     "if (hl_tail_cas_rel(q.tail, hl_name(q.tail, first), HL_HELD)) return true;",
     "if (q.tail.wide) { hl_store_rel(q.tail.wide, HL_HELD); return true; }", on("nmcs", THREE, SPIN)),
    ("nmcs: does not wait for the next waiter's link", "nmcs.h",
     "        next = hl_await_link(&first->next);", "        next = hl_load_acq(&first->next);",
     on("nmcs", THREE, SPIN)),
    ("nmcs: the node stays in the queue", "nmcs.h", "    *left = !hl_nmcs_unlink(q, me);\n    return true;",
     "    return true;", on("nmcs", TWICE, SPIN)),
    ("nmcs: a holder that overtook the queue does not acquire the tail", "nmcs.h",
     "uintptr_t seen = hl_tail_load_acq(q.tail);", "uintptr_t seen = hl_tail_load(q.tail);", LATE_HEIR),
    ("nmcs: joins by a store that loses an arrival", "nmcs.h",
     "if (seen == HL_HELD ? hl_nmcs_link_first(q, me)",
     "if ((seen & ~HL_FLAGS) != 0 ? hl_nmcs_link_first(q, me)", on("nmcs", THREE, SPIN)),

    # --- a flag behind a queue
    ("flag: the front does not acquire", "flag.h",
     "if (hl_cas_acq(&f->half.gate, gate, (uint16_t)(HL_FLAG_HELD | HL_FLAG_CLOSED)))",
     "if (hl_cas(&f->half.gate, gate, (uint16_t)(HL_FLAG_HELD | HL_FLAG_CLOSED)))",
     on("mcsflag", ONE, SPIN)),
    ("flag: the front overwrites", "flag.h",
     "if (hl_cas_acq(&f->half.gate, gate, (uint16_t)(HL_FLAG_HELD | HL_FLAG_CLOSED)))",
     "if (!(hl_xchg_acq(&f->half.gate, (uint16_t)(HL_FLAG_HELD | HL_FLAG_CLOSED)), 0))",
     on("mcsflag", TWICE, SPIN)),
    ("flag: the front leaves without promoting the next", "flag.h",
     "hl_was_t was = hl_promote(next);", "hl_was_t was = HL_WAS_AWAKE;", on("mcsflag", THREE, SPIN)),
    ("flag: joining does not acquire the last node", "flag.h", "last = hl_xchg_acqrel(q.wide, me);",
     "last = hl_xchg_rel(q.wide, me);", on("mcsflag", THREE, SPIN)),
    ("mcsflag: unlock does not release", "mcsflag.h", "hl_store_rel(&l->flag.byte.held, 0);",
     "hl_store(&l->flag.byte.held, 0);", on("mcsflag", ONE, SPIN)),
    ("qspin: unlock does not release", "qspin.h", "hl_store_rel(&l->flag.byte.held, 0);",
     "hl_store(&l->flag.byte.held, 0);", on("qspin", ONE, SPIN)),
    ("qspin: unlock clears the tail as well", "qspin.h", "hl_store_rel(&l->flag.byte.held, 0);",
     "hl_store_rel(&l->flag.word, 0);", on("qspin", THREE, SPIN)),

    # --- ali
    ("ali: a request's end does not release", "ali.h",
     "if (hl_xchg_rel(&r->node.state, HL_ALI_DONE) == HL_SLEEPING)",
     "if (hl_xchg_acq(&r->node.state, HL_ALI_DONE) == HL_SLEEPING)", ali("RR")),
    ("ali: the requester does not acquire", "ali.h", "uintptr_t s = hl_load_acq(&r->node.state);\n"
     "        if (s == HL_ALI_DONE)", "uintptr_t s = hl_load(&r->node.state);\n"
     "        if (s == HL_ALI_DONE)", ali("RR")),
    ("ali: pushing does not release", "ali.h", "uint64_t seen = hl_xchg_acqrel(&l->word,",
     "uint64_t seen = hl_xchg_acq(&l->word,", ali("RR")),
    ("ali: a requester that finds the lock free does not acquire", "ali.h",
     "uint64_t seen = hl_xchg_acqrel(&l->word,", "uint64_t seen = hl_xchg_rel(&l->word,", ali("RR")),
    ("ali: an owner takes requests without acquire", "ali.h",
     "uint64_t seen = hl_xchg_acq(&l->word, HL_ALI_HELD);",
     "uint64_t seen = hl_xchg_rel(&l->word, HL_ALI_HELD);", ali("RR")),
    ("ali: an owner forgets who came after", "ali.h",
     "        return hl_cas_rel(&l->word, seen, (seen & ~HL_ALI_HELD) | o->async);",
     "        { hl_store_rel(&l->word, 0); return true; }", ali("AAR")),
    ("ali: nobody watches the word", "ali.h", "*watch = (flags & ~seen & HL_ALI_ATTENDED) != 0;",
     "*watch = false;", ali("RR")),
    ("ali: a link still to come is taken for the end", "ali.h",
     "    hl_node_t *n = hl_await(&r->node.next, false);\n    return n == HL_ALI_END",
     "    hl_node_t *n = hl_load_acq(&r->node.next);\n    return !n || n == HL_ALI_END", ali("RRR")),
    ("ali: what is left ends in a request that was run", "ali.h",
     "    if (o->left) hl_ali_link(hl_ali_first(o), o->kept);\n    else if",
     "    if (!o->left && o->stack) if", ali("RLR")),
    ("ali: an election does not release", "ali.h",
     "hl_cas_rel(&stack->node.state, HL_WAITING, HL_ELECT)",
     "hl_cas(&stack->node.state, HL_WAITING, HL_ELECT)", ali("RRR", "-D", "HL_ALI_CAP=1")),
    ("ali: a request is run and left pending", "ali.h", "    o->served++;\n    hl_ali_complete(o, r);",
     "    o->served++;", ali("RR")),
    ("ali: a request is run twice", "ali.h", "    HL_ALI_CALL(l, r->fn, r->arg, true);\n",
     "    HL_ALI_CALL(l, r->fn, r->arg, true);\n    HL_ALI_CALL(l, r->fn, r->arg, true);\n", ali("RR")),
    ("ali: the request is touched after its end", "ali.h",
     "    if (hl_xchg_rel(&r->node.state, HL_ALI_DONE) == HL_SLEEPING)",
     "    uintptr_t was_ = hl_xchg_rel(&r->node.state, HL_ALI_DONE);\n"
     "    r->arg = NULL;\n    if (was_ == HL_SLEEPING)", ali("RR")),
    ("ali: unlock does not release", "ali.h", "    hl_store_rel(&l->byte.held, 0);",
     "    hl_store(&l->byte.held, 0);", ali("LL")),
    ("ali: a submitted request's end does not release", "ali.h",
     "hl_store_rel(&r->node.state, HL_ALI_DONE);  // pairs with hl_ali_done()",
     "hl_store(&r->node.state, HL_ALI_DONE);", ali("XA")),
    ("ali: done() does not acquire", "ali.h",
     "    if (hl_load_acq(&r->node.state) == HL_ALI_DONE) return true;\n",
     "    if (hl_load(&r->node.state) == HL_ALI_DONE) return true;\n", ali("DR")),
    ("ali: what is put back is lost", "ali.h", "    while (stack) {\n        uint64_t seen",
     "    while (0) {\n        uint64_t seen", ali("RRL", "-D", "HL_ALI_CAP=1")),
    ("ali: the lock is handed on and kept", "ali.h", "        return hl_ali_grant(awake);",
     "        (void)hl_ali_grant(awake); return false;", ali("LLL")),
    ("ali: an owner runs one request too many", "ali.h", "o->served == HL_ALI_CAP) return",
     "o->served == HL_ALI_CAP + 1) return", ali("AAR", "-D", "HL_ALI_CAP=1")),
    ("ali: an owner's count begins again with those who came later", "ali.h",
     "        o->stack = hl_ali_take(l, &o->async);\n        return false;",
     "        o->stack = hl_ali_take(l, &o->async);\n        o->served = 0;\n        return false;",
     ali("AAR", "-D", "HL_ALI_CAP=1")),

    # --- order of arrival
    ("order: a waiter takes no number", "ticket.h",
     "    uint16_t mine = hl_fetch_add(&l->half.next, 1);\n"
     "    if (hl_unlikely(hl_load_acq(&l->half.owner) != mine)) hl_ticket_lock_slow(l, mine);",
     "    for (uint32_t was = 1;; hl_pause(), was = hl_load(&l->word))\n"
     "        if (hl_ticket_free(was) && hl_cas_acq(&l->word, was, was + HL_TICKET_ONE)) return;",
     order("ticket", 2)),
    ("order: an awake waiter is passed over like a sleeper", "queue.h",
     "hl_settle(first, HL_SUSPENDABLE ? HL_HEIR : HL_GRANTED);\n"
     "    if (was == HL_WAS_ASLEEP || (was == HL_WAS_AWAKE && HL_SUSPENDABLE))",
     "hl_settle(first, HL_HEIR);\n    if (was != HL_WAS_GONE)",
     order("nmcs", 2)),
    ("order: newcomers take a lock with a queue", "queue.h",
     "return seen == 0 || (seen & (HL_FREE | HL_CLOSED)) == HL_FREE;",
     "return seen == 0 || (seen & HL_FREE);", bypass("nmcs")),
    ("order: the heir is never owed the lock", "queue.h", "hl_heir_sleep(t, seen, lost == 0, deadline_ns);",
     "hl_heir_sleep(t, seen, false, deadline_ns);", bypass("nmcs")),
    ("order: the heir's rounds are not counted", "queue.h", "lost = (lost + 1) % HL_ROUNDS;\n"
     "        hl_heir_sleep", "lost = 1;\n        hl_heir_sleep", bypass("mcs")),
    ("order: freeing the lock opens the door", "queue.h", "(seen | HL_FREE) & ~HL_ASLEEP))",
     "(seen | HL_FREE) & ~(HL_ASLEEP | HL_CLOSED)))", bypass("nmcs4")),
    ("order: newcomers do not look at the door", "flag.h",
     "return !hl_load(&f->byte.closed) && hl_flag_take_free(f);", "return hl_flag_take_free(f);",
     order("mcsflag", 2)),
    ("order: newcomers do not look at the tail", "flag.h",
     "return tail_in_word ? !hl_load(&f->half.tail) && hl_flag_take_free(f) :",
     "return tail_in_word ? hl_flag_take_free(f) :", order("qspin", 2)),
    ("order: the door is left open", "flag.h",
     "            if (!(gate & HL_FLAG_CLOSED)) hl_store(&f->byte.closed, 1);\n", "", order("mcsflag", 2)),
    ("order: ali's newest waiter gets the lock", "ali.h",
     "if (s == HL_WAITING) awake = r, above = newer;",
     "if (s == HL_WAITING && !awake) awake = r, above = newer;", order("ali", 2, "-D", "LATE=0")),
    ("order: ali's owner serves the newest first", "ali.h", "    if (!o->left) hl_ali_gather(o);\n"
     "    hl_ali_req_t *r = hl_ali_pop(o);", "    if (!o->left) hl_ali_gather(o);\n"
     "    if (o->left == 2) {\n        hl_ali_req_t *x = o->batch[0]; o->batch[0] = o->batch[1];\n"
     "        o->batch[1] = x, hl_ali_link(o->batch[0], o->batch[1]), hl_ali_link(x, NULL);\n"
     "        o->stack = o->batch[0];\n    }\n"
     "    hl_ali_req_t *r = hl_ali_pop(o);", order("ali", 2, "-D", "LATE=0", "-D", "WAYS=R")),
    # --- the queue locks where threads are suspended
    ("suspended: who is not awaited waits to be found", "nmcs.h",
     "hl_node_free(hl_named(q.tail, seen));\n    hl_store(&me->state, HL_HEIR);",
     "hl_node_free(hl_named(q.tail, seen));", on("nmcs", ONE, SPIN, SUSPENDED)),
    ("suspended: the mark overwrites a link", "queue.h",
     "if (hl_cas_rel(link, (hl_node_t *)NULL, (hl_node_t *)HL_LEFT)) return NULL;",
     "hl_store_rel(link, (hl_node_t *)HL_LEFT); return NULL;", on("nmcs", ONE, SPIN, SUSPENDED)),
    ("suspended: the mark overwrites a name", "nmcs.h",
     "if (hl_cas_rel(q.first_name, 0, (uint16_t)HL_LEFT)) return NULL;",
     "hl_store_rel(q.first_name, (uint16_t)HL_LEFT); return NULL;", on("nmcs4", ONE, SPIN, SUSPENDED)),
    ("suspended: a link overwrites the mark", "queue.h",
     "if (HL_SUSPENDABLE) return hl_xchg_acqrel(link, me) == NULL;\n", "",
     on("nmcs", ONE, SPIN, SUSPENDED)),
    ("suspended: the lock is handed over and freed", "queue.h",
     "hl_settle(first, HL_SUSPENDABLE ? HL_HEIR : HL_GRANTED)", "hl_settle(first, HL_GRANTED)",
     on("nmcs", TWICE, SPIN, SUSPENDED)),
    ("suspended: the lock is neither handed over nor freed", "queue.h",
     "if (was == HL_WAS_ASLEEP || (was == HL_WAS_AWAKE && HL_SUSPENDABLE))\n",
     "if (was == HL_WAS_ASLEEP)\n", on("nmcs4", ONE, SPIN, SUSPENDED)),
    ("suspended: a node that was left is freed by both", "nmcs.h", "*left = !hl_nmcs_unlink(q, me);",
     "(void)hl_nmcs_unlink(q, me);",
     ("left", ("-D", "LOCK=nmcs", *ONE, *LEFT, "-D", "EARLY"))),
    ("suspended: who overtook its follower does not say so", "nmcs.h",
     "            hl_tail_add(q.tail, HL_BARGE);\n            return false;", "            return false;",
     ("left", ("-D", "LOCK=nmcs", *ONE, *LEFT))),
    ("suspended: a holder that does not await its link frees nothing", "mcs.h",
     "            hl_tail_add(hl_mcs_queue(l).tail, HL_FREE | HL_BARGE);\n", "",
     on("mcs_alone", TWICE, SPIN, SUSPENDED)),
    ("suspended: the flag behind the tickets is taken by a store", "preload/ticket_flag.h",
     "return !hl_load(&l->byte.held) && hl_cas_acq(&l->byte.held, 0, 1);  // pairs with unlock",
     "if (hl_load(&l->byte.held)) return false;\n    hl_store(&l->byte.held, 1);\n    return true;",
     on("ticket_flag", ONE, SPIN)),
    ("suspended: whoever had its turn passes it on to nobody", "preload/ticket_flag.h",
     "    (void)hl_cas(&l->byte.turn, mine, (uint8_t)(mine + 1));  // unless", "    // unless",
     on("ticket_flag", TWICE, SPIN)),
    ("suspended: a turn is passed on though it was passed over", "preload/ticket_flag.h",
     "    (void)hl_cas(&l->byte.turn, mine, (uint8_t)(mine + 1));  // unless",
     "    hl_store(&l->byte.turn, (uint8_t)(hl_load(&l->byte.turn) + 2));  // unless",
     on("ticket_flag", TWICE, SPIN)),
    ("suspended: a trylock takes a held lock", "queue.h",
     "return (seen & HL_FREE) && hl_tail_cas_acq(t, seen, seen & ~HL_FREE);",
     "return hl_tail_cas_acq(t, seen, seen & ~HL_FREE);",
     on("nmcs", ONE, SPIN, SUSPENDED, ("-D", "WAYS=LY", "-D", "RESERVED"))),
    # --- phase fairness
    ("fair: unlock lets readers in where no writer waits", "rw.h", "next = hl_rw_let_in(l, s & ~HL_RW_WRITER);",
     "next = s & HL_RW_GATE ? s & ~HL_RW_WRITER : hl_rw_let_in(l, s & ~HL_RW_WRITER);",
     fairness("W", "RW", "R")),
    ("fair: readers pass the gate", "rw.h", "return !(s & HL_RW_WRITER) &&\n",
     "(void)patience_ns;\n    return !(s & HL_RW_WRITER) ||\n", fairness("R", "W", "R")),
    ("fair: unlock opens the gate", "rw.h", "hl_rw_let_in(l, s & ~HL_RW_WRITER);",
     "hl_rw_let_in(l, s & ~(HL_RW_WRITER | HL_RW_GATE));", fairness("W", "RW", "R")),
    ("fair: nobody waits for the invited", "rw.h",
     "if (!HL_SUSPENDABLE || !(s & HL_RW_WAITING) || !hl_load(&l->invited)) return false;", "return false;",
     ("fair", ("-t", "2", *fair("W", "RW", "R"), *SUSPENDED))),
    # --- the preload's condition variable and reader-writer lock
    ("cond: a waiter unlocks before it queues", "preload/cond.c",
     "    append(o, &w->me);\n    count_in_mutex(w, 1);\n    int error = hlp_mutex_unlock(w->mutex);",
     "    count_in_mutex(w, 1);\n    int error = hlp_mutex_unlock(w->mutex);\n    append(o, &w->me);",
     preload("cond", "WS")),
    ("cond: a waiter that is woken as its time comes does not await that", "preload/cond.c",
     "    while (!queued && sem_wait(&w->woken) != 0) continue;", "", preload("cond", "Ts", JUMPS)),
    ("cond: who has timed out stays in the queue", "preload/cond.c", "    if (queued) take_out(o, w);", "",
     preload("cond", "TS", JUMPS)),
    ("cond: a broadcast follows the link of who is awake", "preload/cond.c",
     "        next = w->next;\n        sem_post(&w->woken);", "        sem_post(&w->woken);\n"
     "        next = w->next;", preload("cond", "Wb")),
    ("cond: a broadcast wakes one", "preload/cond.c",
     "        next = w->next;\n        sem_post(&w->woken);", "        next = NULL;\n"
     "        sem_post(&w->woken);", preload("cond", "WWB")),
    ("cond: who is taken out leaves the queue's end behind", "preload/cond.c",
     "    else o->last = w->prev;\n", "", preload("cond", "WSWS")),
    ("cond: an interrupted sleep counts as a wake-up", "preload/cond.c",
     "while (failed && errno == EINTR);", "while (0);", preload("cond", "WS", JUMPS)),
    ("cond: destroy does not wait for those on their way out", "preload/cond.c",
     "    while ((users = hl_load_acq(&o->users)) != USERS_DESTROYING)", "    while (users = 0)",
     preload("cond", "WB", FREE)),
    ("cond: destroy does not acquire", "preload/cond.c", "(users = hl_load_acq(&o->users))",
     "(users = hl_load(&o->users))", preload("cond", "WB", FREE)),
    ("cond: the last use does not release", "preload/cond.c", "hl_cas_rel(&o->users, users, users - 1)",
     "hl_cas(&o->users, users, users - 1)", preload("cond", "WB", FREE)),
    ("cond: the last use does not wake who destroys", "preload/cond.c",
     "    if (users == (USERS_DESTROYING | 1)) hl_futex_wake", "    if (0) hl_futex_wake",
     preload("cond", "WB", FREE)),
    ("rwlock: who reads already stands aside as well", "preload/rwlock.c", "read_locks ? 0 : PATIENCE_NS",
     "PATIENCE_NS", preload("rwlock", "WN")),
    ("rwlock: a writer takes the lock with readers inside", "rw.h",
     "    if (s & HL_RW_WRITER || hl_rw_inside(s)) return false;\n    kept", "    kept", preload("rwlock", "RW")),
    # --- rw
    ("rw: a reader does not acquire", "rw.h", "if (hl_likely(hl_cas_acq(&l->state, s, s + 1))) return true;",
     "if (hl_likely(hl_cas(&l->state, s, s + 1))) return true;", rw("WR", SPIN)),
    ("rw: a reader does not release", "rw.h",
     "!hl_cas_rel(&l->state, s, s - 1))\n        hl_rw_read_unlock_slow",
     "!hl_cas(&l->state, s, s - 1))\n        hl_rw_read_unlock_slow", rw("WR", SPIN)),
    ("rw: a writer does not release", "rw.h", "!hl_cas_rel(&l->state, s, s & ~HL_RW_WRITER))",
     "!hl_cas(&l->state, s, s & ~HL_RW_WRITER))", rw("WW", SPIN)),
    ("rw: the writer at the gate takes it unseen", "rw.h",
     "if (!hl_cas_acq(&l->state, s, (s & kept)", "if (!hl_cas(&l->state, s, (s & kept)",
     rw("WPR", SPIN, ("-D", "HL_RW_COLLISIONS=100", "--time-limit", "300"))),
    ("rw: going in past the gate is not ordered before leaving", "rw.h",
     "return HL_RW_CAS_SC(&l->state, s, s + 1);", "return hl_cas_acq(&l->state, s, s + 1);",
     rw("WP", PARK, ROW, ("--time-limit", "300"))),
    ("rw: a reader let in does not acquire", "rw.h", "s = hl_load_acq(&l->state);  // pairs with unlock",
     "s = hl_load(&l->state);  // pairs with unlock", rw("WR", SPIN)),
    ("rw: readers in a row do not look at the gate", "rw.h", "&& !(now & (HL_RW_CLOSED | HL_RW_SPENT))))\n",
     "))\n", rw("WR", SPIN, ROW)),
    ("rw: readers in a row do not look whether it is spent", "rw.h", "now & (HL_RW_CLOSED | HL_RW_SPENT)",
     "now & HL_RW_CLOSED", rw("RX", SPIN, ROW)),
    ("rw: closing a row is not ordered before the look", "rw.h", "(void)HL_RW_CAS_SC(", "(void)hl_cas(",
     rw("RX", SPIN, ROW)),
    ("rw: a gate that opens leaves its row open", "rw.h", "if (s & HL_RW_ROW) next |= HL_RW_SPENT;", "",
     ("pass", ONE)),
    ("rw: a writer passes a gate by an open row", "rw.h",
     "s & (HL_RW_GATE | HL_RW_SPENT) && hl_rw_take(l, s, kept)", "hl_rw_take(l, s, kept)",
     ("pass", (*ONE, "-D", "AGAIN", *DRAWN))),
    ("rw: a row that is looked at is not pinned", "rw.h", "#define HL_RW_PIN 2u", "#define HL_RW_PIN 0u",
     ("pass", (*ONE, "-D", "AGAIN", "--search", "pct", "--depth", "3", "--samples", "100000"))),
    ("rw: the writer sleeps at a row that the lock no longer has", "rw.h",
     "!((now ^ s) & HL_RW_ROW) && hl_rw_inside", "hl_rw_inside", rw("WXP", PARK, ROW, DRAWN)),
    ("rw: entering a row is not ordered before the look", "rw.h",
     "HL_RW_SC(fetch_add, &slot->readers, 1u);", "(void)hl_fetch_add(&slot->readers, 1u);",
     rw("WR", SPIN, ROW)),
    ("rw: the gate is not ordered before the look", "rw.h",
     "HL_RW_SC(fetch_or, &l->state, HL_RW_GATE);\n    for",
     "(void)hl_fetch_or(&l->state, HL_RW_GATE);\n    for", rw("WR", SPIN, ROW)),
    ("rw: the count of a row does not acquire", "rw.h",
     "n += HL_RW_SC(load_n, &row->slot[i].readers);", "n += hl_load(&row->slot[i].readers);",
     rw("WR", SPIN, ROW)),
    ("rw: readers in a row are not counted", "rw.h", "if (!(s & HL_RW_ROW)) return n;", "return n;",
     rw("WR", SPIN, ROW)),
    ("rw: unlock does not wake those it lets in", "rw.h",
     "        if (s & HL_RW_WAITING) hl_rw_wake(l, HL_RW_READER_SLEEPS);\n        if (wake)",
     "        if (wake)", rw("WR", PARK)),
    ("rw: the last reader does not wake the writer", "rw.h",
     "if (wake) hl_rw_wake(l, HL_RW_WRITER_SLEEPS);\n        return;\n    }\n}\n\nstatic inline void hl_rw_read_unlock",
     "return;\n    }\n}\n\nstatic inline void hl_rw_read_unlock", rw("WR", PARK)),
    ("rw: a reader leaves its row in silence", "rw.h",
     "if (hl_unlikely(HL_RW_SC(load_n, &row->gate))) hl_rw_knock(row);", "", rw("WR", PARK, ROW)),
    ("rw: the writer sleeps without a second look", "rw.h",
     "if (!((now ^ s) & HL_RW_ROW) && hl_rw_inside(now))\n", "", rw("WR", PARK, ROW)),
    ("rw: the writer sleeps at a gate that was free when it looked", "rw.h",
     "bool busy = s & (HL_RW_WRITER | HL_RW_READERS);", "bool busy = true;",
     rw("RWV", PARK, JUMPS, DRAWN)),
    ("rw: a writer that gives up leaves the gate closed", "rw.h",
     "s & ~(HL_RW_GATE | HL_RW_ASLEEP | HL_RW_OVERDUE);", "s & ~HL_RW_ASLEEP;",
     rw("RU", SPIN, JUMPS)),
    ("rw: a writer that gives up lets readers in as an unlock does", "rw.h",
     "        if (s & HL_RW_ROW) next |= HL_RW_SPENT;\n",
     "        if (s & HL_RW_ROW) next |= HL_RW_SPENT;\n"
     "        if (!(s & HL_RW_WRITER)) next = hl_rw_let_in(l, next);\n",
     rw("WURR", SPIN, JUMPS, DRAWN)),
    ("rw: a reader waits for a gate that has opened", "rw.h", 
     "(!(s & HL_RW_GATE) || invited ||", "(invited ||",
     rw("RUR", SPIN, JUMPS, DRAWN)),
    ("rw: a reader that takes back its entry does it elsewhere", "rw.h",
     "    hl_rw_row_leave(row, slot);\n    return false;",
     "    hl_rw_row_leave(row, &row->slot[0]);\n    hl_rw_row_leave(row, slot);\n    return false;",
     rw("WR", SPIN, ROW)),
    ("rw: unlock looks at the lock after it gave it up", "rw.h",
     "        if (s & HL_RW_WAITING) hl_rw_wake(l, HL_RW_READER_SLEEPS);\n        if (wake)",
     "        (void)hl_load(&l->state);\n        if (s & HL_RW_WAITING) hl_rw_wake(l, HL_RW_READER_SLEEPS);\n"
     "        if (wake)", rw("WR", SPIN, FREE)),
]


def mutate(include, where, header, old, new):
    """Copy the headers to `where`, and the preload beside them, with one piece replaced; False if it is
    not there exactly once."""
    shutil.copytree(include, where)
    sources = os.path.join(where, os.pardir, "src")
    shutil.copytree(os.path.join(include, os.pardir, "src", "preload"), os.path.join(sources, "preload"))
    path = os.path.join(sources if "/" in header else os.path.join(where, "hotlock"), header)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if text.count(old) != 1:
        return False
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    return True


def verdict(hotlock, clients, include, question):
    client, options = question
    run = subprocess.run([hotlock, "check", os.path.join(clients, client + ".c"), "-I", include,
                          "-I", os.path.join(include, os.pardir, "src"), "--cflag", "-w", *SMALL, *options], capture_output=True, text=True)
    found = re.search(r"^COUNTEREXAMPLE: (.*)$", run.stdout, re.M)
    if run.returncode == 1 and found:
        return found.group(1), True
    endless = re.search(r"^NOT VERIFIED .* (in \w+\(\) met the bound)", run.stdout, re.M)
    if endless:  # where the lock as it is was verified under the same bound
        return f"does not end: a loop {endless.group(1)}", True
    said = (run.stdout + run.stderr).strip().split("\n")
    return said[0][:120], False


# The mutants that only the questions of order, or fairness, see: they exclude, publish and end as the lock.
def plain(name, question):
    if name.startswith("fair: "):
        return rw("WR", SPIN)
    if not name.startswith("order: "):
        return None
    lock = next(o for o in question[1] if o.startswith("LOCK="))[5:]
    return on(lock, ONE, SPIN if question[0] == "order" else PARK)


def main():
    hotlock, include, clients, *names = sys.argv[1:]
    todo = [m for m in MUTANTS if not names or any(n in m[0] for n in names)]
    print(f"1..{len(todo)}")
    killed = 0
    for number, (name, header, old, new, question) in enumerate(todo, 1):
        with tempfile.TemporaryDirectory() as directory:
            where = os.path.join(directory, "include")
            if mutate(include, where, header, old, new):
                why, dead = verdict(hotlock, clients, where, question)
                other = plain(name, question)
                if dead and other and not verdict(hotlock, clients, where, other)[0].startswith("verified"):
                    why, dead = "the question that does not ask for order sees it as well", False
            else:
                why, dead = f"no longer fits {header}: the piece must be there exactly once", False
        killed += dead
        print(f"{'ok' if dead else 'not ok'} {number} - {name}: {why}", flush=True)
    print(f"# killed {killed} of {len(todo)} mutants")
    sys.exit(killed != len(todo))


main()
