/*
 * tests/unit/test_rpc_reader.c - records come out as they were put in, and bad framing does not.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "rpc/record.h"
#include "tests/unit/rpc_memory_chan.h"

#define LAST 0x80000000u
#define LONG_BULK (3u << 20)

struct stream {
	unsigned char *data;
	size_t size, room;
};

static void put(struct stream *s, const void *data, size_t size)
{
	if (s->size + size > s->room) {
		s->room = 2 * (s->size + size);
		s->data = realloc(s->data, s->room);
		assert_non_null(s->data);
	}
	memcpy(s->data + s->size, data, size);
	s->size += size;
}

static unsigned char pattern(size_t i, unsigned int seed)
{
	return (unsigned char)(i * 31 + (i >> 8) * 7 + seed);
}

/* A fragment of @size bytes of the pattern of @seed, which begins at its place @from. */
static void put_fragment(struct stream *s, size_t size, bool last, size_t from, unsigned int seed)
{
	uint32_t mark = htonl((last ? LAST : 0) | (uint32_t)size);
	size_t i;

	put(s, &mark, 4);
	for (i = 0; i < size; i++) {
		unsigned char byte = pattern(from + i, seed);

		put(s, &byte, 1);
	}
}

static void put_record(struct stream *s, size_t size, unsigned int seed)
{
	put_fragment(s, size, true, 0, seed);
}

static void assert_pattern(const unsigned char *data, size_t size, size_t from, unsigned int seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (data[i] != pattern(from + i, seed))
			fail_msg("byte %zu of pattern %u is wrong", from + i, seed);
}

static void assert_next(struct ck_reader *reader, size_t size, unsigned int seed)
{
	struct ck_record record;

	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(record.total, size);
	assert_int_equal(record.body_size, size);
	assert_pattern(record.body, size, 0, seed);
}

static int next_error(struct ck_reader *reader)
{
	struct ck_record record = {.total = 42};
	int ret = ck_reader_next(reader, &record);

	if (ret < 0) {
		assert_int_equal(record.total, 42);
		assert_int_equal(ck_reader_next(reader, &record), ret);
		assert_int_equal(ck_reader_bulk_begin(reader, 0), ret);
		assert_int_equal(ck_reader_bulk(reader, &record, 0), ret);
	}
	return ret;
}

static struct ck_reader *reader_of(struct memory_chan *memory, const struct stream *s, size_t step)
{
	struct ck_reader *reader = NULL;

	memory_chan_init(memory, s->data, s->size, step);
	assert_int_equal(ck_reader_create(&memory->chan, &reader), 0);
	return reader;
}

static void several_records_in_one_read_need_no_further_read(void **state)
{
	struct stream s = {0};
	struct memory_chan memory;
	struct ck_reader *reader;
	unsigned int i;

	(void)state;
	for (i = 0; i < 100; i++)
		put_record(&s, 40 + 4 * i, i);
	reader = reader_of(&memory, &s, SIZE_MAX);
	for (i = 0; i < 100; i++) {
		assert_next(reader, 40 + 4 * i, i);
		assert_int_equal(memory.reads, 1);
	}
	assert_int_equal(next_error(reader), -EPIPE);
	ck_reader_destroy(reader);
	free(s.data);
}

static void records_are_the_same_however_reads_are_cut(void **state)
{
	static const size_t sizes[] = {1,    4,		40,	   100,
				       5000, 255 << 10, 300 << 10, CK_RECORD_MAX,
				       17,   600 << 10, 256 << 10, 3};
	static const size_t steps[] = {1, 2, 3, 5, 7, 1000, 4096, 65537, SIZE_MAX};
	struct stream s = {0};
	size_t i, j;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		put_record(&s, sizes[i], (unsigned int)i);
	for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
		struct memory_chan memory;
		struct ck_reader *reader = reader_of(&memory, &s, steps[j]);

		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			assert_next(reader, sizes[i], (unsigned int)i);
		assert_int_equal(next_error(reader), -EPIPE);
		ck_reader_destroy(reader);
	}
	free(s.data);
}

static void a_peer_that_vanishes_at_any_byte_is_told_from_one_that_leaves(void **state)
{
	struct stream s = {0};
	size_t ends[4], cut, step;
	unsigned int i;

	(void)state;
	ends[0] = 0;
	put_record(&s, 44, 0);
	ends[1] = s.size;
	put_fragment(&s, 10, false, 0, 1);
	put_fragment(&s, 1, false, 10, 1);
	put_fragment(&s, 9, true, 11, 1);
	ends[2] = s.size;
	put_record(&s, 100, 2);
	ends[3] = s.size;
	for (cut = 0; cut <= s.size; cut++)
		for (step = 1; step < 200; step += 33) {
			static const size_t sizes[] = {44, 20, 100};
			struct stream part = {.data = s.data, .size = cut};
			struct memory_chan memory;
			struct ck_reader *reader = reader_of(&memory, &part, step);

			for (i = 0; i < 3 && ends[i + 1] <= cut; i++)
				assert_next(reader, sizes[i], i);
			assert_int_equal(next_error(reader), cut == ends[i] ? -EPIPE : -ECONNRESET);
			ck_reader_destroy(reader);
		}
	free(s.data);
}

