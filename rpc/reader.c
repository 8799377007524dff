/*
 * rpc/reader.c - read records from a channel, with few system calls and without trusting the
 * sender.
 *
 * One buffer receives bytes from the channel. A record is returned in place; only a record of
 * several fragments, which Cricket never sends, is assembled in another buffer. Of a record longer
 * than CK_RECORD_MAX, only the beginning is returned. The rest bypasses the buffer and is read
 * directly to its destination. So a peer can make a reader hold at most two records of
 * CK_RECORD_MAX, regardless of its marks.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/fragments.h"
#include "rpc/reader_memory.h"
#include "rpc/record.h"
#include "util/util.h"

#define CK_BUFFER_START (256u << 10)
#define CK_BUFFER_MAX (CK_RECORD_MAX + 4096u) /* the longest record, its mark, and whole pages */
#define CK_LONG_BODY 4096u		      /* minimal body of a long record */

struct ck_reader {
	struct ck_chan *chan;
	struct ck_reader_memory *room; /* NULL: unlimited */
	bool shares;		       /* holds a share of the room */
	int error; /* sticky: the position in the stream, or the stream itself, is lost */

	unsigned char *buf;
	size_t size;
	size_t head, tail; /* received bytes without a record yet: buf[head, tail) */

	unsigned char *joined; /* CK_RECORD_MAX bytes; NULL until needed */

	/* The current record. */
	const unsigned char *body;
	size_t have;  /* bytes at body */
	size_t total; /* bytes of the record */
	size_t ahead; /* of these, still in the channel; then head == tail */
	size_t bulk;  /* position of the bulk reading, from the record's start */
};

/* Wait for a share of the room. -ENOBUFS: timed out, no reader has returned one. */
static int take_share(struct ck_reader *reader)
{
	int ret = 0;

	if (reader->room && !reader->shares) {
		ret = ck_reader_memory_take(reader->room);
		reader->shares = ret == 0;
	}
	return ret;
}

static void give_share(struct ck_reader *reader)
{
	if (reader->shares)
		ck_reader_memory_give(reader->room);
	reader->shares = false;
}

static int create_reader(struct ck_chan *chan, size_t size, struct ck_reader_memory *room,
			 struct ck_reader **out)
{
	struct ck_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	reader->chan = chan;
	reader->room = room;
	reader->size = size;
	reader->buf = malloc(reader->size);
	if (!reader->buf) {
		free(reader);
		return -ENOMEM;
	}
	*out = reader;
	return 0;
}

int ck_reader_create(struct ck_chan *chan, struct ck_reader **out)
{
	return create_reader(chan, CK_BUFFER_START, NULL, out);
}

int ck_reader_create_small(struct ck_chan *chan, struct ck_reader_memory *room,
			   struct ck_reader **out)
{
	return create_reader(chan, CK_READER_SMALL, room, out);
}

int ck_reader_widen(struct ck_reader *reader)
{
	unsigned char *bigger = reader->buf;

	if (reader->size < CK_BUFFER_START)
		bigger = realloc(reader->buf, CK_BUFFER_START);
	if (!bigger)
		return -ENOMEM;
	reader->size = ck_max(reader->size, (size_t)CK_BUFFER_START);
	reader->buf = bigger;
	reader->body = NULL; /* the current record is finished */
	reader->have = 0;
	give_share(reader);
	reader->room = NULL;
	return 0;
}

/* Does not close the channel. */
void ck_reader_destroy(struct ck_reader *reader)
{
	if (!reader)
		return;
	free(reader->joined);
	free(reader->buf);
	give_share(reader);
	free(reader);
}

/* Between records: return to a small buffer, if the bytes received so far fit. */
static void shrink_buffer(struct ck_reader *reader)
{
	size_t arrived = reader->tail - reader->head;
	unsigned char *smaller;

	if (!reader->shares || arrived > CK_READER_SMALL)
		return;
	memmove(reader->buf, reader->buf + reader->head, arrived);
	reader->head = 0;
	reader->tail = arrived;
	smaller = realloc(reader->buf, CK_READER_SMALL);
	if (!smaller)
		return;
	reader->buf = smaller;
	reader->size = CK_READER_SMALL;
	free(reader->joined);
	reader->joined = NULL;
	give_share(reader);
}

bool ck_reader_holds(const struct ck_reader *reader)
{
	return reader->tail > reader->head;
}

/* The end of the stream inside a record is an error. */
static int broken_off(int error)
{
	return error == -EPIPE ? -ECONNRESET : error;
}

/* Make room in the buffer for @need bytes from head on. */
static int make_room(struct ck_reader *reader, size_t need)
{
	unsigned char *bigger;
	int ret;

	if (reader->size - reader->head >= need)
		return 0;
	memmove(reader->buf, reader->buf + reader->head, reader->tail - reader->head);
	reader->tail -= reader->head;
	reader->head = 0;
	if (reader->size >= need)
		return 0;
	ret = take_share(reader);
	if (ret < 0)
		return ret;
	bigger = realloc(reader->buf, CK_BUFFER_MAX);
	if (!bigger)
		return -ENOMEM;
	reader->buf = bigger;
	reader->size = CK_BUFFER_MAX;
	return 0;
}

/* Buffer @need bytes (at most CK_BUFFER_MAX) from head on. */
static int fill_buffer(struct ck_reader *reader, size_t need)
{
	while (reader->tail - reader->head < need) {
		long n;
		int ret;

		if (reader->head == reader->tail)
			reader->head = reader->tail = 0;
		ret = make_room(reader, need);
		if (ret < 0)
			return ret;
		n = ck_chan_read_some(reader->chan, reader->buf + reader->tail,
				      reader->size - reader->tail);
		if (n < 0)
			return reader->tail > reader->head ? broken_off((int)n) : (int)n;
		reader->tail += (size_t)n;
	}
	return 0;
}

