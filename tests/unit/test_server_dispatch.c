/*
 * tests/unit/test_server_dispatch.c - a client's bytes on a command connection and a lane, against
 * the dispatcher with a driver of a few functions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen/handlers.h"
#include "rpc/compress.h"
#include "rpc/proc.h"
#include "server/memory/delivery.h"
#include "server/memory/memory.h"
#include "server/modules/modcache.h"
#include "server/session/output.h"
#include "server/worker/dispatch.h"
#include "server_fake.h"
#include "util/util.h"
#include "tests/unit/server_ends.h"
#include "tests/unit/server_links.h"

static void commands_are_carried_out_in_order_and_a_call_waits_for_them(void **state)
{
	cuMemGetInfo_v2_args a = {.head.seq = 200};
	cuMemGetInfo_v2_res r = {0};
	struct ck_record record;

	(void)state;
	fake.set_delay = 50;
	send_call(&lane, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0); /* before there is any command */
	for (uint64_t seq = 1; seq <= 200; seq++)
		send_set(seq);
	assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL), 0);
	assert_int_equal(r.free, 200);
	assert_true(fake.set_in_order);
}

static void an_error_of_a_command_is_told_once_in_place_of_the_next_call(void **state)
{
	cuMemFree_v2_args bad = {.head.seq = 1, .dptr = 0x1234};
	unsigned int asked;

	(void)state;
	send_call(&command, CK_PROC_cuMemFree_v2, &bad, NULL, 0);
	send_set(2);
	asked = fake.asked;
	assert_int_equal(ask(2, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake.asked, asked);
	assert_int_equal(ask(2, NULL), CUDA_SUCCESS);
	assert_int_equal(fake.sets, 1); /* later commands are carried out all the same */
}

/* The upload names a stream that is none. */
static void a_command_waits_for_uploads_on_lanes_and_keeps_their_errors(void **state)
{
	ck_upload_joined_args joined = {.head.seq = 1, .count = 1};
	ck_upload_beside_args upload = {.stream = 4711, .data_length = 16};
	ck_upload_beside_res r = {0};
	struct ck_record record;

	(void)state;
	send_call(&command, CK_PROC_upload_joined, &joined, NULL, 0);
	send_set(2);
	assert_int_equal(fake.sets, 0);
	send_call(&lane, CK_PROC_upload_beside, &upload, "sixteen letters.", 16);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_upload_beside_res, &r, &record, NULL), 0);
	assert_int_not_equal(r.head.err, CUDA_SUCCESS);
	assert_int_equal(ask(2, NULL), r.head.err);
	assert_int_equal(ask(2, NULL), CUDA_SUCCESS);
	assert_int_equal(fake.sets, 1);
	joined.head.seq = 3; /* more than any client can have sent */
	joined.count = (uint64_t)1 << 40;
	send_call(&command, CK_PROC_upload_joined, &joined, NULL, 0);
	assert_int_equal(ask(3, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void a_descriptor_goes_with_the_call_that_is_not_carried_out(void **state)
{
	cuMemFree_v2_args bad = {.head.seq = 1, .dptr = 0x1234};
	cuMemGetInfo_v2_args a = {.head.seq = 1};
	cuMemGetInfo_v2_res r = {0};
	struct ck_record record;
	unsigned char out[512];
	struct iovec iov = {out, 0};
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	send_call(&command, CK_PROC_cuMemFree_v2, &bad, NULL, 0);
	iov.iov_len =
		(size_t)ck_call_encode(out, sizeof(out), lane_xid = ++xid, CK_PROC_cuMemGetInfo_v2,
				       (xdrproc_t)xdr_cuMemGetInfo_v2_args, &a, 0);
	assert_int_equal(ck_chan_writev_fd(lane.chan, &iov, 1, ends[1]), 0);
	close(ends[1]);
	assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL), 0);
	assert_int_equal(r.head.err, CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(read(ends[0], out, 1), 0); /* nobody has the other end */
	close(ends[0]);
}

/* The client makes them by itself, and keeps to itself what they end with. */
static void a_call_that_the_program_does_not_see_takes_no_error(void **state)
{
	static const struct {
		uint32_t proc;
		xdrproc_t xdr;
		size_t size;
	} calls[] = {
		{CK_PROC_window, (xdrproc_t)xdr_ck_window_res, sizeof(ck_window_res)},
		{CK_PROC_pinned_file, (xdrproc_t)xdr_ck_pinned_file_res,
		 sizeof(ck_pinned_file_res)},
		{CK_PROC_pinned_map, (xdrproc_t)xdr_ck_pinned_map_res, sizeof(ck_pinned_map_res)},
		{CK_PROC_status_file, (xdrproc_t)xdr_ck_status_file_res,
		 sizeof(ck_status_file_res)},
		{CK_PROC_pointer_pool, (xdrproc_t)xdr_ck_pointer_pool_res,
		 sizeof(ck_pointer_pool_res)},
	};
	cuMemFree_v2_args bad = {.head.seq = 1, .dptr = 0x1234};
	unsigned char args[256] = {0}, res[256];
	struct ck_record record;

	(void)state;
	send_call(&command, CK_PROC_cuMemFree_v2, &bad, NULL, 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(calls); i++) {
		((struct ck_head *)args)->seq = 1;
		assert_true(calls[i].size <= sizeof(res));
		memset(res, 0, sizeof(res));
		send_call(&lane, calls[i].proc, args, NULL, 0);
		assert_int_equal(read_reply(calls[i].xdr, res, &record, NULL), 0);
	}
	assert_int_equal(ask(1, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_first_of_two_errors_is_told(void **state)
{
	cuMemFree_v2_args bad = {.head.seq = 1, .dptr = 0x1234};
	cuStreamDestroy_v2_args worse = {.head.seq = 2, .hStream = 99};

	(void)state;
	ck_driver.cuStreamDestroy_v2 = fake_stream_wait;
	send_call(&command, CK_PROC_cuMemFree_v2, &bad, NULL, 0);
	send_call(&command, CK_PROC_cuStreamDestroy_v2, &worse, NULL, 0);
	assert_int_equal(ask(2, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ask(2, NULL), CUDA_SUCCESS);
}

static void a_missing_number_ends_the_command_connection(void **state)
{
	(void)state;
	send_set(1);
	send_set(3);
	assert_int_equal(wait_end(&command), -EPROTO);
	assert_int_equal(fake.sets, 1);
}

static void calls_do_not_travel_on_the_command_connection(void **state)
{
	cuMemGetInfo_v2_args a = {.head.seq = 1};

	(void)state;
	send_call(&command, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0);
	assert_int_equal(wait_end(&command), -EPROTO);
}

static void commands_do_not_travel_on_a_lane(void **state)
{
	cuMemsetD8_v2_args a = {.head.seq = 1};

	(void)state;
	send_call(&lane, CK_PROC_cuMemsetD8_v2, &a, NULL, 0);
	assert_int_equal(wait_end(&lane), -EPROTO);
}

static void an_unknown_procedure_is_refused_and_the_lane_goes_on(void **state)
{
	struct ck_record record;

	(void)state;
	send_raw(&lane, 5000, "", 0);
	assert_int_equal(read_reply(NULL, NULL, &record, NULL), -EOPNOTSUPP);
	assert_int_equal(ask(0, NULL), CUDA_SUCCESS);
}

static void arguments_too_short_or_too_long_end_the_lane(void **state)
{
	static const char bytes[64];
	static const size_t sizes[] = {0, 8, 15, 20, 64};
	struct ck_record record;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		send_raw(&lane, CK_PROC_cuMemGetInfo_v2, bytes, sizes[i]);
		assert_int_equal(read_reply(NULL, NULL, &record, NULL), -EBADMSG);
		assert_int_equal(wait_end(&lane), -EPROTO);
		open_end(&lane, false);
	}
}

static void lengths_that_lie_are_refused(void **state)
{
	unsigned char launch[88] = {0};

	(void)state;
	launch[7] = 1;		      /* seq */
	memset(launch + 60, 0xff, 4); /* of the attributes: 4 GiB */
	send_raw(&command, CK_PROC_launch, launch, sizeof(launch));
	assert_int_equal(wait_end(&command), -EPROTO);
}

static void a_call_for_a_command_of_the_far_future_is_refused(void **state)
{
	cuMemGetInfo_v2_args a = {.head.seq = UINT64_MAX};

	(void)state;
	send_call(&lane, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0);
	assert_int_equal(wait_end(&lane), -EPROTO);
}

static void hanging_up_between_messages_is_no_error_but_inside_one_is(void **state)
{
	(void)state;
	assert_int_equal(close_end(&lane), 0);
	send_all(&command, "\x80\x00\x00\x40 and", 8, NULL, 0);
	assert_int_equal(close_end(&command), -ECONNRESET);
}

static void a_bye_is_answered_and_reported(void **state)
{
	struct ck_record record;

	(void)state;
	send_raw(&lane, CK_PING, "", 0);
	assert_int_equal(read_reply(NULL, NULL, &record, NULL), 0);
	send_raw(&lane, CK_BYE, "", 0);
	assert_int_equal(read_reply(NULL, NULL, &record, NULL), 0);
	assert_int_equal(wait_end(&lane), CK_DISPATCH_BYE);
}

static void the_callers_context_is_bound(void **state)
{
	cuMemGetInfo_v2_args a = {.head.ctx = 3};
	cuMemGetInfo_v2_res r = {0};
	struct ck_record record;
	int context;

	(void)state;
	cks_handles_put(session->handles, 3, CK_KIND_CONTEXT, 0, &context);
	send_call(&lane, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0);
	assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL), 0);
	assert_int_equal(r.total, (uintptr_t)&context);
	a.head.ctx = 4; /* an unknown context: the driver decides */
	send_call(&lane, CK_PROC_cuMemGetInfo_v2, &a, NULL, 0);
	assert_int_equal(read_reply((xdrproc_t)xdr_cuMemGetInfo_v2_res, &r, &record, NULL), 0);
	assert_int_equal(r.total, 0);
}

/* Ask for @size bytes at @src after command @seq: the result of the call, or of moving them. */
static int download(uint64_t seq, CUdeviceptr src, unsigned char *dst, size_t size)
{
	ck_download_args a = {.head.seq = seq, .src = src, .size = size};
	ck_download_res r = {0};
	struct ck_record record;
	uint32_t tail;
	size_t at = 0;

	send_call(&lane, CK_PROC_download, &a, NULL, 0);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_download_res, &r, &record, &at), 0);
	assert_int_equal(r.data_length, r.head.err ? 0 : size);
	assert_int_equal(record.total, at + (r.data_length + 3) / 4 * 4 + 4);
	assert_int_equal(ck_reader_bulk_begin(lane.reader, at), 0);
	assert_int_equal(ck_reader_bulk(lane.reader, dst, r.data_length), 0);
	assert_int_equal(ck_reader_bulk_begin(lane.reader, record.total - 4), 0);
	assert_int_equal(ck_reader_bulk(lane.reader, &tail, 4), 0);
	return r.head.err ? r.head.err : (int)ntohl(tail);
}

