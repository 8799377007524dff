/*
 * tests/unit/test_client_compression.c - when bytes travel compressed, and uploads in compressed
 * blocks.
 *
 * The peer expands the blocks, so that a test sees what would be on the device.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/copy/compressed_upload.h"
#include "client/copy/split_copy.h"
#include "client/wire/compression.h"
#include "client/wire/pipelined_calls.h"
#include "tests/unit/client_peer.h"
#include "util/until.h"

#define DEVICE 0x700000000000ull
#define MB 1000000ull
#define SIZE ((size_t)CK_PACK_BLOCK * 9 + 12345)
#define PART CK_PROC_upload_packed_part

/* What has come: memory, messages of each kind, and the call that fails, counted from 1. */
static struct {
	pthread_mutex_t lock;
	unsigned char memory[SIZE];
	size_t packed, plain, bytes;
	size_t failing;
	struct ck_unpacker *unpacker;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned char noise[SIZE], text[SIZE];

static void keep(const struct peer_message *m, uint64_t dst, size_t size)
{
	unsigned char *to = device.memory + (dst - DEVICE);

	peer_check(dst - DEVICE + size <= SIZE);
	pthread_mutex_lock(&device.lock);
	device.bytes += m->bulk_size;
	if (size == m->bulk_size) {
		device.plain++;
		memcpy(to, m->bulk, size);
	} else {
		device.packed++;
		memcpy(ck_unpack_room(device.unpacker), m->bulk, m->bulk_size);
		peer_check(ck_unpack(device.unpacker, m->bulk_size, to, size) == 0);
	}
	pthread_mutex_unlock(&device.lock);
}

/* The peer answers no part until four have come, and keeps the threads that serve the
 * connections. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool on;
	unsigned int came;
	pthread_t by[4];
} parts = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void await_parts(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	pthread_mutex_lock(&parts.lock);
	if (parts.on && parts.came < 4)
		parts.by[parts.came] = pthread_self();
	parts.came++;
	pthread_cond_broadcast(&parts.changed);
	while (parts.on && parts.came < 4)
		parts.on = pthread_cond_timedwait(&parts.changed, &parts.lock, &until) == 0;
	pthread_mutex_unlock(&parts.lock);
}

static CUresult answer(const struct peer_message *m, void *res, struct peer_payload *payload)
{
	const ck_upload_packed_part_args *block = m->args;
	const ck_upload_part_args *plain = m->args;

	(void)res;
	(void)payload;
	if (m->number == PART)
		keep(m, block->dst, block->size);
	else if (m->number == CK_PROC_upload_part)
		keep(m, plain->dst, m->bulk_size);
	if (m->number == CK_PROC_upload_part)
		await_parts();
	return device.failing && device.packed + device.plain == device.failing
		       ? CUDA_ERROR_ILLEGAL_ADDRESS
		       : CUDA_SUCCESS;
}

static void command(const struct peer_message *m)
{
	const ck_upload_packed_args *block = m->args;
	const ck_upload_args *plain = m->args;

	if (m->number == CK_PROC_upload_packed)
		keep(m, block->dst, block->size);
	else if (m->number == CK_PROC_upload)
		keep(m, plain->dst, m->bulk_size);
}

static struct ckc_client *client(void)
{
	return ckc_client_current();
}

/* A server of another machine that knows all messages, behind a network of @link bytes per
 * second. */
static void network(uint64_t link)
{
	static unsigned char all[CK_PROC_END / 8 + 1];

	memset(all, 0xff, sizeof(all));
	memset(device.memory, 0, SIZE);
	device.packed = device.plain = device.bytes = device.failing = 0;
	client()->passes_fds = false;
	client()->offers.procedures.procedures_len = sizeof(all);
	client()->offers.procedures.procedures_val = (char *)all;
	client()->packing.link = link;
	client()->packing.samples = link ? 3 : 0;
	client()->packing.speed = 250 * MB;
	client()->packing.unproven_ns = client()->packing.pause = client()->packing.paused = 0;
	client()->lanes.round_trip_ns = 1000;
	unsetenv("CRICKET_DEBUG");
}

static void it_pays_where_packers_are_faster_than_the_network(void **state)
{
	(void)state;
	network(100 * MB);
	assert_true(ckc_compression_pays(client(), PART, 1, 1));
	assert_false(ckc_compression_pays(client(), PART, 1, 8));
	network(300 * MB);
	assert_false(ckc_compression_pays(client(), PART, 1, 1));
	assert_true(ckc_compression_pays(client(), PART, 4, 1));
	network(10000 * MB);
	assert_false(ckc_compression_pays(client(), PART, 8, 1));
}

static void it_is_left_out_where_it_cannot_be_or_must_not(void **state)
{
	(void)state;
	network(100 * MB);
	setenv("CRICKET_DEBUG", "no-compress", 1);
	assert_false(ckc_compression_pays(client(), PART, 4, 1));
	network(10000 * MB);
	setenv("CRICKET_DEBUG", "compress", 1);
	assert_true(ckc_compression_pays(client(), PART, 1, 1));
	client()->passes_fds = true; /* the server is on this host */
	assert_false(ckc_compression_pays(client(), PART, 1, 1));
	network(100 * MB);
	client()->offers.procedures.procedures_val[PART / 8] &= (char)~(1 << PART % 8);
	assert_false(ckc_compression_pays(client(), PART, 4, 1));
	network(100 * MB);
	client()->offers.procedures.procedures_len = 0; /* it does not say what it knows */
	assert_false(ckc_compression_pays(client(), PART, 4, 1));
}

/* A step of @size bytes at @rate. */
static struct ckc_compression_step step(size_t size, uint64_t rate)
{
	struct ckc_compression_step s = ckc_compression_step(client(), PART, size, 4);
	struct ckc_compression_step done = s;