static uint32_t mark_at_head(const struct ck_reader *reader)
{
	return ck_mark_at(reader->buf + reader->head);
}

/* Discard @size bytes of the current record that are still in the channel. */
static int discard_bytes(struct ck_reader *reader, size_t size)
{
	while (size > 0) {
		size_t n = size < reader->size ? size : reader->size;
		int ret = ck_chan_read(reader->chan, reader->buf, n);

		if (ret < 0)
			return broken_off(ret);
		size -= n;
		reader->ahead -= n;
	}
	return 0;
}

/* Take a record of one fragment; its mark of @size is at head. */
static int take_single(struct ck_reader *reader, size_t size)
{
	size_t buffered;
	int ret = fill_buffer(reader, CK_MARK + (size <= CK_RECORD_MAX ? size : CK_LONG_BODY));

	if (ret < 0)
		return ret;
	buffered = reader->tail - reader->head - CK_MARK;
	reader->body = reader->buf + reader->head + CK_MARK;
	reader->total = size;
	reader->have = size < buffered ? size : buffered;
	reader->ahead = size - reader->have;
	reader->head += CK_MARK + reader->have;
	return 0;
}

/* Append a fragment of @size bytes at head to @got assembled ones. */
static int join_fragment(struct ck_reader *reader, size_t got, size_t size)
{
	while (size > 0) {
		size_t n;
		int ret = fill_buffer(reader, 1);

		if (ret < 0)
			return broken_off(ret);
		n = reader->tail - reader->head;
		if (n > size)
			n = size;
		memcpy(reader->joined + got, reader->buf + reader->head, n);
		reader->head += n;
		got += n;
		size -= n;
	}
	return 0;
}

/* Take a record of several fragments; the first mark is at head. */
static int take_joined(struct ck_reader *reader)
{
	size_t got = 0;
	uint32_t mark;
	int ret;

	ret = take_share(reader);
	if (ret < 0)
		return ret;
	if (!reader->joined)
		reader->joined = malloc(CK_RECORD_MAX);
	if (!reader->joined)
		return -ENOMEM;
	do {
		size_t size;

		ret = fill_buffer(reader, CK_MARK);
		if (ret < 0)
			return broken_off(ret);
		mark = mark_at_head(reader);
		if (!ck_mark_allowed(mark, got))
			return -EPROTO;
		reader->head += CK_MARK;
		size = mark & ~CK_LAST_FRAGMENT;
		ret = join_fragment(reader, got, size);
		if (ret < 0)
			return ret;
		got += size;
	} while (!(mark & CK_LAST_FRAGMENT));
	reader->body = reader->joined;
	reader->have = reader->total = got;
	return 0;
}

static int take_record(struct ck_reader *reader)
{
	uint32_t mark;
	int ret = discard_bytes(reader, reader->ahead);

	if (ret < 0)
		return ret;
	reader->have = reader->total = reader->bulk = 0;
	shrink_buffer(reader);
	ret = fill_buffer(reader, CK_MARK);
	if (ret < 0)
		return ret;
	mark = mark_at_head(reader);
	if (!ck_mark_allowed(mark, 0))
		return -EPROTO;
	if (mark & CK_LAST_FRAGMENT)
		return take_single(reader, mark & ~CK_LAST_FRAGMENT);
	return take_joined(reader);
}

/*
 * Fragments are assembled; total counts all of them.
 * -ECONNRESET: the stream ended inside a record; -ENOMEM. Errors are permanent: the next call
 * returns the same.
 */
int ck_reader_next(struct ck_reader *reader, struct ck_record *record)
{
	if (reader->error == 0)
		reader->error = take_record(reader);
	if (reader->error < 0)
		return reader->error;
	record->body = reader->body;
	record->body_size = reader->have;
	record->total = reader->total;
	return 0;
}

int ck_reader_finish(struct ck_reader *reader)
{
	unsigned char bytes[4096];

	while (reader->error == 0 && reader->ahead > 0) {
		size_t n = reader->ahead < sizeof(bytes) ? reader->ahead : sizeof(bytes);

		reader->error = broken_off(ck_chan_read(reader->chan, bytes, n));
		reader->ahead -= n;
	}
	return reader->error;
}

/* -EINVAL: the offset is in bytes that were read directly from the channel. */
int ck_reader_bulk_begin(struct ck_reader *reader, size_t offset)
{
	size_t arrived = reader->total - reader->ahead;

	if (reader->error < 0)
		return reader->error;
	if (offset > reader->total)
		return -EPROTO;
	if (offset < arrived && arrived > reader->have)
		return -EINVAL;
	if (offset > arrived)
		reader->error = discard_bytes(reader, offset - arrived);
	reader->bulk = offset;
	return reader->error;
}

/* -EPROTO: nothing was read, and the reader can continue; other errors are permanent. */
int ck_reader_bulk(struct ck_reader *reader, void *dst, size_t size)
{
	size_t n = 0;

	if (reader->error < 0)
		return reader->error;
	if (size > reader->total - reader->bulk)
		return -EPROTO;
	if (reader->bulk < reader->have) {
		n = reader->have - reader->bulk;
		if (n > size)
			n = size;
		memcpy(dst, reader->body + reader->bulk, n);
	}
	if (size > n) {
		reader->error =
			broken_off(ck_chan_read(reader->chan, (unsigned char *)dst + n, size - n));
		if (reader->error < 0)
			return reader->error;
		reader->ahead -= size - n;
	}
	reader->bulk += size;
	return 0;
}
