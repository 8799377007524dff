/*
 * tests/unit/test_client_command.c - the ordered stream of one-way messages, read at its other
 * end: nothing is lost, changed or out of order, and a reader that goes stops nobody.
 *
 * A process has one such stream, so each test runs in a process of its own.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "client/wire/command.h"
#include "client/wire/status.h"
#include "rpc/status.h"
#include "tests/unit/client_peer.h"
#include "tests/unit/rpc_ends.h"
#include "util/until.h"

#define TEST_SECONDS 120 /* a test that hangs is ended by its alarm */
#define PATTERN (4u << 20)
#define MAX_PAYLOAD (3u << 20)
#define THREADS 8

static const size_t sizes[] = {
	0, 1, 3, 16 << 10, 17 << 10, MAX_PAYLOAD, (16 << 10) - 1, (17 << 10) + 1};
#define LARGEST 5 /* of these */

static unsigned char *pattern; /* what payloads are cut from */
static struct ck_reader *reader;
static int reader_fd;
static _Atomic uint64_t arrived; /* messages read */
static _Atomic int sigpipes;
static bool shared; /* the stream goes through shared memory, not a socket */

static void on_sigpipe(int signal)
{
	(void)signal;
	sigpipes++;
}

static void fill_pattern(void)
{
	uint64_t random = 7;

	pattern = malloc(PATTERN);
	for (size_t i = 0; i < PATTERN; i += 8) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		memcpy(pattern + i, &random, 8);
	}
}

#define RING (1u << 20)

/* Both ends; the client's has become the command stream. */
static int begin(void **state)
{
	struct ck_chan *client, *server;
	int fds[2];

	(void)state;
	fill_pattern();
	signal(SIGPIPE, on_sigpipe);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0 || ck_chan_adopt(fds[0], &client) < 0 ||
	    ck_chan_adopt(fds[1], &server) < 0 || ck_reader_create(server, &reader) < 0)
		return -1;
	reader_fd = fds[1];
	if (shared)
		assert_true(rings_agree(client, server, RING, true));
	ckc_client_current()->initialized = true;
	ckc_client_current()->state = CK_STATE_READY;
	return ckc_command_start(ckc_client_current(), client, true);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void nap(long microseconds)
{
	struct timespec ts = {microseconds / 1000000, microseconds % 1000000 * 1000};

	nanosleep(&ts, NULL);
}

/* --- messages that say what they are: thread, number in the thread, size of the payload */

static uint64_t name_of(unsigned int thread, unsigned int i, unsigned int kind)
{
	return (uint64_t)thread << 48 | (uint64_t)i << 16 | kind;
}

static const unsigned char *cut(uint64_t name)
{
	return pattern + name * 2654435761u % (PATTERN - MAX_PAYLOAD);
}

/* Kinds: the sizes of payload, and behind them a message that can have none. */
#define KINDS (CK_ARRAY_SIZE(sizes) + 1)

static CUresult send_one(unsigned int thread, unsigned int i, unsigned int kind,
			 unsigned char *scratch)
{
	uint64_t name = name_of(thread, i, kind);
	CUresult err;

	if (kind == KINDS - 1)
		return ck_wire_cuMemFree_v2(thread + 1, name);
	memcpy(scratch, cut(name), sizes[kind]);
	err = ck_wire_upload(thread + 1, name, 5, 0, scratch, sizes[kind]);
	memset(scratch, 0xee, sizes[kind]); /* it is the caller's again */
	return err;
}

static void check_one(const struct peer_message *m, uint64_t seq, unsigned int *next)
{
	const ck_upload_args *upload = m->args;
	const cuMemFree_v2_args *no_payload = m->args;
	bool bulk = m->number == CK_PROC_upload;
	uint64_t name = bulk ? upload->dst : no_payload->dptr;
	unsigned int thread = (unsigned int)(name >> 48), kind = (unsigned int)(name & 0xffff);

	peer_check(bulk || m->number == CK_PROC_cuMemFree_v2);
	peer_check(peer_seq(m) == seq && m->xid == (uint32_t)seq);
	peer_check(upload->head.ctx == thread + 1);
	peer_check((name >> 16 & 0xffffffff) == next[thread]++);
	peer_check(kind < KINDS && bulk == (kind != KINDS - 1));
	peer_check(!bulk || (upload->stream == 5 && m->bulk_size == sizes[kind]));
	peer_check(!bulk || memcmp(m->bulk, cut(name), m->bulk_size) == 0);
}

