/*
 * tests/unit/test_rpc_shm.c - unix connections that go on in shared memory: how both ends agree,
 * what is not taken for rings, and that a peer's end is noticed however it comes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/rpc_ends.h"
#include "util/page.h"

#define SIZE (64u << 10)
#define BIG (3u << 20) /* many times around */
#define PAGE ((unsigned int)CK_PAGE_MOST)

static void both_ends_go_on_in_rings(void **state)
{
	struct ck_chan *ends[2];

	(void)state;
	rings_pair(ends, SIZE);
	assert_true(ck_chan_in_rings(ends[0]) && ck_chan_in_rings(ends[1]));
	assert_int_equal(strncmp(ck_chan_peer(ends[0]), "shm pid ", 8), 0);
	for (int i = 0; i < 10000; i++)
		assert_talk(ends);
	close_pair(ends);
}

static void an_end_that_takes_no_rings_keeps_the_socket(void **state)
{
	struct ck_chan *ends[2];

	(void)state;
	socket_pair(ends);
	assert_false(rings_agree(ends[0], ends[1], SIZE, false));
	assert_talk(ends);
	close_pair(ends);
	socket_pair(ends);
	assert_int_equal(ck_chan_take_rings(ends[1]), -ENOENT);
	assert_false(ck_chan_enter_rings(ends[0]));
	assert_talk(ends);
	close_pair(ends);
}

static void the_environment_can_forbid_it(void **state)
{
	struct ck_chan *ends[2];

	(void)state;
	socket_pair(ends);
	setenv("CRICKET_DEBUG", "no-shm", 1);
	assert_int_equal(ck_chan_offer_rings(ends[0], SIZE, SIZE), -EOPNOTSUPP);
	unsetenv("CRICKET_DEBUG");
	assert_int_equal(ck_chan_offer_rings(ends[0], SIZE, SIZE), 0);
	send_text(ends[0], "record");
	assert_text(ends[1], "record");
	setenv("CRICKET_DEBUG", "no-shm", 1);
	assert_int_equal(ck_chan_take_rings(ends[1]), -EOPNOTSUPP);
	assert_int_equal(ck_chan_take_fd(ends[1]), -ENOENT); /* it is closed, not kept */
	unsetenv("CRICKET_DEBUG");
	assert_false(ck_chan_enter_rings(ends[0]));
	assert_talk(ends);
	close_pair(ends);
}

static void rings_have_sizes_of_their_own_kind(void **state)
{
	static const size_t bad[] = {0, 1, 4096, SIZE + 1, SIZE * 3, (size_t)1 << 30};
	struct ck_chan *ends[2];

	(void)state;
	socket_pair(ends);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ck_chan_offer_rings(ends[0], bad[i], SIZE), -EINVAL);
		assert_int_equal(ck_chan_offer_rings(ends[0], SIZE, bad[i]), -EINVAL);
	}
	assert_talk(ends);
	close_pair(ends);
	connect_pair("127.0.0.1:0", "127.0.0.1", ends);
	assert_int_equal(ck_chan_offer_rings(ends[0], SIZE, SIZE), -EOPNOTSUPP);
	assert_int_equal(ck_chan_take_rings(ends[1]), -EOPNOTSUPP);
	close_pair(ends);
}

/* Else each start of a program would wait until the kernel has zeroed them. */
static void most_pages_come_when_they_are_used(void **state)
{
	struct ck_chan *ends[2];
	struct stat st;
	int fd;

	(void)state;
	socket_pair(ends);
	assert_int_equal(ck_chan_offer_rings(ends[0], BIG + (1u << 20), SIZE), 0);
	send_text(ends[0], "record");
	assert_text(ends[1], "record");
	fd = ck_chan_take_fd(ends[1]);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size > BIG);
	assert_true(st.st_blocks * 512 < BIG / 4);
	close(fd);
	close_pair(ends);
}

/* What a hostile client may send in place of a file of ours. */
struct forged {
	uint32_t magic, layout, size[2];
	off_t file_size;
	int seals;
};

static int forge(const struct forged *f)
{
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, f, 16, 0), 16);
	assert_int_equal(ftruncate(fd, f->file_size), 0);
	if (f->seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, f->seals), 0);
	return fd;
}

