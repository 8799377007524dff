/*
 * tests/unit/test_server_sandbox.c - what the filter of system calls refuses, and what it leaves.
 * Each test runs in a child, which keeps its filter to its end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/processes/sandbox.h"

/* Run @body in a child behind a filter; what it returns, or 128 and a signal. */
static int behind(enum cks_sandbox kind, const char *word, int (*body)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		setenv("CRICKET_SANDBOX", word, 1);
		_exit(cks_sandbox_enter(kind) < 0 ? 99 : body());
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool refused(long result)
{
	return result == -1 && errno == EPERM;
}

/* All of these fail with other errors, or succeed, where there is no filter, whether or not the
 * caller is root. */
static int try_the_kernel(void)
{
	char byte;
	struct iovec here = {&byte, 1};

	if (!refused(mount("none", "/no/such/folder", "none", 0, NULL)))
		return 1;
	if (!refused(syscall(SYS_bpf, -1, NULL, 0)))
		return 2;
	if (!refused(syscall(SYS_keyctl, -1, 0, 0, 0, 0)))
		return 3;
	if (!refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL)))
		return 4;
	if (!refused(process_vm_readv(getpid(), &here, 1, &here, 1, 0)))
		return 5;
	if (!refused(syscall(SYS_io_uring_setup, 0, NULL)))
		return 6;
	return 0;
}

static int try_namespaces(void)
{
	if (!refused(unshare(CLONE_NEWUSER)))
		return 1;
	if (!refused(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL)))
		return 2;
	return syscall(SYS_clone3, NULL, (size_t)0) == -1 && errno == ENOSYS ? 0 : 3;
}

static int try_signals(void)
{
	if (!refused(kill(getppid(), SIGWINCH)))
		return 1;
	if (!refused(kill(-1, SIGWINCH)))
		return 2;
	if (!refused(syscall(SYS_tgkill, getppid(), getppid(), SIGWINCH)))
		return 3;
	if (kill(getppid(), 0) != 0)
		return 4;
	signal(SIGUSR1, SIG_IGN);
	return kill(getpid(), SIGUSR1) == 0 && raise(SIGUSR1) == 0 ? 0 : 5;
}

static void *nothing(void *data)
{
	return data;
}

/* Threads, children, memory: what a driver needs. */
static int work(void)
{
	pthread_t thread;
	pid_t child;
	int status = -1;

	if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	child = fork();
	if (child == 0)
		_exit(7);
	if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
		return 2;
	return 0;
}

static int try_programs(void)
{
	char *const arguments[] = {(char *)"true", NULL};

	if (!refused(execv("/bin/true", arguments)))
		return 1;
	return work();
}

static int execute(void)
{
	char *const arguments[] = {(char *)"true", NULL};

	execv("/bin/true", arguments);
	return 1;
}

static int is_open(void)
{
	return process_vm_readv(getpid(), NULL, 0, NULL, 0, 0) == 0 ? 0 : 1;
}

static int dumps_no_core(void)
{
	struct rlimit core;

	return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 ? 0 : 1;
}

static int enter_the_second(void)
{
	return cks_sandbox_enter(CK_SANDBOX_SESSION) < 0 ? 98 : try_programs();
}

/* A thread that was there before. */
static int gate[2];

static void *later(void *data)
{
	char byte;

	(void)data;
	return read(gate[0], &byte, 1) == 1 && refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		       ? NULL
		       : &gate;
}

static void the_kernel_is_out_of_reach(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", try_the_kernel), 0);
	assert_int_equal(behind(CK_SANDBOX_SERVICE, "on", try_the_kernel), 0);
}

static void there_are_no_new_namespaces(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", try_namespaces), 0);
	assert_int_equal(behind(CK_SANDBOX_SERVICE, "on", try_namespaces), 0);
}

static void a_worker_signals_no_other_process(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", try_signals), 0);
	assert_int_equal(behind(CK_SANDBOX_SERVICE, "on", try_signals), 1);
}

static void a_session_executes_no_program(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", enter_the_second), 0);
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", execute), 0);
}

static void threads_and_children_work(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", work), 0);
}

static void threads_that_exist_are_filtered(void **state)
{
	pid_t child;
	int status;

	(void)state;
	child = fork();
	if (child == 0) {
		pthread_t thread;
		void *result = NULL;

		setenv("CRICKET_SANDBOX", "on", 1);
		if (pipe(gate) < 0 || pthread_create(&thread, NULL, later, NULL) != 0 ||
		    cks_sandbox_enter(CK_SANDBOX_WORKER) < 0 || write(gate[1], "", 1) != 1)
			_exit(1);
		pthread_join(thread, &result);
		_exit(result != NULL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void off_and_log_refuse_nothing(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "off", is_open), 0);
	assert_int_equal(behind(CK_SANDBOX_WORKER, "log", is_open), 0);
	assert_int_equal(behind(CK_SANDBOX_WORKER, "on", is_open), 1);
}

static void there_are_no_core_dumps(void **state)
{
	(void)state;
	assert_int_equal(behind(CK_SANDBOX_WORKER, "auto", dumps_no_core), 0);
}

static void words_are_checked(void **state)
{
	(void)state;
	assert_int_equal(cks_sandbox_check("log"), 0);
	assert_int_equal(cks_sandbox_check("yes"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_is_out_of_reach),
		cmocka_unit_test(there_are_no_new_namespaces),
		cmocka_unit_test(a_worker_signals_no_other_process),
		cmocka_unit_test(a_session_executes_no_program),
		cmocka_unit_test(threads_and_children_work),
		cmocka_unit_test(threads_that_exist_are_filtered),
		cmocka_unit_test(off_and_log_refuse_nothing),
		cmocka_unit_test(there_are_no_core_dumps),
		cmocka_unit_test(words_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
