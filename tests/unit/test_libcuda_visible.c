/*
 * tests/unit/test_libcuda_visible.c - CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libcuda/visible.h"

#define NO_MIG(...) .uuid = {__VA_ARGS__}, .mig_uuid = {__VA_ARGS__}

/* In the server's order; by PCI address: 2, 0, 3, 1. */
static const struct ck_visible_device devices[4] = {
	{NO_MIG(0xaa, 0xbb, 0xcc, 0xdd, 0x01), .pci_bus = 0x41, .pci_device = 1},
	{NO_MIG(0xaa, 0xbb, 0xcc, 0xdd, 0x02), .pci_domain = 1, .pci_bus = 1},
	{NO_MIG(0x12, 0x34), .pci_bus = 0x41},
	{.uuid = {0x99}, .mig_uuid = {0x99, 0x01}, .pci_bus = 0x81},
};

static bool bad;

/* The choice as digits. */
static const char *chosen(const char *order, const char *list)
{
	static char text[8];
	int out[4], n;

	n = ck_visible_choose(devices, 4, order, list, out, &bad);
	if (n < 0)
		return NULL;
	for (int i = 0; i < n; i++)
		text[i] = (char)('0' + out[i]);
	text[n] = '\0';
	return text;
}

static void unset_shows_all_in_the_servers_order(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, NULL), "0123");
	assert_string_equal(chosen("FASTEST_FIRST", NULL), "0123");
	assert_false(bad);
}

static void pci_order_sorts_by_domain_bus_and_device(void **state)
{
	(void)state;
	assert_string_equal(chosen("PCI_BUS_ID", NULL), "2031");
	assert_string_equal(chosen("PCI_BUS_ID", "0,3"), "21");
}

static void an_empty_list_shows_none(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, ""), "");
	assert_false(bad);
}

static void indices_choose_and_reorder(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, "3,0"), "30");
	assert_string_equal(chosen(NULL, " 3 , 0 "), "30");
	assert_false(bad);
}

static void the_list_ends_at_the_first_entry_that_names_no_device(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, "1,4,2"), "1");
	assert_true(bad);
	assert_string_equal(chosen(NULL, "1,99999999999999999999,2"), "1");
	assert_string_equal(chosen(NULL, "1,2x,3"), "1");
	assert_string_equal(chosen(NULL, "1,,2"), "1");
	assert_string_equal(chosen(NULL, "0 1"), "0");
	assert_true(bad);
	assert_string_equal(chosen(NULL, "MIG-GPU-aabbccdd/1/0,0"), "");
	assert_string_equal(chosen(NULL, "1,2,"), "12");
}

static void the_usual_ways_to_hide_devices_are_no_mistakes(void **state)
{
	static const char *const none[] = {"-1",   "NoDevFiles", " -1 ", "none",
					   "void", "-2",	 "-1,0"};

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_string_equal(chosen(NULL, none[i]), "");
		assert_false(bad);
	}
	assert_string_equal(chosen(NULL, "1,-1,2"), "1");
	assert_false(bad);
	assert_string_equal(chosen(NULL, "-"), "");
	assert_true(bad);
	assert_string_equal(chosen(NULL, "-1x"), "");
	assert_true(bad);
	assert_string_equal(chosen(NULL, "nodevice"), "");
	assert_true(bad);
}

static void a_device_named_again_is_an_error(void **state)
{
	(void)state;
	assert_null(chosen(NULL, "2,0,2,1"));
	assert_null(chosen(NULL, "2,GPU-1234,1"));
}

static void a_uuid_may_be_shortened_while_it_fits_one_device(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, "GPU-1234,GPU-99"), "23");
	assert_string_equal(chosen(NULL, "GPU-AABBCCDD-02"), "1");
	assert_string_equal(chosen(NULL, "GPU-aabbccdd-0100-0000-0000-000000000000"), "0");
	assert_false(bad);
	assert_string_equal(chosen(NULL, "GPU-aabbccdd"), "");
	assert_true(bad);
	assert_string_equal(chosen(NULL, "GPU-,0"), "");
	assert_string_equal(chosen(NULL, "GPU-77,0"), "");
	assert_string_equal(chosen(NULL, "GPU-aabbccdd-0100-0000-0000-0000000000001"), "");
}

static void a_mig_id_is_looked_for_among_the_ids_of_parts(void **state)
{
	(void)state;
	assert_string_equal(chosen(NULL, "MIG-99010000-0000-0000-0000-000000000000"), "3");
	assert_string_equal(chosen(NULL, "MIG-9901,GPU-1234"), "32");
	assert_false(bad);
	assert_string_equal(chosen(NULL, "MIG-1234"), "2"); /* a whole GPU, as driver 580 has it */
	assert_string_equal(chosen(NULL, "MIG-,0"), "");
	assert_true(bad);
	assert_string_equal(chosen(NULL, "MIG-77"), "");
	assert_string_equal(chosen(NULL, "MIG-GPU-99000000/1/0"), "");
}

static void no_devices_is_no_choice(void **state)
{
	int out[1];

	(void)state;
	assert_int_equal(ck_visible_choose(NULL, 0, NULL, NULL, out, &bad), 0);
	assert_int_equal(ck_visible_choose(NULL, 0, "PCI_BUS_ID", "0", out, &bad), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unset_shows_all_in_the_servers_order),
		cmocka_unit_test(pci_order_sorts_by_domain_bus_and_device),
		cmocka_unit_test(an_empty_list_shows_none),
		cmocka_unit_test(indices_choose_and_reorder),
		cmocka_unit_test(the_list_ends_at_the_first_entry_that_names_no_device),
		cmocka_unit_test(the_usual_ways_to_hide_devices_are_no_mistakes),
		cmocka_unit_test(a_device_named_again_is_an_error),
		cmocka_unit_test(a_uuid_may_be_shortened_while_it_fits_one_device),
		cmocka_unit_test(a_mig_id_is_looked_for_among_the_ids_of_parts),
		cmocka_unit_test(no_devices_is_no_choice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