static int taken(int fd)
{
	struct iovec iov = {(char *)(uintptr_t) "record", 6};
	struct ck_chan *ends[2];
	int ret;

	socket_pair(ends);
	assert_int_equal(ck_chan_writev_fd(ends[0], &iov, 1, fd), 0);
	assert_text(ends[1], "record");
	ret = ck_chan_take_rings(ends[1]);
	if (ret < 0) {
		assert_false(ck_chan_enter_rings(ends[1]));
		assert_talk(ends); /* and the connection goes on */
	}
	close_pair(ends);
	close(fd);
	return ret;
}

static void what_is_no_file_of_ours_is_not_mapped(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const struct forged good = {0x68736b63u, 1, {SIZE, SIZE}, PAGE + 2 * SIZE, seals};
	struct forged bad[] = {good, good, good, good, good, good, good, good, good, good};
	int pipes[2];

	(void)state;
	assert_int_equal(taken(forge(&good)), 0);
	bad[0].seals = 0;
	bad[1].seals = F_SEAL_GROW | F_SEAL_SEAL; /* it can shrink under us */
	bad[2].magic++;
	bad[3].layout++;
	bad[4].file_size--;
	bad[5].file_size = 16;
	bad[6].size[0] = 0;
	bad[7].size[1] = SIZE * 2; /* more than there is */
	bad[8].size[0] = 1u << 31;
	bad[9].size[0] = SIZE + PAGE;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(taken(forge(&bad[i])), -EPROTO);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(taken(pipes[0]), -EPROTO);
	close(pipes[1]);
	assert_int_equal(taken(open("/proc/self/exe", O_RDONLY)), -EPROTO);
}

static unsigned char pattern[BIG];

static int begin(void **state)
{
	for (size_t i = 0; i < BIG; i++)
		pattern[i] = (unsigned char)(i * 2654435761u >> 15);
	return make_dir(state);
}

static void *write_big(void *chan)
{
	struct iovec iov[3] = {{pattern, 1}, {pattern + 1, BIG - 2}, {pattern + BIG - 1, 1}};

	return (void *)(intptr_t)ck_chan_writev(chan, iov, 3);
}

static void assert_big(struct ck_chan *chan)
{
	unsigned char *got = malloc(BIG);

	assert_int_equal(ck_chan_read(chan, got, BIG), 0);
	assert_memory_equal(got, pattern, BIG);
	free(got);
}

static void more_than_a_ring_holds_goes_both_ways_at_once(void **state)
{
	struct ck_chan *ends[2];
	pthread_t threads[2];
	void *ret;

	(void)state;
	rings_pair(ends, SIZE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_big, ends[i]), 0);
	assert_big(ends[1]);
	assert_big(ends[0]);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &ret);
		assert_null(ret);
	}
	close_pair(ends);
}

static void descriptors_go_along_with_records(void **state)
{
	struct iovec iov = {(char *)(uintptr_t) "record", 6};
	struct ck_chan *ends[2];
	struct stat st;

	(void)state;
	rings_pair(ends, SIZE);
	assert_int_equal(ck_chan_take_fd(ends[1]), -ENOENT);
	for (int i = 1; i <= 5; i++) {
		int fd = memfd_create("passed", MFD_CLOEXEC);

		assert_int_equal(ftruncate(fd, i), 0);
		iov = (struct iovec){(char *)(uintptr_t) "record", 6};
		assert_int_equal(ck_chan_writev_fd(ends[0], &iov, 1, fd), 0);
		send_text(ends[0], "none");
		close(fd);
	}
	for (int i = 1; i <= 5; i++) {
		int fd;

		assert_text(ends[1], "recordnone");
		fd = ck_chan_take_fd(ends[1]);
		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, i);
		close(fd);
	}
	assert_int_equal(ck_chan_take_fd(ends[1]), -ENOENT);
	close_pair(ends);
}

static void a_wait_ends_at_its_time_limit(void **state)
{
	struct ck_chan *ends[2];
	struct iovec iov = {pattern, BIG};
	double begun = now();
	char byte;

	(void)state;
	rings_pair(ends, SIZE);
	ck_chan_timeout(ends[0], 50);
	assert_int_equal(ck_chan_read(ends[0], &byte, 1), -ETIMEDOUT);
	assert_int_equal(ck_chan_writev(ends[0], &iov, 1), -ETIMEDOUT); /* nobody reads */
	assert_true(now() - begun > 0.09);
	close_pair(ends);
}

