/*
 * tests/unit/test_server_chunks.c - device memory between two servers: the chunks that are sent,
 * and those that a receiver refuses.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/chan.h"
#include "server/checkpoint/chunks.h"
#include "server/checkpoint/stream.h"
#include "util/process/available_memory.h"
#include "util/process/fd.h"

#define CHUNK CK_MEMORY_PIECE
#define COUNT ((size_t)6) /* chunks 1 and 4 are equal, and chunk 2 has zeros */
#define KEY "0000000000000001000000000000002a"

static const struct cks_piece_key key = {.word = {1, 42}};

struct talk {
	int ends[2];
	struct cks_chunks sender, receiver;
	int pool;
	char *bytes;
	struct cks_piece_hash marks[2 * COUNT];
	struct cks_chunks_source source;
	struct cks_why why, receiver_why;
	pthread_t thread;
	int received;
	bool lanes;		  /* chunks are on further connections */
	int lane_ends[CKS_LANES]; /* of the sender, copies */
};

static void mark(struct talk *t, size_t chunk)
{
	cks_piece_hash(t->bytes + chunk * CHUNK, CHUNK, &key, &t->marks[chunk]);
}

static void fill(struct talk *t, size_t chunk, int value)
{
	memset(t->bytes + chunk * CHUNK, value, CHUNK);
	mark(t, chunk);
}

static int setup(void **state)
{
	static const int values[2 * COUNT] = {1, 2, 0, 3, 2, 4};
	struct talk *t = calloc(1, sizeof(*t));

	*state = t;
	if (!t || socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends) < 0)
		return -1;
	t->sender = t->receiver = (struct cks_chunks)CK_CHUNKS_NONE;
	t->pool = memfd_create("pool", 0);
	if (t->pool < 0 || ftruncate(t->pool, 2 * COUNT * CHUNK) < 0)
		return -1;
	t->bytes = mmap(NULL, 2 * COUNT * CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, t->pool, 0);
	for (size_t i = 0; i < 2 * COUNT; i++)
		fill(t, i, values[i]);
	t->source = (struct cks_chunks_source){
		.pool = t->pool, .marks = t->marks, .count = COUNT, .key = key};
	return 0;
}

static void make_lanes(struct talk *t)
{
	struct ck_chan *chans[2][CKS_LANES];
	int ends[2];

	for (size_t i = 0; i < CKS_LANES; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		if (t->lane_ends[i])
			close(t->lane_ends[i]);
		t->lane_ends[i] = dup(ends[0]);
		assert_int_equal(ck_chan_adopt(ends[0], &chans[0][i]), 0);
		assert_int_equal(ck_chan_adopt(ends[1], &chans[1][i]), 0);
	}
	t->sender.lanes = cks_lanes_create(chans[0], NULL);
	t->receiver.lanes = cks_lanes_create(chans[1], NULL);
	assert_true(t->sender.lanes && t->receiver.lanes);
}

static int setup_lanes(void **state)
{
	struct talk *t;

	if (setup(state) < 0)
		return -1;
	t = *state;
	t->lanes = true;
	make_lanes(t);
	return 0;
}

static int teardown(void **state)
{
	struct talk *t = *state;

	for (size_t i = 0; t->lanes && i < CKS_LANES; i++)
		close(t->lane_ends[i]);
	munmap(t->bytes, 2 * COUNT * CHUNK);
	close(t->pool);
	close(t->ends[0]);
	close(t->ends[1]);
	cks_chunks_free(&t->sender);
	cks_chunks_free(&t->receiver);
	free(t);
	return 0;
}

static void *receive(void *data)
{
	struct talk *t = data;
	json_t *json = cks_stream_read(t->ends[1], &t->receiver_why);

	t->received =
		json ? cks_chunks_take(&t->receiver, t->ends[1], json, &t->receiver_why) : -EPIPE;
	json_decref(json);
	return NULL;
}

static void *receive_and_hang_up(void *data)
{
	struct talk *t = data;

	receive(t);
	shutdown(t->ends[1], SHUT_RDWR);
	return NULL;
}

static void renew_stream(struct talk *t)
{
	close(t->ends[0]);
	close(t->ends[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends), 0);
}

/* The bytes of chunks that this takes. */
static uint64_t transfer(struct talk *t)
{
	uint64_t before = t->sender.sent;

	assert_int_equal(pthread_create(&t->thread, NULL, receive, t), 0);
	assert_int_equal(cks_chunks_send(&t->sender, t->ends[0], &t->source, &t->why), 0);
	pthread_join(t->thread, NULL);
	assert_int_equal(t->received, 0);
	return t->sender.sent - before;
}