	done.began = ck_now_ns() - s.size * 1000 / (rate / MB);
	ckc_compression_stepped(client(), &done);
	return s;
}

static void the_first_copies_measure_the_network(void **state)
{
	const size_t large = (size_t)100 << 20;

	(void)state;
	network(0);
	assert_false(ckc_compression_pays_unmeasured(client(), PART));
	client()->lanes.round_trip_ns = 2000000;
	assert_true(ckc_compression_pays_unmeasured(client(), PART));
	assert_int_equal(step(large, 50 * MB).size, 8 << 20);
	assert_int_equal(step(large, 40 * MB).size, 8 << 20);
	assert_false(step(large, 60 * MB).packed);
	assert_false(ckc_compression_pays_unmeasured(client(), PART));
	assert_true(step(large, 100 * MB).packed);
	assert_int_equal(step(large, 100 * MB).size, large);
}

static void a_fast_network_is_believed_at_once(void **state)
{
	const size_t large = (size_t)100 << 20;

	(void)state;
	network(0);
	assert_int_equal(step(large, 8000 * MB).size, 8 << 20);
	assert_int_equal(step(large, 8000 * MB).size, large);
	network(50 * MB);
	client()->packing.samples = 2;
	assert_false(step(16 << 20, 8000 * MB).packed);
	assert_false(step(16 << 20, 8000 * MB).packed);
}

static void copies_that_were_slower_compressed_go_as_they_are_for_a_while(void **state)
{
	(void)state;
	network(400 * MB);
	assert_true(step(16 << 20, 100 * MB).packed);
	assert_false(step(16 << 20, 400 * MB).packed);
	assert_true(step(16 << 20, 100 * MB).packed);
	for (int i = 0; i < 3; i++)
		assert_false(step(16 << 20, 400 * MB).packed);
	assert_true(step(16 << 20, 800 * MB).packed);
	assert_true(step(16 << 20, 800 * MB).packed);
}

static void the_network_is_measured_again_after_a_while(void **state)
{
	unsigned int packed = 0;

	(void)state;
	network(100 * MB);
	while (packed < 1000 && step(16 << 20, 100 * MB).packed)
		packed++;
	assert_in_range(packed, 14, 18); /* of 17 copies one */
}

static CUresult upload(const unsigned char *bytes, bool packed)
{
	struct ckc_compressed_upload s;

	ckc_compressed_upload_begin(&s, ckc_context_current(), 0, packed);
	ckc_compressed_upload_bytes(&s, DEVICE, (const char *)bytes, SIZE);
	return ckc_compressed_upload_end(&s);
}

static void what_becomes_shorter_travels_in_blocks(void **state)
{
	(void)state;
	network(50 * MB);
	assert_int_equal(upload(text, true), CUDA_SUCCESS);
	assert_int_equal(device.packed, 10);
	assert_int_equal(device.plain, 0);
	assert_in_range(device.bytes, 1, SIZE / 2);
	assert_memory_equal(device.memory, text, SIZE);
}

static void what_does_not_is_hardly_tried(void **state)
{
	(void)state;
	network(50 * MB);
	assert_int_equal(upload(noise, true), CUDA_SUCCESS);
	assert_int_equal(device.packed, 0);
	assert_int_equal(device.plain, 10);
	assert_memory_equal(device.memory, noise, SIZE);
	assert_int_equal(client()->packing.speed, 250 * MB);
}

static void the_error_of_any_block_is_the_parts_and_the_lane_goes_on(void **state)
{
	(void)state;
	for (size_t failing = 1; failing <= 10; failing += 3) {
		network(50 * MB);
		device.failing = failing;
		assert_int_equal(upload(text, true), CUDA_ERROR_ILLEGAL_ADDRESS);
		ckc_context_current()->fault = 0;
	}
	network(50 * MB);
	assert_int_equal(upload(text, true), CUDA_SUCCESS);
}

/* The buffers of one socket could hold all of it, before the other threads are awake. */
static void each_connection_gets_a_part_of_a_copy_that_buffers_hold(void **state)
{
	struct ckc_staged c = {
		.ctx = ckc_context_current(), .device = DEVICE, .host = noise, .size = SIZE};

	(void)state;
	network(10000 * MB);
	parts.came = 0;
	parts.on = true;
	assert_int_equal(ckc_split_copy_upload(&c), CUDA_SUCCESS);
	assert_true(parts.on); /* four came */
	assert_int_equal(parts.came, 4);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_false(pthread_equal(parts.by[i], parts.by[j]));
	parts.on = false;
	assert_memory_equal(device.memory, noise, SIZE);
}

/* More than may wait at a time. */
static void many_calls_ahead_are_all_answered(void **state)
{
	struct ckc_pipelined ahead;
	size_t failed = 0;

	(void)state;
	network(50 * MB);
	ckc_pipelined_begin(&ahead, client(), ckc_context_current()->object.id);
	for (size_t i = 0; i < 300; i++) {
		ck_upload_part_args args = {.dst = DEVICE + 8 * i, .data_length = 8};

		failed += ckc_pipelined_call(&ahead, CK_PROC_upload_part, &args, text + 8 * i, 8) !=
			  0;
	}
	assert_int_equal(ckc_pipelined_end(&ahead), CUDA_SUCCESS);
	assert_int_equal(failed, 0);
	assert_int_equal(device.plain, 300);
	assert_memory_equal(device.memory, text, 300 * 8);
}

/* --- one-way messages */

static struct ckc_staged staged(unsigned char *host, size_t size)
{
	return (struct ckc_staged){
		.ctx = ckc_context_current(), .device = DEVICE, .host = host, .size = size};
}

static void a_message_is_compressed_only_over_a_very_slow_network(void **state)
{
	struct ckc_staged c = staged(text, 600000);
	CUresult err = CUDA_ERROR_UNKNOWN;

	(void)state;
	network(50 * MB);
	assert_false(ckc_packed_message(&c, &err));
	network(20 * MB);
	assert_true(ckc_packed_message(&c, &err));
	assert_int_equal(err, CUDA_SUCCESS);
	assert_int_equal(peer_count(CK_PROC_upload_packed), 2);
	assert_memory_equal(device.memory, text, 600000);
	c.size = 1000;
	assert_false(ckc_packed_message(&c, &err));
}

static int begin(void **state)
{
	uint64_t x = 1;

	for (size_t i = 0; i < SIZE; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		noise[i] = (unsigned char)(x >> 56);
		text[i] = (unsigned char)("a text of some words "[i % 21] + i / 1000 % 3);
	}
	setenv("CRICKET_CONNECTIONS", "4", 1);
	peer.call = answer;
	peer.command = command;
	return ck_unpacker_create(&device.unpacker) < 0 ? -1 : peer_begin(state);
}

static int end(void **state)
{
	client()->offers.procedures.procedures_len = 0;
	client()->offers.procedures.procedures_val = NULL;
	ck_unpacker_destroy(device.unpacker);
	return peer_end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_pays_where_packers_are_faster_than_the_network),
		cmocka_unit_test(it_is_left_out_where_it_cannot_be_or_must_not),
		cmocka_unit_test(the_first_copies_measure_the_network),
		cmocka_unit_test(a_fast_network_is_believed_at_once),
		cmocka_unit_test(copies_that_were_slower_compressed_go_as_they_are_for_a_while),
		cmocka_unit_test(the_network_is_measured_again_after_a_while),
		cmocka_unit_test(what_becomes_shorter_travels_in_blocks),
		cmocka_unit_test(what_does_not_is_hardly_tried),
		cmocka_unit_test(the_error_of_any_block_is_the_parts_and_the_lane_goes_on),
		cmocka_unit_test(each_connection_gets_a_part_of_a_copy_that_buffers_hold),
		cmocka_unit_test(many_calls_ahead_are_all_answered),
		cmocka_unit_test(a_message_is_compressed_only_over_a_very_slow_network),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