struct reading {
	_Atomic uint64_t count; /* messages to read */
	long pause;		/* microseconds before each */
	pthread_t thread;
};

static void *read_them(void *arg)
{
	struct reading *r = arg;
	unsigned int next[THREADS] = {0};

	for (uint64_t seq = 1; seq <= r->count; seq++) {
		struct peer_message m;

		if (r->pause)
			nap(r->pause);
		peer_check(peer_read(reader, &m) == 0);
		check_one(&m, seq, next);
		peer_free(&m);
		atomic_store(&arrived, seq);
	}
	return NULL;
}

static void start_reading(struct reading *r)
{
	assert_int_equal(pthread_create(&r->thread, NULL, read_them, r), 0);
}

static void assert_all_read(struct reading *r)
{
	double limit = seconds() + 60;

	while (arrived < r->count && seconds() < limit)
		nap(1000);
	assert_int_equal(arrived, r->count);
	pthread_join(r->thread, NULL);
	assert_int_equal(ckc_command_last(), r->count);
}

/* The same for a thread that reads on and on, after @n messages: it ends with one more. */
static void end_reading(struct reading *r, unsigned int n)
{
	r->count = n + 1;
	assert_int_equal(send_one(0, n, KINDS - 1, NULL), CUDA_SUCCESS);
	ckc_command_flush(ckc_client_current());
	assert_all_read(r);
}

/* --- order */

static void one_thread_s_messages_keep_order_number_and_payload(void **state)
{
	struct reading r = {.count = 20 * KINDS * KINDS};
	unsigned char *scratch = malloc(MAX_PAYLOAD);
	unsigned int n = 0;

	(void)state;
	start_reading(&r);
	for (int round = 0; round < 10; round++) { /* each kind behind each other */
		for (unsigned int a = 0; a < KINDS; a++) {
			for (unsigned int b = 0; b < KINDS; b++) {
				assert_int_equal(send_one(0, n++, a, scratch), CUDA_SUCCESS);
				assert_int_equal(send_one(0, n++, b, scratch), CUDA_SUCCESS);
			}
		}
	}
	assert_all_read(&r);
	free(scratch);
}

#define EACH 2000

static void *send_many(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg;
	uint64_t random = thread;
	unsigned char *scratch = malloc(MAX_PAYLOAD);

	for (unsigned int i = 0; i < EACH; i++) {
		unsigned int kind;

		random = random * 6364136223846793005u + 1442695040888963407u;
		kind = (unsigned int)(random >> 33) % KINDS;
		if (kind == LARGEST && (random >> 50) % 16) /* few of the large ones */
			kind = KINDS - 1;
		peer_check(send_one(thread, i, kind, scratch) == CUDA_SUCCESS);
		if ((random >> 55) % 64 == 0)
			ckc_command_flush(ckc_client_current());
	}
	free(scratch);
	return NULL;
}

static void send_from_threads(struct reading *r)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_many, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_all_read(r);
}

static void the_messages_of_threads_come_whole_and_numbered_without_gaps(void **state)
{
	struct reading r = {.count = THREADS * EACH};

	(void)state;
	start_reading(&r);
	send_from_threads(&r);
}

static void a_reader_that_is_slow_loses_nothing(void **state)
{
	struct reading r = {.count = THREADS * EACH, .pause = 20};

	(void)state;
	start_reading(&r);
	send_from_threads(&r);
}

/* --- back-pressure */

static _Atomic unsigned int sent;
#define FLOOD 4000 /* times 16 KiB: far more than all buffers hold */

static void *flood(void *arg)
{
	unsigned char *scratch = malloc(MAX_PAYLOAD);

	for (unsigned int i = 0; i < FLOOD; i++) {
		peer_check(send_one(0, i, 3, scratch) == CUDA_SUCCESS);
		sent = i + 1;
	}
	free(scratch);
	return arg;
}

static void a_reader_that_does_not_read_holds_the_sender_back(void **state)
{
	struct reading r = {.count = FLOOD};
	unsigned int was;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, flood, NULL), 0);
	do {
		was = sent;
		nap(300000);
	} while (sent != was);
	assert_true(sent > 0 && sent < FLOOD); /* buffers are full, and bounded */
	start_reading(&r);
	pthread_join(thread, NULL);
	assert_all_read(&r);
}