static void assert_same(const struct talk *t)
{
	assert_true(cks_chunks_complete(&t->receiver));
	assert_int_equal(t->receiver.count, t->source.count);
	assert_memory_equal(t->receiver.bytes, t->bytes, t->source.count * CHUNK);
}

static void test_each_content_is_sent_once(void **state)
{
	struct talk *t = *state;

	assert_int_equal(transfer(t), 4 * CHUNK);
	assert_same(t);
	/* the pool of the worker has all of its file */
	assert_int_equal(lseek(t->receiver.file, 0, SEEK_END), 2 * COUNT * CHUNK);
}

static void test_later_only_changes_are_sent(void **state)
{
	struct talk *t = *state;

	transfer(t);
	assert_int_equal(transfer(t), 0);
	fill(t, 3, 9);
	fill(t, 0, 0);
	assert_int_equal(transfer(t), CHUNK);
	assert_same(t);
	/* a pool may grow, and be smaller again */
	t->source.count = 2 * COUNT;
	fill(t, COUNT, 10);
	assert_int_equal(transfer(t), CHUNK);
	assert_same(t);
	t->source.count = 2;
	assert_int_equal(transfer(t), 0);
	assert_same(t);
	t->source = (struct cks_chunks_source){.pool = -1};
	assert_int_equal(transfer(t), 0);
	assert_same(t);
}

static void test_the_receiver_compares_bytes_that_have_no_mark_too(void **state)
{
	struct talk *t = *state;

	memset(t->marks, 0, sizeof(t->marks));
	assert_int_equal(transfer(t), 4 * CHUNK);
	assert_same(t);
}

static void test_what_is_being_written_is_sent_later(void **state)
{
	struct talk *t = *state;

	t->source.changing = true;
	memset(t->bytes + 3 * CHUNK, 8, 100); /* its mark is of the time before */
	t->marks[5] = (struct cks_piece_hash){.sum = {0, 0}};
	assert_int_equal(transfer(t), 2 * CHUNK);
	assert_false(cks_chunks_complete(&t->receiver));
	t->source.changing = false;
	mark(t, 3);
	mark(t, 5);
	assert_int_equal(transfer(t), 2 * CHUNK);
	assert_same(t);
}

static void test_bytes_that_change_on_the_way_are_refused(void **state)
{
	struct talk *t = *state;

	t->bytes[5 * CHUNK + 7] ^= 1;
	assert_int_equal(pthread_create(&t->thread, NULL, receive, t), 0);
	assert_int_equal(cks_chunks_send(&t->sender, t->ends[0], &t->source, &t->why), 0);
	pthread_join(t->thread, NULL);
	assert_int_equal(t->received, -EBADMSG);
	assert_string_equal(t->receiver_why.text, "chunk 5 of the memory has changed on the way");
	assert_false(cks_chunks_complete(&t->receiver));
}

/* More chunks than the threads have in hand, and a wrong one in any place of them. */
static void test_many_chunks_come_in_order_and_each_is_compared(void **state)
{
	struct talk *t = *state;
	const size_t count = 2 * COUNT, wrong[] = {0, 7, count - 1};

	for (size_t i = 0; i < count; i++)
		fill(t, i, (int)i + 1);
	t->source.count = count;
	assert_int_equal(transfer(t), count * CHUNK);
	assert_same(t);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[64];

		cks_chunks_free(&t->sender);
		cks_chunks_free(&t->receiver);
		renew_stream(t);
		if (t->lanes)
			make_lanes(t);
		t->bytes[wrong[i] * CHUNK + 1] ^= 1;
		assert_int_equal(pthread_create(&t->thread, NULL, receive_and_hang_up, t), 0);
		cks_chunks_send(&t->sender, t->ends[0], &t->source, &t->why);
		pthread_join(t->thread, NULL);
		t->bytes[wrong[i] * CHUNK + 1] ^= 1;
		snprintf(text, sizeof(text), "chunk %zu of the memory has changed on the way",
			 wrong[i]);
		assert_int_equal(t->received, -EBADMSG);
		assert_string_equal(t->receiver_why.text, text);
		assert_false(cks_chunks_complete(&t->receiver));
	}
}

