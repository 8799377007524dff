/*
 * tests/unit/test_m3_hostile.c - M3: clients that are killed at any moment, that hammer, that lie.
 * The broker goes on, and nobody else loses a byte.
 */
#include "tests/unit/m3_world.h"

#define KILLS 200
#define VICTIMS 4 /* processes under way at a time */
#define HAMMERS 8

/* --- roles */

/* Make, open, write, lease and release until somebody puts an end to it. */
static int role_busy(const char *seed)
{
	unsigned int random = (unsigned int)atoi(seed);
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1};
	m3_client *c;
	m3_region *r, *s;
	char name[16], bytes[64];

	if (m3_connect(&opts, &c))
		return 1;
	for (;;) {
		snprintf(name, sizeof(name), "n%d", rand_r(&random) % 4);
		if (world_alloc(c, name, 2 * MiB, 0, &r) == M3_OK) {
			memset(bytes, rand_r(&random), sizeof(bytes));
			if (m3_lease(r, M3_LEASE_RW, 1) == M3_OK)
				m3_write(r, 64, bytes, sizeof(bytes));
			if (rand_r(&random) % 2)
				m3_unlease(r);
			m3_release(r);
		}
		if (world_alloc(c, NULL, 2 * MiB, 0, &s) == M3_OK && rand_r(&random) % 3)
			m3_release(s);
		if (m3_open(c, name, M3_READ, &r) == M3_OK)
			m3_read(r, 64, bytes, sizeof(bytes)); /* and keep it */
	}
}

/* As many as it takes: each word that it writes is there when it reads. */
static int role_hammer(const char *seed)
{
	m3_client *c;
	m3_region *r, *own;
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1};
	uint64_t offset = (uint64_t)atoi(seed) * 8;
	int value, back;

	if (m3_connect(&opts, &c) || world_alloc(c, "common", 2 * MiB, 0, &r))
		return 1;
	for (value = 1; value <= 40; value++) {
		if (m3_write(r, offset, &value, 4) || m3_read(r, offset, &back, 4) || back != value)
			return 2;
		if (world_alloc(c, NULL, 2 * MiB, 0, &own) || m3_read(own, 0, &back, 4) || back ||
		    m3_fill(own, 0, 0x55, 2 * MiB) || m3_release(own))
			return 3;
	}
	m3_disconnect(c);
	return 0;
}

/* --- tests */

static void two_hundred_clients_are_killed_and_nothing_is_lost(void **state)
{
	m3_client *c = world_client(NULL, 0);
	unsigned int random = 1;
	pid_t victims[VICTIMS] = {0};
	uint64_t used, regions;
	char seed[16], byte = 0;
	m3_region *mine;

	(void)state;
	ok(world_alloc(c, "mine", 2 * MiB, 0, &mine));
	ok(m3_fill(mine, 0, 'm', 2 * MiB));
	for (int i = 0; i < KILLS; i++) {
		pid_t *victim = &victims[rand_r(&random) % VICTIMS];

		if (*victim) {
			kill(*victim, SIGKILL);
			world_status(*victim);
		}
		snprintf(seed, sizeof(seed), "%d", i);
		*victim = world_spawn("busy", seed);
		world_sleep(rand_r(&random) % 12);
	}
	for (int i = 0; i < VICTIMS; i++) {
		if (victims[i]) {
			kill(victims[i], SIGKILL);
			world_status(victims[i]);
		}
	}
	world_until(world_used(c) == 2 * MiB); /* no reference, no charge is left */
	ok(m3_quota_get(c, NULL, NULL, NULL, &used, &regions));
	assert_int_equal(regions, 1);
	for (uint64_t at = 0; at < 2 * MiB; at += 65537) {
		ok(m3_read(mine, at, &byte, 1));
		assert_int_equal(byte, 'm');
	}
	ok(m3_lease(mine, M3_LEASE_RW, 0));
	ok(m3_release(mine));
	ok(world_alloc(c, "all", 256 * MiB, 0, &mine)); /* the device has it all again */
	ok(m3_release(mine));
	m3_disconnect(c);
}