static void bytes_come_back_as_they_were_sent(void **state)
{
	static const size_t sizes[] = {1, 3, 4096, 65537, 1 << 20, (1 << 20) + 1, 9999999};
	uint64_t seq = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned char *bytes = malloc(sizes[i]), *back = calloc(1, sizes[i]);
		CUdeviceptr device;
		ck_upload_args a = {.head.seq = ++seq, .data_length = (u_int)sizes[i]};

		for (size_t j = 0; j < sizes[i]; j++)
			bytes[j] = (unsigned char)(j * 131 >> 4);
		assert_int_equal(cks_memory_alloc(session->memory, 0, sizes[i], &device), 0);
		a.dst = device;
		send_call(&command, CK_PROC_upload, &a, bytes, sizes[i]);
		assert_int_equal(download(seq, device, back, sizes[i]), CUDA_SUCCESS);
		assert_memory_equal(bytes, back, sizes[i]);
		cks_memory_free(session->memory, device);
		free(bytes);
		free(back);
	}
}

/* A compressed block of @size bytes for @dst, as a call: its error. */
static int upload_packed(CUdeviceptr dst, const void *block, size_t length, size_t size)
{
	ck_upload_packed_part_args a = {.dst = dst, .size = size, .data_length = (u_int)length};
	ck_upload_packed_part_res r = {0};
	struct ck_record record;

	send_call(&lane, CK_PROC_upload_packed_part, &a, block, length);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_upload_packed_part_res, &r, &record, NULL),
			 0);
	return r.head.err;
}

