/*
 * tests/unit/test_rpc_hello.c - hellos and replies of releases with fewer or more parts are
 * decoded, and those that end inside of a part are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/hello.h"

#define ROOM 4096
#define MOST_PARTS 16

static char bytes[ROOM];
static char empty[] = "";

/* Encodes @object behind the first @size bytes; the new size. */
static u_int append(u_int size, xdrproc_t code, void *object)
{
	XDR xdrs;

	xdrmem_create(&xdrs, bytes + size, ROOM - size, XDR_ENCODE);
	assert_true(code(&xdrs, object));
	return size + xdr_getpos(&xdrs);
}

static bool_t decode(u_int size, xdrproc_t code, void *object)
{
	XDR xdrs;

	xdrmem_create(&xdrs, bytes, size, XDR_DECODE);
	return code(&xdrs, object);
}

/* What a client says, with something in each part. */
static struct ck_hello make_hello(void)
{
	static u_int ids[] = {7, 9};

	return (struct ck_hello){
		.args = {.protocol = CK_PROTOCOL,
			 .release = empty,
			 .application = (char *)(uintptr_t) "program",
			 .host = empty,
			 .pid = 42},
		.wishes.resume = 1,
		.queue.wait = 2,
		.limits.memory = 3,
		.start.prefix = "p",
		.need = {4, {2, ids}},
		.place = {.asked = true, .ended = {2, ids}},
		.host.host = "h",
		.part.sm = 5,
	};
}

/* The ends of the parts of @hello, which is encoded part by part; their number. */
static size_t list_ends(struct ck_hello *hello, u_int ends[MOST_PARTS])
{
	u_int size = append(0, (xdrproc_t)xdr_ck_hello_args, &hello->args);
	size_t n = 0;

	ends[n++] = size;
#define APPEND(name) size = ends[n++] = append(size, (xdrproc_t)xdr_ck_hello_##name, &hello->name);
	CK_HELLO_PARTS(APPEND)
#undef APPEND
	return n;
}

static void a_hello_is_its_parts_one_after_another(void **state)
{
	struct ck_hello hello = make_hello(), decoded = {0};
	u_int ends[MOST_PARTS], size;
	size_t n = list_ends(&hello, ends);
	char parts[ROOM];

	(void)state;
	memcpy(parts, bytes, ROOM);
	size = append(0, (xdrproc_t)xdr_ck_hello, &hello);
	assert_int_equal(size, ends[n - 1]);
	assert_memory_equal(parts, bytes, size);
	assert_true(decode(size, (xdrproc_t)xdr_ck_hello, &decoded));
	assert_string_equal(decoded.args.application, "program");
	assert_int_equal(decoded.need.devices.devices_val[1], 9);
	assert_int_equal(decoded.part.sm, 5);
	xdr_free((xdrproc_t)xdr_ck_hello, &decoded);
}

static void a_hello_of_an_older_release_ends_after_any_part(void **state)
{
	struct ck_hello hello = make_hello();
	u_int ends[MOST_PARTS];
	size_t n = list_ends(&hello, ends);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct ck_hello decoded = {0};

		assert_true(decode(ends[i], (xdrproc_t)xdr_ck_hello, &decoded));
		assert_int_equal(decoded.args.pid, 42);
		assert_int_equal(decoded.wishes.resume, i >= 1 ? 1 : 0);
		assert_int_equal(decoded.part.sm, i == n - 1 ? 5 : 0);
		xdr_free((xdrproc_t)xdr_ck_hello, &decoded);
	}
}

static void a_hello_that_ends_inside_of_a_part_is_refused(void **state)
{
	struct ck_hello hello = make_hello();
	u_int ends[MOST_PARTS];
	size_t n = list_ends(&hello, ends), part = 0;

	(void)state;
	for (u_int size = 0; size < ends[n - 1]; size += 4) {
		struct ck_hello decoded = {0};

		if (size == ends[part]) {
			part++;
			continue;
		}
		assert_false(decode(size, (xdrproc_t)xdr_ck_hello, &decoded));
		xdr_free((xdrproc_t)xdr_ck_hello, &decoded);
	}
}

