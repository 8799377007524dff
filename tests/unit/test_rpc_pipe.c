/*
 * tests/unit/test_rpc_pipe.c - bytes through shared memory: in order over every seam, with the
 * other end asleep or awake at any moment, and whatever the other end writes into the control
 * words.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* The code itself, with pauses at the moments when two ends race. */
static void pause_sometimes(void);

#define CK_PIPE_RACE() pause_sometimes()
#define ck_pipe_filled test_filled
#define ck_pipe_take test_take
#define ck_pipe_room test_room
#define ck_pipe_put test_put
#define ck_pipe_publish test_publish
#define ck_pipe_sleep_filled test_sleep_filled
#define ck_pipe_sleep_room test_sleep_room
#define ck_pipe_wake test_wake
#define ck_pipe_holds test_holds
#define ck_pipe_arm test_arm
#define ck_pipe_disarm test_disarm
#define ck_pipe_mark test_mark
#define ck_pipe_sleep_until test_doze
#include "../../rpc/pipe.c"

#define SIZE 4096u
#define BYTES (512u << 10) /* through the pipe in the stress tests */
#define LONG_MS 60000	   /* a wake-up that is lost makes a test take this long */

static __thread unsigned int pauses; /* 0: none; else the seed of this thread's */

static unsigned int next_random(unsigned int *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void pause_sometimes(void)
{
	struct timespec ts = {0};

	if (pauses == 0 || next_random(&pauses) % 4 != 0)
		return;
	ts.tv_nsec = next_random(&pauses) % 60000;
	nanosleep(&ts, NULL);
}

static struct ck_pipe_control control;
static struct ck_pipe writer, reader;

/* Two ends in one process; the same pages twice, as in two. */
static int begin(void **state)
{
	int fd = memfd_create("pipe", MFD_CLOEXEC);
	unsigned char *at = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (fd < 0 || ftruncate(fd, SIZE) < 0 || at == MAP_FAILED)
		return -1;
	for (int i = 0; i < 2; i++)
		mmap(at + (size_t)i * SIZE, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		     fd, 0);
	close(fd);
	memset(&control, 0, sizeof(control));
	writer = reader = (struct ck_pipe){.control = &control, .data = at, .size = SIZE};
	pauses = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	return munmap(writer.data, 2 * SIZE);
}

static unsigned char byte_at(uint64_t place)
{
	return (unsigned char)(place * 2654435761u >> 13);
}

static void put_bytes(uint64_t *place, size_t size)
{
	unsigned char bytes[SIZE];

	for (size_t i = 0; i < size; i++)
		bytes[i] = byte_at(*place + i);
	test_put(&writer, bytes, size);
	*place += size;
}

static size_t wrong_bytes(uint64_t *place, size_t size)
{
	unsigned char bytes[SIZE];
	size_t wrong = 0;

	test_take(&reader, bytes, size);
	for (size_t i = 0; i < size; i++)
		wrong += bytes[i] != byte_at(*place + i);
	*place += size;
	return wrong;
}

static void bytes_keep_their_order_over_every_seam(void **state)
{
	uint64_t in = 0, out = 0;
	unsigned int seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t n = next_random(&seed) % (SIZE + 1);

		assert_int_equal(test_filled(&reader), (long)(in - out));
		n = ck_min(n, (size_t)test_room(&writer));
		if (n > 0)
			put_bytes(&in, n);
		assert_int_equal(test_filled(&reader) > 0, in - n - out > 0);
		test_publish(&writer);
		reader.other = reader.at; /* look anew, as a reader that knows of nothing does */
		n = ck_min((size_t)next_random(&seed) % (SIZE + 1), (size_t)test_filled(&reader));
		if (n > 0)
			assert_int_equal(wrong_bytes(&out, n), 0);
		reader.other = reader.at;
	}
}

static void a_full_pipe_takes_no_more_until_it_is_read(void **state)
{
	uint64_t in = 0, out = 0;

	(void)state;
	put_bytes(&in, SIZE);
	assert_int_equal(test_room(&writer), 0);
	assert_int_equal(test_filled(&reader), 0); /* not published */
	test_publish(&writer);
	assert_int_equal(test_filled(&reader), SIZE);
	assert_int_equal(test_sleep_room(&writer, 1), 0); /* comes back without room */
	assert_int_equal(test_room(&writer), 0);
	assert_int_equal(wrong_bytes(&out, 1), 0);
	assert_int_equal(test_room(&writer), 1);
	put_bytes(&in, 1);
	test_publish(&writer);
	assert_int_equal(wrong_bytes(&out, SIZE - 1), 0);
	assert_int_equal(test_filled(&reader), 1);
	assert_int_equal(wrong_bytes(&out, 1), 0);
	assert_int_equal(test_filled(&reader), 0);
}