static void test_a_refusal_reaches_the_sender(void **state)
{
	struct talk *t = *state;

	cks_stream_write(t->ends[1], json_pack("{s:b, s:s}", "ok", 0, "error", "no room"));
	assert_int_equal(cks_chunks_send(&t->sender, t->ends[0], &t->source, &t->why), -EREMOTEIO);
	assert_string_equal(t->why.text, "the other server: no room");
	/* and one that comes while it sends */
	cks_stream_write(t->ends[1], json_pack("{s:b}", "ok", 1));
	cks_stream_write(t->ends[1], json_pack("{s:b, s:s}", "ok", 0, "error", "a bad chunk"));
	shutdown(t->ends[1], SHUT_RDWR);
	assert_true(cks_chunks_send(&t->sender, t->ends[0], &t->source, &t->why) < 0);
}

/* --- on further connections */

/* The next chunk is of the same content, again and again: it is copied when the first has come. */
static void test_chunks_are_equal_to_those_on_their_way(void **state)
{
	struct talk *t = *state;

	t->source.count = 2 * COUNT;
	for (size_t i = 0; i < 2 * COUNT; i++)
		fill(t, i, (int)i / 2 + 1);
	assert_int_equal(transfer(t), COUNT * CHUNK);
	assert_same(t);
	for (size_t i = 0; i < 2 * COUNT; i++)
		fill(t, i, (int)i / 3 + 20);
	assert_int_equal(transfer(t), 4 * CHUNK);
	assert_same(t);
}

/* One of them, at a time when no chunk is on its way, or before its first byte. */
static void test_a_connection_that_is_lost_ends_both(void **state)
{
	struct talk *t = *state;

	for (size_t i = 0; i < CKS_LANES; i++) {
		for (size_t k = 0; k < 2 * COUNT; k++)
			fill(t, k, (int)(40 * i + k) + 1);
		t->source.count = 2 * COUNT;
		assert_int_equal(transfer(t), 2 * COUNT * CHUNK);
		for (size_t k = 0; k < 2 * COUNT; k++)
			fill(t, k, (int)(40 * i + k) + 20);
		shutdown(t->lane_ends[i], SHUT_RDWR);
		assert_int_equal(pthread_create(&t->thread, NULL, receive_and_hang_up, t), 0);
		assert_true(cks_chunks_send(&t->sender, t->ends[0], &t->source, &t->why) < 0);
		pthread_join(t->thread, NULL);
		assert_true(t->received < 0);
		assert_non_null(strstr(t->receiver_why.text, "a further connection"));
		assert_false(cks_chunks_complete(&t->receiver));
		cks_chunks_free(&t->sender);
		cks_chunks_free(&t->receiver);
		renew_stream(t);
		make_lanes(t);
	}
}

/* A sender that ends where a chunk is expected: its receiver does not wait for the connection. */
static void test_a_sender_that_ends_is_noticed(void **state)
{
	const uint32_t head[4] = {htobe32(4), 0, 0, 0};
	struct talk *t = *state;

	assert_int_equal(pthread_create(&t->thread, NULL, receive, t), 0);
	cks_stream_write(t->ends[0], json_pack("{s:i, s:I, s:s}", "memory", 2, "size",
					       (json_int_t)(2 * CHUNK), "key", KEY));
	ck_fd_write_full(t->ends[0], head, sizeof(head));
	ck_fd_write_full(t->ends[0], &t->marks[0], sizeof(t->marks[0]));
	shutdown(t->ends[0], SHUT_WR);
	pthread_join(t->thread, NULL);
	assert_true(t->received < 0);
}

/* --- a receiver with any bytes */

static int take(struct talk *t, json_t *json)
{
	int ret = cks_chunks_take(&t->receiver, t->ends[1], json, &t->why);

	json_decref(json);
	return ret;
}

static json_t *announcement(json_int_t count, json_int_t size, const char *text)
{
	return json_pack("{s:I, s:I, s:s}", "memory", count, "size", size, "key", text);
}

