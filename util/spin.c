/*
 * util/spin.c - see spin.h.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>

#include "util/cpu.h"
#include "util/env.h"
#include "util/spin.h"
#include "util/until.h"
#include "util/util.h"

#define CLOCK_ROUNDS                                                                               \
	16 /* pauses between reads of the clock, which cost as much as one
			      * pause */
#define MOST_US 1000000ul
#define FEW_NS                                                                                     \
	100000 /* of spinning where processors are few: less than a wake-up takes would never pay */
#define ALONE_NS                                                                                   \
	50000 /* a thread that spins longer yields to threads that want the
			      * processor */
#define LEAST_NS                                                                                   \
	1000		  /* spinning never stops entirely: only trying shows when it pays
			      * again */
#define CROWDED_NS 100000 /* a yield that takes longer than this gave away a whole time slice */
#define CROWD_FIRST_MS 10 /* then all waits sleep for that long; twice as long each next time, */
#define CROWD_MOST_MS 320 /* up to this */

/* Processors that this process may use, asked once. */
static unsigned int count_processors(void)
{
	static _Atomic unsigned int known;
	unsigned int n = atomic_load_explicit(&known, memory_order_relaxed);
	cpu_set_t set;

	if (n == 0) {
		n = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned int)CPU_COUNT(&set)
								 : CK_SPIN_CPUS;
		atomic_store_explicit(&known, n, memory_order_relaxed);
	}
	return n;
}

void ck_spin_init(struct ck_spin *spin, unsigned int us)
{
	uint32_t most = us * 1000u;
	uint64_t number;
	char wish[32];

	if (ck_env_word("CRICKET_DEBUG", "spin", wish, sizeof(wish)) == 0 &&
	    ck_env_number(wish, &number) == 0)
		most = (uint32_t)ck_min(number, MOST_US) * 1000u;
	else if (count_processors() < CK_SPIN_CPUS)
		most = ck_min(most, (uint32_t)FEW_NS);
	spin->most_ns = most;
	atomic_init(&spin->now_ns, most);
	atomic_init(&spin->crowd_ms, 0);
	atomic_init(&spin->sleep_until_ns, 0);
}

/*
 * Yield the processor. The scheduler favours a thread that wakes up over one that is computing, and
 * puts one that yields last. Where other threads compute, a wait that yields takes as long as their
 * time slice, some milliseconds, while a wait that sleeps does not. False: this is such a case.
 */
static bool give_way(struct ck_spin *spin, uint64_t now)
{
	uint32_t crowd;

	sched_yield();
	if (likely(ck_now_ns() - now < CROWDED_NS))
		return true;
	crowd = atomic_load_explicit(&spin->crowd_ms, memory_order_relaxed);
	crowd = crowd == 0 ? CROWD_FIRST_MS : ck_min(crowd * 2, (uint32_t)CROWD_MOST_MS);
	atomic_store_explicit(&spin->crowd_ms, crowd, memory_order_relaxed);
	atomic_store_explicit(&spin->sleep_until_ns, ck_now_ns() + crowd * 1000000ull,
			      memory_order_relaxed);
	return false;
}

bool ck_spin_again(struct ck_spin_turn *turn)
{
	struct ck_spin *spin = turn->spin;
	uint64_t now;

	if (spin->most_ns == 0)
		return false;
	ck_cpu_relax();
	if (turn->rounds++ % CLOCK_ROUNDS != 0)
		return true;
	now = ck_now_ns();
	if (turn->begin_ns == 0)
		turn->begin_ns = now;
	if (now < atomic_load_explicit(&spin->sleep_until_ns, memory_order_relaxed))
		return false;
	if ((count_processors() < CK_SPIN_CPUS || now - turn->begin_ns > ALONE_NS) &&
	    !give_way(spin, now))
		return false;
	return now - turn->begin_ns < atomic_load_explicit(&spin->now_ns, memory_order_relaxed);
}

void ck_spin_give_way(void)
{
	if (count_processors() < CK_SPIN_CPUS)
		sched_yield();
}

void ck_spin_end(struct ck_spin_turn *turn)
{
	struct ck_spin *spin = turn->spin;
	uint32_t worth;

	if (turn->begin_ns == 0)
		return; /* it came before the second look */
	/* a wait that gave way, and found room, ends the crowd */
	if (unlikely(atomic_load_explicit(&spin->crowd_ms, memory_order_relaxed) != 0) &&
	    turn->begin_ns > atomic_load_explicit(&spin->sleep_until_ns, memory_order_relaxed))
		atomic_store_explicit(&spin->crowd_ms, 0, memory_order_relaxed);
	worth = atomic_load_explicit(&spin->now_ns, memory_order_relaxed);
	if (ck_now_ns() - turn->begin_ns <= spin->most_ns)
		worth = spin->most_ns;
	else
		worth = ck_max(worth / 2, (uint32_t)LEAST_NS);
	atomic_store_explicit(&spin->now_ns, ck_min(worth, spin->most_ns), memory_order_relaxed);
}
