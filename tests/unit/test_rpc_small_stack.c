/*
 * tests/unit/test_rpc_small_stack.c - names are looked up by modules of the system that need much
 * stack, in threads of programs that have little.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "util/process/home.h"

#ifdef __SANITIZE_THREAD__ /* it needs an unknown part of each stack */
#define LITTLE ((size_t)2 << 20)
#else
#define LITTLE ((size_t)128 << 10) /* of a thread */
#endif
#define MUCH ((size_t)200 << 10) /* that a module needs */

static _Atomic unsigned int needed; /* times */

static void need_much(void)
{
	volatile char room[MUCH];

	for (size_t i = 0; i < sizeof(room); i += 512)
		room[i] = 1;
	needed += (unsigned int)room[0];
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	static int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	(void)node;
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
	need_much();
	return next("127.0.0.1", service, hints, out);
}

struct passwd *getpwuid(uid_t user)
{
	static char folder[] = "/home/of/someone";
	static struct passwd entry = {.pw_dir = folder};

	(void)user;
	need_much();
	return &entry;
}

int getgrgid_r(gid_t group, struct group *entry, char *room, size_t size, struct group **out)
{
	need_much();
	strncpy(room, "painters", size);
	*entry = (struct group){.gr_name = room, .gr_gid = group};
	*out = entry;
	return 0;
}

static void run_with_little(void *(*run)(void *))
{
	pthread_attr_t attr;
	pthread_t thread;

	needed = 0;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, LITTLE), 0);
	assert_int_equal(pthread_create(&thread, &attr, run, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pthread_attr_destroy(&attr), 0);
	assert_int_equal(needed, 1);
}

static void *dial_name(void *unused)
{
	struct ck_chan *chan;

	assert_int_equal(ck_chan_dial("somewhere:9", 1000, &chan), -ECONNREFUSED);
	return unused;
}

static void a_host_s_name(void **state)
{
	(void)state;
	run_with_little(dial_name);
}

static void *ask_home(void *unused)
{
	assert_string_equal(ck_home(), "/home/of/someone");
	return unused;
}

static void the_home_of_a_user(void **state)
{
	(void)state;
	unsetenv("HOME");
	run_with_little(ask_home);
}

static char path[] = "/tmp/ck-small-stack-XXXXXX";

static void *describe_socket(void *unused)
{
	char address[64], text[256];

	snprintf(address, sizeof(address), "unix:%s", path);
	assert_non_null(strstr(ck_chan_dial_error(address, -EACCES, text, sizeof(text)),
			       "it is for the group painters"));
	return unused;
}

static void the_group_of_a_socket(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && fchmod(fd, 0660) == 0);
	if (fchown(fd, (uid_t)-1, 7) < 0)
		skip(); /* the group of root has no name for users */
	run_with_little(describe_socket);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_s_name),
		cmocka_unit_test(the_home_of_a_user),
		cmocka_unit_test(the_group_of_a_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
