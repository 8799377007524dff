/*
 * tests/unit/test_wcm_rendezvous.c - the meeting place of ranks: who is let in, and what somebody
 * does who does not keep to the protocol. No CUDA.
 */
#include "tests/unit/wcm_world.h"
#include "util/until.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "wcm/lib.h"
#include "wcm/link.h"
#include "wcm/message.h"
#include "wcm/rendezvous.h"

#define FEW 64 /* descriptors; poll refuses more entries than there may be */
#define ok(call) assert_int_equal(call, 0)

static char name[WCM_GROUP_NAME_MAX];
static struct ck_wcm_rendezvous *place;
static int lost, released; /* bits; how often */

static void on_released(void *data, uint64_t number, uint32_t ranks)
{
	(void)data;
	(void)number;
	(void)ranks;
	__atomic_fetch_add(&released, 1, __ATOMIC_SEQ_CST);
}

static void on_lost(void *data, uint32_t ranks)
{
	(void)data;
	__atomic_fetch_or(&lost, (int)ranks, __ATOMIC_SEQ_CST);
}

static const struct ck_wcm_link_ops ops = {on_released, on_lost};

static int setup(void **state)
{
	static int count;

	(void)state;
	lost = released = 0;
	snprintf(name, sizeof(name), "meet-%d-%d", (int)getpid(), ++count);
	return ck_wcm_rendezvous_open(name, 3, 1000, &place);
}

static int teardown(void **state)
{
	(void)state;
	ck_wcm_rendezvous_stop(place);
	return 0;
}

static struct ck_wcm_link *join(int rank)
{
	struct ck_wcm_link *l = NULL;

	ok(ck_wcm_link_open(name, rank, 3, 20000, &ops, NULL, &l));
	return l;
}

/* The rank's part of a barrier of @mask, in a thread. */
struct part {
	struct ck_wcm_link *link;
	uint32_t mask;
	int status;
	pthread_t thread;
};

static void *part_main(void *data)
{
	struct part *p = data;
	char byte = 1, all[RANKS];
	struct ck_wcm_exchange x = {
		.mask = p->mask, .give = &byte, .size = 1, .give_fd = -1, .all = all};

	p->status = ck_wcm_link_exchange(p->link, &x);
	return NULL;
}

static void part_begin(struct part *p, struct ck_wcm_link *link, uint32_t mask)
{
	*p = (struct part){.link = link, .mask = mask, .status = 99};
	assert_int_equal(pthread_create(&p->thread, NULL, part_main, p), 0);
}

static int part_end(struct part *p)
{
	pthread_join(p->thread, NULL);
	return p->status;
}

static void a_rank_comes_once_and_the_name_is_taken(void **state)
{
	struct ck_wcm_link *first, *second, *none = NULL;
	struct ck_wcm_rendezvous *other = NULL;

	(void)state;
	first = join(0);
	second = join(1);
	assert_int_equal(ck_wcm_link_open(name, 1, 3, 5000, &ops, NULL, &none), WCM_EBUSY);
	assert_int_equal(ck_wcm_link_open(name, 2, 4, 5000, &ops, NULL, &none), WCM_EMISMATCH);
	assert_int_equal(ck_wcm_link_open(name, 3, 3, 5000, &ops, NULL, &none), WCM_EMISMATCH);
	assert_null(none);
	assert_int_equal(ck_wcm_rendezvous_open(name, 2, 1000, &other), -EADDRINUSE);
	ck_wcm_link_close(first);
	ck_wcm_link_close(second);
}

