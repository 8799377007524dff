/*
 * tests/unit/m3_world.h - a broker of one's own (the m3-server that was built, on the emulated
 * driver), for the tests of m3/. The test program itself links the emulated driver: it is an
 * ordinary CUDA program.
 */
#ifndef CK_TESTS_M3_WORLD_H
#define CK_TESTS_M3_WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "m3/m3.h"
#include "m3/message.h"

#define MiB (1024ul * 1024)
#define WORLD_EMU "devices=2,memory=256M,dirty"
#define ok(call) assert_int_equal(call, M3_OK)
#define refused(call, status) assert_int_equal(call, status)

static char world_socket[64];
static pid_t world_broker;

static inline void world_sleep(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
}

/* Wait until @condition holds: 30 s, since the machine may be busy. */
#define world_until(condition)                                                                     \
	for (int tries = 0; !(condition); tries++) {                                               \
		assert_true(tries < 6000);                                                         \
		world_sleep(5);                                                                    \
	}

static inline void world_broker_start(void)
{
	int fd;

	world_broker = fork();
	if (world_broker == 0) {
		setenv("CRICKET_LOG", "error", 1);
		execl(CK_TEST_PRODUCTS "/m3-server", "m3-server", "--driver", "emu", "--socket",
		      world_socket, NULL);
		_exit(127);
	}
	world_until((fd = ck_m3_dial(world_socket)) >= 0);
	close(fd);
}

static inline void world_broker_kill(void)
{
	kill(world_broker, SIGKILL);
	waitpid(world_broker, NULL, 0);
}

static inline int world_setup(void **state)
{
	(void)state;
	setenv("CRICKET_EMU", WORLD_EMU, 1);
	snprintf(world_socket, sizeof(world_socket), "/tmp/m3-test-%d", (int)getpid());
	setenv("CRICKET_M3", world_socket, 1);
	world_broker_start();
	return 0;
}

static inline int world_teardown(void **state)
{
	(void)state;
	kill(world_broker, SIGTERM);
	waitpid(world_broker, NULL, 0);
	unlink(world_socket);
	return 0;
}

/* A client for @principal (NULL: who we are), which has CUDA or not. */
static inline m3_client *world_client(const char *principal, int cuda)
{
	m3_opts opts = {.device = M3_ANY_DEVICE, .no_driver = !cuda, .principal = principal};
	m3_client *client;

	ok(m3_connect(&opts, &client));
	return client;
}

/* A region of @bytes that is not mapped, or the status why not. */
static inline int world_alloc(m3_client *c, const char *name, uint64_t bytes, unsigned int flags,
			      m3_region **r)
{
	m3_alloc_req req = {.mem_id = name,
			    .bytes = bytes,
			    .device = M3_ANY_DEVICE,
			    .flags = flags | M3_NO_MAP};

	return m3_alloc(c, &req, r);
}

static inline uint64_t world_used(m3_client *c)
{
	uint64_t used;

	ok(m3_quota_get(c, NULL, NULL, NULL, &used, NULL));
	return used;
}

/* This program again, as another process: "--role" and its arguments. */
static inline pid_t world_spawn(const char *role, const char *argument)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", "role", "--role", role, argument, NULL);
		_exit(127);
	}
	return pid;
}

static inline int world_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- packets by hand */

static inline int dial(void)
{
	int fd = ck_m3_dial(world_socket);

	assert_true(fd >= 0);
	return fd;
}

/* Send @size bytes of @q; the status of the answer, or 1 when the broker has hung up. */
static inline int ask(int fd, const struct ck_m3_question *q, size_t size)
{
	static struct ck_m3_answer a;
	int got;
	long n;

	if (ck_m3_send(fd, q, size, NULL, 0, -1, 0) < 0)
		return 1;
	n = ck_m3_receive(fd, &a, sizeof(a), &got, 0);
	assert_int_equal(got, -1);
	return n < (long)sizeof(a.head) ? 1 : a.head.status;
}

static struct ck_m3_question question;

static inline size_t request(enum ck_m3_op op)
{
	memset(&question, 0, sizeof(question));
	ck_m3_request_init(&question.head, op);
	return sizeof(question.head);
}

#endif
