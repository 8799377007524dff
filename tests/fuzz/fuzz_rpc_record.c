/*
 * tests/fuzz/fuzz_rpc_record.c - the reader of records and the decoders of heads, on any bytes.
 *
 * The stream is the input behind its first two bytes, which choose how reads are cut and what is
 * taken of each record. Every record is held against a plain parse of the same bytes, made here
 * without a buffer; what the reader makes of a stream must not depend on how it arrives.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/record.h"
#include "tests/unit/rpc_memory_chan.h"

#define LAST 0x80000000u

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what))                                                                       \
			abort();                                                                   \
	} while (0)

struct parse {
	const uint8_t *data;
	size_t size, at;
	uint8_t *body; /* of the record that was parsed last, as much as there is */
	size_t total, have;
};

static void append(struct parse *p, size_t size)
{
	size_t n = size < p->size - p->at ? size : p->size - p->at;

	if (n > 0)
		memcpy(p->body + p->have, p->data + p->at, n);
	p->at += n;
	p->have += n;
	p->total += size;
}

/* What ck_reader_next should say of the next record. @single: it has one fragment only. */
static int parse_next(struct parse *p, bool *single)
{
	uint32_t mark = 0;

	p->total = p->have = 0;
	*single = false;
	do {
		bool first = p->total == 0;
		size_t size;

		if (p->size - p->at < 4)
			return first && p->at == p->size ? -EPIPE : -ECONNRESET;
		memcpy(&mark, p->data + p->at, 4);
		mark = ntohl(mark);
		size = mark & ~LAST;
		if (size == 0 && (first || !(mark & LAST)))
			return -EPROTO;
		*single = first && (mark & LAST);
		if (!*single && p->total + size > CK_RECORD_MAX)
			return -EPROTO;
		p->at += 4;
		append(p, size);
		if (p->have < p->total && !(*single && size > CK_RECORD_MAX && p->have >= 4096))
			return -ECONNRESET;
	} while (!(mark & LAST));
	return 0;
}

static void check_heads(const struct ck_record *record)
{
	struct ck_call_header header = {0};
	uint32_t xid, low, high;
	size_t results = 0;

	if (ck_call_decode(record->body, record->body_size, &header) == 0)
		CHECK(header.size >= 40 && header.size <= record->body_size);
	if (ck_reply_decode(record->body, record->body_size, &xid, &results, &low, &high) == 0)
		CHECK(results >= 24 && results <= record->body_size);
}

/* Take some of the record as bulk payload: false when the stream broke off in it. */
static bool check_bulk(struct ck_reader *reader, const struct parse *p, uint8_t choice)
{
	size_t offset = p->total * (choice & 15) / 15,
	       size = (p->total - offset) * (choice >> 4) / 15;
	uint8_t *dst;
	int ret = ck_reader_bulk_begin(reader, offset);

	CHECK(ret == (offset > p->have ? -ECONNRESET : 0));
	if (ret < 0)
		return false;
	if (size > p->have + (1u << 20)) /* the claim of a mark, that no test need allocate */
		size = p->have + (1u << 20) - offset;
	dst = malloc(size + 1);
	CHECK(dst);
	ret = ck_reader_bulk(reader, dst, size);
	CHECK(ret == (offset + size > p->have ? -ECONNRESET : 0));
	if (ret == 0) {
		CHECK(memcmp(dst, p->body + offset, size) == 0);
		CHECK(ck_reader_bulk(reader, dst, p->total - offset - size + 1) == -EPROTO);
	}
	free(dst);
	return ret == 0;
}

static void check_stream(struct parse *p, size_t step, uint8_t choice)
{
	struct memory_chan memory;
	struct ck_reader *reader;
	struct ck_record record;
	bool single;
	int ret;

	memory_chan_init(&memory, p->data, p->size, step);
	CHECK(ck_reader_create(&memory.chan, &reader) == 0);
	for (;;) {
		int want = parse_next(p, &single);

		ret = ck_reader_next(reader, &record);
		/* The rest of a long record that broke off is missed only when it is skipped. */
		CHECK(ret == want);
		if (ret < 0)
			break;
		CHECK(record.total == p->total);
		CHECK(record.body_size == p->total ||
		      (single && p->total > CK_RECORD_MAX && record.body_size >= 4096));
		CHECK(memcmp(record.body, p->body, record.body_size) == 0);
		check_heads(&record);
		if (choice && !check_bulk(reader, p, choice))
			break;
		if (p->have < p->total) { /* long, and broken off */
			CHECK(ck_reader_next(reader, &record) == -ECONNRESET);
			break;
		}
	}
	CHECK(ret == 0 || ck_reader_next(reader, &record) == ret);
	ck_reader_destroy(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t body[4u << 20];
	struct parse p = {.body = body};

	if (size < 2 || size > sizeof(body))
		return 0;
	p.data = data + 2;
	p.size = size - 2;
	check_stream(&p, data[0] ? (size_t)data[0] * data[0] : SIZE_MAX, data[1]);
	return 0;
}
