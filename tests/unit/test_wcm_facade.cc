/*
 * tests/unit/test_wcm_facade.cc - WholeMemory's C++ names, as a program uses them; and PtrGen on
 * the CPU, with chunks that it can read.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "wcm/whole_chunked_memory.cuh"
#include "wcm/whole_chunked_memory.h"

extern "C" {
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size);
}

using namespace whole_memory;

#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: rank %d: not so: %s\n", __FILE__, __LINE__, rank,  \
				#condition);                                                       \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* The first release's names, as its own test used them. */
static void first_release(int rank, int size)
{
	WholeChunkedMemoryHandle *handle, *host, copy;
	int sent[4] = {0, 0, 0, 0}, got[4], pair[2] = {0, 1};
	size_t offset = 0, mine;
	void *context;
	WholeChunkedMemory_t m;

	expect(WholeMemoryInit() == WCM_OK);
	expect(cuInit(0) == 0);
	expect(cuDevicePrimaryCtxRetain(&context, rank % 2) == 0 && cuCtxSetCurrent(context) == 0);
	expect(WmmpInit(rank, size, (CollectiveCommunicator *)8) == WCM_ENOTSUP);
	expect(WmmpInit(rank, size) == WCM_OK);
	expect(WmmpGetRank() == rank && WmmpGetSize() == size);
	expect(WmmpBarrier() == WCM_OK);
	for (int i = 0; i < size; i++)
		sent[i] = rank * 10 + i;
	expect(WmmpAllToAll(sent, sizeof(int), got, sizeof(int)) == WCM_OK);
	expect(WmmpAllToAll(sent, sizeof(int), got, 1) == WCM_EINVAL);
	for (int i = 0; i < size; i++)
		expect(got[i] == i * 10 + rank);
	expect(WmmpAggregateSize(10, &offset) == 10 * (size_t)size && offset == 10 * (size_t)rank);
	mine = WmmpCollOffsetAndSize(10, &offset);
	expect(offset == (size_t)rank * 4 && mine == (rank < 2 ? 4u : 2u));

	expect(WcmmpMalloc(&m, 10000, 100) == WCM_OK);
	handle = GetDeviceChunkedHandle(m, rank % 2);
	host = GetDeviceChunkedHandle(m, -1);
	expect(handle && host && !GetDeviceChunkedHandle(m, 3));
	expect(!GetDeviceChunkedHandle(nullptr, -1)); /* nothing in, nothing out */
	expect(cuMemcpyDtoH_v2(&copy, (uintptr_t)handle, sizeof(copy)) == 0);
	expect(memcmp(&copy, host, sizeof(copy)) == 0);
	expect(WcmmpMemcpyToWholeChunkedMemory(handle, (size_t)rank * 8, "abcdefg", 8, nullptr) ==
	       WCM_OK);
	expect(cuCtxSynchronize() == 0 && WmmpBarrier() == WCM_OK);
	for (size_t i = 0; i < (size_t)size; i++) {
		char text[8] = "";

		expect(WcmmpMemcpyFromWholeChunkedMemory(text, host, i * 8, 8, nullptr) == WCM_OK);
		expect(cuCtxSynchronize() == 0 && strcmp(text, "abcdefg") == 0);
	}
	expect(WcmmpMemcpyFromWholeChunkedMemory(got, (WholeChunkedMemoryHandle *)got, 0, 1,
						 nullptr) == WCM_EINVAL);
	expect(WcmmpFree(m) == WCM_OK);
	expect(WcmmpFree(m) == WCM_EINVAL);
	if (rank < 2) {
		expect(WcmmpMalloc(&m, 10000, 0, pair, 2) == WCM_OK);
		expect(WcmmpFree(m) == WCM_OK);
	}
	expect(WholeMemoryFinalize() == WCM_OK);
	expect(WmmpBarrier() == WCM_EINVAL);
}

/* The last release's: communicators. */
static void last_release(int rank, int size)
{
	WmmpUniqueId id;
	BootstrapCommunicator *communicator;
	WholeChunkedMemory_t m;
	size_t local;
	void *own;

	memset(&id, 0, sizeof(id));
	snprintf(id.internal, sizeof(id.internal), "facade-%d", (int)getppid());
	communicator = WmmpCreateCommunicator(size, id, rank);
	expect(communicator);
	expect(WcmmpMalloc(&m, 100, communicator, 12) == WCM_OK);
	expect(WcmmpGetLocalMemory(m, &own, &local) == WCM_OK && own && local == 36);
	expect(WcmmpGetBootstrapCommunicator(m) == communicator);
	expect(WcmmpFree(m) == WCM_OK);
	expect(WmmpDestroyCommunicator(communicator) == WCM_OK);
	id.internal[0] = '\0';
	expect(!WmmpCreateCommunicator(size, id, rank));
}

static void run(int size, void (*role)(int rank, int size))
{
	pid_t pids[16];
	int bad = 0, status;

	for (int rank = 0; rank < size; rank++) {
		pids[rank] = fork();
		if (pids[rank] == 0) {
			alarm(200);
			role(rank, size);
			exit(0);
		}
	}
	for (int rank = 0; rank < size; rank++)
		bad += waitpid(pids[rank], &status, 0) != pids[rank] || status != 0;
	assert_int_equal(bad, 0);
}

static void the_first_releases_names(void **)
{
	run(3, first_release);
}

static void the_last_releases_names(void **)
{
	run(3, last_release);
}

/* Each of @count elements, through the generators. */
static void check_pointers(size_t chunk_size, int shift)
{
	static int chunks[3][64];
	WholeChunkedMemoryHandle handle = WholeChunkedMemoryHandle();
	size_t in_chunk = chunk_size / sizeof(int);

	for (int i = 0; i < 3; i++)
		handle.chunked_ptrs[i] = chunks[i];
	handle.chunk_size = chunk_size;
	handle.chunk_count = 3;
	handle.chunk_shift = shift;
	PtrGen<const whole_memory::WholeChunkedMemoryHandle, int> constant(&handle);
	PtrGen<WholeChunkedMemoryHandle, int> based(&handle, 5);
	for (size_t i = 0; i < 3 * in_chunk; i++) {
		int *should = &chunks[i / in_chunk][i % in_chunk];

		assert_ptr_equal(constant.At(i), should);
		if (i >= 5)
			assert_ptr_equal(based.At(i - 5), should);
	}
}

static void pointers_into_plain_and_chunked_memory(void **)
{
	int plain[10];

	PtrGen<int, int> first(plain), later(plain, 3);
	assert_ptr_equal(first.At(4), plain + 4);
	assert_ptr_equal(later.At(4), plain + 7);
	check_pointers(256, 8);
	check_pointers(256, 0); /* as a handle of old has it */
	check_pointers(48, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_releases_names),
		cmocka_unit_test(the_last_releases_names),
		cmocka_unit_test(pointers_into_plain_and_chunked_memory),
	};

	setenv("CRICKET_EMU", "devices=4,memory=64M", 1);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