static void compressed_blocks_become_what_they_were(void **state)
{
	const size_t size = CK_PACK_BLOCK - 3;
	unsigned char *bytes = malloc(size), *back = calloc(1, size);
	ck_upload_packed_args a = {.head.seq = 1, .size = size};
	struct ck_packer *packer;
	const void *block;
	CUdeviceptr device;
	size_t length;

	(void)state;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i / 100 * 131 >> 4);
	assert_int_equal(ck_packer_create(&packer), 0);
	length = ck_pack(packer, bytes, size, &block);
	assert_in_range(length, 1, size);
	assert_int_equal(cks_memory_alloc(session->memory, 0, size, &device), 0);
	assert_int_equal(upload_packed(device, block, length, size), CUDA_SUCCESS);
	assert_int_equal(download(0, device, back, size), CUDA_SUCCESS);
	assert_memory_equal(bytes, back, size);
	memset(back, 0, size);
	((unsigned char *)(uintptr_t)device)[0] ^= 1;
	a.dst = device;
	a.data_length = (u_int)length;
	send_call(&command, CK_PROC_upload_packed, &a, block, length);
	assert_int_equal(download(1, device, back, size), CUDA_SUCCESS);
	assert_memory_equal(bytes, back, size);
	ck_packer_destroy(packer);
	cks_memory_free(session->memory, device);
	free(bytes);
	free(back);
}

