/*
 * tests/unit/test_client_rebuild.c - after its session is lost, a process can have another: a new
 * object, which connects to the server that is there then.
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

#include "tests/unit/client_peer.h"

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	(void)payload;
	if (m->number == CK_PROC_cuMemGetInfo_v2) {
		((cuMemGetInfo_v2_res *)res)->free = 10;
		((cuMemGetInfo_v2_res *)res)->total = 20;
	}
	return CUDA_SUCCESS;
}

static CUresult ask(void)
{
	size_t unused = 0, total = 0;
	CUresult err = cuMemGetInfo_v2(&unused, &total);

	assert_true(err || (unused == 10 && total == 20));
	return err;
}

/* The commands of a session are numbered from 1. */
static void expect_another(void)
{
	pthread_mutex_lock(&peer.lock);
	peer.seq = 0;
	pthread_mutex_unlock(&peer.lock);
}

static void a_session_can_follow_one_that_is_lost(void **state)
{
	struct ckc_client *first = ckc_client_current(), *second;
	CUcontext context;

	(void)state;
	assert_int_equal(ask(), CUDA_SUCCESS);
	ckc_session_lost(first, "the test wants it");
	assert_int_equal(ask(), CUDA_ERROR_DEVICE_UNAVAILABLE);
	expect_another();
	second = ckc_client_create();
	assert_non_null(second);
	ckc_client_default = second;
	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
	assert_int_equal(ask(), CUDA_SUCCESS);
	assert_int_equal(second->state, CK_STATE_READY);
	assert_int_equal(first->state, CK_STATE_LOST);
	assert_true(peer_count(CK_PROC_primary_retain) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_can_follow_one_that_is_lost),
	};

	peer.call = answer;
	return cmocka_run_group_tests(tests, peer_begin, peer_end);
}
