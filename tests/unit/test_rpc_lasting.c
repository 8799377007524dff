/*
 * tests/unit/test_rpc_lasting.c - two threads talk over a lasting channel whose connections break.
 *
 * The client asks, the server answers with a sum. A third thread, the test, gives them connections,
 * as keepers do. Each connection lets so many bytes pass in a direction and then ends, in the
 * middle of a message.
 */
#define _GNU_SOURCE
#include "tests/unit/rpc_lasting.h"

#define SLOTS 4

struct world {
	struct ck_chan *chan[2];
	pthread_t thread[2];
	const long *script; /* for each connection: bytes there, bytes back */
	size_t scripted, used;
	unsigned int rounds;
	size_t size;		 /* of the largest message */
	bool lend, much, narrow; /* narrow: the connections hold few bytes */
	atomic_bool done;
};

static void *resend(void *chan)
{
	ck_lasting_resend(chan);
	return NULL;
}

/* One connection after the other until the talk is over. */
static void keep(struct world *w)
{
	pthread_t thread[2];

	while (!w->done) {
		bool scripted = w->used < w->scripted;

		link_pair(w->chan, scripted ? w->script[2 * w->used] : NEVER,
			  scripted ? w->script[2 * w->used + 1] : NEVER, w->narrow);
		w->used++;
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, resend, w->chan[i]), 0);
		while (!w->done && ck_lasting_state(w->chan[0], NULL) == CK_LASTING_UP &&
		       ck_lasting_state(w->chan[1], NULL) == CK_LASTING_UP) {
			ck_lasting_look(w->chan[0], false);
			ck_lasting_look(w->chan[1], false);
			usleep(20);
		}
		for (int i = 0; i < 2; i++) {
			if (ck_lasting_state(w->chan[i], NULL) == CK_LASTING_UP && !w->done)
				ck_lasting_look(w->chan[i], false);
		}
		if (!w->done) { /* the end that does not know yet */
			uint64_t received;

			ck_lasting_detach(w->chan[0], &received);
			ck_lasting_detach(w->chan[1], &received);
		}
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
	}
}

static size_t size_of(const struct world *w, unsigned int round)
{
	return 1 + (round * 7919u + 13) % w->size;
}

static uint32_t fill(unsigned char *bytes, size_t size, unsigned int seed)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < size; i++) {
		bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
		sum = sum * 33 + bytes[i];
	}
	return sum;
}

static void *ask(void *arg)
{
	struct world *w = arg;
	unsigned char *bytes = malloc(w->size);

	for (unsigned int i = 0; i < w->rounds; i++) {
		uint32_t size = (uint32_t)size_of(w, i), sum = fill(bytes, size, i), got;
		struct iovec iov[2] = {{&size, 4}, {bytes, size}};

		check((w->lend ? ck_chan_lend(w->chan[0], iov, 2, 1)
			       : ck_chan_writev(w->chan[0], iov, 2)) == 0);
		check(ck_chan_read(w->chan[0], &got, 4) == 0);
		check(got == sum);
		ck_chan_reclaim(w->chan[0]);
	}
	free(bytes);
	w->done = true;
	return NULL;
}

static void *answer(void *arg)
{
	struct world *w = arg;
	unsigned char *bytes = malloc(w->size);

	for (unsigned int i = 0; i < w->rounds; i++) {
		uint32_t size, sum = 0;
		struct iovec iov = {&sum, 4};

		check(ck_chan_read(w->chan[1], &size, 4) == 0);
		check(size == size_of(w, i));
		check(ck_chan_read(w->chan[1], bytes, size) == 0);
		for (size_t j = 0; j < size; j++)
			sum = sum * 33 + bytes[j];
		check(ck_chan_writev(w->chan[1], &iov, 1) == 0);
	}
	free(bytes);
	return NULL;
}

/* The client asks once; the server answers from slots that it fills again, as a download does. */
static void *ask_much(void *arg)
{
	struct world *w = arg;
	unsigned char *bytes = malloc(w->size), *want = malloc(w->size);

	for (unsigned int i = 0; i < w->rounds; i++) {
		fill(want, w->size, i);
		check(ck_chan_read(w->chan[0], bytes, w->size) == 0);
		check(memcmp(bytes, want, w->size) == 0);
	}
	free(bytes);
	free(want);
	w->done = true;
	return NULL;
}