static void *read_one(void *chan)
{
	char byte;

	return (void *)(intptr_t)ck_chan_read(chan, &byte, 1);
}

/* Threads that wait in @chan, one reading and one writing, until something ends that. */
static void begin_waiting(struct ck_chan *chan, pthread_t threads[2])
{
	assert_int_equal(pthread_create(&threads[0], NULL, read_one, chan), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, write_big, chan), 0);
	usleep(20000); /* most likely they sleep by now; the test holds either way */
}

static void assert_both_end(pthread_t threads[2])
{
	double begun = now();
	void *ret;

	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &ret);
		assert_int_equal((intptr_t)ret, -EPIPE);
	}
	assert_true(now() - begun < 10); /* a second, and what a loaded machine adds */
}

static void shutdown_wakes_who_reads_and_who_writes(void **state)
{
	struct ck_chan *ends[2];
	pthread_t threads[2];

	(void)state;
	rings_pair(ends, SIZE);
	begin_waiting(ends[0], threads);
	ck_chan_shutdown(ends[0]);
	assert_both_end(threads);
	assert_int_equal((intptr_t)read_one(ends[0]), -EPIPE);
	close_pair(ends);
}

static void a_closed_end_wakes_the_other(void **state)
{
	struct ck_chan *ends[2];
	pthread_t threads[2];

	(void)state;
	rings_pair(ends, SIZE);
	begin_waiting(ends[0], threads);
	ck_chan_close(ends[1]);
	assert_both_end(threads);
	ck_chan_close(ends[0]);
}

/* A child process that has the other end, and does nothing; here nothing is behind that one any
 * more. */
static pid_t child_with(struct ck_chan *ends[2])
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		close(ck_chan_fd(ends[0]));
		for (;;)
			pause();
	}
	assert_true(dup2(null, ck_chan_fd(ends[1])) >= 0);
	close(null);
	return pid;
}

static void a_process_that_is_killed_is_missed_by_who_sleeps(void **state)
{
	struct ck_chan *ends[2];
	pthread_t threads[2];
	pid_t pid;

	(void)state;
	rings_pair(ends, SIZE);
	pid = child_with(ends);
	begin_waiting(ends[0], threads);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_both_end(threads);
	assert_int_equal((intptr_t)write_big(ends[0]), -EPIPE);
	close_pair(ends);
}

static void what_a_peer_wrote_before_its_end_is_read(void **state)
{
	struct ck_chan *ends[2];
	char byte;

	(void)state;
	rings_pair(ends, SIZE);
	send_text(ends[1], "last words");
	ck_chan_close(ends[1]);
	assert_text(ends[0], "last words");
	assert_int_equal(ck_chan_read(ends[0], &byte, 1), -EPIPE);
	ck_chan_close(ends[0]);
}

static void bytes_that_have_come_are_counted(void **state)
{
	struct ck_chan *ends[2];

	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		if (shared)
			rings_pair(ends, SIZE);
		else
			socket_pair(ends);
		assert_int_equal(ck_chan_pending(ends[1]), 0);
		send_text(ends[0], "12345");
		assert_int_equal(ck_chan_pending(ends[1]), 5);
		assert_text(ends[1], "123");
		assert_int_equal(ck_chan_pending(ends[1]), 2);
		close_pair(ends);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ends_go_on_in_rings),
		cmocka_unit_test(an_end_that_takes_no_rings_keeps_the_socket),
		cmocka_unit_test(the_environment_can_forbid_it),
		cmocka_unit_test(rings_have_sizes_of_their_own_kind),
		cmocka_unit_test(most_pages_come_when_they_are_used),
		cmocka_unit_test(what_is_no_file_of_ours_is_not_mapped),
		cmocka_unit_test(more_than_a_ring_holds_goes_both_ways_at_once),
		cmocka_unit_test(descriptors_go_along_with_records),
		cmocka_unit_test(a_wait_ends_at_its_time_limit),
		cmocka_unit_test(shutdown_wakes_who_reads_and_who_writes),
		cmocka_unit_test(a_closed_end_wakes_the_other),
		cmocka_unit_test(a_process_that_is_killed_is_missed_by_who_sleeps),
		cmocka_unit_test(what_a_peer_wrote_before_its_end_is_read),
		cmocka_unit_test(bytes_that_have_come_are_counted),
	};

	return cmocka_run_group_tests(tests, begin, remove_dir);
}
