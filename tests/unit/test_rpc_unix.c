/*
 * tests/unit/test_rpc_unix.c - socket files: whose they are, when they are replaced, default paths.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "tests/unit/rpc_ends.h"

static void a_unix_socket_is_for_its_owner_alone(void **state)
{
	char address[100];
	struct stat st;
	mode_t mask = umask(0);
	int listener;

	(void)state;
	unix_address(address, sizeof(address), "s");
	listener = ck_chan_listen(address);
	umask(mask);
	assert_true(listener >= 0);
	assert_int_equal(lstat(address + 5, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(listener);
	unlink(address + 5);
}

static void a_dead_servers_socket_is_replaced_and_a_live_ones_is_not(void **state)
{
	struct ck_chan *ends[2];
	char address[100];
	int dead, live;

	(void)state;
	unix_address(address, sizeof(address), "s");
	dead = ck_chan_listen(address);
	assert_true(dead >= 0);
	assert_int_equal(ck_chan_listen(address), -EADDRINUSE);
	close(dead);
	assert_int_equal(ck_chan_dial(address, 1000, &ends[0]), -ECONNREFUSED);
	live = ck_chan_listen(address);
	assert_true(live >= 0);
	assert_int_equal(ck_chan_listen(address), -EADDRINUSE);
	ck_chan_close(accept_chan(live)); /* the other server's question */
	assert_int_equal(ck_chan_dial(address, 1000, &ends[0]), 0);
	ends[1] = accept_chan(live);
	assert_talk(ends);
	close_pair(ends);
	close(live);
	unlink(address + 5);
}

static void what_is_no_socket_is_never_replaced(void **state)
{
	char address[100], target[100];
	struct stat st;
	int fd;

	(void)state;
	unix_address(address, sizeof(address), "file");
	fd = open(address + 5, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ck_chan_listen(address), -ENOTSOCK);
	assert_int_equal(lstat(address + 5, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	unlink(address + 5);
	snprintf(target, sizeof(target), "%s/target", dir);
	assert_int_equal(symlink(target, address + 5), 0);
	assert_int_equal(ck_chan_listen(address), -ENOTSOCK);
	assert_int_equal(lstat(address + 5, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	unlink(address + 5);
	unix_address(address, sizeof(address), "no/such/dir");
	assert_int_equal(ck_chan_listen(address), -ENOENT);
}

static pthread_barrier_t start;

static void *listen_now(void *address)
{
	pthread_barrier_wait(&start);
	return (void *)(intptr_t)ck_chan_listen(address);
}

static void of_servers_that_start_at_once_one_gets_the_stale_socket(void **state)
{
	char address[100];
	int round, i;

	(void)state;
	unix_address(address, sizeof(address), "s");
	pthread_barrier_init(&start, NULL, 4);
	for (round = 0; round < 200; round++) {
		int dead = ck_chan_listen(address), won = 0;
		pthread_t threads[4];
		void *result[4];

		assert_true(dead >= 0);
		close(dead);
		for (i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, listen_now, address), 0);
		for (i = 0; i < 4; i++) {
			pthread_join(threads[i], &result[i]);
			won += (intptr_t)result[i] >= 0;
		}
		for (i = 0; i < 4; i++)
			if ((intptr_t)result[i] >= 0)
				close((int)(intptr_t)result[i]);
		assert_int_equal(won, 1);
	}
	pthread_barrier_destroy(&start);
	unlink(address + 5);
}

/* Run @body in a child, which has an environment of its own; its exit status. */
static int in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int is_default(unsigned int index, const char *path)
{
	const char *got = ck_chan_default_unix(index);

	return path ? got && strcmp(got, path) == 0 : !got;
}

static char temporary_default[64];

static int with_runtime_dir(void)
{
	setenv("XDG_RUNTIME_DIR", "/run/user/4711", 1);
	return is_default(0, "/run/user/4711/cricket.sock") && is_default(1, "/run/cricket.sock") &&
	       is_default(2, temporary_default) && is_default(3, NULL);
}

static int without_runtime_dir(void)
{
	unsetenv("XDG_RUNTIME_DIR");
	return is_default(0, "/run/cricket.sock") && is_default(1, temporary_default) &&
	       is_default(2, NULL) && is_default(0xffffffff, NULL);
}

static int with_useless_runtime_dir(void)
{
	char path[200] = "/";

	memset(path + 1, 'x', 150);
	setenv("XDG_RUNTIME_DIR", path, 1);
	return is_default(0, "/run/cricket.sock");
}

static int with_relative_runtime_dir(void)
{
	setenv("XDG_RUNTIME_DIR", "run", 1);
	return is_default(0, "/run/cricket.sock");
}

static void default_paths_are_the_users_the_systems_and_the_temporary_one(void **state)
{
	(void)state;
	snprintf(temporary_default, sizeof(temporary_default), "/tmp/cricket-%u.sock",
		 (unsigned int)geteuid());
	assert_true(in_child(with_runtime_dir));
	assert_true(in_child(without_runtime_dir));
	assert_true(in_child(with_useless_runtime_dir));
	assert_true(in_child(with_relative_runtime_dir));
}

/* Another user has taken root's path in /tmp. */
static int dial_anothers_socket(void)
{
	struct ck_chan *chan;
	int ready[2], ret, status;
	char byte;
	pid_t pid;

	if (pipe(ready) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		if (setuid(65534) < 0 || ck_chan_listen("unix:/tmp/cricket-0.sock") < 0)
			_exit(1);
		ret = (int)write(ready[1], "", 1);
		pause();
		_exit(ret != 1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return 1;
	ret = ck_chan_dial("unix:/tmp/cricket-0.sock", 1000, &chan);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	unlink("/tmp/cricket-0.sock");
	return ret == -EPERM ? 0 : 1;
}

static void another_users_socket_at_our_temporary_path_is_not_trusted(void **state)
{
	(void)state;
	if (geteuid() != 0 || access("/tmp/cricket-0.sock", F_OK) == 0)
		skip(); /* root only can be another user; and a server may run here */
	assert_int_equal(in_child(dial_anothers_socket), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: the paths are fixed by the first use in a process */
		cmocka_unit_test(default_paths_are_the_users_the_systems_and_the_temporary_one),
		cmocka_unit_test(a_unix_socket_is_for_its_owner_alone),
		cmocka_unit_test(a_dead_servers_socket_is_replaced_and_a_live_ones_is_not),
		cmocka_unit_test(what_is_no_socket_is_never_replaced),
		cmocka_unit_test(of_servers_that_start_at_once_one_gets_the_stale_socket),
		cmocka_unit_test(another_users_socket_at_our_temporary_path_is_not_trusted),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
