/*
 * tests/unit/test_m3_facade.cc - MemMapManager.h: the programs that were written for the first M3,
 * and its own tests (echo, allocate, singleton, several devices), with what its replies should have
 * been.
 */
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "m3/MemMapManager.h"

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size);
}

static pid_t broker;
static char path[64];

static int setup(void **)
{
	void *context;
	m3_client *c;

	setenv("CRICKET_EMU", "devices=2", 1);
	snprintf(path, sizeof(path), "/tmp/m3-facade-%d", (int)getpid());
	setenv("CRICKET_M3", path, 1);
	broker = fork();
	if (broker == 0) {
		setenv("CRICKET_LOG", "error", 1);
		execl(CK_TEST_PRODUCTS "/m3-server", "m3-server", "--driver", "emu", (char *)0);
		_exit(127);
	}
	for (int i = 0; m3_connect(nullptr, &c) != M3_OK; i++) {
		if (i == 6000)
			return -1;
		usleep(5000);
	}
	m3_disconnect(c);
	return cuInit(0) || cuCtxCreate_v2(&context, 0, 0) ? -1 : 0;
}

static int teardown(void **)
{
	int status;

	waitpid(broker, &status, 0);
	return status;
}

static void it_is_one_and_returns(void **)
{
	assert_ptr_equal(MemMapManager::Instance(), MemMapManger::Instance());
	assert_string_equal(MemMapManager::Name(), "MemMapManager");
	assert_string_equal(MemMapManager::EndPoint(), "MemMapManager_Server_EndPoint");
}

static void an_echo_is_acknowledged(void **)
{
	MemMapRequest request;

	request.cmd = CMD_ECHO;
	assert_int_equal(MemMapManager::Request(-1, request, nullptr).status, STATUSCODE_ACK);
	request.cmd = CMD_INVALID;
	assert_int_equal(MemMapManager::Request(-1, request, nullptr).status,
			 STATUSCODE_UNKNOWN_ERR);
	request.cmd = CMD_IMPORT;
	assert_int_equal(MemMapManager::Request(-1, request, nullptr).status, STATUSCODE_NYI);
}

static void a_process_registers_once(void **)
{
	ProcessInfo info;
	int fd = ipcOpenAndBindSocket(nullptr);

	assert_true(fd >= 0);
	assert_int_equal(MemMapManager::RequestRegister(info, fd).status, STATUSCODE_ACK);
	assert_int_equal(MemMapManager::RequestRegister(info, fd).status,
			 STATUSCODE_DUPLICATE_REGISTER);
	assert_int_equal(MemMapManager::RequestDeRegister(info, fd).status, STATUSCODE_ACK);
	close(fd);
}

static void two_allocations_without_a_name_hold_what_was_written_to_each(void **)
{
	ProcessInfo info;
	size_t size = MemMapManager::RequestRoundedAllocationSize(info, -1, 32768).roundedSize;
	MemMapResponse a = MemMapManager::RequestAllocate(info, -1, nullptr, 1024, size);
	MemMapResponse b = MemMapManager::RequestAllocate(info, -1, nullptr, 1024, size);
	char text[8] = "";

	assert_true(size >= 32768);
	assert_int_equal(a.status, STATUSCODE_ACK);
	assert_int_equal(b.status, STATUSCODE_ACK);
	assert_true(a.d_ptr && b.d_ptr && a.d_ptr != b.d_ptr);
	assert_int_equal(a.numShareableHandles, 1);
	assert_int_equal(cuMemcpyHtoD_v2(a.d_ptr, "first", 6), 0);
	assert_int_equal(cuMemcpyHtoD_v2(b.d_ptr, "second", 7), 0);
	assert_int_equal(cuMemcpyDtoH_v2(text, a.d_ptr, 6), 0);
	assert_string_equal(text, "first");
	assert_int_equal(MemMapManager::RequestDeAllocate(info, -1, a.shareableHandle).status,
			 STATUSCODE_ACK);
	assert_int_equal(MemMapManager::RequestDeAllocate(info, -1, a.shareableHandle).status,
			 STATUSCODE_UNKNOWN_ERR);
	assert_int_equal(MemMapManager::RequestDeAllocate(info, -1, b.shareableHandle).status,
			 STATUSCODE_ACK);
}

static void a_name_is_one_region_and_one_size(void **)
{
	ProcessInfo info;
	MemMapResponse a = MemMapManager::RequestAllocate(info, -1, "name", 0, 1 << 21);
	MemMapResponse b = MemMapManager::RequestAllocate(info, -1, "name", 0, 1 << 21);
	MemMapResponse c = MemMapManager::RequestAllocate(info, -1, "name", 0, 1 << 22);
	std::string longer(300, 'x');

	assert_int_equal(b.status, STATUSCODE_ACK);
	assert_true(a.d_ptr == b.d_ptr && a.shareableHandle == b.shareableHandle);
	assert_int_equal(c.m3, M3_EMISMATCH);
	assert_int_equal(MemMapManager::RequestAllocate(info, -1, longer.c_str(), 0, 1).m3,
			 M3_EINVAL);
	for (int i = 0; i < 2; i++)
		assert_int_equal(MemMapManager::RequestDeAllocate(info, -1, a.shareableHandle).m3,
				 M3_OK);
}

static void a_process_may_use_the_second_device(void **)
{
	ProcessInfo info;
	MemMapResponse a;

	info.SetContext(nullptr, 1);
	a = MemMapManager::RequestAllocate(info, -1, "second", 0, 1 << 21);
	assert_int_equal(a.status, STATUSCODE_ACK);
	assert_int_equal(MemMapManager::RequestDeAllocate(info, -1, a.shareableHandle).m3, M3_OK);
}

/* The last one: it ends the broker. */
static void it_halts(void **)
{
	assert_int_equal(ipcHaltM3Server(-1, ProcessInfo()), 0);
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_one_and_returns),
		cmocka_unit_test(an_echo_is_acknowledged),
		cmocka_unit_test(a_process_registers_once),
		cmocka_unit_test(two_allocations_without_a_name_hold_what_was_written_to_each),
		cmocka_unit_test(a_name_is_one_region_and_one_size),
		cmocka_unit_test(a_process_may_use_the_second_device),
		cmocka_unit_test(it_halts),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
