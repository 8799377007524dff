/*
 * tests/unit/test_server_connection_peek.c - the first record of a connection: found out from any
 * part of it, and however it is divided.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cricket.h"
#include "rpc/fragments.h"
#include "rpc/record.h"
#include "server/processes/connection_peek.h"
#include "server/worker/first_message.h"
#include "tests/unit/rpc_memory_chan.h"

#define BODY 88 /* bytes of a link, with its header */

static ck_link_args args = {.number = 3};

/* The record of a link, as one fragment. */
static void make_link(unsigned char record[CK_MARK + BODY])
{
	memset(args.session, 5, sizeof(args.session));
	memset(args.key, 6, sizeof(args.key));
	assert_int_equal(ck_call_encode(record, CK_MARK + BODY, 9, CK_LINK,
					(xdrproc_t)xdr_ck_link_args, &args, 0),
			 CK_MARK + BODY);
}

static unsigned char *put_mark(unsigned char *at, size_t size, bool last)
{
	at[0] = last ? 0x80 : 0;
	at[1] = 0;
	at[2] = (unsigned char)(size >> 8);
	at[3] = (unsigned char)size;
	return at + CK_MARK;
}

/* The same in fragments of @each bytes, and an empty last one if @empty. Returns its bytes. */
static size_t split(const unsigned char *record, size_t each, bool empty, unsigned char *out)
{
	unsigned char *at = out;

	for (size_t i = 0; i < BODY; i += each) {
		size_t n = BODY - i < each ? BODY - i : each;

		at = put_mark(at, n, !empty && i + n == BODY);
		memcpy(at, record + CK_MARK + i, n);
		at += n;
	}
	return (size_t)((empty ? put_mark(at, 0, true) : at) - out);
}

static enum cks_connection_peek peek(const unsigned char *bytes, size_t size,
				     struct cks_peeked *out)
{
	unsigned char copy[2 * CK_PEEK_MAX];

	memcpy(copy, bytes, size);
	return cks_connection_peek(copy, size, out);
}

static void fragments_are_joined(void **state)
{
	unsigned char record[CK_MARK + BODY], bytes[6 * BODY];
	struct memory_chan memory;
	struct cks_first_message first;

	(void)state;
	make_link(record);
	for (size_t each = 1; each <= BODY; each++) {
		size_t size = split(record, each, each % 2, bytes);
		struct cks_peeked p = {.xid = 0};

		memset(bytes + size, 0xee, 8); /* of what follows */
		for (size_t n = 0; n < size; n++)
			assert_int_equal(peek(bytes, n, &p), CK_PEEK_MORE);
		assert_int_equal(peek(bytes, size + 8, &p), CK_PEEK_LINK);
		assert_int_equal(p.xid, 9);
		assert_int_equal(p.record, size);
		assert_int_equal(p.args + p.args_size, CK_MARK + BODY);
		assert_memory_equal(p.session, args.session, sizeof(p.session));
		memory_chan_init(&memory, bytes, size + 8, 3);
		assert_int_equal(cks_first_message_read(&memory.chan, &first), 0);
		assert_int_equal(memory.at, size);
		assert_int_equal(first.kind, CK_FIRST_LINK);
		assert_int_equal(first.args.number, 3);
		assert_memory_equal(first.args.key, args.key, sizeof(args.key));
	}
}

static void other_versions_of_rpc_are_known_once_complete(void **state)
{
	unsigned char record[CK_MARK + BODY], bytes[6 * BODY];
	struct cks_peeked p = {.xid = 0};
	size_t size;

	(void)state;
	make_link(record);
	record[CK_MARK + 11] = 3;
	size = split(record, 10, false, bytes);
	for (size_t n = 0; n < size; n++)
		assert_int_equal(peek(bytes, n, &p), CK_PEEK_MORE);
	assert_int_equal(peek(bytes, size, &p), CK_PEEK_NO_RPC_VERSION);
	assert_int_equal(p.xid, 9);
	assert_int_equal(p.record, size);
}

