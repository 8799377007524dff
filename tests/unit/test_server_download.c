/*
 * tests/unit/test_server_download.c - a download lends its slots to a channel without a connection,
 * and fills them again.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "rpc/lasting.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "server/copy/staging.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "server_fake.h"
#include "tests/unit/rpc_ends.h"

#define SIZE ((size_t)(3 * CK_CALL_SLOTS) * CK_PIECE_MAX + 1001)

static struct cks_request request;
static struct ck_chan *client;
static struct ck_reader *reader;
static unsigned char device[SIZE], got[SIZE];
static unsigned int good; /* so many copies succeed, and the others fail */

static CUresult copy_some(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	return good > 0 && good-- ? fake_DtoH(dst, src, size, stream) : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static int begin(void **state)
{
	struct cks_session *session;

	(void)state;
	fake_install();
	ck_driver.cuMemcpyDtoHAsync_v2 = copy_some;
	memset(got, 'x', sizeof(got));
	for (size_t i = 0; i < SIZE; i++)
		device[i] =
			(unsigned char)(i * 7 + i / 4096 + i / CK_PIECE_MAX); /* pieces differ */
	if (cks_session_create(NULL, NULL, 1, &session) < 0 ||
	    ck_lasting_create("server", NULL, CK_LASTING_LIMIT, &client) < 0 ||
	    ck_lasting_create("client", NULL, CK_LASTING_LIMIT, &request.chan) < 0)
		return -1;
	request =
		(struct cks_request){.session = session, .chan = request.chan, .ctx = 1, .xid = 7};
	cks_memory_note(session->memory, 1, (uintptr_t)device, sizeof(device));
	return ck_reader_create(client, &reader);
}

static int end(void **state)
{
	(void)state;
	ck_reader_destroy(reader);
	ck_chan_close(client);
	ck_chan_close(request.chan);
	cks_session_destroy(request.session);
	return 0;
}

static void *connect_lasting(void *unused)
{
	lasting_connect(client, request.chan);
	return unused;
}

/* Download everything, during a cut. */
static void serve(void)
{
	ck_download_args args = {.src = (uintptr_t)device, .size = SIZE};

	request.replied = false;
	assert_int_equal(ck_serve_download(&request, &args, NULL), CUDA_SUCCESS);
	assert_true(request.replied);
	assert_int_equal(request.broken, 0);
}

/* Read a reply into @got; returns its tail. */
static CUresult take(void)
{
	unsigned char tail[8];
	struct ck_record record;
	uint32_t word;

	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(ck_reader_bulk_begin(reader, record.total - SIZE - (-SIZE & 3) - 4), 0);
	assert_int_equal(ck_reader_bulk(reader, got, SIZE), 0);
	assert_int_equal(ck_reader_bulk(reader, tail, (-SIZE & 3) + 4), 0);
	memcpy(&word, tail + (-SIZE & 3), 4);
	return (CUresult)ntohl(word);
}

static pthread_t reconnect(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, connect_lasting, NULL), 0);
	return thread;
}

/* By the same download, and by the next one. */
static void slots_are_filled_again_during_a_cut(void **state)
{
	pthread_t thread;

	(void)state;
	good = 1000;
	serve();
	for (size_t i = 0; i < SIZE; i++)
		device[i] ^= 0xff;
	serve();
	thread = reconnect();
	assert_int_equal(take(), CUDA_SUCCESS);
	for (size_t i = 0; i < SIZE; i++)
		assert_int_equal(got[i] ^ 0xff, device[i]);
	assert_int_equal(take(), CUDA_SUCCESS);
	assert_memory_equal(got, device, SIZE);
	pthread_join(thread, NULL);
}

/* The zeroes behind it do not replace what was sent before. */
static void a_copy_that_fails_halfway_keeps_what_was_sent(void **state)
{
	const size_t half = (size_t)CK_PIECE_MAX * (CK_CALL_SLOTS + 1);
	pthread_t thread;

	(void)state;
	good = CK_CALL_SLOTS + 1;
	serve();
	thread = reconnect();
	assert_int_equal(take(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_memory_equal(got, device, half);
	for (size_t i = half; i < SIZE; i++)
		assert_int_equal(got[i], 0);
	pthread_join(thread, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slots_are_filled_again_during_a_cut),
		TEST(a_copy_that_fails_halfway_keeps_what_was_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
