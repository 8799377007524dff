/*
 * tests/unit/test_m3_limits.c - M3: what becomes of the broker where descriptors or connections
 * end, and what waits in its copier's queue.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "tests/unit/m3_world.h"
#include "util/until.h"

#define CROWD 64
#define ROUNDS 50
#define LIMIT 40      /* descriptors; the broker has some dozen itself */
#define DEPOSITS 8192 /* that hold one, of one principal */

/* What the broker has computed so far, in ms. */
static double broker_ms(void)
{
	struct timespec t;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(world_broker, &clock), 0);
	assert_int_equal(clock_gettime(clock, &t), 0);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* It has raised its limit as far as it goes. */
static void limit_broker(rlim_t descriptors)
{
	struct rlimit files;

	assert_int_equal(prlimit(world_broker, RLIMIT_NOFILE, NULL, &files), 0);
	files.rlim_cur = descriptors ? descriptors : files.rlim_max;
	assert_int_equal(prlimit(world_broker, RLIMIT_NOFILE, &files, NULL), 0);
}

static void without_descriptors_the_broker_sends_clients_away_and_rests(void **state)
{
	m3_client *c = world_client(NULL, 0);
	int crowd[CROWD];
	struct pollfd last;
	int64_t began;
	double ms;
	char back[2];

	(void)state;
	limit_broker(LIMIT);
	for (int i = 0; i < CROWD; i++)
		crowd[i] = dial();
	last = (struct pollfd){.fd = crowd[CROWD - 1], .events = POLLIN};
	assert_int_equal(poll(&last, 1, 20000), 1); /* an end, and no waiting */
	ms = broker_ms();
	began = ck_now_ms();
	world_sleep(500);
	assert_true(broker_ms() - ms < (double)(ck_now_ms() - began) / 10);
	ok(m3_echo(c, "a", 2, back));
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
	limit_broker(0);
	m3_disconnect(c);
	c = NULL;
	world_until(m3_connect(&(m3_opts){.no_driver = 1}, &c) == M3_OK);
	m3_disconnect(c);
}