static void blocks_that_are_none_are_refused_and_the_lane_goes_on(void **state)
{
	static const unsigned char zeros[2000];
	struct ck_packer *packer;
	const void *block;
	CUdeviceptr device;
	size_t length;

	(void)state;
	assert_int_equal(ck_packer_create(&packer), 0);
	length = ck_pack(packer, zeros, sizeof(zeros), &block);
	assert_int_equal(cks_memory_alloc(session->memory, 0, sizeof(zeros), &device), 0);
	assert_int_equal(upload_packed(device, block, length, 1999), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, block, length, 2001), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, block, length, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, block, length, 1ull << 40),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, zeros, 1000, 2000), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, zeros, 2000, 1000), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, zeros, 0, 2000), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(upload_packed(device, block, length, 2000), CUDA_SUCCESS);
	ck_packer_destroy(packer);
	cks_memory_free(session->memory, device);
}

/* The client may not read replies until it has sent much more. */
static void nothing_is_sent_ahead_of_the_reply_to_an_upload(void **state)
{
	ck_upload_part_args a = {.data_length = 4};
	ck_upload_part_res r = {0};
	struct ck_record record;
	CUdeviceptr device;

	(void)state;
	assert_int_equal(cks_memory_alloc(session->memory, 0, 4, &device), 0);
	a.dst = device;
	cks_deliveries_send_watch(session, 3, 0, true);
	send_call(&lane, CK_PROC_upload_part, &a, "four", 4);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_upload_part_res, &r, &record, NULL), 0);
	assert_int_equal(r.head.err, CUDA_SUCCESS);
	assert_int_equal(r.head.delivered, 1);
	cks_memory_free(session->memory, device);
}

