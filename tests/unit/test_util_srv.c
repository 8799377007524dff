/*
 * tests/unit/test_util_srv.c - SRV records: what is in an answer, and the order of the targets.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/address/srv.h"
#include "util/util.h"

static unsigned char message[2048];
static size_t size;
static struct ck_srv_list list;

static void put(const void *bytes, size_t count)
{
	memcpy(message + size, bytes, count);
	size += count;
}

static void put16(unsigned int value)
{
	unsigned char bytes[2] = {(unsigned char)(value >> 8), (unsigned char)value};

	put(bytes, 2);
}

/* "a.b" as labels */
static void put_name(const char *name)
{
	while (*name) {
		size_t length = strcspn(name, ".");
		unsigned char count = (unsigned char)length;

		put(&count, 1);
		put(name, length);
		name += length + (name[length] == '.');
	}
	put("", 1);
}

/* An answer to a question for "_cricket._tcp.t", which is at 12. */
static void begin(unsigned int answers)
{
	size = 0;
	put("\x12\x34\x85\x80", 4);
	put16(1);
	put16(answers);
	put16(0);
	put16(0);
	put_name("_cricket._tcp.t");
	put16(33);
	put16(1);
}

static void put_record(unsigned int type, unsigned int priority, unsigned int weight,
		       unsigned int port, const char *host)
{
	size_t at;

	put16(0xc00c);
	put16(type);
	put16(1);
	put("\0\0\0\x05", 4);
	at = size;
	put16(0);
	put16(priority);
	put16(weight);
	put16(port);
	put_name(host);
	message[at] = (unsigned char)((size - at - 2) >> 8);
	message[at + 1] = (unsigned char)(size - at - 2);
}

static void targets_are_read_in_their_order(void **state)
{
	(void)state;
	begin(3);
	put_record(33, 10, 5, 9909, "gpu-1.example.org");
	put_record(16, 0, 0, 0, "text");
	put_record(33, 2, 0, 65535, "b");
	assert_int_equal(ck_srv_parse(message, size, &list), 0);
	assert_int_equal(list.count, 2);
	assert_string_equal(list.targets[0].host, "gpu-1.example.org");
	assert_int_equal(list.targets[0].port, 9909);
	assert_int_equal(list.targets[0].weight, 5);
	assert_int_equal(list.targets[0].priority, 10);
	assert_string_equal(list.targets[1].host, "b");
}

static void a_target_may_be_compressed(void **state)
{
	(void)state;
	begin(1);
	put_record(33, 1, 2, 3, "");
	size--; /* in place of its end: "x", and what is at 26: "t" */
	put("\x01x\xc0\x1a", 4);
	message[size - 4 - 8 + 1] = 10;
	assert_int_equal(ck_srv_parse(message, size, &list), 0);
	assert_string_equal(list.targets[0].host, "x.t");
}

static void no_target_is_no_server(void **state)
{
	(void)state;
	begin(0);
	assert_int_equal(ck_srv_parse(message, size, &list), -ENOENT);
	begin(2);
	put_record(33, 0, 0, 99, ""); /* "." : the service is not there */
	put_record(33, 0, 0, 0, "a");
	assert_int_equal(ck_srv_parse(message, size, &list), -ENOENT);
}

static void no_part_of_an_answer_is_one(void **state)
{
	(void)state;
	begin(2);
	put_record(33, 1, 2, 3, "one.example");
	put_record(33, 1, 2, 3, "other.example");
	for (size_t n = 0; n < size; n++)
		assert_int_equal(ck_srv_parse(message, n, &list), -EBADMSG);
	message[2] = 0; /* a question */
	assert_int_equal(ck_srv_parse(message, size, &list), -EBADMSG);
}

static void names_that_are_no_hosts_are_refused(void **state)
{
	static const char *const wrong[] = {"a/b", "a b", "a,b", "a|b", "\033x"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(wrong); i++) {
		begin(1);
		put_record(33, 0, 0, 1, wrong[i]);
		assert_int_equal(ck_srv_parse(message, size, &list), -EBADMSG);
	}
	begin(1);
	put_record(33, 0, 0, 1, "");
	size--;
	put("\xc0\x00", 2); /* a pointer that leads in a circle */
	message[size - 2] = (unsigned char)(0xc0 | (size - 2) >> 8);
	message[size - 1] = (unsigned char)(size - 2);
	message[size - 2 - 7] = 8;
	assert_int_equal(ck_srv_parse(message, size, &list), -EBADMSG);
}

static void more_than_fit_are_left_out(void **state)
{
	(void)state;
	begin(CK_SRV_MAX + 3);
	for (unsigned int i = 0; i < CK_SRV_MAX + 3; i++)
		put_record(33, i, 0, i + 1, "h");
	assert_int_equal(ck_srv_parse(message, size, &list), 0);
	assert_int_equal(list.count, CK_SRV_MAX);
	assert_int_equal(list.targets[CK_SRV_MAX - 1].port, CK_SRV_MAX);
}

/* --- order */

static uint32_t drawn[8];
static unsigned int draws;

static uint32_t draw(uint32_t most)
{
	uint32_t number = drawn[draws++ % CK_ARRAY_SIZE(drawn)];

	return number > most ? most : number;
}

static void targets(unsigned int count, const struct ck_srv_target *from)
{
	memcpy(list.targets, from, count * sizeof(*from));
	list.count = count;
	draws = 0;
}

static void assert_order(const char *hosts)
{
	for (unsigned int i = 0; i < list.count; i++)
		assert_int_equal(list.targets[i].host[0], hosts[i]);
	assert_int_equal(list.count, strlen(hosts));
}

static void the_lowest_priority_comes_first(void **state)
{
	static const struct ck_srv_target t[] = {
		{"a", 1, 20, 0}, {"b", 1, 0, 0}, {"c", 1, 20, 0}, {"d", 1, 3, 9}};

	(void)state;
	memset(drawn, 0, sizeof(drawn));
	targets(4, t);
	ck_srv_order(&list, draw);
	assert_order("bdac");
}

static void weights_say_which_of_a_priority_is_first(void **state)
{
	static const struct ck_srv_target t[] = {{"a", 1, 0, 10}, {"b", 1, 0, 0}, {"c", 1, 0, 30}};
	static const struct {
		uint32_t first, second;
		const char *order;
	} cases[] = {{0, 0, "bac"},  {1, 30, "acb"}, {10, 30, "acb"},
		     {11, 5, "cab"}, {40, 0, "cba"}, {40, 10, "cab"}};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		targets(3, t);
		drawn[0] = cases[i].first;
		drawn[1] = cases[i].second;
		drawn[2] = 0;
		ck_srv_order(&list, draw);
		assert_order(cases[i].order);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_are_read_in_their_order),
		cmocka_unit_test(a_target_may_be_compressed),
		cmocka_unit_test(no_target_is_no_server),
		cmocka_unit_test(no_part_of_an_answer_is_one),
		cmocka_unit_test(names_that_are_no_hosts_are_refused),
		cmocka_unit_test(more_than_fit_are_left_out),
		cmocka_unit_test(the_lowest_priority_comes_first),
		cmocka_unit_test(weights_say_which_of_a_priority_is_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