/* --- the reader goes */

static _Atomic unsigned int in_time;

/* Send until it fails, and then more. */
static void *send_to_the_end(void *arg)
{
	unsigned int thread = (unsigned int)(uintptr_t)arg, i = 0;
	unsigned char *scratch = malloc(MAX_PAYLOAD);
	CUresult err;

	do {
		err = send_one(thread, i, i % KINDS, scratch);
		i++;
	} while (err == CUDA_SUCCESS);
	peer_check(err == CUDA_ERROR_DEVICE_UNAVAILABLE);
	for (unsigned int more = 0; more < 100; more++)
		peer_check(send_one(thread, i, more % KINDS, scratch) ==
			   CUDA_ERROR_DEVICE_UNAVAILABLE);
	free(scratch);
	in_time++;
	return NULL;
}

static void start_senders(pthread_t *threads)
{
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_to_the_end, (void *)i), 0);
}

static void assert_senders_end(pthread_t *threads)
{
	double limit = seconds() + 20;

	while (in_time < THREADS && seconds() < limit)
		nap(1000);
	assert_int_equal(in_time, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ckc_command_flush(ckc_client_current());
	ckc_command_stop(ckc_client_current());
	assert_int_equal(ckc_client_current()->state, CK_STATE_LOST);
	assert_int_equal(sigpipes, 0);
}

static void a_reader_that_closes_between_messages_ends_every_send(void **state)
{
	struct reading r = {.count = 500};
	pthread_t threads[THREADS];

	(void)state;
	start_reading(&r);
	start_senders(threads);
	pthread_join(r.thread, NULL);
	close(reader_fd);
	assert_senders_end(threads);
}

static void a_reader_that_closes_inside_a_payload_ends_every_send(void **state)
{
	unsigned char *piece = malloc(1u << 20);
	pthread_t threads[THREADS];

	(void)state;
	start_senders(threads);
	for (size_t left = 10u << 20; left > 0;) { /* into the first large payloads */
		ssize_t n = read(reader_fd, piece, left < 1u << 20 ? left : 1u << 20);

		assert_true(n > 0);
		left -= (size_t)n;
	}
	close(reader_fd);
	assert_senders_end(threads);
	free(piece);
}

static void senders_that_are_held_back_end_when_the_reader_closes(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	start_senders(threads);
	nap(500000);
	assert_int_equal(in_time, 0);
	close(reader_fd);
	assert_senders_end(threads);
}

static void senders_that_are_held_back_end_when_the_session_is_lost(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	start_senders(threads);
	nap(500000);
	assert_int_equal(in_time, 0);
	ckc_session_lost(ckc_client_current(),
			 "a test says so"); /* as a call does whose lane breaks */
	assert_senders_end(threads);
}

static void an_idle_client_learns_of_a_closed_reader_within_two_sends(void **state)
{
	unsigned char scratch[4];
	double limit = seconds() + 60;

	(void)state;
	assert_int_equal(send_one(0, 0, 2, scratch), CUDA_SUCCESS);
	nap(100000);
	close(reader_fd);
	send_one(0, 1, 2, scratch); /* this one may still have been taken */
	while (ckc_client_current()->state != CK_STATE_LOST && seconds() < limit)
		nap(1000);
	assert_int_equal(send_one(0, 2, 2, scratch), CUDA_ERROR_DEVICE_UNAVAILABLE);
	assert_int_equal(sigpipes, 0);
}

/* --- a lone message */

#define LONE_SECONDS 15 /* as many messages as the machine sends in this time, or all of them */
#define ACTIVE_NS 200000

/* Wait, actively at first: the next message shall come at a chosen moment. False: the message does
 * not come at all. On a machine with much to do, the threads of the stream may get no processor for
 * seconds. */
static bool arrives(uint64_t seq)
{
	double begin = seconds();

	while (arrived < seq) {
		double waited = seconds() - begin;

		if (waited > TEST_SECONDS / 2)
			return false;
		if (waited > ACTIVE_NS * 1e-9)
			nap(100);
	}
	return true;
}

/* Messages close together wake the sending thread, which looks for more for a while before it
 * sleeps again: a message may come at any moment of that. */
static void a_lone_message_arrives_without_a_flush(void **state)
{
	struct reading r = {.count = 60000};
	uint64_t random = 1;
	double until, end = seconds() + LONE_SECONDS;

	(void)state;
	start_reading(&r);
	for (unsigned int i = 0; i < r.count; i += 3) {
		if (seconds() > end)
			r.count = i + 3;
		assert_int_equal(send_one(0, i, KINDS - 1, NULL), CUDA_SUCCESS);
		assert_int_equal(send_one(0, i + 1, KINDS - 1, NULL), CUDA_SUCCESS);
		if (!arrives(i + 2))
			fail_msg("message %u stays in the client", i + 2);
		random = random * 6364136223846793005u + 1442695040888963407u;
		until = seconds() + (double)((random >> 33) % 40000) * 1e-9;
		while (seconds() < until)
			;
		assert_int_equal(send_one(0, i + 2, KINDS - 1, NULL), CUDA_SUCCESS);
		if (!arrives(i + 3))
			fail_msg("message %u stays in the client", i + 3);
	}
	assert_all_read(&r);
}

/* --- who writes */

#define PAUSE_NS 40000 /* more than between the messages of a storm */

static void pause_actively(void)
{
	double until = seconds() + PAUSE_NS * 1e-9;

	while (seconds() < until)
		;
}

static bool sender_sleeps(void)
{
	struct ckc_command *cmd = &ckc_client_current()->command;
	bool sleeps;

	ck_lock(&cmd->lock);
	sleeps = cmd->sender_sleeps;
	ck_unlock(&cmd->lock);
	return sleeps;
}

static void await_sleep_of_the_sender(void)
{
	double limit = seconds() + 60;

	while (!sender_sleeps() && seconds() < limit)
		nap(1000);
	assert_true(sender_sleeps());
}

/* Are there bytes that are left to the sender? It does not sleep then. */
static bool bytes_are_left(void)
{
	struct ckc_command *cmd = &ckc_client_current()->command;
	bool left;

	ck_lock(&cmd->lock);
	left = cmd->len > 0 && !cmd->writing;
	ck_unlock(&cmd->lock);
	return left;
}

/* On a busy machine a pause may be so long that the messages are no burst. */
static void a_burst_without_a_wait_is_left_to_the_sender(void **state)
{
	struct reading r = {.count = UINT64_MAX};
	double limit = seconds() + 60;
	unsigned int n = 0, left = 0;

	(void)state;
	start_reading(&r);
	while (left == 0 && seconds() < limit) {
		await_sleep_of_the_sender();
		for (unsigned int i = 0; i < 8; i++) {
			assert_int_equal(send_one(0, n++, KINDS - 1, NULL), CUDA_SUCCESS);
			left += bytes_are_left();
			pause_actively();
		}
	}
	assert_true(left > 0);
	end_reading(&r, n);
}

static void a_thread_that_waits_writes_by_itself(void **state)
{
	struct reading r = {.count = UINT64_MAX};

	(void)state;
	start_reading(&r);
	await_sleep_of_the_sender();
	for (unsigned int i = 0; i < 400; i++) {
		assert_int_equal(send_one(0, i, KINDS - 1, NULL), CUDA_SUCCESS);
		assert_false(bytes_are_left());
		if (i % 3 == 2)
			ckc_command_flush(ckc_client_current());
		pause_actively();
	}
	assert_true(sender_sleeps());
	end_reading(&r, 400);
}

static void a_query_sends_what_is_buffered(void **state)
{
	static struct ck_status_file file;
	struct ckc_client *c = ckc_client_current();
	struct reading r = {.count = UINT64_MAX};
	struct ckc_watch watch = {.number = 1, .of = 1};

	(void)state;
	start_reading(&r);
	atomic_store(&c->watches.file, &file);
	for (unsigned int i = 0; i < 3000; i++) {
		assert_int_equal(send_one(0, i, KINDS - 1, NULL), CUDA_SUCCESS);
		watch.asked_ns = ck_now_ns();
		if (ckc_status_look(c, &watch, 1) == CK_STATUS_PENDING)
			assert_false(bytes_are_left());
	}
	end_reading(&r, 3000);
}

/* --- what cannot be sent */

static void a_message_that_cannot_be_encoded_is_refused_and_takes_no_number(void **state)
{
	struct reading r = {.count = 4};
	char *name = malloc(CK_STRING_MAX + 2);
	unsigned char scratch[4];

	(void)state;
	start_reading(&r);
	memset(name, 'x', CK_STRING_MAX + 1);
	name[CK_STRING_MAX + 1] = '\0';
	assert_int_equal(send_one(0, 0, 1, scratch), CUDA_SUCCESS);
	assert_int_equal(ck_wire_function(1, 20, 21, name), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_one(0, 1, 2, scratch), CUDA_SUCCESS);
	assert_int_equal(
		ck_wire_launch(&(ck_launch_args){.head.ctx = 1,
						 .function = 20,
						 .gx = 1,
						 .gy = 1,
						 .gz = 1,
						 .bx = 1,
						 .by = 1,
						 .bz = 1,
						 .params = CK_LIST(pattern, 2 * CK_RECORD_MAX)}),
		CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_one(0, 2, 2, scratch), CUDA_SUCCESS);
	assert_int_equal(ck_wire_upload(1, 20, 0, 0, pattern, 0x7fffffff), /* not touched */
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_one(0, 3, KINDS - 1, scratch), CUDA_SUCCESS);
	assert_all_read(&r);
	free(name);
}

static void *count_them(void *arg)
{
	struct reading *r = arg;
	struct peer_message m;

	for (uint64_t seq = 1; seq <= r->count; seq++) {
		peer_check(peer_read(reader, &m) == 0 && peer_seq(&m) == seq);
		peer_free(&m);
		atomic_store(&arrived, seq);
	}
	return NULL;
}

/* Around the length of the longest record; the buffer holds its mark, too. */
static void the_longest_message_goes_out(void **state)
{
	const size_t most = CK_RECORD_MAX - (CK_CALL_HEADER - 4) - 32; /* head, three numbers */
	struct reading r = {.count = 9};
	size_t size = most - 32;

	(void)state;
	assert_int_equal(pthread_create(&r.thread, NULL, count_them, &r), 0);
	for (; size < most + 32; size += 4)
		assert_int_equal(ck_wire_stream_operations(1, 5, pattern, size, 0),
				 size <= most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	assert_all_read(&r);
}

/* --- */

static int run_alone(const struct CMUnitTest *test)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int failed;

		alarm(TEST_SECONDS);
		failed = _cmocka_run_group_tests(test->name, test, 1, begin, session_end);
		fflush(stdout);
		_exit(failed);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		printf("%s ended by signal %d\n", test->name, WTERMSIG(status));
		return 1;
	}
	return WEXITSTATUS(status) != 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_s_messages_keep_order_number_and_payload),
		cmocka_unit_test(the_messages_of_threads_come_whole_and_numbered_without_gaps),
		cmocka_unit_test(a_reader_that_is_slow_loses_nothing),
		cmocka_unit_test(a_reader_that_does_not_read_holds_the_sender_back),
		cmocka_unit_test(a_reader_that_closes_between_messages_ends_every_send),
		cmocka_unit_test(senders_that_are_held_back_end_when_the_reader_closes),
		cmocka_unit_test(senders_that_are_held_back_end_when_the_session_is_lost),
		cmocka_unit_test(a_lone_message_arrives_without_a_flush),
		cmocka_unit_test(a_message_that_cannot_be_encoded_is_refused_and_takes_no_number),
		cmocka_unit_test(the_longest_message_goes_out),
	};
	const struct CMUnitTest socket_tests[] = {
		cmocka_unit_test(a_reader_that_closes_inside_a_payload_ends_every_send),
		cmocka_unit_test(an_idle_client_learns_of_a_closed_reader_within_two_sends),
		cmocka_unit_test(a_burst_without_a_wait_is_left_to_the_sender),
		cmocka_unit_test(a_thread_that_waits_writes_by_itself),
		cmocka_unit_test(a_query_sends_what_is_buffered),
	};
	int failed = 0;

	for (size_t i = 0; i < 2 * CK_ARRAY_SIZE(tests); i++) {
		shared = i % 2;
		printf("%s:\n", shared ? "in shared memory" : "through a socket");
		failed += run_alone(&tests[i / 2]);
	}
	shared = false;
	for (size_t i = 0; i < CK_ARRAY_SIZE(socket_tests); i++)
		failed += run_alone(&socket_tests[i]);
	return failed;
}