struct stress {
	unsigned int seed;
	size_t largest;	      /* bytes at a time */
	_Atomic size_t wrong; /* or ends that slept too long */
};

static void slept_well(struct stress *s, uint64_t begun_s)
{
	if ((uint64_t)time(NULL) - begun_s >= LONG_MS / 2000)
		s->wrong++;
}

static void *write_all(void *arg)
{
	struct stress *s = arg;
	unsigned int seed = s->seed;
	uint64_t in = 0;

	pauses = s->seed * 3 + 1;
	while (in < BYTES) {
		size_t n = 1 + next_random(&seed) % s->largest;
		uint64_t begun = (uint64_t)time(NULL);

		while (test_room(&writer) == 0)
			test_sleep_room(&writer, LONG_MS);
		slept_well(s, begun);
		n = ck_min(ck_min(n, (size_t)test_room(&writer)), (size_t)(BYTES - in));
		put_bytes(&in, n);
		test_publish(&writer);
	}
	return NULL;
}

static void *read_all(void *arg)
{
	struct stress *s = arg;
	unsigned int seed = s->seed + 99;
	uint64_t out = 0;

	pauses = s->seed * 5 + 2;
	while (out < BYTES) {
		size_t n = 1 + next_random(&seed) % s->largest;
		uint64_t begun = (uint64_t)time(NULL);

		while (test_filled(&reader) == 0)
			test_sleep_filled(&reader, LONG_MS);
		slept_well(s, begun);
		s->wrong += wrong_bytes(&out, ck_min(n, (size_t)test_filled(&reader)));
	}
	return NULL;
}

static void no_wakeup_is_lost_at_any_interleaving(void **state)
{
	static const size_t largest[] = {SIZE, 700, SIZE / 2, 2000};

	(void)state;
	for (unsigned int i = 0; i < CK_ARRAY_SIZE(largest); i++) {
		struct stress s = {.seed = i + 1, .largest = largest[i]};
		pthread_t threads[2];

		memset(&control, 0, sizeof(control));
		writer.at = writer.other = reader.at = reader.other = 0;
		assert_int_equal(pthread_create(&threads[0], NULL, write_all, &s), 0);
		assert_int_equal(pthread_create(&threads[1], NULL, read_all, &s), 0);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		assert_int_equal(s.wrong, 0);
	}
}

/* One byte there and back, each end asleep when it comes. */
static struct ck_pipe_control back_control;
static struct ck_pipe back_writer, back_reader;

static void *echo(void *arg)
{
	unsigned char byte;

	pauses = 77;
	for (int i = 0; i < 2000; i++) {
		while (test_filled(&reader) == 0)
			test_sleep_filled(&reader, LONG_MS);
		test_take(&reader, &byte, 1);
		test_put(&back_writer, &byte, 1);
		test_publish(&back_writer);
	}
	return arg;
}

static void two_ends_that_wait_for_each_other_go_on(void **state)
{
	static unsigned char memory[2 * SIZE];
	unsigned char byte, got;
	pthread_t thread;

	(void)state;
	memset(&back_control, 0, sizeof(back_control));
	back_writer = back_reader =
		(struct ck_pipe){.control = &back_control, .data = memory, .size = SIZE};
	assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
	pauses = 5;
	for (int i = 0; i < 2000; i++) {
		byte = (unsigned char)i;
		test_put(&writer, &byte, 1);
		test_publish(&writer);
		while (test_filled(&back_reader) == 0)
			test_sleep_filled(&back_reader, LONG_MS);
		test_take(&back_reader, &got, 1);
		assert_int_equal(got, byte);
	}
	pthread_join(thread, NULL);
}

/* A reader of two threads: one looks for a while, again and again; the other takes over when no
 * thread looks, and sleeps meanwhile. As commands and lanes of a session do. */
static struct {
	atomic_bool looked, asleep, busy, over;
	uint64_t out;
	size_t wrong;
} turns;

static bool take_one(void)
{
	bool any;

	if (atomic_exchange(&turns.busy, true))
		return false;
	any = test_filled(&reader) > 0;
	if (any)
		turns.wrong += wrong_bytes(&turns.out, 1);
	if (turns.out == BYTES / 64)
		turns.over = true;
	atomic_store(&turns.busy, false);
	return any;
}

static bool is_due(void)
{
	return turns.over || (!turns.looked && test_holds(&reader));
}

