/*
 * tests/unit/test_rpc_splice.c - bytes that the kernel sends from where they are: they arrive as
 * they were, and what cannot be sent in this way is left to be copied.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "rpc_ends.h"
#include "rpc/lasting.h"
#include "rpc/transport/splice.h"
#include "util/util.h"

#define MIB ((size_t)1 << 20)
#define PAGE 4096

static struct ck_chan *ends[2];
static unsigned char *bytes, *got; /* of the longest transfer */

static int begin(void **state)
{
	(void)state;
	connect_pair("tcp://127.0.0.1:0", "tcp://127.0.0.1", ends);
	bytes = malloc(33 * MIB);
	got = malloc(33 * MIB);
	for (size_t i = 0; i < 33 * MIB; i++)
		bytes[i] = (unsigned char)(i * 7 + i / 4099);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (ends[i])
			ck_chan_close(ends[i]);
	}
	free(bytes);
	free(got);
	return 0;
}

/* A filter of this machine may not permit the calls. */
static bool works(void)
{
	struct ck_splice s = {.open = false};
	long n = ck_splice_send(&s, ends[0], bytes, CK_SPLICE_LEAST);

	ck_splice_close(&s);
	if (n > 0)
		assert_int_equal(ck_chan_read(ends[1], got, (size_t)n), 0);
	return n == CK_SPLICE_LEAST;
}

struct reading {
	pthread_t thread;
	size_t size;
	int ret;
};

static void *read_all(void *reading)
{
	struct reading *r = reading;

	r->ret = ck_chan_read(ends[1], got, r->size);
	return NULL;
}

/* Send @size bytes from @at on, and compare what arrives. */
static void send_and_compare(size_t at, size_t size)
{
	struct ck_splice s = {.open = false};
	struct reading r = {.size = size};

	memset(got, 0, size);
	assert_int_equal(pthread_create(&r.thread, NULL, read_all, &r), 0);
	assert_int_equal(ck_splice_send(&s, ends[0], bytes + at, size), size);
	pthread_join(r.thread, NULL);
	ck_splice_close(&s);
	assert_int_equal(r.ret, 0);
	assert_memory_equal(got, bytes + at, size);
}

static void bytes_arrive_as_they_were(void **state)
{
	static const size_t sizes[] = {CK_SPLICE_LEAST, MIB, MIB + 1, 5 * MIB + 4097, 32 * MIB};
	static const size_t offsets[] = {0, 1, 16, PAGE - 1};

	(void)state;
	if (!works())
		skip();
	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		for (size_t j = 0; j < CK_ARRAY_SIZE(offsets); j++)
			send_and_compare(offsets[j], sizes[i]);
	}
}

static _Atomic unsigned int alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static void signals_of_the_program_interrupt_nothing(void **state)
{
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = count_alarm}, was;

	(void)state;
	if (!works())
		skip();
	sigaction(SIGALRM, &action, &was);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 20; i++)
		send_and_compare(3, 32 * MIB);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &was, NULL);
	assert_true(alarms > 0);
}

/* The default action of SIGPIPE would end this program. */
static void a_peer_that_goes_raises_no_signal(void **state)
{
	struct ck_splice s = {.open = false};
	long n = 0;

	(void)state;
	if (!works())
		skip();
	ck_chan_close(ends[1]);
	ends[1] = NULL;
	for (int i = 0; i < 10 && n >= 0; i++)
		n = ck_splice_send(&s, ends[0], bytes, 4 * MIB);
	assert_true(n == -EPIPE || n == -ECONNRESET);
	assert_int_equal(ck_splice_send(&s, ends[0], bytes, 4 * MIB), 0); /* not tried again */
	ck_splice_close(&s);
}

