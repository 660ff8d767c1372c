# SPDX-License-Identifier: MIT
"""Random programs for differ.py, in the notation of program.h, one generator per kind.

Free choice hits few of the shapes that models differ in, so some kinds are classic litmus shapes
with orders and fences drawn, or a message that is passed on.
"""
import random

# What a kind of program is made of: operations with weights, threads, most operations in all.
FREE = {
    "loads and stores": ("SSSLLLDF", (2, 4), 9),
    "read-modify-writes": ("AXCCSLLD", (2, 3), 7),
    "fences": ("SSLLFFA", (2, 4), 9),
    "waits": ("WSSLAXD", (2, 4), 8),
    "weak exchanges": ("KKKCSLLA", (2, 3), 7),
    "mixed sizes": ("BBBHHYSLLX", (2, 3), 8),
    "branches": ("ISSLLCA", (2, 3), 8),
}


def order(rng, allowed):
    return rng.choice(allowed)


def operation(rng, kind, left):
    x, v, r = rng.randrange(rng.choice((1, 2, 2, 3))), rng.randrange(3), rng.randrange(3)
    if kind == "S":
        return f"S {x} {v} {order(rng, 'rrrrls')}"
    if kind == "D":
        return f"D {x} {r} {order(rng, 'rrrrls')}"
    if kind == "L":
        return f"L {x} {r} {order(rng, 'rrrras')}"
    if kind == "W":
        return f"W {x} {v} {order(rng, 'rrrras')}"
    if kind in "AX":
        return f"{kind} {x} {rng.randrange(1, 3)} {r} {order(rng, 'ralbs')}"
    if kind in "CK":
        success = order(rng, "ralbs")
        failure = order(rng, {"a": "ra", "b": "ra", "s": "ras"}.get(success, "r"))
        return f"{kind} {x} {rng.randrange(2)} {rng.randrange(1, 3)} {r} {success} {failure}"
    h = rng.randrange(2)
    if kind == "B":
        return f"B {x} {h} {v} {order(rng, 'rrrrls')}"
    if kind == "H":
        return f"H {x} {h} {r} {order(rng, 'rrrras')}"
    if kind == "Y":
        return f"Y {x} {h} {v} {r} {order(rng, 'ralbs')}"
    if kind == "I":
        return f"I {r} {rng.randrange(2)} {rng.randrange(1, max(2, left))}"
    return f"F {order(rng, 'albss')}"


def thread(*steps):
    return "; ".join(s for s in steps if s)


def fence(rng, letters, often=0.5):
    return f"F {order(rng, letters)}" if rng.random() < often else ""


def shape(rng):
    """A litmus shape: each thread writes or reads one location, then another, mostly with something
    between; what random operations seldom hit."""
    threads = []
    for t in range(rng.choice((2, 2, 3, 4))):
        x, y = (t % 2, 1 - t % 2) if rng.random() < 0.8 else (1, 0)
        first = rng.choice((f"S {x} {t % 2 + 1} r", f"S {x} 1 r", f"L {x} 0 r", f"X {x} 1 0 r"))
        between = rng.choice(("F s", "F s", "F b", f"A 2 1 1 {rng.choice('rb')}",
                              "C 2 5 1 1 r r", ""))
        last = rng.choice((f"L {y} 2 r", f"L {y} 2 r", f"S {y} 1 r", f"S {y} 2 r"))
        threads.append(thread(first, between, last))
    return " | ".join(threads)


def mixed_shape(rng):
    """The same with halves of words: who reads a word sees through a half's store to what lies
    below."""
    def access(x, writes, orders):
        h, o = rng.randrange(2), order(rng, orders)
        if writes:
            half = f"B {x} {h} {rng.randrange(1, 3)} {o}"
            whole = f"S {x} {rng.randrange(1, 3)} {o}"
            return rng.choice((half, half, whole, f"Y {x} {h} 1 1 {o}"))
        r = rng.choice((0, 2))
        return rng.choice((f"H {x} {h} {r} {o}", f"L {x} {r} {o}"))
    threads = []
    for _ in range(rng.choice((2, 2, 3))):
        x = rng.randrange(2)
        first, last = rng.random() < 0.6, rng.random() < 0.5
        y = 1 - x if rng.random() < 0.8 else x
        threads.append(thread(access(x, first, "rrl" if first else "rra"), fence(rng, "sbla"),
                              access(y, last, "rl" if last else "ra")))
    return " | ".join(threads)


