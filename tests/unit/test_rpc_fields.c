/*
 * tests/unit/test_rpc_fields.c - messages coded by their fields are the same bytes as by XDR, in
 * both directions, for every one-way message there is; and no bytes make it read outside of them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cricket.h"
#include "rpc/fields.h"
#include "rpc/proc.h"
#include "rpc/record.h"

#define ROOM 8192
#define LONGEST 300 /* of bytes that a message is given */

static unsigned int state = 1;

static unsigned int next_random(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

static unsigned char noise[ROOM];

struct bytes {
	u_int len;
	char *val;
};

static bool flat(const struct ck_proc *p)
{
	for (const struct ck_field *f = p->in; f && f->kind != CK_FIELD_END; f++) {
		if (f->kind == CK_FIELD_IDS || f->kind == CK_FIELD_HASH ||
		    f->kind == CK_FIELD_STRING || f->kind == CK_FIELD_POD)
			return false;
	}
	return true;
}

/* Anything in every field; *bulk is what the message says of its payload. */
static void *fill(const struct ck_proc *p, u_int *bulk)
{
	unsigned char *args = malloc(p->args_size);

	for (size_t i = 0; i < p->args_size; i++)
		args[i] = (unsigned char)next_random();
	*bulk = 0;
	for (const struct ck_field *f = p->in; f && f->kind != CK_FIELD_END; f++) {
		struct bytes *bytes = (struct bytes *)(args + f->offset);

		if (f->kind == CK_FIELD_BYTES)
			*bytes = (struct bytes){next_random() % LONGEST, (char *)noise};
		if (f->kind == CK_FIELD_BULK)
			*bulk = *(u_int *)(args + f->offset) = 1 + next_random() % 100000;
	}
	return args;
}

static void assert_same(const struct ck_proc *p, const unsigned char *a, const unsigned char *b)
{
	assert_memory_equal(a, b, sizeof(ck_head));
	for (const struct ck_field *f = p->in; f && f->kind != CK_FIELD_END; f++) {
		const struct bytes *x = (const struct bytes *)(a + f->offset);
		const struct bytes *y = (const struct bytes *)(b + f->offset);

		if (f->kind == CK_FIELD_BYTES) {
			assert_int_equal(x->len, y->len);
			if (x->len > 0)
				assert_memory_equal(x->val, y->val, x->len);
		} else if (f->kind == CK_FIELD_INT || f->kind == CK_FIELD_UINT ||
			   f->kind == CK_FIELD_FLOAT || f->kind == CK_FIELD_BULK) {
			assert_memory_equal(a + f->offset, b + f->offset, 4);
		} else {
			assert_memory_equal(a + f->offset, b + f->offset, 8);
		}
	}
}

/* Encoded by fields, compared with XDR's, decoded again; at every size of the buffer in between. */
static void check_message(uint32_t number, const struct ck_proc *p)
{
	static unsigned char by_xdr[ROOM], by_fields[ROOM];
	unsigned char *args, *again = malloc(p->args_size);
	u_int bulk;
	long n, size;

	args = fill(p, &bulk);
	n = ck_call_encode(by_xdr, ROOM, 7, number, p->xdr_args, args, bulk);
	assert_true(n > 0);
	memset(by_fields, 0xff, ROOM);
	assert_int_equal(ck_message_encode(by_fields, ROOM, 7, number, args, bulk), n);
	assert_memory_equal(by_fields, by_xdr, (size_t)n);
	for (size_t room = 0; room < (size_t)n; room += 1 + (size_t)n / 50) {
		memset(by_fields, 0xee, ROOM);
		assert_int_equal(ck_message_encode(by_fields, room, 7, number, args, bulk),
				 -ENOSPC);
		assert_int_equal(by_fields[room], 0xee);
	}
	size = n - CK_CALL_HEADER;
	for (long left = 0; flat(p) && left < size; left += 4)
		assert_int_equal(
			ck_message_decode(by_xdr + CK_CALL_HEADER, (size_t)left, number, again),
			-EBADMSG);
	n = ck_message_decode(by_xdr + CK_CALL_HEADER, (size_t)size + 40, number, again);
	assert_int_equal(n, flat(p) ? size : -EOPNOTSUPP);
	if (flat(p))
		assert_same(p, args, again);
	free(args);
	free(again);
}

static void every_one_way_message_is_the_same_bytes_as_by_xdr(void **unused)
{
	unsigned int messages = 0, by_fields = 0;

	(void)unused;
	for (size_t i = 0; i < ROOM; i++)
		noise[i] = (unsigned char)next_random();
	for (uint32_t number = 0; number < CK_PROC_END; number++) {
		const struct ck_proc *p = ck_proc(number);

		if (!p || !p->one_way || (!flat(p) && p->in->kind == CK_FIELD_STRING))
			continue;
		for (int i = 0; i < 20 && flat(p); i++)
			check_message(number, p);
		messages++;
		by_fields += flat(p);
	}
	assert_true(messages > 30 && by_fields > messages / 2);
	assert_true(flat(ck_proc(CK_PROC_launch)));
}

static void what_fields_cannot_do_is_done_by_xdr(void **unused)
{
	unsigned char a[512], b[512];
	ck_function_args args = {.function = 1, .module = 2, .name = (char *)(uintptr_t) "kernel"};
	long n = ck_call_encode(a, sizeof(a), 3, CK_PROC_function, (xdrproc_t)xdr_ck_function_args,
				&args, 0);

	(void)unused;
	assert_true(n > 0);
	assert_int_equal(ck_message_encode(b, sizeof(b), 3, CK_PROC_function, &args, 0), n);
	assert_memory_equal(a, b, (size_t)n);
	assert_int_equal(ck_message_decode(a + CK_CALL_HEADER, (size_t)n - CK_CALL_HEADER,
					   CK_PROC_function, &args),
			 -EOPNOTSUPP);
}

static void lengths_that_lie_are_refused(void **unused)
{
	ck_launch_args args = {.params = {8, (char *)noise}}, got;
	unsigned char buf[512], *length;
	long n = ck_message_encode(buf, sizeof(buf), 1, CK_PROC_launch, &args, 0);
	size_t size = (size_t)n - CK_CALL_HEADER;

	(void)unused;
	length = buf + n - 12; /* of the parameters, in front of 8 bytes */
	assert_int_equal(ck_message_decode(buf + CK_CALL_HEADER, size, CK_PROC_launch, &got),
			 (long)size);
	for (unsigned int lie = 9; lie != 0; lie *= 2) {
		uint32_t word = htonl(lie);

		memcpy(length, &word, 4);
		assert_int_equal(
			ck_message_decode(buf + CK_CALL_HEADER, size, CK_PROC_launch, &got),
			-EBADMSG);
	}
	memset(length, 0xff, 4);
	assert_int_equal(ck_message_decode(buf + CK_CALL_HEADER, size, CK_PROC_launch, &got),
			 -EBADMSG);
	args.params.params_len = CK_BYTES_MAX + 1;
	assert_int_equal(ck_message_encode(buf, sizeof(buf), 1, CK_PROC_launch, &args, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_one_way_message_is_the_same_bytes_as_by_xdr),
		cmocka_unit_test(what_fields_cannot_do_is_done_by_xdr),
		cmocka_unit_test(lengths_that_lie_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
