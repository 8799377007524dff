/*
 * tests/unit/test_rpc_record.c - heads of calls and replies are RFC 5531's, byte for byte.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/record.h"

/* Through the one type that a function pointer may be cast to and from without a warning. */
#define XDR_VOID ((xdrproc_t)(void (*)(void))xdr_void)

struct args {
	u_quad_t number;
	char *text;
	uint32_t bulk;
};

static bool_t xdr_args(XDR *xdrs, ...)
{
	struct args *args;
	va_list ap;

	va_start(ap, xdrs);
	args = va_arg(ap, struct args *);
	va_end(ap);
	return xdr_u_quad_t(xdrs, &args->number) && xdr_string(xdrs, &args->text, 16) &&
	       xdr_uint32_t(xdrs, &args->bulk);
}

static bool_t xdr_filler(XDR *xdrs, ...)
{
	static char zeros[CK_RECORD_MAX + 64];
	u_int size;
	va_list ap;

	va_start(ap, xdrs);
	size = *va_arg(ap, u_int *);
	va_end(ap);
	return xdr_opaque(xdrs, zeros, size);
}

static void assert_words(const void *buf, const uint32_t *words, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		uint32_t word;

		memcpy(&word, (const char *)buf + 4 * i, 4);
		assert_int_equal(ntohl(word), words[i]);
	}
}

static void a_call_is_the_words_of_the_standard(void **state)
{
	static const uint32_t words[] = {
		0x80000000 + 60,
		0x1234,
		0,
		2,
		99,
		1,
		7,
		0,
		0,
		0,
		0, /* the head */
		1,
		2,
		3,
		0x61626300,
		9,
	};
	struct args args = {.number = 0x100000002, .text = "abc", .bulk = 9};
	unsigned char buf[256];

	(void)state;
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 0x1234, 7, xdr_args, &args, 0), 64);
	assert_words(buf, words, 16);
	/* 9 bytes of payload, in 12 */
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 0x1234, 7, xdr_args, &args, 9), 64);
	assert_words(buf, (const uint32_t[]){0x80000000 + 72}, 1);
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 1, 0, XDR_VOID, NULL, 0), CK_CALL_HEADER);
}

static void a_reply_is_the_words_of_the_standard(void **state)
{
	static const uint32_t words[] = {
		0x80000000 + 44, 0x1234, 1, 0, 0, 0, 0, 1, 2, 3, 0x61626300, 9,
	};
	struct args args = {.number = 0x100000002, .text = "abc", .bulk = 9};
	unsigned char buf[256];

	(void)state;
	assert_int_equal(ck_reply_encode(buf, sizeof(buf), 0x1234, xdr_args, &args, 9),
			 sizeof(words));
	assert_words(buf, (const uint32_t[]){0x80000000 + 44 + 12}, 1);
	assert_words(buf + 4, words + 1, 11);
	/* 9 bytes of payload in 12, and a status word behind them */
	assert_int_equal(ck_reply_encode(buf, sizeof(buf), 0x1234, xdr_args, &args, 16),
			 sizeof(words));
	assert_words(buf, (const uint32_t[]){0x80000000 + 44 + 16}, 1);
}

static void too_small_a_buffer_is_enospc_and_nothing_behind_it_is_written(void **state)
{
	struct args args = {.number = 1, .text = "abcdefgh", .bulk = 9};
	unsigned char buf[128];
	long need, size;
	size_t i;

	(void)state;
	need = ck_call_encode(buf, sizeof(buf), 1, 7, xdr_args, &args, 9);
	assert_int_equal(need, 44 + 24);
	for (size = 0; size < need; size++) {
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(ck_call_encode(buf, (size_t)size, 1, 7, xdr_args, &args, 9),
				 -ENOSPC);
		assert_true(size >= 44 - 16 ||
			    ck_reply_encode(buf, (size_t)size, 1, xdr_args, &args, 9) == -ENOSPC);
		if (size < 32)
			assert_int_equal(ck_refusal_encode(buf, (size_t)size, 1, PROG_MISMATCH),
					 -ENOSPC);
		for (i = (size_t)size; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 0xee);
	}
	assert_int_equal(ck_call_encode(buf, (size_t)need, 1, 7, xdr_args, &args, 9), need);
}

