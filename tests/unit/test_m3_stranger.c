/*
 * tests/unit/test_m3_stranger.c - M3: another user, whom the mode of the broker's socket lets in.
 */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/m3_world.h"

#define NOBODY 65534
#define THAT(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__ - first;                                                   \
	} while (0)

/* What he may not do in general. 0, or how many lines down something was otherwise. */
static int stranger_asks(m3_client *c)
{
	const int first = __LINE__;
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1, .principal = "uid:0"};
	m3_client *other;
	int fd = dial();
	size_t n = request(CK_M3_HELLO);

	THAT(m3_connect(&opts, &other) == M3_EPERM); /* act for another */
	THAT(m3_halt(c) == M3_EPERM);
	THAT(m3_quota_set(c, NULL, 0, 0) == M3_EPERM);
	THAT(m3_quota_get(c, "uid:0", NULL, NULL, NULL, NULL) == M3_EPERM);
	THAT(ask(fd, &question, n) == M3_OK);
	for (int op = CK_M3_DEPOSIT; op <= CK_M3_BILL; op++) {
		n = request(op);
		question.head.region = 1;
		question.head.data_size = op >= CK_M3_WITHDRAW ? 0 : CK_M3_KEY;
		n += question.head.data_size;
		THAT(ask(fd, &question, n) == M3_EPERM); /* what workers leave for each other */
	}
	close(fd);
	return 0;
}

/* A region that he may read, but is not to have: its descriptor would let him write. */
static int stranger_reads(m3_client *c)
{
	const int first = __LINE__;
	m3_region *r, *none;
	int fd = dial();
	size_t n = request(CK_M3_HELLO);
	char bytes[6];

	THAT(m3_open(c, "readable", M3_READWRITE, &none) == M3_EPERM);
	THAT(m3_open(c, "readable", M3_READ, &r) == M3_OK);
	THAT(m3_read(r, 0, bytes, 5) == M3_OK && memcmp(bytes, "hello", 5) == 0);
	THAT(m3_write(r, 0, "x", 1) == M3_EPERM);
	THAT(m3_lease(r, M3_LEASE_RW, 0) == M3_EPERM);
	THAT(m3_chmod(r, 0666) == M3_EPERM && m3_grant(r, "uid:65534", M3_READWRITE) == M3_EPERM);
	THAT(m3_unlink(c, "readable") == M3_EPERM);
	THAT(ask(fd, &question, n) == M3_OK);
	n = request(CK_M3_OPEN);
	question.head.access = M3_READ;
	strcpy(question.head.name, "readable");
	THAT(ask(fd, &question, n) == M3_OK);
	n = request(CK_M3_FETCH);
	question.head.region = m3_region_id(r);
	question.head.access = M3_READ;
	THAT(ask(fd, &question, n) == M3_EPERM);
	n = request(CK_M3_WRITE) + 1;
	question.head.region = m3_region_id(r);
	question.head.data_size = 1;
	THAT(ask(fd, &question, n) == M3_EPERM);
	close(fd);
	return m3_release(r);
}

/* Read the answer to @size bytes of the question; @fd: -1, or the descriptor that came. */
static int ask_for_fd(int sock, size_t size, int *fd)
{
	static struct ck_m3_answer a;

	*fd = -1;
	if (ck_m3_send(sock, &question, size, NULL, 0, -1, 0) < 0 ||
	    ck_m3_receive(sock, &a, sizeof(a), fd, 0) < (long)sizeof(a.head))
		return 1;
	return a.head.status;
}

/* Who could have written has no descriptor of a region that has been sealed meanwhile. */
static int stranger_comes_late(m3_client *c)
{
	const int first = __LINE__;
	m3_region *r;
	int sock = dial(), fd;
	size_t n = request(CK_M3_HELLO);

	THAT(m3_open(c, "sealable", M3_READWRITE, &r) == M3_OK);
	THAT(ask(sock, &question, n) == M3_OK);
	n = request(CK_M3_OPEN);
	question.head.access = M3_READWRITE;
	strcpy(question.head.name, "sealable");
	THAT(ask(sock, &question, n) == M3_OK);
	THAT(m3_seal(r) == M3_OK);
	n = request(CK_M3_FETCH);
	question.head.region = m3_region_id(r);
	question.head.access = M3_READ;
	THAT(ask_for_fd(sock, n, &fd) == M3_EPERM && fd == -1);
	close(sock);
	return m3_release(r);
}

