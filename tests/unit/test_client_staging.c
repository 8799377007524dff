/*
 * tests/unit/test_client_staging.c - copies of pageable memory by way of shared windows: the peer
 * plays the device with what is in the file.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "client/copy/staging.h"
#include "client/memory/pinned.h"
#include "tests/unit/client_peer.h"

#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)
#define DEVICE 0x700000000000ull
#define SIZE (8 * MIB)

static unsigned char device[SIZE], host[SIZE];
static _Atomic uint64_t base; /* of the addresses kept for the file */
static CUstream stream;

static void ok(CUresult err)
{
	assert_int_equal(err, CUDA_SUCCESS);
}

static void move(uint64_t dst, uint64_t src, size_t size, bool up)
{
	uint64_t window = up ? src : dst, at = (up ? dst : src) - DEVICE;
	ssize_t n = up ? pread(peer.file, device + at, size, (off_t)(window - base))
		       : pwrite(peer.file, device + at, size, (off_t)(window - base));

	assert_int_equal(n, size);
}

static void command(const struct peer_message *m)
{
	const ck_pinned_copy_args *copy = m->args;

	if (m->number == CK_PROC_pinned_copy)
		move(copy->dst, copy->src, copy->size, copy->kind == 0);
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	const ck_pinned_move_args *now = m->args;

	if (m->number == CK_PROC_pinned_file) {
		base = ((const ck_pinned_file_args *)m->args)->address;
		((ck_pinned_file_res *)res)->taken = 1;
	} else if (m->number == CK_PROC_pinned_move) {
		move(now->dst, now->src, now->size, now->kind == 0);
	} else if (m->number == CK_PROC_download) {
		payload->data = device;
		payload->size = ((const ck_download_args *)m->args)->size;
	}
	return CUDA_SUCCESS;
}

static void fill(unsigned char *p, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (unsigned char)((i * 131 + seed) >> 3);
}

static int begin(void **state)
{
	peer.call = answer;
	peer.command = command;
	if (peer_begin(state) < 0 ||
	    ckc_allocation_add(DEVICE, SIZE, CK_MEMORY_DEVICE, ckc_context_current(), 0, false))
		return -1;
	return (int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static void who_copies_little_has_no_window(void **state)
{
	(void)state;
	peer_clear();
	for (int i = 0; i < 15; i++)
		ok(cuMemcpyHtoD_v2(DEVICE, host, MIB));
	assert_int_equal(peer_count(CK_PROC_upload), 15);
	assert_int_equal(peer_count(CK_PROC_pinned_map), 0);
	ok(cuMemcpyHtoD_v2(DEVICE, host, MIB));
	ok(cuMemcpyHtoD_v2(DEVICE, host, MIB));
	assert_int_equal(peer_count(CK_PROC_upload), 15);
	assert_int_equal(peer_count(CK_PROC_pinned_map), 1);
}

static void bytes_arrive_as_they_were_at_the_call(void **state)
{
	static const size_t sizes[] = {128 * KIB, 256 * KIB + 1, MIB + 5,
				       2 * MIB,	  2 * MIB + 1,	 7 * MIB + 3};
	static unsigned char want[SIZE];

	(void)state;
	ok(cuCtxSynchronize());
	peer_clear();
	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		fill(host, n, (unsigned int)i);
		memcpy(want, host, n);
		ok(cuMemcpyHtoD_v2(DEVICE + 11, host, n));
		assert_memory_equal(device + 11, want, n);
		memset(host, 0, n);
		ok(cuMemcpyDtoH_v2(host, DEVICE + 11, n));
		assert_memory_equal(host, want, n);
	}
	assert_int_equal(peer_count(CK_PROC_upload), 0);
	assert_int_equal(peer_count(CK_PROC_download), 0);
	assert_int_equal(peer_count(CK_PROC_pinned_move), 1); /* of one piece */
}

static void a_window_is_used_again_when_its_copies_are_done(void **state)
{
	CUstream other;

	(void)state;
	ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ok(cuCtxSynchronize());
	peer_clear();
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, stream));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, stream));
	assert_int_equal(peer_count(CK_PROC_upload), 1);
	ok(cuStreamSynchronize(other));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, other));
	assert_int_equal(peer_count(CK_PROC_upload), 2);
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, stream));
	assert_int_equal(peer_count(CK_PROC_upload), 2);
	ok(cuCtxSynchronize());
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, other));
	assert_int_equal(peer_count(CK_PROC_upload), 2);
	ok(cuStreamDestroy_v2(other));
}