static void arguments_that_break_their_bounds_are_einval(void **state)
{
	struct args args = {.text = "seventeen letters", .bulk = 9};
	unsigned char buf[128];

	(void)state;
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 1, 7, xdr_args, &args, 0), -EINVAL);
	assert_int_equal(ck_call_encode(buf, 50, 1, 7, xdr_args, &args, 0), -EINVAL);
	assert_int_equal(ck_reply_encode(buf, sizeof(buf), 1, xdr_args, &args, 0), -EINVAL);
}

static void a_bulk_length_that_the_arguments_do_not_say_is_einval(void **state)
{
	struct args args = {.text = "", .bulk = 9};
	unsigned char buf[128];

	(void)state;
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 1, 7, xdr_args, &args, 8), -EINVAL);
	assert_int_equal(ck_reply_encode(buf, sizeof(buf), 1, xdr_args, &args, 10), -EINVAL);
	assert_int_equal(ck_reply_encode(buf, sizeof(buf), 1, xdr_args, &args, 13), -EINVAL);
	assert_int_equal(ck_reply_encode(buf, sizeof(buf), 1, xdr_args, &args, 20), -EINVAL);
	args.bulk = 0x7fffffff; /* with its head: more than a mark can say */
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 1, 7, xdr_args, &args, 0x7fffffff),
			 -EINVAL);
	assert_int_equal(
		ck_call_encode(buf, sizeof(buf), 1, 7, xdr_args, &args, (size_t)0x100000009),
		-EINVAL);
	args.bulk = 0x7ffffffe - 8192;
	assert_int_equal(ck_call_encode(buf, sizeof(buf), 1, 7, xdr_args, &args, args.bulk), 60);
	assert_words(buf, (const uint32_t[]){0x80000000 + 56 + args.bulk + 2}, 1);
}

static void a_record_is_as_long_as_readers_take_and_no_longer(void **state)
{
	size_t size = CK_RECORD_MAX + 128;
	unsigned char *buf = malloc(size);
	u_int n = CK_RECORD_MAX - 40;

	(void)state;
	assert_int_equal(ck_call_encode(buf, size, 1, 7, xdr_filler, &n, 0), CK_RECORD_MAX + 4);
	n += 4;
	assert_int_equal(ck_call_encode(buf, size, 1, 7, xdr_filler, &n, 0), -EINVAL);
	n = CK_RECORD_MAX - 24;
	assert_int_equal(ck_reply_encode(buf, size, 1, xdr_filler, &n, 0), CK_RECORD_MAX + 4);
	n += 4;
	assert_int_equal(ck_reply_encode(buf, size, 1, xdr_filler, &n, 0), -EINVAL);
	free(buf);
}

static void calls_decode_to_what_was_encoded(void **state)
{
	struct args args = {.text = "x", .bulk = 0};
	struct ck_call_header header;
	unsigned char buf[128];
	long size = ck_call_encode(buf, sizeof(buf), 0xfffffffe, 815, xdr_args, &args, 0);

	(void)state;
	assert_int_equal(ck_call_decode(buf + 4, (size_t)size - 4, &header), 0);
	assert_int_equal(header.xid, 0xfffffffe);
	assert_int_equal(header.program, CK_PROGRAM);
	assert_int_equal(header.version, CK_VERSION);
	assert_int_equal(header.proc, 815);
	assert_int_equal(header.size, CK_CALL_HEADER - 4);
}

/* A call as libtirpc encodes it, with a credential of @cred_size bytes. */
static size_t stock_call(unsigned char *buf, size_t size, u_int cred_size)
{
	static char cred[MAX_AUTH_BYTES];
	struct rpc_msg msg = {.rm_xid = 5, .rm_direction = CALL};
	XDR xdrs;

	msg.rm_call.cb_rpcvers = 2;
	msg.rm_call.cb_prog = 1;
	msg.rm_call.cb_vers = 2;
	msg.rm_call.cb_proc = 3;
	msg.rm_call.cb_cred.oa_flavor = AUTH_SYS;
	msg.rm_call.cb_cred.oa_base = cred;
	msg.rm_call.cb_cred.oa_length = cred_size;
	msg.rm_call.cb_verf = _null_auth;
	xdrmem_create(&xdrs, (char *)buf, (u_int)size, XDR_ENCODE);
	assert_true(xdr_callmsg(&xdrs, &msg));
	return xdr_getpos(&xdrs);
}