static int stranger(void)
{
	const int first = __LINE__;
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1};
	m3_client *c;
	m3_region *r;
	int ret;

	THAT(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
	THAT(m3_connect(&opts, &c) == M3_OK);
	ret = stranger_asks(c);
	if (ret == 0)
		ret = stranger_reads(c);
	if (ret)
		return 100 + ret;
	ret = stranger_comes_late(c);
	if (ret)
		return 150 + ret;
	THAT(m3_open(c, "private", M3_READ, &r) == M3_ENOENT);
	THAT(world_alloc(c, "private", 6 * MiB, 0, &r) == M3_EQUOTA);
	THAT(world_alloc(c, "private", 4 * MiB, 0, &r) == M3_OK); /* his own */
	THAT(m3_release(r) == M3_OK);
	THAT(m3_open(c, "granted", M3_READWRITE, &r) == M3_OK &&
	     m3_write(r, 0, "mine", 4) == M3_OK);
	m3_disconnect(c);
	m3_release(r);
	return 0;
}

/* defect 9 */
static void another_user_gets_what_he_was_given_and_no_more(void **state)
{
	m3_client *c = world_client(NULL, 0);
	m3_region *private, *readable, *granted, *sealable;
	char bytes[4];
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip(); /* nobody else can be played */
	ok(chmod(world_socket, 0666));
	ok(world_alloc(c, "private", 2 * MiB, 0, &private));
	ok(world_alloc(c, "readable", 2 * MiB, 0, &readable));
	ok(world_alloc(c, "granted", 2 * MiB, 0, &granted));
	ok(world_alloc(c, "sealable", 2 * MiB, M3_SEALABLE, &sealable));
	ok(m3_chmod(sealable, 0606));
	ok(m3_write(readable, 0, "hello", 5));
	ok(m3_chmod(readable, 0604));
	ok(m3_grant(granted, "uid:65534", M3_READWRITE));
	ok(m3_quota_set(c, "uid:65534", 4 * MiB, 0));
	pid = fork();
	if (pid == 0)
		_exit(stranger());
	assert_int_equal(world_status(pid), 0);
	ok(m3_read(granted, 0, bytes, 4));
	assert_memory_equal(bytes, "mine", 4);
	ok(m3_revoke(granted, "uid:65534"));
	refused(m3_revoke(granted, "uid:65534"), M3_ENOENT);
	ok(m3_release(private));
	ok(m3_release(readable));
	ok(m3_release(granted));
	ok(m3_release(sealable));
	m3_disconnect(c);
}

/* More connections than the broker has room for, without a word; until @until is closed. */
static int crowd(int ready, int until)
{
	const int first = __LINE__;
	struct rlimit files;
	char byte = 0;
	int fd = 0;

	THAT(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	THAT(setrlimit(RLIMIT_NOFILE, &files) == 0);
	THAT(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0);
	for (int i = 0; i < 4200 && fd >= 0; i++)
		fd = ck_m3_dial(world_socket); /* the descriptors end sooner, perhaps */
	THAT(write(ready, &byte, 1) == 1);
	THAT(read(until, &byte, 1) == 0);
	return 0;
}

static void a_user_cannot_take_all_connections(void **state)
{
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = 1};
	struct rlimit files;
	int ready[2], until[2], status;
	m3_client *c = NULL;
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	if (geteuid() != 0 || files.rlim_max < 8192)
		skip(); /* nobody else can be played, or there are no descriptors for it */
	ok(chmod(world_socket, 0666));
	assert_int_equal(pipe(ready) | pipe(until), 0);
	pid = fork();
	if (pid == 0) {
		close(until[1]);
		_exit(crowd(ready[1], until[0]));
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	status = m3_connect(&opts, &c);
	m3_disconnect(c);
	close(until[1]);
	assert_int_equal(world_status(pid), 0);
	ok(status);
	close(until[0]);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_user_gets_what_he_was_given_and_no_more),
		cmocka_unit_test(a_user_cannot_take_all_connections),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