static void *answer_much(void *arg)
{
	struct world *w = arg;
	unsigned char *slots = malloc(SLOTS * w->size);
	uint64_t until[SLOTS] = {0};

	for (unsigned int i = 0; i < w->rounds; i++) {
		struct iovec iov = {slots + i % SLOTS * w->size, w->size};

		ck_chan_reclaim_until(w->chan[1], until[i % SLOTS]);
		fill(iov.iov_base, w->size, i);
		check(ck_chan_lend_until(w->chan[1], &iov, 1, 0, &until[i % SLOTS]) == 0);
	}
	ck_chan_reclaim(w->chan[1]);
	free(slots);
	return NULL;
}

/* Let them talk over connections that break as @script says; returns how many were needed. */
static size_t talk(struct world *w)
{
	create_pair(w->chan, CK_LASTING_LIMIT);
	assert_int_equal(pthread_create(&w->thread[0], NULL, w->much ? ask_much : ask, w), 0);
	assert_int_equal(pthread_create(&w->thread[1], NULL, w->much ? answer_much : answer, w), 0);
	keep(w);
	pthread_join(w->thread[0], NULL);
	pthread_join(w->thread[1], NULL);
	close_pair(w->chan);
	return w->used;
}

#define TALK_BYTES 420 /* of a talk of six rounds, there: see the first test */

/* of a talk of six rounds, there: see the first test */

static void a_talk_goes_on_after_a_cut_at_any_byte(void **state)
{
	(void)state;
	for (long after = 1; after < TALK_BYTES; after++) {
		const long there[2] = {after, NEVER}, back[2] = {NEVER, 1 + after % 80};
		struct world w = {.script = there, .scripted = 1, .rounds = 6, .size = 80};
		size_t used = talk(&w);

		if (after < 100)
			assert_int_equal(used, 2);
		w = (struct world){.script = back, .scripted = 1, .rounds = 6, .size = 80};
		talk(&w);
	}
}

static void a_repair_that_is_cut_is_repaired(void **state)
{
	(void)state;
	for (long first = 20; first < 60; first += 7) {
		for (long second = 1; second < 60; second++) {
			const long script[6] = {first, NEVER, second, 1 + second % 9, 3, 9};
			struct world w = {.script = script, .scripted = 3, .rounds = 4, .size = 80};

			talk(&w);
		}
	}
}

static void large_messages_survive_cuts(void **state)
{
	long script[40];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(script); i++)
		script[i] = 1000 + (long)(i * 104729 % 900001);
	for (int lend = 0; lend < 2; lend++) {
		struct world w = {.script = script,
				  .scripted = 20,
				  .rounds = 12,
				  .size = 3 << 20,
				  .lend = lend};

		talk(&w);
	}
}

/* A slot is filled again when its bytes are confirmed or copied, even if its connection breaks
 * meanwhile. */
static void reused_slots_survive_cuts(void **state)
{
	long script[80];

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(script); i += 2) {
		script[i] = i % 3 ? NEVER : 8 + (long)i; /* confirmations */
		script[i + 1] = 5000 + (long)(i * 104729 % 1500001);
	}
	for (size_t size = 64 << 10; size <= 1 << 20; size *= 4) {
		struct world w = {.script = script,
				  .scripted = CK_ARRAY_SIZE(script) / 2,
				  .rounds = 40,
				  .size = size,
				  .much = true};

		talk(&w);
	}
}

/* Where a connection has no room, confirmations wait, and both ends write at the same time. */
static void both_ends_get_on_where_there_is_little_room(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct world w = {.rounds = 60,
				  .size = 1 << 20,
				  .lend = kind == 1,
				  .much = kind == 2,
				  .narrow = true};

		talk(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_talk_goes_on_after_a_cut_at_any_byte),
		cmocka_unit_test(a_repair_that_is_cut_is_repaired),
		cmocka_unit_test(large_messages_survive_cuts),
		cmocka_unit_test(reused_slots_survive_cuts),
		cmocka_unit_test(both_ends_get_on_where_there_is_little_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