static void fragments_are_joined_up_to_the_limit(void **state)
{
	static const size_t steps[] = {1, 3, 4096, SIZE_MAX};
	struct stream s = {0};
	size_t i, j, piece = CK_RECORD_MAX / 64;

	(void)state;
	for (i = 0; i < 1000; i++) /* of one byte each */
		put_fragment(&s, 1, i == 999, i, 1);
	for (i = 0; i < 64; i++)
		put_fragment(&s, piece, false, i * piece, 2);
	put_fragment(&s, 0, true, 0, 2); /* libtirpc ends records so now and then */
	put_record(&s, 60, 3);
	for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
		struct memory_chan memory;
		struct ck_reader *reader = reader_of(&memory, &s, steps[j]);

		assert_next(reader, 1000, 1);
		assert_next(reader, CK_RECORD_MAX, 2);
		assert_next(reader, 60, 3);
		assert_int_equal(next_error(reader), -EPIPE);
		ck_reader_destroy(reader);
	}
	free(s.data);
}

static void put_mark(struct stream *s, uint32_t mark)
{
	mark = htonl(mark);
	put(s, &mark, 4);
}

static int error_of(struct stream *s)
{
	struct memory_chan memory;
	struct ck_reader *reader = reader_of(&memory, s, SIZE_MAX);
	int ret = next_error(reader);

	ck_reader_destroy(reader);
	free(s->data);
	memset(s, 0, sizeof(*s));
	return ret;
}

static void hostile_marks_are_refused_before_their_bytes_come(void **state)
{
	struct stream s = {0};
	size_t i;

	(void)state;
	put_mark(&s, LAST); /* an empty record */
	assert_int_equal(error_of(&s), -EPROTO);
	put_mark(&s, 0); /* an empty fragment, as a flood begins */
	assert_int_equal(error_of(&s), -EPROTO);
	put_mark(&s, CK_RECORD_MAX + 1);
	assert_int_equal(error_of(&s), -EPROTO);
	put_mark(&s, LAST - 1);
	assert_int_equal(error_of(&s), -EPROTO);
	put_fragment(&s, 4, false, 0, 0);
	put_mark(&s, 0);
	assert_int_equal(error_of(&s), -EPROTO);
	put_fragment(&s, 4, false, 0, 0);
	put_mark(&s, LAST | (CK_RECORD_MAX - 3)); /* one byte too many in all */
	assert_int_equal(error_of(&s), -EPROTO);
	for (i = 0; i < 16; i++)
		put_fragment(&s, CK_RECORD_MAX / 16, false, 0, 0);
	put_mark(&s, LAST | 1);
	assert_int_equal(error_of(&s), -EPROTO);
	put(&s, "GET / HTTP/1.1\r\n\r\n", 18); /* 0x47455420: a fragment of 1.1 GB */
	assert_int_equal(error_of(&s), -EPROTO);
}

static void a_mark_that_promises_2_GiB_costs_no_memory(void **state)
{
	struct stream s = {0};
	struct memory_chan memory;
	struct ck_reader *reader;
	struct ck_record record;
	unsigned char byte;

	(void)state;
	put_mark(&s, 0xffffffffu);
	s.data = realloc(s.data, s.room = 4 + 5000);
	memset(s.data + 4, 7, 5000);
	s.size = 4 + 5000;
	reader = reader_of(&memory, &s, 100);
	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(record.total, 0x7fffffff);
	assert_in_range(record.body_size, 4096, 5000);
	assert_int_equal(ck_reader_bulk_begin(reader, 5000), 0);
	assert_int_equal(ck_reader_bulk(reader, &byte, 1), -ECONNRESET);
	assert_int_equal(next_error(reader), -ECONNRESET);
	ck_reader_destroy(reader);
	free(s.data);
}