static void copies_past_the_end_are_refused_whole(void **state)
{
	const size_t size = 3 << 20;
	unsigned char *bytes = calloc(1, size + 1);
	ck_upload_args a = {.head.seq = 1, .data_length = (u_int)size + 1};
	CUdeviceptr device;

	(void)state;
	assert_int_equal(cks_memory_alloc(session->memory, 0, size, &device), 0);
	a.dst = device;
	assert_int_equal(download(0, device, bytes, size + 1), CUDA_ERROR_INVALID_VALUE);
	send_call(&command, CK_PROC_upload, &a, bytes, size + 1);
	send_set(2); /* the payload that nobody took has been skipped */
	assert_int_equal(ask(2, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake.sets, 1);
	cks_memory_free(session->memory, device);
	free(bytes);
}

static void a_copy_that_fails_says_so(void **state)
{
	const size_t size = 3 << 20;
	unsigned char *bytes = calloc(1, size);
	CUdeviceptr device;

	(void)state;
	assert_int_equal(cks_memory_alloc(session->memory, 0, size, &device), 0);
	fake.copy_error = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(download(0, device, bytes, 100), CUDA_ERROR_INVALID_VALUE);
	fake.copy_error = CUDA_SUCCESS;
	fake.wait_error = CUDA_ERROR_ILLEGAL_ADDRESS;
	assert_int_equal(download(0, device, bytes, size), CUDA_ERROR_ILLEGAL_ADDRESS);
	fake.wait_error = CUDA_SUCCESS;
	assert_int_equal(download(0, device, bytes, size), CUDA_SUCCESS);
	cks_memory_free(session->memory, device);
	free(bytes);
}

/* The first piece works, the next fails: the bytes promised come, and the tail tells. */
static unsigned int pieces;

static CUresult second_piece_fails(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
	return pieces++ == 1 ? CUDA_ERROR_ILLEGAL_ADDRESS : fake_DtoH(dst, src, size, stream);
}

static void an_error_in_the_middle_is_told_at_the_end(void **state)
{
	const size_t size = (3 << 20) + 5;
	unsigned char *bytes = calloc(1, size);
	CUdeviceptr device;

	(void)state;
	assert_int_equal(cks_memory_alloc(session->memory, 0, size, &device), 0);
	pieces = 0;
	ck_driver.cuMemcpyDtoHAsync_v2 = second_piece_fails;
	assert_int_equal(download(0, device, bytes, size), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(ask(0, NULL), CUDA_SUCCESS);
	cks_memory_free(session->memory, device);
	free(bytes);
}

/* --- a link that one lane adds to and another destroys */

static void a_link_may_go_while_the_bytes_for_it_come(void **state)
{
	static const char image[1 << 20];
	ck_link_create_args create = {.link = 7};
	ck_link_create_res created = {0};
	ck_link_add_args add = {.link = 7, .name = (char *)"", .data_length = sizeof(image)};
	ck_link_add_res added = {0};
	cuLinkDestroy_args destroy = {.state = 7};
	struct ck_record record;
	unsigned char out[512];
	struct end other;
	long n;

	(void)state;
	links_install();
	send_call(&lane, CK_PROC_link_create, &create, NULL, 0);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_link_create_res, &created, &record, NULL), 0);
	open_end(&other, false);
	n = ck_call_encode(out, sizeof(out), lane_xid = ++xid, CK_PROC_link_add,
			   (xdrproc_t)xdr_ck_link_add_args, &add, sizeof(image));
	send_all(&lane, out, (size_t)n, image, sizeof(image) / 2);
	usleep(100000); /* the lane waits for the rest */
	send_call(&other, CK_PROC_cuLinkDestroy, &destroy, NULL, 0);
	assert_int_equal(ck_reader_next(other.reader, &record), 0);
	assert_int_equal(links, 0);
	send_all(&lane, NULL, 0, image + sizeof(image) / 2, sizeof(image) / 2);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_link_add_res, &added, &record, NULL), 0);
	assert_int_equal(added.head.err, CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(ask(0, NULL), CUDA_SUCCESS);
	assert_int_equal(close_end(&other), 0);
}

/* As many as a reply's list may have, with which it is longer than a record. */
static CUresult many_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	(void)graph;
	*count = CK_IDS_MAX;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = (CUgraphNode)(i + 1);
	return CUDA_SUCCESS;
}

