/*
 * tests/unit/test_client_logs.c - the logs that an application may read, settings of core dumps,
 * and old launches' state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libcuda/libcuda.h"
#include "tests/unit/client_session.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

static char text[30000];
static size_t size;

static void dump(CUlogIterator *at)
{
	size = sizeof(text);
	assert_int_equal(cuLogsDumpToMemory(at, text, &size, 0), CUDA_SUCCESS);
	assert_int_equal(strlen(text), size);
}

static void test_what_is_logged_is_kept(void **state)
{
	CUlogIterator at;

	(void)state;
	ck_err("one");
	assert_int_equal(cuLogsCurrent(&at, 0), CUDA_SUCCESS);
	ck_warn("two %d", 2);
	ck_err("three");
	dump(&at);
	assert_string_equal(text, "two 2\nthree\n");
	dump(&at);
	assert_string_equal(text, "");
	dump(NULL);
	assert_string_equal(text, "one\ntwo 2\nthree\n");
}

static void test_a_small_buffer_has_the_newest(void **state)
{
	CUlogIterator at;

	(void)state;
	cuLogsCurrent(&at, 0);
	ck_err("%0100d", 1);
	ck_err("newest");
	size = 40;
	assert_int_equal(cuLogsDumpToMemory(&at, text, &size, 0), CUDA_SUCCESS);
	assert_non_null(strstr(text, "left out\nnewest\n"));
	assert_int_equal(strlen(text), size);
	cuLogsCurrent(&at, 0);
	ck_err("does not fit");
	size = 5;
	assert_int_equal(cuLogsDumpToMemory(&at, text, &size, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(size, 0);
}

static void test_the_oldest_go_when_there_are_too_many(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		ck_err("%0200d", i);
	dump(NULL);
	assert_in_range(size, 1000, 25600);
	assert_non_null(strstr(text, "999\n"));
	assert_null(strstr(text, "0800\n"));
}

static void test_a_file_gets_them(void **state)
{
	char path[] = "/tmp/ck-logs-XXXXXX", line[64] = "";
	int fd = mkstemp(path);
	CUlogIterator at;

	(void)state;
	cuLogsCurrent(&at, 0);
	ck_err("to the file");
	assert_int_equal(cuLogsDumpToFile(&at, path, 0), CUDA_SUCCESS);
	assert_int_equal(read(fd, line, sizeof(line) - 1), 12);
	assert_string_equal(line, "to the file\n");
	close(fd);
	unlink(path);
	assert_int_equal(cuLogsDumpToFile(&at, "/no/such/place", 0), CUDA_ERROR_INVALID_VALUE);
}

static int told;
static CUresult inside;

static void callback(void *data, CUlogLevel level, char *message, size_t length)
{
	int count;

	assert_ptr_equal(data, &told);
	assert_int_equal(level, CU_LOG_LEVEL_WARNING);
	assert_int_equal(strlen(message), length);
	assert_string_equal(message, "hear this");
	told++;
	inside = cuDeviceGetCount(&count);
}

static void test_callbacks_are_told_until_they_end(void **state)
{
	CUlogsCallbackHandle handle;

	(void)state;
	assert_int_equal(cuLogsRegisterCallback(callback, &told, &handle), CUDA_SUCCESS);
	ck_warn("hear this");
	assert_int_equal(told, 1);
	assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cuLogsUnregisterCallback(handle), CUDA_SUCCESS);
	ck_warn("hear this");
	assert_int_equal(told, 1);
	assert_int_equal(cuLogsUnregisterCallback(handle), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLogsRegisterCallback(NULL, NULL, &handle), CUDA_ERROR_INVALID_VALUE);
}

static void test_wrong_arguments_are_refused(void **state)
{
	CUlogIterator at, far = 1u << 30;

	(void)state;
	size = sizeof(text);
	assert_int_equal(cuLogsCurrent(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLogsCurrent(&at, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLogsDumpToMemory(&far, text, &size, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLogsDumpToMemory(NULL, NULL, &size, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLogsDumpToFile(NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunch((CUfunction)8), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuParamSetSize((CUfunction)8, 4), CUDA_ERROR_INVALID_HANDLE);
}

static int begin(void **state)
{
	int ret = session_begin(state);

	if (ret == 0)
		cuCtxSetCurrent((CUcontext)session_activate(0));
	ck_logs_begin();
	return ret;
}

static void test_core_dumps_can_be_described_but_not_had(void **state)
{
	char name[1024] = "", mine[] = "mine";
	bool on = true;
	unsigned int flags = CU_COREDUMP_SKIP_ABORT, back = 0;
	size_t size = 0;

	(void)state;
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, NULL, &size), CUDA_SUCCESS);
	assert_int_equal(size, 1024);
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &size), CUDA_SUCCESS);
	assert_memory_equal(name, "core.cuda.", 10);
	size = sizeof(on);
	assert_int_equal(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size),
			 CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &on, &size),
			 CUDA_SUCCESS);
	assert_false(on);
	assert_int_equal(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_USER_TRIGGER, &on, &size),
			 CUDA_SUCCESS);
	size = sizeof(flags);
	assert_int_equal(cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size),
			 CUDA_SUCCESS);
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &back, &size),
			 CUDA_SUCCESS);
	assert_int_equal(back, flags);
	size = 2;
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &back, &size),
			 CUDA_ERROR_INVALID_VALUE);
	size = sizeof(mine);
	assert_int_equal(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, mine, &size), CUDA_SUCCESS);
	size = sizeof(name);
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, &size), CUDA_SUCCESS);
	assert_string_equal(name, "mine");
	memset(name, 'x', sizeof(name));
	assert_int_equal(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, name, &size),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_MAX, name, &size),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, name, NULL),
			 CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_logged_is_kept),
		cmocka_unit_test(test_a_small_buffer_has_the_newest),
		cmocka_unit_test(test_the_oldest_go_when_there_are_too_many),
		cmocka_unit_test(test_a_file_gets_them),
		cmocka_unit_test(test_callbacks_are_told_until_they_end),
		cmocka_unit_test(test_wrong_arguments_are_refused),
		cmocka_unit_test(test_core_dumps_can_be_described_but_not_had),
	};

	return cmocka_run_group_tests(tests, begin, session_end);
}