/* The long record at the front is @taken bytes read from @from on; then the next one comes. */
static void check_bulk(const struct stream *s, size_t step, size_t from, size_t taken, size_t piece)
{
	unsigned char *dst = malloc(taken + 1);
	struct memory_chan memory;
	struct ck_reader *reader = reader_of(&memory, s, step);
	struct ck_record record;
	size_t done = 0;

	assert_next(reader, 100, 1);
	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(record.total, LONG_BULK);
	assert_in_range(record.body_size, 4096, LONG_BULK);
	assert_pattern(record.body, record.body_size, 0, 2);
	assert_int_equal(ck_reader_bulk_begin(reader, from), 0);
	while (done < taken) {
		size_t n = taken - done < piece ? taken - done : piece;

		assert_int_equal(ck_reader_bulk(reader, dst + done, n), 0);
		done += n;
	}
	assert_pattern(dst, taken, from, 2);
	assert_next(reader, 200, 3);
	assert_int_equal(next_error(reader), -EPIPE);
	ck_reader_destroy(reader);
	free(dst);
}

static void bulk_is_read_across_the_end_of_the_buffer_and_skipped_where_not_taken(void **state)
{
	static const size_t froms[] = {0, 44, 4095, 4096, 262000, 300000, LONG_BULK - 1, LONG_BULK};
	static const size_t steps[] = {37, 4096, 100001, SIZE_MAX};
	struct stream s = {0};
	size_t i, j;

	(void)state;
	put_record(&s, 100, 1);
	put_record(&s, LONG_BULK, 2);
	put_record(&s, 200, 3);
	for (i = 0; i < sizeof(froms) / sizeof(froms[0]); i++)
		for (j = 0; j < sizeof(steps) / sizeof(steps[0]); j++) {
			size_t all = LONG_BULK - froms[i];

			check_bulk(&s, steps[j], froms[i], all, all);
			check_bulk(&s, steps[j], froms[i], all / 3, 100000);
			check_bulk(&s, steps[j], froms[i], all < 5 ? all : 5, 1);
			check_bulk(&s, steps[j], froms[i], 0, 1);
		}
	free(s.data);
}

/* A look at the channel for the next record must not find the rest of the last one. */
static void what_is_left_of_a_record_can_be_taken_off_the_channel(void **state)
{
	struct stream s = {0};
	struct memory_chan memory;
	struct ck_record record;
	struct ck_reader *reader;
	unsigned char *dst = malloc(LONG_BULK);

	(void)state;
	put_record(&s, LONG_BULK, 2);
	reader = reader_of(&memory, &s, SIZE_MAX);
	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(ck_reader_bulk_begin(reader, 10), 0);
	assert_int_equal(ck_reader_bulk(reader, dst, LONG_BULK - 10 - 8000), 0);
	assert_int_equal(ck_reader_finish(reader), 0);
	assert_int_equal(memory.at, s.size);
	assert_false(ck_reader_holds(reader));
	assert_int_equal(ck_reader_finish(reader), 0);
	assert_int_equal(next_error(reader), -EPIPE);
	ck_reader_destroy(reader);
	free(dst);
	free(s.data);
}

static void bulk_of_a_short_record_comes_out_of_its_body_and_can_be_read_twice(void **state)
{
	struct stream s = {0};
	struct memory_chan memory;
	struct ck_reader *reader;
	unsigned char dst[64];
	int i;

	(void)state;
	put_record(&s, 64, 1);
	put_record(&s, 8, 2);
	reader = reader_of(&memory, &s, SIZE_MAX);
	assert_next(reader, 64, 1);
	for (i = 0; i < 2; i++) {
		assert_int_equal(ck_reader_bulk_begin(reader, 10), 0);
		assert_int_equal(ck_reader_bulk(reader, dst, 20), 0);
		assert_pattern(dst, 20, 10, 1);
		assert_int_equal(ck_reader_bulk(reader, dst, 34), 0);
		assert_pattern(dst, 34, 30, 1);
	}
	assert_next(reader, 8, 2);
	ck_reader_destroy(reader);
	free(s.data);
}

static void bulk_past_the_end_is_refused_and_takes_nothing(void **state)
{
	struct stream s = {0};
	struct memory_chan memory;
	struct ck_reader *reader;
	unsigned char dst[65] = {0};

	(void)state;
	put_record(&s, 64, 1);
	put_record(&s, 8, 2);
	reader = reader_of(&memory, &s, SIZE_MAX);
	assert_next(reader, 64, 1);
	assert_int_equal(ck_reader_bulk_begin(reader, 65), -EPROTO);
	assert_int_equal(ck_reader_bulk_begin(reader, SIZE_MAX), -EPROTO);
	assert_int_equal(ck_reader_bulk_begin(reader, 60), 0);
	assert_int_equal(ck_reader_bulk(reader, dst, 5), -EPROTO);
	assert_int_equal(ck_reader_bulk(reader, dst, SIZE_MAX), -EPROTO);
	assert_int_equal(dst[0], 0);
	assert_int_equal(ck_reader_bulk(reader, dst, 4), 0);
	assert_pattern(dst, 4, 60, 1);
	assert_int_equal(ck_reader_bulk(reader, dst, 1), -EPROTO);
	assert_next(reader, 8, 2);
	ck_reader_destroy(reader);
	free(s.data);
}