static void parts_of_a_later_release_are_ignored(void **state)
{
	struct ck_hello hello = make_hello(), decoded = {0};
	u_int size = append(0, (xdrproc_t)xdr_ck_hello, &hello);

	(void)state;
	size = append(size, (xdrproc_t)xdr_u_int, &(u_int){77});
	assert_true(decode(size, (xdrproc_t)xdr_ck_hello, &decoded));
	assert_int_equal(decoded.part.sm, 5);
	xdr_free((xdrproc_t)xdr_ck_hello, &decoded);
}

/* --- replies */

struct answer {
	ck_hello_res res;
	ck_hello_kept kept;
#define MEMBER(name) ck_hello_##name name;
	CK_HELLO_REPLY_PARTS(MEMBER)
#undef MEMBER
};

static struct ck_hello_reply reply_of(struct answer *a)
{
#define ADDRESS(name) , &a->name
	return (struct ck_hello_reply){&a->res, &a->kept CK_HELLO_REPLY_PARTS(ADDRESS)};
#undef ADDRESS
}

static struct answer make_answer(ck_hello_status status)
{
	static u_int pids[] = {11};

	return (struct answer){
		.res = {.status = status, .message = empty, .release = empty},
		.kept.pids = {1, pids},
		.more.keep = 21,
		.rules.words = true,
		.shadows.address = 22,
		.lanes.most = 23,
	};
}

static u_int encode_answer(ck_hello_status status)
{
	struct answer a = make_answer(status);
	struct ck_hello_reply reply = reply_of(&a);

	return append(0, (xdrproc_t)xdr_ck_hello_reply, &reply);
}

static void a_session_comes_with_all_parts(void **state)
{
	struct answer a = {0};
	struct ck_hello_reply reply = reply_of(&a);

	(void)state;
	assert_true(decode(encode_answer(CK_HELLO_OK), (xdrproc_t)xdr_ck_hello_reply, &reply));
	assert_int_equal(a.kept.pids.pids_len, 0);
	assert_int_equal(a.more.keep, 21);
	assert_true(a.rules.words);
	assert_int_equal(a.shadows.address, 22);
	assert_int_equal(a.lanes.most, 23);
	xdr_free((xdrproc_t)xdr_ck_hello_reply, &reply);
}

static void an_older_server_sends_fewer_parts(void **state)
{
	struct answer sent = make_answer(CK_HELLO_OK), a = {0};
	struct ck_hello_reply reply = reply_of(&a);
	u_int size = append(0, (xdrproc_t)xdr_ck_hello_res, &sent.res);

	(void)state;
	size = append(size, (xdrproc_t)xdr_ck_hello_more, &sent.more);
	assert_true(decode(size, (xdrproc_t)xdr_ck_hello_reply, &reply));
	assert_int_equal(a.more.keep, 21);
	assert_false(a.rules.words);
	assert_int_equal(a.lanes.most, 0);
	xdr_free((xdrproc_t)xdr_ck_hello_reply, &reply);
	assert_false(decode(size - 4, (xdrproc_t)xdr_ck_hello_reply, &reply));
	xdr_free((xdrproc_t)xdr_ck_hello_reply, &reply);
}

static void a_question_lists_processes_and_a_refusal_nothing(void **state)
{
	struct answer a = {0}, none = {0};
	struct ck_hello_reply reply = reply_of(&a), refusal = reply_of(&none);

	(void)state;
	assert_true(decode(encode_answer(CK_HELLO_KEPT), (xdrproc_t)xdr_ck_hello_reply, &reply));
	assert_int_equal(a.kept.pids.pids_val[0], 11);
	assert_int_equal(a.more.keep, 0);
	xdr_free((xdrproc_t)xdr_ck_hello_reply, &reply);
	assert_true(decode(encode_answer(CK_HELLO_BUSY), (xdrproc_t)xdr_ck_hello_reply, &refusal));
	assert_int_equal(none.kept.pids.pids_len, 0);
	assert_int_equal(none.more.keep, 0);
	xdr_free((xdrproc_t)xdr_ck_hello_reply, &refusal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_its_parts_one_after_another),
		cmocka_unit_test(a_hello_of_an_older_release_ends_after_any_part),
		cmocka_unit_test(a_hello_that_ends_inside_of_a_part_is_refused),
		cmocka_unit_test(parts_of_a_later_release_are_ignored),
		cmocka_unit_test(a_session_comes_with_all_parts),
		cmocka_unit_test(an_older_server_sends_fewer_parts),
		cmocka_unit_test(a_question_lists_processes_and_a_refusal_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