static void a_result_that_no_record_holds_is_an_error_and_the_lane_goes_on(void **state)
{
	ck_graph_nodes_args a = {.graph = 30};
	ck_graph_nodes_res r = {0};
	struct ck_record record;
	CUgraph graph = (CUgraph)(uintptr_t)0x100;

	(void)state;
	ck_driver.cuGraphGetNodes = many_nodes;
	assert_int_equal(cks_handles_put(session->handles, 30, CK_KIND_GRAPH, 0, graph), 0);
	send_call(&lane, CK_PROC_graph_nodes, &a, NULL, 0);
	assert_int_equal(read_reply((xdrproc_t)xdr_ck_graph_nodes_res, &r, &record, NULL), 0);
	assert_int_equal(r.head.err, CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(r.nodes.nodes_len, 0);
	xdr_free((xdrproc_t)xdr_ck_graph_nodes_res, &r);
	assert_int_equal(ask(0, NULL), 0);
}

/* Append @size bytes to descriptor @fd. */
static void print_much(int fd, size_t size)
{
	char *text = malloc(size);

	assert_non_null(text);
	memset(text, 'x', size);
	assert_int_equal(write(fd, text, size), (ssize_t)size);
	free(text);
}

static void much_on_both_stdout_and_stderr_is_fetched(void **state)
{
	const size_t much = 700000;
	int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
	ck_output_args a = {0};
	size_t got[2] = {0};
	bool both;
	int ret = 0;

	(void)state;
	assert_int_equal(cks_output_redirect(16u << 20, &session->output), 0);
	both = fcntl(STDERR_FILENO, F_GET_SEALS) >=
	       0; /* not with a sanitizer, which writes there */
	print_much(STDOUT_FILENO, much);
	if (both)
		print_much(STDERR_FILENO, much);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(out);
	close(err);
	signal(SIGABRT, SIG_DFL);
	while (ret == 0 && cks_output_pending(session->output)) {
		ck_output_res r = {0};
		struct ck_record record;

		send_call(&lane, CK_PROC_output, &a, NULL, 0);
		ret = read_reply((xdrproc_t)xdr_ck_output_res, &r, &record, NULL);
		got[0] += r.text.text_len;
		got[1] += r.errors.errors_len;
		xdr_free((xdrproc_t)xdr_ck_output_res, &r);
	}
	assert_int_equal(ret, 0);
	assert_int_equal(got[0], much);
	assert_int_equal(got[1], both ? much : 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(commands_are_carried_out_in_order_and_a_call_waits_for_them),
		TEST(an_error_of_a_command_is_told_once_in_place_of_the_next_call),
		TEST(a_command_waits_for_uploads_on_lanes_and_keeps_their_errors),
		TEST(a_descriptor_goes_with_the_call_that_is_not_carried_out),
		TEST(a_call_that_the_program_does_not_see_takes_no_error),
		TEST(the_first_of_two_errors_is_told),
		TEST(a_missing_number_ends_the_command_connection),
		TEST(calls_do_not_travel_on_the_command_connection),
		TEST(commands_do_not_travel_on_a_lane),
		TEST(an_unknown_procedure_is_refused_and_the_lane_goes_on),
		TEST(arguments_too_short_or_too_long_end_the_lane),
		TEST(lengths_that_lie_are_refused),
		TEST(a_call_for_a_command_of_the_far_future_is_refused),
		TEST(hanging_up_between_messages_is_no_error_but_inside_one_is),
		TEST(a_bye_is_answered_and_reported),
		TEST(the_callers_context_is_bound),
		TEST(bytes_come_back_as_they_were_sent),
		TEST(compressed_blocks_become_what_they_were),
		TEST(blocks_that_are_none_are_refused_and_the_lane_goes_on),
		TEST(nothing_is_sent_ahead_of_the_reply_to_an_upload),
		TEST(copies_past_the_end_are_refused_whole),
		TEST(a_copy_that_fails_says_so),
		TEST(an_error_in_the_middle_is_told_at_the_end),
		TEST(a_link_may_go_while_the_bytes_for_it_come),
		TEST(a_result_that_no_record_holds_is_an_error_and_the_lane_goes_on),
		TEST(much_on_both_stdout_and_stderr_is_fetched),
	};

	return run_over_both(tests);
}
