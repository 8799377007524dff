/*
 * tests/unit/test_server_handles.c - ids to handles: kinds, contexts, what lives inside what.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/session/handles.h"

static int a, b, c; /* their addresses serve as handles */

static int make(void **state)
{
	return cks_handles_create((struct cks_handles **)state);
}

static int drop(void **state)
{
	cks_handles_destroy(*state);
	return 0;
}

static void an_id_gives_its_handle_only_under_its_kind(void **state)
{
	struct cks_handles *h = *state;

	assert_int_equal(cks_handles_put(h, 5, CK_KIND_STREAM, 1, &a), CUDA_SUCCESS);
	assert_ptr_equal(cks_handles_get(h, 5, CK_KIND_STREAM), &a);
	assert_null(cks_handles_get(h, 5, CK_KIND_EVENT));
	assert_null(cks_handles_get(h, 6, CK_KIND_STREAM));
}

static void ids_out_of_range_or_taken_are_refused(void **state)
{
	struct cks_handles *h = *state;

	assert_int_equal(cks_handles_put(h, 0, CK_KIND_EVENT, 1, &a), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cks_handles_put(h, CK_MAX_OBJECTS, CK_KIND_EVENT, 1, &a),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cks_handles_put(h, UINT64_MAX, CK_KIND_EVENT, 1, &a),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cks_handles_put(h, CK_MAX_OBJECTS - 1, CK_KIND_EVENT, 1, &a),
			 CUDA_SUCCESS);
	assert_int_equal(cks_handles_put(h, CK_MAX_OBJECTS - 1, CK_KIND_EVENT, 1, &b),
			 CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(cks_handles_get(h, CK_MAX_OBJECTS - 1, CK_KIND_EVENT), &a);
	assert_null(cks_handles_get(h, UINT64_MAX, CK_KIND_EVENT));
}

static void what_the_driver_tells_of_has_one_id(void **state)
{
	struct cks_handles *h = *state;
	uint64_t one, two, again;

	cks_handles_put(h, 7, CK_KIND_GRAPH, 0, &a);
	assert_int_equal(cks_handles_name(h, CK_KIND_GRAPH, 0, &a, 0, &one), CUDA_SUCCESS);
	assert_int_equal(one, 7); /* the client's name of it */
	assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, &b, 7, &one), CUDA_SUCCESS);
	assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, &c, 7, &two), CUDA_SUCCESS);
	assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, &b, 7, &again), CUDA_SUCCESS);
	assert_true(one >= CK_OWN_OBJECTS && two >= CK_OWN_OBJECTS && one != two);
	assert_int_equal(again, one);
	assert_ptr_equal(cks_handles_get(h, one, CK_KIND_NODE), &b);
	cks_handles_remove(h, 7); /* the graph, and its nodes with it */
	assert_null(cks_handles_get(h, one, CK_KIND_NODE));
	assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, NULL, 0, &one),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cks_handles_name(h, CK_KIND_STREAM, 0, &a, 0, &one),
			 CUDA_ERROR_INVALID_VALUE);
}

static void a_handle_that_the_driver_uses_again_is_the_newer_object(void **state)
{
	struct cks_handles *h = *state;
	uint64_t id;

	cks_handles_put(h, 7, CK_KIND_GRAPH, 0, &a);
	cks_handles_put(h, 8, CK_KIND_GRAPH, 0, &a);
	cks_handles_remove(h, 7);
	assert_int_equal(cks_handles_name(h, CK_KIND_GRAPH, 0, &a, 0, &id), CUDA_SUCCESS);
	assert_int_equal(id, 8);
}

static void a_removed_id_is_gone_and_may_be_used_again(void **state)
{
	struct cks_handles *h = *state;
	struct cks_object first, second;

	cks_handles_put(h, 9, CK_KIND_STREAM, 1, &a);
	assert_true(cks_handles_find(h, 9, CK_KIND_BIT(CK_KIND_STREAM), &first));
	cks_handles_remove(h, 9);
	assert_null(cks_handles_get(h, 9, CK_KIND_STREAM));
	cks_handles_remove(h, 9);
	assert_int_equal(cks_handles_put(h, 9, CK_KIND_STREAM, 1, &a), CUDA_SUCCESS);
	assert_true(cks_handles_find(h, 9, CK_KIND_BIT(CK_KIND_STREAM), &second));
	assert_true(first.serial != second.serial);
}

static void an_id_of_the_server_rests_before_it_is_used_again(void **state)
{
	struct cks_handles *h = *state;
	uint64_t first, id;
	size_t others = 0;

	cks_handles_name(h, CK_KIND_NODE, 0, &a, 0, &first);
	cks_handles_remove(h, first);
	do {
		assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, &a, 0, &id), CUDA_SUCCESS);
		cks_handles_remove(h, id);
	} while (id != first && ++others < 100000);
	assert_true(others > 10000 && others < 100000);
}

