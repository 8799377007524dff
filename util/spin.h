/*
 * util/spin.h - how long to look for something before sleeping until it comes.
 *
 * Waking a sleeper costs 3 to 50 us; looking costs a processor. So who expects an event soon looks
 * for it for a while, and the while adapts: it shrinks when the waits turn out longer than any
 * spinning, and is back at once when they are short again. Who looks for long yields the processor
 * to whoever wants it, so that more spinning threads than processors are no harm. With fewer than CK_SPIN_CPUS processors
 * a spinning thread may hold up the one that it waits for: it looks briefly, and gives way. Who gave way and came
 * back after a whole turn of somebody who computes sleeps at once for some time, for a sleeper that is woken comes first.
 * bench/spin.py measures all of this; CRICKET_SPIN sets the longest time by hand.
 *
 *	struct ck_spin_turn turn = ck_spin_begin(spin);
 *	while (!ready && ck_spin_again(&turn))
 *		;
 *	while (!ready)
 *		sleep
 *	ck_spin_end(&turn);
 */
#ifndef CK_UTIL_SPIN_H
#define CK_UTIL_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CK_SPIN_CPUS 4

/* Of one kind of wait; zero: it never spins. Threads may share it. */
struct ck_spin {
	uint32_t most_ns;
	_Atomic uint32_t now_ns; /* what the last waits make worth while */
	_Atomic uint32_t crowd_ms; /* others compute on our processors: how long we sleep at once; or 0 */
	_Atomic uint64_t sleep_until_ns;
};

struct ck_spin_turn {
	struct ck_spin *spin;
	uint64_t begin_ns; /* 0: not looked at the clock yet */
	uint32_t rounds;
};

/* At most @us microseconds of looking, less where processors are few. */
void ck_spin_init(struct ck_spin *spin, unsigned int us);

static inline struct ck_spin_turn ck_spin_begin(struct ck_spin *spin)
{
	return (struct ck_spin_turn){ .spin = spin };
}

/* A short pause; false when looking longer does not pay. */
bool ck_spin_again(struct ck_spin_turn *turn);

/* The wait is over, whether it slept or not. */
void ck_spin_end(struct ck_spin_turn *turn);

/* For a program that looks in a loop of its own: with few processors others get theirs. */
void ck_spin_give_way(void);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t ck_now_ns(void);

#endif