static void eight_clients_hammer(void **state)
{
	m3_client *c = world_client(NULL, 0);
	pid_t pids[HAMMERS];
	char seed[16];

	(void)state;
	for (int i = 0; i < HAMMERS; i++) {
		snprintf(seed, sizeof(seed), "%d", i);
		pids[i] = world_spawn("hammer", seed);
	}
	for (int i = 0; i < HAMMERS; i++)
		assert_int_equal(world_status(pids[i]), 0);
	world_until(world_used(c) == 0);
	m3_disconnect(c);
}

/* defect 6 */
static void what_is_no_request_ends_its_connection_and_no_other(void **state)
{
	m3_client *c = world_client(NULL, 0);
	char back[2];
	int fd = dial();
	size_t n = request(CK_M3_HELLO);

	(void)state;
	refused(ask(fd, &question, n - 1), M3_EPROTO);
	refused(ask(fd, &question, n), 1);
	close(fd);
	fd = dial();
	n = request(CK_M3_ALLOC);
	refused(ask(fd, &question, n), M3_EPROTO); /* before its hello */
	n = request(CK_M3_HELLO);
	question.head.version = 77;
	refused(ask(fd, &question, n), M3_EVERSION);
	n = request(CK_M3_HELLO);
	ok(ask(fd, &question, n));
	refused(ask(fd, &question, n), M3_EPROTO);
	question.head.op = 200;
	refused(ask(fd, &question, n), M3_EPROTO);
	refused(ask(fd, &question, n), 1);
	close(fd);
	ok(m3_echo(c, "a", 2, back));
	m3_disconnect(c);
}

static void forged_numbers_and_unterminated_names_are_refused(void **state)
{
	m3_client *c = world_client("uid:1", 0);
	int fd = dial();
	m3_region *r;
	size_t n = request(CK_M3_HELLO);

	(void)state;
	ok(world_alloc(c, "n", 2 * MiB, 0, &r));
	ok(ask(fd, &question, n));
	for (int op = CK_M3_FETCH; op < CK_M3_OPS; op++) {
		n = request(op);
		question.head.region = m3_region_id(r); /* of another principal, not open here */
		question.head.size = 1;
		if (op == CK_M3_WRITE || op == CK_M3_EVENT_SET) {
			question.head.data_size = 64;
			n += 64;
		}
		if (op == CK_M3_LIST || op == CK_M3_QUOTA_GET || op == CK_M3_QUOTA_SET ||
		    op == CK_M3_TOPOLOGY || op == CK_M3_SUBSCRIBE)
			continue;
		assert_true(ask(fd, &question, n) < 0);
	}
	n = request(CK_M3_OPEN);
	memset(question.head.name, 'x', sizeof(question.head.name));
	refused(ask(fd, &question, n), M3_EINVAL);
	n = request(CK_M3_OPEN);
	question.head.region = 1;
	refused(ask(fd, &question, n), M3_ESTALE);
	n = request(CK_M3_STAT);
	refused(ask(fd, &question, n), M3_EINVAL);
	close(fd);
	m3_disconnect(c);
	m3_release(r);
}

static void a_flood_that_reads_no_answers_is_cut_off(void **state)
{
	m3_client *c = world_client(NULL, 0);
	int fd = dial(), sent = 0;
	size_t n = request(CK_M3_HELLO);
	char back[2];

	(void)state;
	ok(ask(fd, &question, n));
	n = request(CK_M3_TOPOLOGY);
	for (int tries = 0; tries < 2000; sent++) {
		int ret = ck_m3_send(fd, &question, n, NULL, 0, -1, MSG_DONTWAIT);

		if (ret == -EPIPE || ret == -ECONNRESET)
			break;
		if (ret == -EAGAIN) {
			world_sleep(5);
			tries++;
		}
	}
	assert_true(sent > 1 && sent < 1000000);
	close(fd);
	ok(m3_echo(c, "a", 2, back));
	m3_disconnect(c);
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
	static struct ck_m3_answer a;
	int fd = dial(), ends[2], got;
	size_t n = request(CK_M3_HELLO);
	char byte;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(ck_m3_send(fd, &question, n, NULL, 0, ends[1], 0), 0);
	assert_true(ck_m3_receive(fd, &a, sizeof(a), &got, 0) > 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 0); /* ours was the last one */
	close(ends[0]);
	close(fd);
}