static void an_object_that_is_ending_has_no_name(void **state)
{
	struct cks_handles *h = *state;
	uint64_t node, newer, again;

	cks_handles_put(h, 7, CK_KIND_GRAPH, 0, &a);
	cks_handles_name(h, CK_KIND_NODE, 0, &b, 7, &node);
	cks_handles_ending(h, 7, true);
	assert_false(cks_handles_known(h, CK_KIND_GRAPH, &a, &again));
	assert_ptr_equal(cks_handles_get(h, 7, CK_KIND_GRAPH), &a);
	cks_handles_ending(h, 7, false); /* it goes on */
	assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, &b, 0, &again), CUDA_SUCCESS);
	assert_int_equal(again, node);

	cks_handles_put(h, 8, CK_KIND_GRAPH, 0, &c);
	cks_handles_ending(h, 7, true); /* from here on, the driver may use the handles again */
	assert_int_equal(cks_handles_name(h, CK_KIND_NODE, 0, &b, 8, &newer), CUDA_SUCCESS);
	assert_int_not_equal(newer, node);
	cks_handles_remove(h, 7);
	assert_null(cks_handles_get(h, node, CK_KIND_NODE));
	assert_ptr_equal(cks_handles_get(h, newer, CK_KIND_NODE), &b);
	assert_true(cks_handles_known(h, CK_KIND_NODE, &b, &again) && again == newer);
}

static void functions_go_with_their_module(void **state)
{
	struct cks_handles *h = *state;

	cks_handles_put(h, 10, CK_KIND_LIBRARY, 0, &a);
	assert_int_equal(cks_handles_put_child(h, 11, CK_KIND_MODULE, 1, &b, 10), CUDA_SUCCESS);
	for (uint64_t id = 20; id < 30; id++)
		assert_int_equal(cks_handles_put_child(h, id, CK_KIND_FUNCTION, 1, &c, 11),
				 CUDA_SUCCESS);
	assert_int_equal(cks_handles_put_child(h, 30, CK_KIND_KERNEL, 0, &c, 10), CUDA_SUCCESS);
	cks_handles_remove(h, 24); /* out of the middle of its family */
	cks_handles_remove(h, 10);
	for (uint64_t id = 10; id <= 30; id++)
		assert_false(cks_handles_find(h, id, ~0u, &(struct cks_object){0}));
}

static void nothing_can_live_in_what_is_not_there(void **state)
{
	struct cks_handles *h = *state;

	assert_int_equal(cks_handles_put_child(h, 8, CK_KIND_FUNCTION, 1, &a, 7),
			 CUDA_ERROR_INVALID_HANDLE);
	assert_null(cks_handles_get(h, 8, CK_KIND_FUNCTION));
}

static void a_context_takes_its_objects_along_and_no_others(void **state)
{
	struct cks_handles *h = *state;

	cks_handles_put(h, 1, CK_KIND_CONTEXT, 0, &a);
	cks_handles_put(h, 2, CK_KIND_CONTEXT, 0, &b);
	cks_handles_put(h, 5000, CK_KIND_STREAM, 1, &a);
	cks_handles_put(h, 5001, CK_KIND_EVENT, 2, &a);
	cks_handles_put(h, 5002, CK_KIND_LIBRARY, 0, &a);
	cks_handles_put_child(h, 5003, CK_KIND_MODULE, 1, &b, 5002);
	cks_handles_put_child(h, 5004, CK_KIND_FUNCTION, 1, &c, 5003);
	cks_handles_put_child(h, 5005, CK_KIND_KERNEL, 0, &c, 5002);
	cks_handles_drop_context(h, 1);
	assert_ptr_equal(cks_handles_get(h, 1, CK_KIND_CONTEXT), &a);
	assert_null(cks_handles_get(h, 5000, CK_KIND_STREAM));
	assert_ptr_equal(cks_handles_get(h, 5001, CK_KIND_EVENT), &a);
	assert_ptr_equal(cks_handles_get(h, 5002, CK_KIND_LIBRARY), &a);
	assert_null(cks_handles_get(h, 5003, CK_KIND_MODULE));
	assert_null(cks_handles_get(h, 5004, CK_KIND_FUNCTION));
	assert_ptr_equal(cks_handles_get(h, 5005, CK_KIND_KERNEL), &c);
	cks_handles_remove(h, 5002); /* the library's family is whole after the loss */
	assert_null(cks_handles_get(h, 5005, CK_KIND_KERNEL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_id_gives_its_handle_only_under_its_kind, make,
						drop),
		cmocka_unit_test_setup_teardown(ids_out_of_range_or_taken_are_refused, make, drop),
		cmocka_unit_test_setup_teardown(what_the_driver_tells_of_has_one_id, make, drop),
		cmocka_unit_test_setup_teardown(
			a_handle_that_the_driver_uses_again_is_the_newer_object, make, drop),
		cmocka_unit_test_setup_teardown(a_removed_id_is_gone_and_may_be_used_again, make,
						drop),
		cmocka_unit_test_setup_teardown(an_id_of_the_server_rests_before_it_is_used_again,
						make, drop),
		cmocka_unit_test_setup_teardown(an_object_that_is_ending_has_no_name, make, drop),
		cmocka_unit_test_setup_teardown(functions_go_with_their_module, make, drop),
		cmocka_unit_test_setup_teardown(nothing_can_live_in_what_is_not_there, make, drop),
		cmocka_unit_test_setup_teardown(a_context_takes_its_objects_along_and_no_others,
						make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
