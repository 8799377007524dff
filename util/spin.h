/*
 * util/spin.h - how long to spin before sleeping.
 *
 * Waking a sleeper costs 3 to 50 us; spinning costs a processor. So a thread that expects an event
 * soon spins for a while. The spin time adapts: it shrinks when waits turn out longer than any
 * spinning, and is restored at once when they are short again. A thread that spins long yields the
 * processor, so that more spinning threads than processors do no harm. With fewer than CK_SPIN_CPUS
 * processors, a spinning thread may hold up the one that it waits for: it spins briefly, and
 * yields. If a yield took a whole time slice of a computing thread, the spinner sleeps at once for
 * some time, because the scheduler favours a sleeper that wakes up. bench/spin.py measures all of
 * this; CRICKET_DEBUG=spin=US sets the longest time by hand.
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
	_Atomic uint32_t now_ns;   /* spin time that the last waits justify */
	_Atomic uint32_t crowd_ms; /* how long we sleep at once, when others compute here */
	_Atomic uint64_t sleep_until_ns;
};

struct ck_spin_turn {
	struct ck_spin *spin;
	uint64_t begin_ns; /* 0: the clock was not read yet */
	uint32_t rounds;
};

/* Spin for at most @us microseconds, less where processors are few. */
void ck_spin_init(struct ck_spin *spin, unsigned int us);

static inline struct ck_spin_turn ck_spin_begin(struct ck_spin *spin)
{
	return (struct ck_spin_turn){.spin = spin};
}

/* A short pause; false when more spinning does not pay. */
bool ck_spin_again(struct ck_spin_turn *turn);

/* The wait is over, whether it slept or not. */
void ck_spin_end(struct ck_spin_turn *turn);

/* For a program that looks in a loop of its own: with few processors others get theirs. */
void ck_spin_give_way(void);

#endif