static void when_all_have_come_the_name_is_free(void **state)
{
	struct ck_wcm_link *l[3];
	struct ck_wcm_rendezvous *other = NULL;
	struct part parts[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		l[i] = join(i);
	for (int i = 0; i < 3; i++)
		part_begin(&parts[i], l[i], 7);
	for (int i = 0; i < 3; i++)
		assert_int_equal(part_end(&parts[i]), WCM_OK);
	ok(ck_wcm_rendezvous_open(name, 2, 1000, &other));
	ck_wcm_rendezvous_stop(other);
	for (int i = 0; i < 3; i++)
		ck_wcm_link_close(l[i]);
}

static void a_place_that_never_answers_is_waited_for_until_the_time_out(void **state)
{
	struct ck_wcm_link *l = NULL;
	double begin = world_seconds();
	char silent[WCM_GROUP_NAME_MAX];
	int listener;

	(void)state;
	snprintf(silent, sizeof(silent), "silent-%d", (int)getpid());
	listener = ck_wcm_listen(silent);
	assert_true(listener >= 0);
	assert_int_equal(ck_wcm_link_open(silent, 1, 3, 300, &ops, NULL, &l), WCM_ETIMEDOUT);
	assert_true(world_seconds() - begin >= 0.29);
	close(listener);
}

static double computed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Say hello as a rank does; 0: it is welcome. */
static int come_by_hand(uint32_t rank)
{
	static struct ck_wcm_packet p;
	struct ck_wcm_message hello;
	int fds[RANKS], sock = ck_wcm_dial(name);
	unsigned int count;

	ck_wcm_message_init(&hello, CK_WCM_HELLO);
	hello.rank = rank;
	hello.count = 3;
	return sock < 0 || ck_wcm_send(sock, &hello, NULL, 0, NULL, 0, 0) < 0 ||
	       ck_wcm_receive(sock, &p, fds, &count, 0) < 0 || p.head.status != WCM_OK;
}

static void who_comes_when_there_are_no_descriptors_waits_and_the_thread_sleeps(void **state)
{
	struct rlimit before, few;
	int go[2], taken[FEW], count = 0;
	double used;
	int64_t ms;
	char byte = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (pid == 0) /* without a thread: TSan allows none after this fork */
		_exit(read(go[0], &byte, 1) == 1 ? come_by_hand(1) : 2);
	world_sleep(100); /* the place of the test before gives its descriptors back */
	ok(getrlimit(RLIMIT_NOFILE, &before));
	few = (struct rlimit){FEW, before.rlim_max};
	ok(setrlimit(RLIMIT_NOFILE, &few));
	while (count < FEW && (taken[count] = dup(go[0])) >= 0)
		count++;
	assert_int_equal(write(go[1], &byte, 1), 1);
	world_sleep(100);
	ms = ck_now_ms();
	used = computed();
	world_sleep(500);
	used = computed() - used;
	ms = ck_now_ms() - ms;
	ok(setrlimit(RLIMIT_NOFILE, &before));
	while (count > 0)
		close(taken[--count]);
	assert_int_equal(world_status(pid), 0);
	assert_true(used * 1e3 < (double)ms / 10);
	close(go[0]);
	close(go[1]);
}

/* A packet that is none of ours is thrown away with its sender; nobody else is disturbed. */
static void strangers_that_talk_rubbish_are_shut_out(void **state)
{
	struct ck_wcm_link *l[3];
	struct ck_wcm_message m;
	struct part parts[3];
	char junk[3000];
	int socks[40];

	(void)state;
	l[0] = join(0);
	memset(junk, 0x5a, sizeof(junk));
	for (size_t i = 0; i < 40; i++) { /* more than there is room for, if they stay */
		socks[i] = ck_wcm_dial(name);
		assert_true(socks[i] >= 0);
		ck_wcm_message_init(&m, (enum ck_wcm_op)(i % 9));
		m.rank = (uint32_t)i * 0x1111111;
		m.size = i % 2 ? 0xffffffff : 0;
		m.mask = 0xffff;
		if (i % 3 == 0)
			send(socks[i], junk, i * 70 + 1, MSG_NOSIGNAL);
		else
			send(socks[i], &m, sizeof(m), MSG_NOSIGNAL);
	}
	for (size_t i = 0; i < 40; i++) {
		struct pollfd fd = {.fd = socks[i], .events = POLLIN};

		assert_int_equal(poll(&fd, 1, 20000), 1); /* an answer, or an end */
		close(socks[i]);
	}
	l[1] = join(1);
	l[2] = join(2);
	for (int i = 0; i < 3; i++)
		part_begin(&parts[i], l[i], 7);
	for (int i = 0; i < 3; i++)
		assert_int_equal(part_end(&parts[i]), WCM_OK);
	for (int i = 0; i < 3; i++)
		ck_wcm_link_close(l[i]);
}

/* Rank 2 by hand: let in, and then it sends @m. */
static int enter_by_hand(const struct ck_wcm_message *m)
{
	int sock = ck_wcm_dial(name), fds[RANKS];
	struct ck_wcm_message hello;
	struct ck_wcm_packet p;
	unsigned int count;

	assert_true(sock >= 0);
	ck_wcm_message_init(&hello, CK_WCM_HELLO);
	hello.rank = 2;
	hello.count = 3;
	ok(ck_wcm_send(sock, &hello, NULL, 0, NULL, 0, 0));
	ok(ck_wcm_receive(sock, &p, fds, &count, 0));
	assert_int_equal(p.head.status, WCM_OK);
	ok(ck_wcm_send(sock, m, NULL, 0, NULL, 0, 0));
	return sock;
}

static void check_bad_rank(const struct ck_wcm_message *m)
{
	struct ck_wcm_link *l[2] = {join(0), join(1)};
	struct part parts[2];
	int sock;

	part_begin(&parts[0], l[0], 7);
	sock = enter_by_hand(m);
	assert_int_equal(part_end(&parts[0]), WCM_EPEERLOST);
	for (int i = 0; i < 2; i++)
		part_begin(&parts[i], l[i], 3);
	for (int i = 0; i < 2; i++)
		assert_int_equal(part_end(&parts[i]), WCM_OK);
	assert_true(__atomic_load_n(&lost, __ATOMIC_SEQ_CST) & 4);
	close(sock);
	for (int i = 0; i < 2; i++)
		ck_wcm_link_close(l[i]);
}

static void a_rank_that_breaks_the_rules_is_lost(void **state)
{
	struct ck_wcm_message m;

	(void)state;
	ck_wcm_message_init(&m, CK_WCM_EXCHANGE);
	m.mask = 3; /* without itself */
	check_bad_rank(&m);
}

static void so_is_one_that_sends_what_ranks_do_not_send(void **state)
{
	struct ck_wcm_message m;

	(void)state;
	ck_wcm_message_init(&m, CK_WCM_RELEASED);
	m.mask = 7;
	check_bad_rank(&m);
}

static void so_is_one_with_ranks_that_there_are_not(void **state)
{
	struct ck_wcm_message m;

	(void)state;
	ck_wcm_message_init(&m, CK_WCM_DONE);
	m.mask = 0xf;
	check_bad_rank(&m);
}

static void an_object_is_released_when_all_are_done_or_gone(void **state)
{
	struct ck_wcm_link *l[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		l[i] = join(i);
	assert_true(ck_wcm_link_done(l[0], 5, 7));
	assert_true(ck_wcm_link_done(l[0], 6, 3));
	assert_true(ck_wcm_link_done(l[1], 6, 3));
	while (__atomic_load_n(&released, __ATOMIC_SEQ_CST) < 2) /* 6, told to both */
		world_sleep(1);
	assert_true(ck_wcm_link_done(l[1], 5, 7));
	assert_true(ck_wcm_link_done(l[1], 5, 7)); /* twice is once */
	world_sleep(20);
	assert_int_equal(__atomic_load_n(&released, __ATOMIC_SEQ_CST), 2);
	ck_wcm_link_close(l[2]);
	while (__atomic_load_n(&released, __ATOMIC_SEQ_CST) < 4)
		world_sleep(1);
	ck_wcm_link_close(l[0]);
	ck_wcm_link_close(l[1]);
}

#define HOST "prterun-ip-10-11-12-13.eu-central-1.compute.internal"

static void jobs_on_a_host_with_a_long_name_do_not_meet(void **state)
{
	char first[WCM_GROUP_NAME_MAX], other[WCM_GROUP_NAME_MAX];

	(void)state;
	unsetenv("CRICKET_WCM");
	setenv("PMIX_NAMESPACE", HOST "-4711@1", 1);
	ok(ck_wcm_rank_address(NULL, first));
	ok(ck_wcm_rank_address(NULL, other));
	assert_string_equal(first, other);
	setenv("PMIX_NAMESPACE", HOST "-4712@1", 1);
	ok(ck_wcm_rank_address(NULL, other));
	assert_string_not_equal(first, other);
	setenv("PMIX_NAMESPACE", HOST HOST HOST "-1", 1);
	ok(ck_wcm_rank_address(NULL, first));
	setenv("PMIX_NAMESPACE", HOST HOST HOST "-2", 1);
	ok(ck_wcm_rank_address(NULL, other));
	assert_string_not_equal(first, other);
	unsetenv("PMIX_NAMESPACE");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_rank_comes_once_and_the_name_is_taken),
		TEST(when_all_have_come_the_name_is_free),
		TEST(a_place_that_never_answers_is_waited_for_until_the_time_out),
		TEST(who_comes_when_there_are_no_descriptors_waits_and_the_thread_sleeps),
		TEST(strangers_that_talk_rubbish_are_shut_out),
		TEST(a_rank_that_breaks_the_rules_is_lost),
		TEST(so_is_one_that_sends_what_ranks_do_not_send),
		TEST(so_is_one_with_ranks_that_there_are_not),
		TEST(an_object_is_released_when_all_are_done_or_gone),
		TEST(jobs_on_a_host_with_a_long_name_do_not_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