static void test_announcements_of_another_form_are_refused(void **state)
{
	const json_int_t chunk = (json_int_t)CHUNK, most = CK_MEMORY_MAX;
	struct talk *t = *state;
	json_t *const all[] = {
		json_object(),
		announcement(-1, chunk, KEY),
		announcement(2, chunk, KEY),
		announcement(1, chunk + 1, KEY),
		announcement(1, -chunk, KEY),
		announcement(most + 1, 2 * most * chunk, KEY),
		announcement(1, (2 * most + 1) * chunk, KEY),
		announcement(1, INT64_MAX / chunk * chunk, KEY),
		announcement(1, chunk, "1"),
		json_pack("{s:i, s:I}", "memory", 1, "size", chunk),
		json_pack("{s:s, s:I, s:s}", "memory", "1", "size", chunk, "key", KEY),
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_int_equal(take(t, all[i]), -EBADMSG);
	assert_int_equal(t->receiver.file, -1);
}

static void test_memory_that_the_host_lacks_is_refused_before_it_comes(void **state)
{
	json_int_t count = 2 * (json_int_t)(ck_available_memory() / CHUNK);
	struct talk *t = *state;

	if (count == 0 || count > 2 * (json_int_t)CK_MEMORY_MAX)
		skip(); /* not known, or more than any session has */
	assert_int_equal(take(t, announcement(1, count * (json_int_t)CHUNK, KEY)), -ENOMEM);
	assert_non_null(strstr(t->why.text, "MiB of host memory for the session"));
}

/* A record for two chunks, and @more bytes. */
static int take_record(struct talk *t, const uint32_t head[4], const struct cks_piece_hash *hash,
		       size_t more)
{
	const uint32_t start[4] = {htobe32(head[0]), htobe32(head[1]), htobe32(head[2]), 0};
	const uint64_t sums[2] = {htobe64(hash->sum[0]), htobe64(hash->sum[1])};
	int ret;

	socketpair(AF_UNIX, SOCK_STREAM, 0, t->ends);
	ck_fd_write_full(t->ends[0], start, sizeof(start));
	ck_fd_write_full(t->ends[0], sums, sizeof(sums));
	ck_fd_write_full(t->ends[0], t->bytes, more);
	shutdown(t->ends[0], SHUT_WR);
	ret = take(t, announcement(2, (json_int_t)(2 * CHUNK), KEY));
	close(t->ends[0]);
	close(t->ends[1]);
	return ret;
}

static void test_records_of_another_form_are_refused(void **state)
{
	enum { END, BYTES, EQUAL, ZEROS };
	const struct cks_piece_hash none = {.sum = {0, 0}};
	struct talk *t = *state;
	const struct {
		uint32_t head[4];
		const struct cks_piece_hash *hash;
		size_t more;
		int error;
	} all[] = {
		{{4, 0}, &t->marks[2], 0, -EBADMSG},	 /* no kind */
		{{ZEROS, 2}, &t->marks[2], 0, -EBADMSG}, /* behind the last chunk */
		{{ZEROS, UINT32_MAX}, &t->marks[2], 0, -EBADMSG},
		{{ZEROS, 0}, &t->marks[1], 0, -EBADMSG}, /* another hash */
		{{EQUAL, 0, 1}, &none, 0, -EBADMSG},	 /* nothing is there */
		{{EQUAL, 0, 0}, &none, 0, -EBADMSG},
		{{EQUAL, 0, 2}, &t->marks[2], 0, -EBADMSG}, /* behind the last chunk */
		{{BYTES, 0}, &t->marks[0], 100, -ECONNRESET},
		{{BYTES, 0}, &t->marks[0], 0, -ENODATA},
		{{ZEROS, 1}, &t->marks[2], 0, -ENODATA}, /* that was good, but no end follows */
		{{END}, &none, 0, 0},
	};

	close(t->ends[0]);
	close(t->ends[1]);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_int_equal(take_record(t, all[i].head, all[i].hash, all[i].more),
				 all[i].error);
		assert_false(cks_chunks_complete(&t->receiver));
	}
	t->ends[0] = t->ends[1] = -1;
}

static void test_the_key_stays_the_same(void **state)
{
	struct talk *t = *state;

	transfer(t);
	assert_int_equal(
		take(t, announcement(1, (json_int_t)CHUNK, "00000000000000010000000000000000")),
		-EBADMSG);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define LANES(function)                                                                            \
	{                                                                                          \
#function ", on further connections", function, setup_lanes, teardown, NULL        \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_each_content_is_sent_once),
		TEST(test_later_only_changes_are_sent),
		TEST(test_the_receiver_compares_bytes_that_have_no_mark_too),
		TEST(test_what_is_being_written_is_sent_later),
		TEST(test_bytes_that_change_on_the_way_are_refused),
		TEST(test_many_chunks_come_in_order_and_each_is_compared),
		TEST(test_a_refusal_reaches_the_sender),
		TEST(test_announcements_of_another_form_are_refused),
		TEST(test_memory_that_the_host_lacks_is_refused_before_it_comes),
		TEST(test_records_of_another_form_are_refused),
		TEST(test_the_key_stays_the_same),
		LANES(test_each_content_is_sent_once),
		LANES(test_later_only_changes_are_sent),
		LANES(test_the_receiver_compares_bytes_that_have_no_mark_too),
		LANES(test_what_is_being_written_is_sent_later),
		LANES(test_many_chunks_come_in_order_and_each_is_compared),
		LANES(test_chunks_are_equal_to_those_on_their_way),
		LANES(test_a_connection_that_is_lost_ends_both),
		LANES(test_a_sender_that_ends_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