/* Come, map, go, and only then release, over and over. */
static int role_late(void)
{
	m3_region *r;
	m3_client *c;

	for (int i = 0; i < ROUNDS; i++) {
		if (m3_connect(NULL, &c) || m3_open(c, "mapped", M3_READWRITE, &r) ||
		    m3_map(r, M3_ANY_DEVICE, M3_READ, 0, NULL))
			return 1;
		m3_disconnect(c);
		if (m3_release(r))
			return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
	return 0;
}

static int broker_descriptors(void)
{
	char path[32];
	int count = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)world_broker);
	d = opendir(path);
	assert_non_null(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

static void who_releases_after_disconnecting_leaves_one_connection(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *r;
	int before, status;
	pid_t pid;

	(void)state;
	ok(world_alloc(c, "mapped", 2 * MiB, 0, &r));
	before = broker_descriptors();
	pid = world_spawn("late", "");
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	world_until(broker_descriptors() <= before + 2);
	ok(m3_release(r));
	assert_int_equal(world_used(c), 2 * MiB); /* the process may still map it */
	kill(pid, SIGCONT);
	assert_int_equal(world_status(pid), 0);
	world_until(world_used(c) == 0);
	m3_disconnect(c);
}

/* A connection by hand that has "sealed" open for writing. */
static int open_by_hand(void)
{
	int fd = dial();
	size_t n = request(CK_M3_HELLO);

	ok(ask(fd, &question, n));
	n = request(CK_M3_OPEN);
	question.head.access = M3_READWRITE;
	strcpy(question.head.name, "sealed");
	ok(ask(fd, &question, n));
	return fd;
}

static void what_was_asked_for_before_a_seal_is_written_when_it_is_told(void **state)
{
	m3_client *c = world_client(NULL, 0);
	struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int seals, fills, writes;
	m3_region *r;
	size_t n;

	(void)state;
	ok(world_alloc(c, "sealed", 128 * MiB, M3_SEALABLE, &r));
	seals = open_by_hand(); /* the oldest one, which the broker reads last */
	fds[0].fd = fills = open_by_hand();
	fds[1].fd = writes = open_by_hand();
	n = request(CK_M3_FILL);
	question.head.region = m3_region_id(r);
	question.head.size = 128 * MiB;
	question.head.value = 'f';
	assert_int_equal(ck_m3_send(fills, &question, n, NULL, 0, -1, 0), 0);
	n = request(CK_M3_WRITE) + 1;
	question.head.region = m3_region_id(r);
	question.head.data_size = 1;
	assert_int_equal(ck_m3_send(writes, &question, n, NULL, 0, -1, 0), 0);
	n = request(CK_M3_SEAL);
	question.head.region = m3_region_id(r);
	ok(ask(seals, &question, n));
	assert_int_equal(poll(fds, 2, 0), 2); /* both have their answers */
	close(seals);
	close(fills);
	close(writes);
	ok(m3_release(r));
	m3_disconnect(c);
}

static void a_detached_region_that_cannot_be_mapped_was_never_made(void **state)
{
	m3_client *c = world_client(NULL, 1);
	m3_alloc_req req = {.mem_id = "unmappable",
			    .bytes = 2 * MiB,
			    .alignment = 1ull << 62,
			    .device = 0,
			    .flags = M3_DETACHED};
	m3_region *r = NULL;

	(void)state;
	assert_true(m3_alloc(c, &req, &r) < 0);
	assert_null(r);
	refused(m3_open(c, "unmappable", M3_READ, &r), M3_ENOENT);
	ok(world_alloc(c, "unmappable", 2 * MiB, M3_DETACHED, &r));
	ok(m3_release(r));
	assert_true(m3_alloc(c, &req, &r) < 0); /* it only attached to it */
	ok(m3_open(c, "unmappable", M3_READ, &r));
	ok(m3_release(r));
	ok(m3_unlink(c, "unmappable"));
	m3_disconnect(c);
}

/* Leave a descriptor with the broker: the answer's status. */
static int deposit(int broker)
{
	static struct ck_m3_answer a;
	size_t n = request(CK_M3_DEPOSIT);
	int none;

	assert_int_equal(ck_m3_send(broker, &question, n, NULL, 0, STDERR_FILENO, 0), 0);
	assert_true(ck_m3_receive(broker, &a, sizeof(a), &none, 0) >= (long)sizeof(a.head));
	return a.head.status;
}

static void deposits_leave_descriptors_for_others(void **state)
{
	int before = broker_descriptors(), ends[2] = {dial(), dial()};
	struct rlimit files;

	(void)state;
	assert_int_equal(prlimit(world_broker, RLIMIT_NOFILE, NULL, &files), 0);
	for (int i = 0; i < 2; i++)
		ok(ask(ends[i], &question, request(CK_M3_HELLO)));
	for (rlim_t i = 0; i < DEPOSITS && files.rlim_cur > 2 * DEPOSITS; i++)
		ok(deposit(ends[i % 2]));
	if (files.rlim_cur > 2 * DEPOSITS)
		refused(deposit(ends[0]), M3_EQUOTA);
	close(ends[1]);
	world_until(broker_descriptors() < before + DEPOSITS);
	ok(deposit(ends[0]));
	close(ends[0]);
	world_until(broker_descriptors() <= before);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_descriptors_the_broker_sends_clients_away_and_rests),
		cmocka_unit_test(what_was_asked_for_before_a_seal_is_written_when_it_is_told),
		cmocka_unit_test(a_detached_region_that_cannot_be_mapped_was_never_made),
		cmocka_unit_test(who_releases_after_disconnecting_leaves_one_connection),
		cmocka_unit_test(deposits_leave_descriptors_for_others),
	};

	if (argc > 2 && strcmp(argv[1], "--role") == 0)
		_exit(role_late());
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