def half_message(rng):
    """A message is passed by half of a word while somebody writes the other half, or the whole."""
    h = rng.randrange(2)

    def other(orders):
        half = f"B 1 {1 - h} 1 {order(rng, orders)}"
        return rng.choice((half, half, f"Y 1 {1 - h} 1 1 {order(rng, orders)}",
                           f"A 1 0 1 {order(rng, orders)}"))

    def look():
        word = f"L 1 2 {order(rng, 'aar')}"
        return rng.choice((word, word, f"H 1 {h} 2 a", f"H 1 {1 - h} 2 a"))
    sender = thread("S 0 1 r", fence(rng, "lb"),
                    rng.choice((f"B 1 {h} 1 l", f"B 1 {h} 1 r", f"Y 1 {h} 1 2 l")))
    merger = thread(other("rrl"), fence(rng, "as"), rng.choice(("", look())), "L 0 0 r")
    receiver = thread(look(), fence(rng, "a", 0.3), "L 0 0 r")
    return " | ".join([sender, merger] + ([receiver] if rng.random() < 0.7 else []))


# Cycles of program order and communication: who stores to (S), loads (L) or adds to (A) which
# location. Two sequentially consistent accesses or fences in the right places forbid each; a small
# letter is a place for release or acquire, where happens-before goes on to the next thread.
CYCLES = (
    "S0 L1|S1 L0", "S0 L1|S1 L0", "S0 S1|S1 S0", "S0 S1|S1 L0", "S0 S1|L1 L0", "S0 S1|L1 S0",
    "S0|L0 L1|S1 L0", "s0|l0 L1|S1 L0", "S0|L0 L1|S1 S0", "S0|S1|L0 L1|L1 L0", "s0|s1|l0 L1|l1 L0",
    "S0|L0 S1|L1 L0", "S0 s1|l1 L2|S2 L0", "S0 s1|l1 S2|S2 L0", "S0 s1|l1 L2|S2 S0",
    "S0 S1|A1 L1|S1 L0", "S0 s1|A1 l1|S1 L0", "S0 s0|l0 L1|S1 L0", "S0 s1|l1 L1|S1 L0",
    "S0 S1|S1 S2|S2 L0", "S0 L1|S1 L2|S2 L0", "S0 a1|a1 L2|S2 L0")


def cycle(rng):
    """One of them, with orders and fences drawn, for each thread in one of three ways: what the SC
    axiom is about."""
    def access(t, letter, x, style):
        store, load = letter in "Ss", letter in "Ll"
        if letter.isupper() and (style == "sc" or rng.random() < 0.1):
            o = "s"
        elif letter.isupper():
            o = order(rng, "rrl" if store else "rra" if load else "rrb")
        else:
            o = order(rng, "lllr" if store else "aaar" if load else "rlab")
        return f"S {x} {t + 1} {o}" if store else f"L {x} {x} {o}" if load else f"A {x} 4 3 {o}"
    threads = []
    for t, text in enumerate(rng.choice(CYCLES).split("|")):
        style = rng.choice(("sc", "sc", "fence", "fence", "loose"))
        first, *last = [access(t, *a, style) for a in text.split()]
        between = ""
        if last and style != "sc" or rng.random() < 0.1:
            between = fence(rng, "sssb", 0.9 if style == "fence" else 0.1)
        elif rng.random() < 0.05:
            between = rng.choice(("A 3 1 3 b", f"S 3 {t + 1} s"))
        threads.append(thread(first, between, *last))
    return " | ".join(threads)


def hand_on(rng):
    """What another thread does to the message on its way: a read-modify-write passes it on,
    whatever its order, a store does not."""
    o = order(rng, "rrrralb")
    return rng.choice((f"A 1 2 1 {o}", f"A 1 2 1 {o}", f"X 1 3 1 {o}", f"C 1 1 4 1 {o} r",
                       "C 1 1 4 1 a a", f"S 1 5 {order(rng, 'rrl')}"))


