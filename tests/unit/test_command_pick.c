/*
 * tests/unit/test_command_pick.c - which servers and GPUs a program gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "command/servers/pick.h"
#include "util/util.h"

static struct ckx_candidate all[CKX_FLEET];
static struct ckx_fleet fleet;
static struct ckx_pick pick, first;
static struct ckx_need need;

static int begin(void **state)
{
	(void)state;
	memset(all, 0, sizeof(all));
	memset(&fleet, 0, sizeof(fleet));
	need = (struct ckx_need){.gpus = 1};
	return 0;
}

/* One more server, with GPUs of so much free memory each. */
static struct ckx_candidate *server(unsigned int count, ...)
{
	struct ckx_candidate *c = &all[fleet.count];
	va_list args;

	c->offer = (struct ckx_offer){.answers = true, .ready = true, .most = 9, .count = count};
	va_start(args, count);
	for (unsigned int i = 0; i < count; i++) {
		c->offer.gpus[i].memory = 100;
		c->offer.gpus[i].free = (uint64_t)va_arg(args, int);
	}
	va_end(args);
	fleet.list[fleet.count++] = c;
	return c;
}

/* The choice as text, "0/0,1 2/3"; empty: none. */
static const char *chosen(unsigned int gpus, uint64_t memory)
{
	static char text[512];
	size_t n = 0;

	need.gpus = gpus;
	need.memory = memory;
	text[0] = '\0';
	if (!ckx_pick(&fleet, &need, first.count ? &first : NULL, &pick))
		return text;
	for (size_t i = 0; i < pick.count; i++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%zu", i ? " " : "",
				      pick.parts[i].candidate);
		for (unsigned int k = 0; k < pick.parts[i].count; k++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%c%u", k ? ',' : '/',
					      pick.parts[i].devices[k]);
	}
	return text;
}

static int end(void **state)
{
	(void)state;
	first.count = 0;
	return 0;
}

static void the_gpus_with_most_free_memory(void **state)
{
	(void)state;
	server(4, 10, 40, 20, 40);
	assert_string_equal(chosen(1, 0), "0/1");
	assert_string_equal(chosen(2, 0), "0/1,3");
	assert_string_equal(chosen(3, 11), "0/1,2,3");
	assert_string_equal(chosen(4, 11), "");
	all[0].offer.gpus[1].programs = 2; /* of equal ones, that which fewer programs use */
	assert_string_equal(chosen(1, 0), "0/3");
}

static void one_server_comes_before_several(void **state)
{
	(void)state;
	server(1, 90);
	server(2, 20, 20);
	server(1, 80);
	assert_string_equal(chosen(1, 0), "0/0");
	assert_string_equal(chosen(2, 0), "1/0,1");
	assert_string_equal(chosen(2, 30), "0/0 2/0");
	assert_string_equal(chosen(4, 0), "1/0,1 0/0 2/0");
	assert_string_equal(chosen(5, 0), "");
}

static void equal_servers_are_taken_in_the_order_of_the_list(void **state)
{
	(void)state;
	server(1, 50);
	server(1, 50);
	assert_string_equal(chosen(1, 0), "0/0");
	assert_string_equal(chosen(2, 0), "0/0 1/0");
}

static void a_priority_comes_before_memory(void **state)
{
	(void)state;
	server(2, 90, 90)->priority = 2;
	server(1, 30)->priority = 1;
	assert_string_equal(chosen(1, 0), "1/0");
	assert_string_equal(chosen(1, 31), "0/0");
	assert_string_equal(chosen(2, 0), "0/0,1");
	assert_string_equal(chosen(3, 0), "1/0 0/0,1");
}

static void only_devices_of_the_list(void **state)
{
	struct ckx_candidate *c = server(4, 90, 10, 80, 70);

	(void)state;
	c->count = 3;
	c->devices[0] = 3;
	c->devices[1] = 1;
	c->devices[2] = 9; /* the server has none */
	assert_string_equal(chosen(1, 0), "0/3");
	assert_string_equal(chosen(2, 0), "0/1,3");
	assert_string_equal(chosen(3, 0), "");
	assert_int_equal(ckx_pick_fitting(c, 20), 1);
}

static void servers_that_do_not_answer_stop_or_are_full_are_left_out(void **state)
{
	(void)state;
	server(1, 90)->offer.answers = false;
	server(1, 80)->offer.ready = false;
	server(1, 70)->offer.most = 0;
	server(1, 60);
	assert_string_equal(chosen(1, 0), "3/0");
	assert_string_equal(chosen(2, 0), "");
}

static void among_full_ones_the_shortest_line(void **state)
{
	struct ckx_candidate *c;

	(void)state;
	need.full = true;
	c = server(2, 90, 90);
	c->offer.ready = false;
	c->offer.waiting = 2;
	c = server(1, 50);
	c->offer.ready = false;
	c->offer.waiting = 1;
	c = server(1, 95);
	c->offer.ready = false;
	c->offer.most = 0; /* it stops */
	server(1, 99);	   /* it is not full */
	assert_string_equal(chosen(1, 0), "1/0");
	assert_string_equal(chosen(1, 60), "0/0");
	assert_string_equal(chosen(2, 0), "0/0,1");
	assert_string_equal(chosen(3, 0), ""); /* never in two lines */
}

static void the_second_choice_has_other_servers_and_the_same_keys(void **state)
{
	(void)state;
	server(2, 90, 90);
	server(1, 80)->keys = 1;
	server(1, 70);
	server(1, 60);
	assert_string_equal(chosen(1, 0), "0/0");
	first = pick;
	assert_string_equal(chosen(1, 0), "2/0");
	assert_string_equal(chosen(2, 0), "2/0 3/0");
	assert_string_equal(chosen(3, 0), "");
}

static void servers_of_one_program_have_the_same_keys(void **state)
{
	(void)state;
	server(1, 90);
	server(1, 80)->keys = 1;
	server(1, 70)->keys = 1;
	assert_string_equal(chosen(2, 0), "1/0 2/0");
	assert_string_equal(chosen(3, 0), "");
}

static void no_more_servers_than_a_program_can_have(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < CK_SERVERS_MAX + 1; i++)
		server(1, 50);
	assert_true(*chosen(CK_SERVERS_MAX, 0) != '\0');
	assert_string_equal(chosen(CK_SERVERS_MAX + 1, 0), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_gpus_with_most_free_memory, begin, end),
		cmocka_unit_test_setup_teardown(one_server_comes_before_several, begin, end),
		cmocka_unit_test_setup_teardown(equal_servers_are_taken_in_the_order_of_the_list,
						begin, end),
		cmocka_unit_test_setup_teardown(a_priority_comes_before_memory, begin, end),
		cmocka_unit_test_setup_teardown(only_devices_of_the_list, begin, end),
		cmocka_unit_test_setup_teardown(
			servers_that_do_not_answer_stop_or_are_full_are_left_out, begin, end),
		cmocka_unit_test_setup_teardown(among_full_ones_the_shortest_line, begin, end),
		cmocka_unit_test_setup_teardown(
			the_second_choice_has_other_servers_and_the_same_keys, begin, end),
		cmocka_unit_test_setup_teardown(servers_of_one_program_have_the_same_keys, begin,
						end),
		cmocka_unit_test_setup_teardown(no_more_servers_than_a_program_can_have, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