static void going_back_behind_what_was_read_straight_is_refused(void **state)
{
	struct stream s = {0};
	struct memory_chan memory;
	struct ck_reader *reader;
	struct ck_record record;
	unsigned char *dst = malloc(LONG_BULK);

	(void)state;
	put_record(&s, LONG_BULK, 1);
	put_record(&s, 8, 2);
	reader = reader_of(&memory, &s, SIZE_MAX);
	assert_int_equal(ck_reader_next(reader, &record), 0);
	assert_int_equal(ck_reader_bulk_begin(reader, 0), 0);
	assert_int_equal(ck_reader_bulk(reader, dst, 2u << 20), 0);
	assert_int_equal(ck_reader_bulk_begin(reader, 0), -EINVAL);
	assert_int_equal(ck_reader_bulk_begin(reader, 100), -EINVAL);
	assert_int_equal(ck_reader_bulk_begin(reader, LONG_BULK - 7), 0);
	assert_int_equal(ck_reader_bulk(reader, dst, 7), 0);
	assert_pattern(dst, 7, LONG_BULK - 7, 1);
	assert_next(reader, 8, 2);
	ck_reader_destroy(reader);
	free(s.data);
	free(dst);
}

struct writer {
	struct ck_chan *chan;
	const struct stream *stream;
	size_t piece;
	int ret;
};

static void *write_pieces(void *arg)
{
	struct writer *w = arg;
	size_t at = 0;

	while (at < w->stream->size && w->ret == 0) {
		size_t n = w->stream->size - at < w->piece ? w->stream->size - at : w->piece;
		struct iovec iov = {w->stream->data + at, n};

		w->ret = ck_chan_writev(w->chan, &iov, 1);
		at += n;
	}
	ck_chan_shutdown(w->chan);
	return NULL;
}

static void a_writing_thread_and_a_reading_one_agree_over_a_socket(void **state)
{
	static const size_t pieces[] = {3, 1000, 1 << 20, SIZE_MAX};
	unsigned char *dst = malloc(LONG_BULK);
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		size_t bulk = i == 0 ? CK_RECORD_MAX / 8 : LONG_BULK;
		struct stream s = {0};
		struct writer w = {.stream = &s, .piece = pieces[i]};
		struct ck_chan *chan;
		struct ck_reader *reader;
		struct ck_record record;
		pthread_t thread;
		int fds[2];

		put_record(&s, 48, 1);
		put_record(&s, bulk, 2);
		put_record(&s, 49, 3);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		assert_int_equal(ck_chan_adopt(fds[0], &w.chan), 0);
		assert_int_equal(ck_chan_adopt(fds[1], &chan), 0);
		assert_int_equal(ck_reader_create(chan, &reader), 0);
		assert_int_equal(pthread_create(&thread, NULL, write_pieces, &w), 0);
		assert_next(reader, 48, 1);
		assert_int_equal(ck_reader_next(reader, &record), 0);
		assert_int_equal(ck_reader_bulk_begin(reader, 0), 0);
		assert_int_equal(ck_reader_bulk(reader, dst, bulk), 0);
		assert_pattern(dst, bulk, 0, 2);
		assert_next(reader, 49, 3);
		assert_int_equal(next_error(reader), -EPIPE);
		pthread_join(thread, NULL);
		assert_int_equal(w.ret, 0);
		ck_reader_destroy(reader);
		ck_chan_close(chan);
		ck_chan_close(w.chan);
		free(s.data);
	}
	free(dst);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_records_in_one_read_need_no_further_read),
		cmocka_unit_test(records_are_the_same_however_reads_are_cut),
		cmocka_unit_test(a_peer_that_vanishes_at_any_byte_is_told_from_one_that_leaves),
		cmocka_unit_test(fragments_are_joined_up_to_the_limit),
		cmocka_unit_test(hostile_marks_are_refused_before_their_bytes_come),
		cmocka_unit_test(a_mark_that_promises_2_GiB_costs_no_memory),
		cmocka_unit_test(
			bulk_is_read_across_the_end_of_the_buffer_and_skipped_where_not_taken),
		cmocka_unit_test(
			bulk_of_a_short_record_comes_out_of_its_body_and_can_be_read_twice),
		cmocka_unit_test(what_is_left_of_a_record_can_be_taken_off_the_channel),
		cmocka_unit_test(bulk_past_the_end_is_refused_and_takes_nothing),
		cmocka_unit_test(going_back_behind_what_was_read_straight_is_refused),
		cmocka_unit_test(a_writing_thread_and_a_reading_one_agree_over_a_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