static void a_pending_signal_stays(void **state)
{
	struct ck_splice s = {.open = false};
	sigset_t pipe, was, pending;
	long n = 0;

	(void)state;
	if (!works())
		skip();
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &was);
	raise(SIGPIPE);
	ck_chan_shutdown(ends[0]);
	n = ck_splice_send(&s, ends[0], bytes, 4 * MIB);
	ck_splice_close(&s);
	assert_true(n < 0);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 1);
	sigwaitinfo(&pipe, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
}

static void what_is_no_memory_is_left_to_a_copy(void **state)
{
	struct ck_splice s = {.open = false};
	unsigned char *at =
		mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (!works())
		skip();
	assert_ptr_not_equal(at, MAP_FAILED);
	memset(at, 'x', 2 * MIB);
	assert_int_equal(mprotect(at + 64 * PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(ck_splice_send(&s, ends[0], at, 2 * MIB), 64 * PAGE);
	assert_int_equal(ck_chan_read(ends[1], got, 64 * PAGE), 0);
	assert_memory_equal(got, at, 64 * PAGE);
	munmap(at, 2 * MIB);
	/* the next transfer is tried */
	assert_int_equal(ck_splice_send(&s, ends[0], bytes, CK_SPLICE_LEAST), CK_SPLICE_LEAST);
	ck_splice_close(&s);
}

static void without_descriptors_bytes_are_left_to_a_copy(void **state)
{
	struct ck_splice s = {.open = false};
	struct rlimit was, none;
	long n;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &was);
	none = (struct rlimit){0, was.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	n = ck_splice_send(&s, ends[0], bytes, MIB);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(n, 0);
	assert_true(s.failed);
	ck_splice_close(&s);
}

/* Lend bytes on a lasting channel, change them before the peer reads, and see which ones come. */
static unsigned char sent_after_change(bool pages)
{
	struct ck_chan *lasting[2];
	struct iovec iov[2] = {{bytes, 100}, {bytes + PAGE, 2 * CK_SPLICE_LEAST}};
	unsigned char was = bytes[2 * PAGE], seen;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ck_lasting_create("peer", NULL, CK_LASTING_LIMIT, &lasting[i]), 0);
		assert_int_equal(ck_lasting_attach(lasting[i], ends[i], 0, false), 0);
		ends[i] = NULL; /* the channel's */
	}
	if (pages)
		ck_chan_lend_pages(lasting[0]);
	assert_int_equal(ck_chan_lend(lasting[0], iov, 2, 1), 0);
	bytes[2 * PAGE] = (unsigned char)~was;
	assert_int_equal(ck_chan_read(lasting[1], got, 100 + 2 * CK_SPLICE_LEAST), 0);
	seen = got[100 + PAGE];
	bytes[2 * PAGE] = was;
	got[100 + PAGE] = was;
	assert_memory_equal(got, bytes, 100);
	assert_memory_equal(got + 100, bytes + PAGE, 2 * CK_SPLICE_LEAST);
	ck_chan_reclaim(lasting[0]);
	for (int i = 0; i < 2; i++)
		ck_chan_close(lasting[i]);
	return seen;
}

static void lent_pages_are_not_copied(void **state)
{
	unsigned char was = bytes[2 * PAGE];

	(void)state;
	if (!works())
		skip();
	assert_int_equal(sent_after_change(true), (unsigned char)~was);
}

/* A server's slots are used again as soon as their bytes are kept elsewhere. */
static void other_lent_bytes_are_copied(void **state)
{
	unsigned char was = bytes[2 * PAGE];

	(void)state;
	assert_int_equal(sent_after_change(false), was);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bytes_arrive_as_they_were),
		TEST(signals_of_the_program_interrupt_nothing),
		TEST(a_peer_that_goes_raises_no_signal),
		TEST(a_pending_signal_stays),
		TEST(what_is_no_memory_is_left_to_a_copy),
		TEST(without_descriptors_bytes_are_left_to_a_copy),
		TEST(lent_pages_are_not_copied),
		TEST(other_lent_bytes_are_copied),
	};

	return cmocka_run_group_tests_name("rpc/splice", tests, NULL, NULL);
}