def receive(rng):
    o = order(rng, "aaarr")
    return rng.choice((f"L 1 1 {o}", f"L 1 1 {o}", f"A 1 0 1 {order(rng, 'aabrl')}",
                       "C 1 9 9 1 a r", "C 1 9 9 1 b a", "K 1 1 6 1 a r"))


def message(rng):
    """Who sees the message sees what was written before; it is released by a store or a fence,
    handed on, acquired by a load or a fence."""
    sender = thread("S 0 1 r", fence(rng, "llbsa", 0.4), rng.choice(("", "", "S 2 1 r", "S 2 1 l")),
                    rng.choice((f"S 1 1 {order(rng, 'llrr')}", f"X 1 1 2 {order(rng, 'lbar')}")),
                    rng.choice(("", "", "", f"S 1 {rng.choice('16')} r", "A 1 4 2 r")))
    relay = thread(f"L 1 1 {order(rng, 'rra')}", fence(rng, "bbsal", 0.8),
                   f"S 1 7 {order(rng, 'rrl')}")
    between = [rng.choice((relay, thread(hand_on(rng), rng.choice(("", "", hand_on(rng))))))
               for _ in range(rng.choice((0, 0, 1, 1, 2)))]
    receiver = thread(receive(rng), rng.choice(("", "", "L 2 2 r")), fence(rng, "aabsl", 0.4),
                      "L 0 0 r")
    return " | ".join([sender, *between, receiver])


def plain(rng):
    x = rng.choice((3, 3, 3, 2))
    return f"P {x} {rng.randrange(1, 3)}" if rng.random() < 0.5 else f"Q {x} {x}"


def race(rng):
    """Plain data behind a message, or not: about half of the programs have a race."""
    send = rng.choice(("S 1 1 l", "S 1 1 l", "S 1 1 s", "F l; S 1 1 r", "S 1 1 r", "S 1 1 r",
                       "X 1 1 2 l"))
    seen = rng.choice(("W 1 1 a", "W 1 1 r; F a", "W 1 1 r", "L 1 1 a; I 1 1 2",
                       "L 1 1 r; I 1 1 3; F a", "A 1 2 1 a; I 1 1 2", "C 1 1 2 1 a r; I 1 1 2",
                       "C 1 1 2 1 l r", "L 1 1 a"))
    after = rng.choice(("", "", "", plain(rng)))
    sender = [plain(rng), send, after]
    receiver = [seen, plain(rng), rng.choice(("L 0 0 r", plain(rng)))]
    atomic = rng.choice(("L 3 1 r", "S 3 1 r", "A 3 1 1 r"))
    third, what = [], rng.random()
    if what < 0.2:
        third = ["W 1 1 a", plain(rng)]
    elif what < 0.35:
        third = [hand_on(rng)]
    elif what < 0.5:
        third = ["W 0 1 a", plain(rng)]
        receiver[2] = f"S 0 1 {rng.choice('llr')}"
    elif what < 0.6:  # the data are an atomic elsewhere
        third = [rng.choice(("", "W 1 1 a", "W 1 1 a")), atomic]
    elif what < 0.8:
        sender[0] = atomic
    return " | ".join(thread(*t) for t in (sender, receiver, third) if t)


# These are small, and drawn in three times the number.
SHAPES = {"shapes": (shape,), "cycles": (cycle,), "messages": (message,), "races": (race,),
          "mixed shapes": (mixed_shape, half_message, half_message)}
KINDS = (*FREE, *SHAPES)


def program(rng, kind):
    if kind in SHAPES:
        return rng.choice(SHAPES[kind])(rng)
    if kind == "weak exchanges" and rng.random() < 0.3:
        again = rng.choice(("r r", "a r", "a a"))
        return f"S 0 1 r; S 1 1 l | {operation(rng, 'K', 0)}; K 1 1 2 1 {again}; L 0 0 r"
    letters, threads, most = FREE[kind]
    count = rng.randint(*threads)
    length = [0] * count
    for _ in range(rng.randint(count + 1, most)):
        length[rng.randrange(count)] += 1
    return " | ".join("; ".join(operation(rng, rng.choice(letters), n - i) for i in range(n))
                      for n in length)


def programs(seed, kind, count):
    rng = random.Random(f"{seed} {kind}")
    return [program(rng, kind) for _ in range(count if kind in FREE else 3 * count)]