static void calls_of_libtirpc_with_any_credential_decode(void **state)
{
	unsigned char buf[600];
	u_int cred;

	(void)state;
	for (cred = 0; cred <= 400; cred++) {
		size_t n = stock_call(buf, sizeof(buf), cred), cut;
		struct ck_call_header header = {.size = 42};

		for (cut = 0; cut < n; cut++)
			assert_int_equal(ck_call_decode(buf, cut, &header), -EPROTO);
		assert_int_equal(header.size, 42);
		assert_int_equal(ck_call_decode(buf, n, &header), 0);
		assert_int_equal(header.xid, 5);
		assert_int_equal(header.program, 1);
		assert_int_equal(header.version, 2);
		assert_int_equal(header.proc, 3);
		assert_int_equal(header.size, n);
	}
}

static void what_is_no_call_is_refused(void **state)
{
	struct ck_call_header header;
	unsigned char buf[600];
	size_t n = stock_call(buf, sizeof(buf), 400);
	unsigned char *cred_size = buf + 28;

	(void)state;
	memcpy(cred_size, (const unsigned char[]){0, 0, 1, 145}, 4); /* 401 */
	assert_int_equal(ck_call_decode(buf, n, &header), -EPROTO);
	memset(cred_size, 0xff, 4);
	assert_int_equal(ck_call_decode(buf, n, &header), -EPROTO);
	n = stock_call(buf, sizeof(buf), 0);
	buf[11] = 3; /* of RPC itself */
	header.xid = 0;
	for (size_t cut = 0; cut < 12; cut++)
		assert_int_equal(ck_call_decode(buf, cut, &header), -EPROTO);
	assert_int_equal(header.xid, 0);
	assert_int_equal(ck_call_decode(buf, 12, &header), -EPROTONOSUPPORT);
	assert_int_equal(header.xid, 5);
	n = stock_call(buf, sizeof(buf), 0);
	buf[7] = 1; /* a reply */
	assert_int_equal(ck_call_decode(buf, n, &header), -EPROTO);
}

/* ck_reply_decode of @size bytes, all outputs preset to 42; @out: xid, results, low, high. */
static int decode_reply(const unsigned char *body, size_t size, uint32_t out[4])
{
	uint32_t xid = 42, low = 42, high = 42;
	size_t results = 42;
	int ret = ck_reply_decode(body, size, &xid, &results, &low, &high);

	out[0] = xid;
	out[1] = (uint32_t)results;
	out[2] = low;
	out[3] = high;
	return ret;
}

static void assert_reply(const unsigned char *body, size_t size, int ret, const uint32_t want[4])
{
	uint32_t out[4];
	size_t cut;

	assert_int_equal(decode_reply(body, size, out), ret);
	assert_memory_equal(out, want, sizeof(out));
	for (cut = 0; cut < size; cut++) {
		assert_int_equal(decode_reply(body, cut, out), -EPROTO);
		assert_memory_equal(out, ((uint32_t[]){42, 42, 42, 42}), sizeof(out));
	}
}

static void replies_and_refusals_decode_to_what_was_encoded(void **state)
{
	unsigned char buf[128];
	long n;

	(void)state;
	n = ck_reply_encode(buf, sizeof(buf), 7, XDR_VOID, NULL, 0);
	assert_reply(buf + 4, (size_t)n - 4, 0, (uint32_t[]){7, 24, 42, 42});
	n = ck_refusal_encode(buf, sizeof(buf), 7, PROG_MISMATCH);
	assert_int_equal(n, 36);
	assert_reply(buf + 4, 32, -EPROTONOSUPPORT, (uint32_t[]){7, 42, CK_VERSION, CK_VERSION});
	n = ck_mismatch_encode(buf, sizeof(buf), 7);
	assert_int_equal(n, 28);
	assert_reply(buf + 4, 24, -EPROTONOSUPPORT, (uint32_t[]){7, 42, 2, 2});
	assert_int_equal(ck_mismatch_encode(buf, 27, 7), -ENOSPC);
	assert_int_equal(ck_refusal_encode(buf, sizeof(buf), 7, PROG_UNAVAIL), 28);
	assert_reply(buf + 4, 24, -EOPNOTSUPP, (uint32_t[]){7, 42, 42, 42});
	assert_int_equal(ck_refusal_encode(buf, sizeof(buf), 7, PROC_UNAVAIL), 28);
	assert_reply(buf + 4, 24, -EOPNOTSUPP, (uint32_t[]){7, 42, 42, 42});
	assert_int_equal(ck_refusal_encode(buf, sizeof(buf), 7, GARBAGE_ARGS), 28);
	assert_reply(buf + 4, 24, -EBADMSG, (uint32_t[]){7, 42, 42, 42});
	assert_int_equal(ck_refusal_encode(buf, sizeof(buf), 7, SUCCESS), -EINVAL);
}