/* Say hello, and then ask for "waited for" without reading the answer. */
static int ask_for_it(void)
{
	int fd = dial();
	size_t n = request(CK_M3_HELLO);

	ok(ask(fd, &question, n));
	n = request(CK_M3_ALLOC);
	question.head.size = 64 * MiB;
	strcpy(question.head.name, "waited for");
	assert_int_equal(ck_m3_send(fd, &question, n, NULL, 0, -1, 0), 0);
	return fd;
}

static void who_waits_for_a_region_whose_maker_dies_makes_it_and_has_one_answer(void **state)
{
	static struct ck_m3_answer a;
	int maker = ask_for_it(), waits = ask_for_it(), got;

	(void)state;
	close(maker); /* mostly before it has its zeros */
	assert_true(ck_m3_receive(waits, &a, sizeof(a), &got, 0) > 0);
	assert_int_equal(a.head.op, CK_M3_ALLOC);
	ok(a.head.status);
	for (int i = 0; i < 3; i++) {
		size_t n = request(CK_M3_ECHO);

		assert_int_equal(ck_m3_send(waits, &question, n, NULL, 0, -1, 0), 0);
		assert_true(ck_m3_receive(waits, &a, sizeof(a), &got, 0) > 0);
		assert_int_equal(a.head.op, CK_M3_ECHO);
	}
	close(waits);
}

static void a_path_that_depends_on_the_folder_is_none(void **state)
{
	(void)state;
	assert_int_equal(ck_m3_listen("broker"), -EINVAL);
	assert_int_equal(ck_m3_dial("broker"), -EINVAL);
}

static void a_deposit_is_for_whoever_knows_its_key(void **state)
{
	static struct ck_m3_answer a;
	int from = dial(), to = dial(), got, file = open("/dev/null", O_RDONLY);
	uint64_t id;
	size_t n = request(CK_M3_HELLO);

	(void)state;
	ok(ask(from, &question, n));
	ok(ask(to, &question, n));
	n = request(CK_M3_DEPOSIT);
	refused(ask(from, &question, n), M3_EINVAL); /* of nothing */
	assert_int_equal(ck_m3_send(from, &question, n, NULL, 0, file, 0), 0);
	assert_true(ck_m3_receive(from, &a, sizeof(a), &got, 0) == sizeof(a.head) + CK_M3_KEY);
	id = a.head.region;
	n = request(CK_M3_CLAIM) + CK_M3_KEY;
	question.head.region = id;
	question.head.data_size = CK_M3_KEY;
	refused(ask(to, &question, n), M3_EPERM);
	memcpy(question.data, a.data, CK_M3_KEY);
	assert_int_equal(ck_m3_send(to, &question, n, NULL, 0, -1, 0), 0);
	assert_true(ck_m3_receive(to, &a, sizeof(a), &got, 0) > 0);
	ok(a.head.status);
	assert_true(got >= 0);
	close(got);
	close(from);
	do { /* it goes with its worker */
		assert_int_equal(ck_m3_send(to, &question, n, NULL, 0, -1, 0), 0);
		assert_true(ck_m3_receive(to, &a, sizeof(a), &got, 0) > 0);
		if (got >= 0)
			close(got);
	} while (a.head.status == M3_OK);
	refused(a.head.status, M3_ENOENT);
	close(to);
	close(file);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_hundred_clients_are_killed_and_nothing_is_lost),
		cmocka_unit_test(eight_clients_hammer),
		cmocka_unit_test(what_is_no_request_ends_its_connection_and_no_other),
		cmocka_unit_test(forged_numbers_and_unterminated_names_are_refused),
		cmocka_unit_test(a_flood_that_reads_no_answers_is_cut_off),
		cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
		cmocka_unit_test(
			who_waits_for_a_region_whose_maker_dies_makes_it_and_has_one_answer),
		cmocka_unit_test(a_path_that_depends_on_the_folder_is_none),
		cmocka_unit_test(a_deposit_is_for_whoever_knows_its_key),
	};

	if (argc > 3 && strcmp(argv[1], "--role") == 0)
		_exit(strcmp(argv[2], "busy") == 0 ? role_busy(argv[3]) : role_hammer(argv[3]));
	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
