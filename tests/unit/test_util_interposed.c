/*
 * tests/unit/test_util_interposed.c - system calls whose memory is taken away while the kernel
 * copies (util/process/interposed_code.def). The C library's functions are stand-ins here that move
 * four bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static const char sent[] = "abcdefghijklmnop";
static size_t moved, taken; /* taken: how often the memory will be away after a part */
static int stream[2];

static void *behind_us(const char *name);

static bool tracked(void)
{
	return true;
}

static bool need(uintptr_t at, size_t size, bool write)
{
	(void)at, (void)size, (void)write;
	return moved > 0 && taken > 0 && taken--;
}

#define EXPORT
#include "util/process/interposed_code.def"

static ssize_t receive(int fd, void *buf, size_t size, int flags)
{
	size_t part = size < 4 ? size : 4;

	(void)fd;
	memcpy(buf, sent + (flags & MSG_PEEK ? 0 : moved), part);
	moved += part;
	return (ssize_t)part;
}

static void *behind_us(const char *name)
{
	return strcmp(name, "recv") == 0 ? (void *)receive : dlsym(RTLD_NEXT, name);
}

static int connect_pair(void **state)
{
	(void)state;
	moved = 0;
	taken = 2;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
	assert_int_equal(write(stream[1], sent, 1), 1); /* so that there is a rest */
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	close(stream[0]);
	close(stream[1]);
	return 0;
}

static void the_rest_follows_while_memory_was_away(void **state)
{
	char got[17] = "";

	(void)state;
	assert_int_equal(recv(stream[0], got, 16, 0), 12);
	assert_string_equal(got, "abcdefghijkl");
}

static void what_needs_a_wait_does_not_follow(void **state)
{
	char got[17] = "", byte;

	(void)state;
	assert_int_equal(read(stream[0], &byte, 1), 1);
	assert_int_equal(recv(stream[0], got, 16, 0), 4);
	assert_string_equal(got, "abcd");
}

static void a_second_look_does_not_follow_the_first(void **state)
{
	char got[17] = "";

	(void)state;
	assert_int_equal(recv(stream[0], got, 16, MSG_PEEK), 4);
	assert_string_equal(got, "abcd");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, connect_pair, close_pair)
	const struct CMUnitTest tests[] = {
		TEST(the_rest_follows_while_memory_was_away),
		TEST(what_needs_a_wait_does_not_follow),
		TEST(a_second_look_does_not_follow_the_first),
	};

	return cmocka_run_group_tests_name("interposed calls", tests, NULL, NULL);
}