static void wrong_fragments_are_garbage_at_once(void **state)
{
	unsigned char bytes[2 * CK_PEEK_MAX] = {0};
	struct cks_peeked p;

	(void)state;
	put_mark(bytes, 0, false);
	assert_int_equal(peek(bytes, CK_MARK, &p), CK_PEEK_GARBAGE);
	put_mark(bytes, 0, true);
	assert_int_equal(peek(bytes, CK_MARK, &p), CK_PEEK_GARBAGE);
	put_mark(bytes, CK_PEEK_MAX - CK_MARK + 1, true);
	assert_int_equal(peek(bytes, CK_MARK, &p), CK_PEEK_GARBAGE);
	put_mark(bytes, CK_PEEK_MAX - 2 * CK_MARK, false);
	assert_int_equal(peek(bytes, CK_PEEK_MAX - CK_MARK, &p), CK_PEEK_MORE);
	put_mark(bytes, CK_PEEK_MAX - 2 * CK_MARK + 1, false); /* no room for the next mark */
	assert_int_equal(peek(bytes, CK_MARK, &p), CK_PEEK_GARBAGE);
	/* two fragments that are too long together: a call with zeros for all else */
	put_mark(bytes, 100, false);
	put_mark(bytes + CK_MARK + 100, CK_PEEK_MAX - 107, true);
	assert_int_equal(peek(bytes, CK_MARK + 100, &p), CK_PEEK_MORE);
	assert_int_equal(peek(bytes, 2 * CK_MARK + 100, &p), CK_PEEK_GARBAGE);
	put_mark(bytes + CK_MARK + 100, CK_PEEK_MAX - 108, true);
	assert_int_equal(peek(bytes, 2 * CK_MARK + 100, &p), CK_PEEK_MORE);
}

/* A ClientHello with these @extensions, in @bytes; returns its size. */
static size_t make_hello(unsigned char *bytes, const unsigned char *extensions, size_t size)
{
	size_t message = 2 + 32 + 1 + 4 + 2 + 2 + size;
	unsigned char head[] = {0x16,
				3,
				1,
				(unsigned char)((message + 4) >> 8),
				(unsigned char)(message + 4),
				1,
				0,
				(unsigned char)(message >> 8),
				(unsigned char)message,
				3,
				3};
	unsigned char middle[] = {
		0, 0, 2, 0x13, 1, 1, 0, (unsigned char)(size >> 8), (unsigned char)size};

	memcpy(bytes, head, sizeof(head));
	memset(bytes + sizeof(head), 7, 32);
	memcpy(bytes + sizeof(head) + 32, middle, sizeof(middle));
	memcpy(bytes + sizeof(head) + 32 + sizeof(middle), extensions, size);
	return sizeof(head) + 32 + sizeof(middle) + size;
}

static void a_hello_that_names_a_session_is_known_once_complete(void **state)
{
	/* another extension, then pre_shared_key: an identity of 56 bytes, its age, no binders */
	unsigned char extensions[6 + 4 + 2 + 2 + 56 + 4] = {0,	0, 0,  2, 0,  0, 0,
							    41, 0, 64, 0, 62, 0, 56};
	unsigned char bytes[256], wanted[16];
	struct cks_peeked p = {.xid = 0};
	size_t size;

	(void)state;
	memset(wanted, 0xab, sizeof(wanted));
	memcpy(extensions + 14, "cricket1abababababababababababababababab0000000000000007", 56);
	size = make_hello(bytes, extensions, sizeof(extensions));
	for (size_t n = 1; n < size; n++)
		assert_int_equal(peek(bytes, n, &p), CK_PEEK_MORE);
	assert_int_equal(peek(bytes, size, &p), CK_PEEK_SECRET);
	assert_memory_equal(p.session, wanted, sizeof(wanted));
	extensions[14 + 20] = 'g'; /* no digit */
	size = make_hello(bytes, extensions, sizeof(extensions));
	assert_int_equal(peek(bytes, size, &p), CK_PEEK_HANDSHAKE);
	size = make_hello(bytes, extensions, 6);
	assert_int_equal(peek(bytes, size, &p), CK_PEEK_HANDSHAKE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fragments_are_joined),
		cmocka_unit_test(other_versions_of_rpc_are_known_once_complete),
		cmocka_unit_test(wrong_fragments_are_garbage_at_once),
		cmocka_unit_test(a_hello_that_names_a_session_is_known_once_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
