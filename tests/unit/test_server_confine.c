/*
 * tests/unit/test_server_confine.c - which files a confined worker opens, and which processes it
 * reaches.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/options/confine.h"
#include "server/options/options.h"

static char folder[64], path[128];

static long landlock(void)
{
	return syscall(444, NULL, (size_t)0, 1);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/cricket-confine-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command);
}

static const char *in(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void make_file(const char *name)
{
	int fd = open(in(name), O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* 0 or errno. */
static int opens(const char *file, int flags)
{
	int fd = open(file, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* Run @check in a process that is confined; its result. */
static int confined(int (*check)(void))
{
	struct cks_options options = {.driver = "emu", .confine = "none"};
	char cache[128], extra[128], token[128];
	int status;
	pid_t pid;

	snprintf(cache, sizeof(cache), "%s/cache", folder);
	snprintf(extra, sizeof(extra), "/not-there:%s/extra", folder);
	snprintf(token, sizeof(token), "%s/token", folder);
	options.cache_dir = cache;
	options.confine = extra;
	options.token_file = token;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(cks_confine(&options) < 0 ? 100 : check());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The number of the first that is not as it should be. */
static int files(void)
{
	return opens("/etc/shadow", O_RDONLY) != EACCES		       ? 1
	       : opens(in("secret"), O_RDONLY) != EACCES	       ? 2
	       : opens(in("new"), O_WRONLY | O_CREAT) != EACCES	       ? 3
	       : opens("/etc/ld.so.cache", O_RDONLY) != 0	       ? 4
	       : opens("/dev/null", O_RDWR) != 0		       ? 5
	       : opens("/dev/shm", O_RDONLY) != 0		       ? 6
	       : opens("/proc/self/maps", O_RDONLY) != 0	       ? 7
	       : opens(in("cache/x"), O_RDWR | O_CREAT) != 0	       ? 8
	       : opens(in("extra/file"), O_RDONLY) != 0		       ? 10
	       : opens(in("extra/file"), O_RDWR) != EACCES	       ? 11
	       : opens(in("token"), O_RDONLY) != EACCES		       ? 12
	       : mknod(in("cache/device"), S_IFCHR | 0600, 0x103) == 0 ? 13
								       : 0;
}

static void only_files_that_a_driver_needs_are_open(void **state)
{
	(void)state;
	if (landlock() < 3)
		skip();
	make_file("secret");
	make_file("token");
	assert_int_equal(mkdir(in("extra"), 0700), 0);
	make_file("extra/file");
	assert_int_equal(files(), 1); /* as long as it is not confined */
	assert_int_equal(confined(files), 0);
}

static int parent(void)
{
	char memory[64];

	snprintf(memory, sizeof(memory), "/proc/%d/mem", (int)getppid());
	return opens(memory, O_RDONLY) != EACCES	    ? 1
	       : landlock() >= 6 && kill(getppid(), 0) == 0 ? 2
							    : 0;
}

static void other_processes_are_out_of_reach(void **state)
{
	(void)state;
	if (landlock() < 1)
		skip();
	assert_int_equal(confined(parent), 0);
}

static void a_list_has_absolute_paths(void **state)
{
	static const char *const wrong[] = {"", "all", "usr", "/usr:lib", ":/usr", "/usr:"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(cks_confine_check(wrong[i]), -EINVAL);
	if (landlock() < 1)
		skip();
	assert_int_equal(cks_confine_check("none"), 0);
	assert_int_equal(cks_confine_check("/usr"), 0);
	assert_int_equal(cks_confine_check("/usr:/opt/cuda"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_files_that_a_driver_needs_are_open, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(other_processes_are_out_of_reach, set_up,
						tear_down),
		cmocka_unit_test(a_list_has_absolute_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