/* @msg as libtirpc encodes it. */
static size_t stock_reply(unsigned char *buf, size_t size, struct rpc_msg *msg)
{
	XDR xdrs;

	msg->rm_xid = 9;
	msg->rm_direction = REPLY;
	xdrmem_create(&xdrs, (char *)buf, (u_int)size, XDR_ENCODE);
	assert_true(xdr_replymsg(&xdrs, msg));
	return xdr_getpos(&xdrs);
}

static void replies_of_libtirpc_decode(void **state)
{
	static char verifier[24];
	struct rpc_msg msg = {0};
	unsigned char buf[128];
	uint32_t out[4];
	size_t n;

	(void)state;
	msg.rm_reply.rp_stat = MSG_ACCEPTED;
	msg.acpted_rply.ar_verf.oa_flavor = AUTH_SHORT;
	msg.acpted_rply.ar_verf.oa_base = verifier;
	msg.acpted_rply.ar_verf.oa_length = 23;
	msg.acpted_rply.ar_stat = SUCCESS;
	msg.acpted_rply.ar_results.proc = XDR_VOID;
	n = stock_reply(buf, sizeof(buf), &msg);
	assert_reply(buf, n, 0, (uint32_t[]){9, 48, 42, 42});
	msg.acpted_rply.ar_stat = PROG_MISMATCH;
	msg.acpted_rply.ar_vers.low = 3;
	msg.acpted_rply.ar_vers.high = 4;
	n = stock_reply(buf, sizeof(buf), &msg);
	assert_reply(buf, n, -EPROTONOSUPPORT, (uint32_t[]){9, 42, 3, 4});
	msg.acpted_rply.ar_stat = SYSTEM_ERR;
	n = stock_reply(buf, sizeof(buf), &msg);
	assert_int_equal(decode_reply(buf, n, out), -EPROTO);
	memset(&msg, 0, sizeof(msg));
	msg.rm_reply.rp_stat = MSG_DENIED;
	msg.rjcted_rply.rj_stat = RPC_MISMATCH;
	msg.rjcted_rply.rj_vers.low = 5;
	msg.rjcted_rply.rj_vers.high = 6;
	n = stock_reply(buf, sizeof(buf), &msg);
	assert_reply(buf, n, -EPROTONOSUPPORT, (uint32_t[]){9, 42, 5, 6});
	msg.rjcted_rply.rj_stat = AUTH_ERROR;
	msg.rjcted_rply.rj_why = AUTH_TOOWEAK;
	n = stock_reply(buf, sizeof(buf), &msg);
	assert_int_equal(decode_reply(buf, n, out), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_is_the_words_of_the_standard),
		cmocka_unit_test(a_reply_is_the_words_of_the_standard),
		cmocka_unit_test(too_small_a_buffer_is_enospc_and_nothing_behind_it_is_written),
		cmocka_unit_test(arguments_that_break_their_bounds_are_einval),
		cmocka_unit_test(a_bulk_length_that_the_arguments_do_not_say_is_einval),
		cmocka_unit_test(a_record_is_as_long_as_readers_take_and_no_longer),
		cmocka_unit_test(calls_decode_to_what_was_encoded),
		cmocka_unit_test(calls_of_libtirpc_with_any_credential_decode),
		cmocka_unit_test(what_is_no_call_is_refused),
		cmocka_unit_test(replies_and_refusals_decode_to_what_was_encoded),
		cmocka_unit_test(replies_of_libtirpc_decode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