static void who_need_not_wait_does_not(void **state)
{
	(void)state;
	ok(cuCtxSynchronize());
	peer_clear();
	ok(cuMemsetD8Async(DEVICE, 1, 10, stream));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, 3 * MIB, stream));
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 0);
	assert_int_equal(peer_count(CK_PROC_upload), 1);
	/* nothing in front of the copy: it waits for parts of itself alone */
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, 3 * MIB, stream));
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 2);
	assert_int_equal(peer_count(CK_PROC_upload), 1);
}

/* What the current context has waited for says nothing of another's streams. */
static void a_copy_is_made_in_the_context_of_its_stream(void **state)
{
	const ck_upload_args *upload;
	CUcontext other;
	CUstream foreign;

	(void)state;
	ok(cuCtxCreate_v2(&other, 0, 0));
	ok(cuStreamCreate(&foreign, CU_STREAM_NON_BLOCKING));
	ok(cuCtxPopCurrent_v2(NULL));
	ok(cuCtxSynchronize());
	peer_clear();
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, foreign));
	upload = peer_args(CK_PROC_upload, 0);
	assert_non_null(upload); /* the window is of the current context */
	assert_int_equal(upload->head.ctx, ((struct ckc_object *)other)->id);
	ok(cuCtxSynchronize());
	ok(cuStreamSynchronize(foreign));
	assert_int_equal(peer_count(CK_PROC_cuStreamSynchronize), 1);
	ok(cuCtxDestroy_v2(other));
}

/* What was copied in a stream that is gone may still be under way. */
static void a_stream_with_the_id_of_an_older_one_says_nothing_of_its_copies(void **state)
{
	struct ckc_stream *s;
	CUstream first, second;
	uint64_t id;

	(void)state;
	ok(cuCtxSynchronize());
	ok(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	s = (struct ckc_stream *)first;
	id = s->object.id;
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, first));
	ok(cuStreamDestroy_v2(first));
	for (;;) {
		ok(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
		s = (struct ckc_stream *)second;
		if (s->object.id == id)
			break;
		ok(cuStreamDestroy_v2(second));
	}
	peer_clear();
	ok(cuStreamSynchronize(second));
	ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, second));
	assert_int_equal(peer_count(CK_PROC_upload), 1);
	ok(cuStreamDestroy_v2(second));
}

static void what_was_waited_for_in_a_stream_that_is_gone_counts(void **state)
{
	CUstream brief;

	(void)state;
	ok(cuCtxSynchronize());
	peer_clear();
	for (int i = 0; i < 20; i++) {
		ok(cuStreamCreate(&brief, CU_STREAM_NON_BLOCKING));
		ok(cuMemcpyHtoDAsync_v2(DEVICE, host, MIB, brief));
		ok(cuStreamSynchronize(brief));
		ok(cuStreamDestroy_v2(brief));
	}
	assert_int_equal(peer_count(CK_PROC_upload), 0);
}

static void windows_go_with_their_context(void **state)
{
	CUdevice dev;

	(void)state;
	ok(cuCtxSynchronize());
	peer_clear();
	ok(cuCtxGetDevice(&dev));
	ok(cuDevicePrimaryCtxReset_v2(dev));
	assert_int_equal(peer_count(CK_PROC_pinned_unmap), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* the program earns its first window, and with the fourth test more */
		cmocka_unit_test(who_copies_little_has_no_window),
		cmocka_unit_test(a_window_is_used_again_when_its_copies_are_done),
		cmocka_unit_test(a_copy_is_made_in_the_context_of_its_stream),
		cmocka_unit_test(a_stream_with_the_id_of_an_older_one_says_nothing_of_its_copies),
		cmocka_unit_test(what_was_waited_for_in_a_stream_that_is_gone_counts),
		cmocka_unit_test(who_need_not_wait_does_not),
		cmocka_unit_test(bytes_arrive_as_they_were_at_the_call),
		cmocka_unit_test(windows_go_with_their_context),
	};

	return cmocka_run_group_tests(tests, begin, peer_end);
}