static void *take_over(void *arg)
{
	struct stress *s = arg;

	pauses = 99;
	while (!turns.over) {
		uint64_t begun = (uint64_t)time(NULL);

		atomic_store(&turns.asleep, true);
		for (;;) {
			uint32_t mark;

			if (!turns.looked)
				test_arm(&reader);
			mark = test_mark(&reader);
			pause_sometimes();
			if (is_due())
				break;
			test_doze(&reader, mark, LONG_MS);
		}
		atomic_store(&turns.asleep, false);
		test_disarm(&reader);
		slept_well(s, begun);
		take_one();
	}
	return NULL;
}

static void *look(void *arg)
{
	unsigned int seed = 4;

	pauses = 55;
	while (!turns.over) {
		atomic_store(&turns.looked, true);
		if (turns.asleep)
			test_disarm(&reader);
		for (unsigned int n = next_random(&seed) % 50; n > 0 && !turns.over; n--)
			take_one();
		pause_sometimes();
		atomic_store(&turns.looked, false);
		if (turns.asleep) {
			test_arm(&reader);
			pause_sometimes();
			if (is_due())
				test_wake(&reader);
		}
		pause_sometimes();
	}
	if (turns.asleep) {
		test_arm(&reader);
		test_wake(&reader);
	}
	return arg;
}

static void no_byte_waits_while_a_reader_sleeps_and_no_thread_looks(void **state)
{
	struct stress s = {.seed = 3};
	pthread_t threads[2];
	uint64_t in = 0;

	(void)state;
	memset(&turns, 0, sizeof(turns));
	assert_int_equal(pthread_create(&threads[0], NULL, take_over, &s), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, look, NULL), 0);
	pauses = 7;
	while (in < BYTES / 64) {
		if (test_room(&writer) == 0) {
			test_sleep_room(&writer, LONG_MS);
			continue;
		}
		put_bytes(&in, 1);
		test_publish(&writer);
		pause_sometimes();
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(s.wrong + turns.wrong, 0);
	assert_int_equal(turns.out, BYTES / 64);
}

static void places_that_cannot_be_are_refused(void **state)
{
	uint64_t in = 0;

	(void)state;
	control.written = SIZE + 1; /* more than fits */
	assert_int_equal(test_filled(&reader), -EPROTO);
	assert_int_equal(test_sleep_filled(&reader, LONG_MS), -EPROTO);
	control.written = (uint64_t)-1; /* less than was there */
	assert_int_equal(test_filled(&reader), -EPROTO);
	control.written = SIZE;
	assert_int_equal(test_filled(&reader), SIZE);
	put_bytes(&in, SIZE);
	control.taken = SIZE + 1; /* more than we have written */
	assert_int_equal(test_room(&writer), -EPROTO);
	assert_int_equal(test_sleep_room(&writer, LONG_MS), -EPROTO);
	control.taken = 100;
	assert_int_equal(test_room(&writer), 100);
	control.taken = 99; /* going back */
	assert_int_equal(test_room(&writer), -EPROTO);
}

static atomic_bool enough;

static void *scribble(void *arg)
{
	unsigned int seed = 11;

	while (!enough) {
		control.written = (uint64_t)next_random(&seed) << (next_random(&seed) % 40);
		control.taken = (uint64_t)next_random(&seed) << (next_random(&seed) % 40);
		control.reader_sleeps = next_random(&seed);
		control.writer_sleeps = next_random(&seed);
	}
	return arg;
}

static void a_hostile_end_makes_no_reader_leave_the_pipe(void **state)
{
	unsigned char bytes[SIZE];
	pthread_t thread;
	long n;

	(void)state;
	enough = false;
	assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
	for (int i = 0; i < 200000; i++) {
		n = test_filled(&reader);
		assert_true(n == -EPROTO || (n >= 0 && n <= (long)SIZE));
		if (n > 0)
			test_take(&reader, bytes, (size_t)n);
		n = test_room(&writer);
		assert_true(n == -EPROTO || (n >= 0 && n <= (long)SIZE));
		if (n > 0)
			test_put(&writer, bytes, (size_t)n);
	}
	enough = true;
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_keep_their_order_over_every_seam, begin, end),
		cmocka_unit_test_setup_teardown(a_full_pipe_takes_no_more_until_it_is_read, begin,
						end),
		cmocka_unit_test_setup_teardown(no_wakeup_is_lost_at_any_interleaving, begin, end),
		cmocka_unit_test_setup_teardown(two_ends_that_wait_for_each_other_go_on, begin,
						end),
		cmocka_unit_test_setup_teardown(
			no_byte_waits_while_a_reader_sleeps_and_no_thread_looks, begin, end),
		cmocka_unit_test_setup_teardown(places_that_cannot_be_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(a_hostile_end_makes_no_reader_leave_the_pipe, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
