/*
 * tests/unit/test_client_one_way_wait.c - a wait for work whose end this process cannot see is
 * one-way; any other waits for the server.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/objects/context.h"
#include "tests/unit/client_peer.h"
#include "tests/unit/elf_data.h"

#define SIZE 4096
#define LARGE (256u << 10) /* a synchronous copy waits */

static CUdeviceptr memory;
static CUfunction kernel;
static CUstream streams[2];
static char bytes[LARGE];

static void upload(CUstream stream)
{
	assert_int_equal(cuMemcpyHtoDAsync_v2(memory, bytes, SIZE, stream), CUDA_SUCCESS);
}

static void launch(CUstream stream)
{
	assert_int_equal(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
			 CUDA_SUCCESS);
}

/* Synchronise @stream: did that wait for the server (1), or send a one-way wait (0)? */
static int waits(CUstream stream)
{
	size_t calls = peer_count(CK_PROC_cuStreamSynchronize);
	size_t settles = peer_count(CK_PROC_settle);

	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	calls = peer_count(CK_PROC_cuStreamSynchronize) - calls;
	settles = peer_count(CK_PROC_settle) - settles;
	assert_int_equal(calls + settles, 1);
	return (int)calls;
}

static void assert_nothing_to_wait_for(CUstream stream)
{
	size_t before = ckc_command_number(ckc_client_current());

	peer_clear();
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 0);
	assert_int_equal(ckc_command_number(ckc_client_current()), before);
}

static void uploads_and_fills_are_not_waited_for(void **state)
{
	(void)state;
	upload(streams[0]);
	assert_int_equal(cuMemsetD8Async(memory, 1, SIZE, streams[0]), CUDA_SUCCESS);
	assert_int_equal(waits(streams[0]), 0);
	assert_nothing_to_wait_for(streams[0]);
	upload(NULL);
	assert_int_equal(waits(NULL), 0);
	assert_int_equal(((const ck_settle_args *)peer_args(CK_PROC_settle, 0))->stream, 0);
}

static void a_large_synchronous_copy_does_not_wait_either(void **state)
{
	(void)state;
	assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, SIZE), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_settle), 0);
	assert_int_equal(cuMemcpyHtoD_v2(memory, bytes, LARGE), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_settle), 1);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 0);
}

static void a_kernel_is_waited_for_and_uploads_after_the_wait_are_not(void **state)
{
	(void)state;
	launch(streams[0]);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 1);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 0);
	assert_nothing_to_wait_for(streams[0]);
}

static void a_kernel_in_another_stream_counts(void **state)
{
	(void)state;
	launch(streams[1]);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 1);
	upload(streams[0]); /* the kernel in the other stream has not been waited for */
	assert_int_equal(waits(streams[1]), 1);
}

/* Later work of a blocking stream follows the kernel, but a wait for that stream alone does not. */
static void a_kernel_in_the_legacy_stream_counts(void **state)
{
	(void)state;
	launch(NULL);
	assert_int_equal(waits(streams[0]), 1);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 1);
	assert_int_equal(waits(NULL), 1);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 0);
}

static void an_event_behind_the_legacy_stream_is_asked_for(void **state)
{
	CUevent event;

	(void)state;
	assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	launch(NULL);
	assert_int_equal(cuEventRecord(event, streams[0]), CUDA_SUCCESS);
	assert_int_equal(waits(streams[0]), 1);
	assert_int_equal(cuEventSynchronize(event), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuEventSynchronize), 1);
	cuEventDestroy_v2(event);
}

/* The host carries it out, when an operation of the stream would have its turn. */
static void a_copy_within_the_host_follows_the_legacy_stream(void **state)
{
	static char to[4];

	(void)state;
	launch(NULL);
	assert_int_equal(waits(streams[0]), 1);
	assert_int_equal(cuMemcpyAsync((uintptr_t)to, (uintptr_t)bytes, sizeof(to), streams[0]),
			 CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_order), 1);
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 2);
}

static void an_event_is_waited_for(void **state)
{
	CUevent event;

	(void)state;
	assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(event, streams[0]), CUDA_SUCCESS);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 1);
	cuEventDestroy_v2(event);
}

static void the_wait_of_a_context_is_one_way_too(void **state)
{
	(void)state;
	upload(streams[0]);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuCtxSynchronize), 0);
	assert_true(((const ck_settle_args *)peer_args(CK_PROC_settle, 0))->context);
	launch(streams[0]);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_cuCtxSynchronize), 1);
}

static void a_server_on_this_host_is_waited_for(void **state)
{
	(void)state;
	ckc_client_current()->passes_fds = true; /* it can write shared pages at any time */
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 1);
}

static void an_older_server_is_waited_for(void **state)
{
	char known[CK_PROC_END / 8 + 1];

	(void)state;
	memset(known, 0xff, sizeof(known));
	known[CK_PROC_settle / 8] &= (char)~(1u << CK_PROC_settle % 8);
	ckc_client_current()->offers.procedures.procedures_val = known;
	ckc_client_current()->offers.procedures.procedures_len = sizeof(known);
	upload(streams[0]);
	assert_int_equal(waits(streams[0]), 1);
	ckc_client_current()->offers.procedures.procedures_len = 0;
	ckc_client_current()->offers.procedures.procedures_val = NULL;
}

static void work_that_another_process_may_see_is_waited_for(void **state)
{
	CUipcMemHandle handle;

	(void)state;
	upload(streams[0]);
	cuIpcGetMemHandle(&handle, memory);
	assert_int_equal(waits(streams[0]), 1);
	ckc_client_current()->shares = false;
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_cuMemAlloc_v2)
		((cuMemAlloc_v2_res *)res)->dptr = 0x7f0000000000;
	return CUDA_SUCCESS;
}

static CUmodule module;

static int group_end(void **state)
{
	cuModuleUnload(module);
	return peer_end(state);
}

static int group_begin(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");

	peer.call = answer;
	if (peer_begin(state) < 0 || cuModuleLoadData(&module, data.bytes) ||
	    cuModuleGetFunction(&kernel, module, "no_args") || cuMemAlloc_v2(&memory, LARGE) ||
	    cuStreamCreate(&streams[0], 0) || cuStreamCreate(&streams[1], 0))
		return -1;
	elf_data_free(&data);
	return 0;
}

/* Each test begins with a server on another host, and all work waited for. */
static int begin(void **state)
{
	(void)state;
	ckc_client_current()->passes_fds = false;
	if (cuCtxSynchronize())
		return -1;
	peer_clear();
	return 0;
}

#define wait_test(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		wait_test(uploads_and_fills_are_not_waited_for),
		wait_test(a_large_synchronous_copy_does_not_wait_either),
		wait_test(a_kernel_is_waited_for_and_uploads_after_the_wait_are_not),
		wait_test(a_kernel_in_another_stream_counts),
		wait_test(a_kernel_in_the_legacy_stream_counts),
		wait_test(an_event_behind_the_legacy_stream_is_asked_for),
		wait_test(a_copy_within_the_host_follows_the_legacy_stream),
		wait_test(an_event_is_waited_for),
		wait_test(the_wait_of_a_context_is_one_way_too),
		wait_test(a_server_on_this_host_is_waited_for),
		wait_test(work_that_another_process_may_see_is_waited_for),
		wait_test(an_older_server_is_waited_for),
	};

	return cmocka_run_group_tests(tests, group_begin, group_end);
}
