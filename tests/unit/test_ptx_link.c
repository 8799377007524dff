/*
 * tests/unit/test_ptx_link.c - a text of several translation units becomes one module.
 */
#include "tests/unit/ptx_world.h"

/* A unit with kernel k, which stores what @body leaves in %r0. */
#define UNIT_K(declarations, body)                                                                 \
	HEAD declarations KERNEL body "\nst.global.u32 [%out], %r0;\n" END
#define UNIT(text) HEAD text
/* A function without parameters that returns @value. */
#define RETURNS(name, value)                                                                       \
	".func (.param .b32 r) " name "() {\n"                                                     \
	"st.param.b32 [r], " value "; ret; }\n"
#define DECLARES(name) ".func (.param .b32 r) " name "();\n"
#define CALLS(name) "{ .param .b32 x; call (x), " name ", (); ld.param.b32 %r0, [x]; }\n"

/* Of the units in this order, and in the other: what kernel k stores. */
static uint32_t linked(const char *a, const char *b)
{
	char text[8192];

	snprintf(text, sizeof(text), "%s\n%s", a, b);
	assert_int_equal(run_text(text, 1), CUDA_SUCCESS);
	return *output();
}

static void assert_either_way(const char *a, const char *b, uint32_t wanted)
{
	assert_int_equal(linked(a, b), wanted);
	assert_int_equal(linked(b, a), wanted);
}

static void assert_refused(const char *text, const char *why)
{
	struct ck_ptx_module *module = NULL;
	char log[200];

	assert_int_equal(text_parse(text, log, sizeof(log), &module), -EINVAL);
	assert_null(module);
	if (!strstr(log, why))
		fail_msg("'%s' does not say '%s'", log, why);
}

static void a_function_of_another_unit_is_called_wherever_it_stands(void **state)
{
	(void)state;
	assert_either_way(UNIT_K(".extern " DECLARES("f"), CALLS("f")),
			  UNIT(".visible " RETURNS("f", "17")), 17);
}

static void a_variable_of_another_unit_is_read_wherever_it_stands(void **state)
{
	(void)state;
	assert_either_way(
		UNIT_K(".extern .global .align 4 .u32 x[2];\n", "ld.global.u32 %r0, [x+4];"),
		UNIT(".visible .global .align 4 .u32 x[2] = {1, 23};\n"), 23);
	assert_either_way(UNIT_K(".extern .const .align 4 .u32 x;\n", "ld.const.u32 %r0, [x];"),
			  UNIT(".visible .const .align 4 .u32 x = 29;\n"), 29);
}

static void a_declaration_after_its_definition_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(linked(UNIT_K(".visible .global .u32 x = 3;\n.extern .global .u32 x;\n"
				       ".visible " RETURNS("f", "4") ".visible " DECLARES("f"),
				       CALLS("f") "ld.global.u32 %r1, [x]; add.s32 %r0, %r0, %r1;"),
				UNIT(".extern .global .u32 x;\n.extern " DECLARES("f"))),
			 7);
}

static void addresses_in_initialisers_reach_other_units(void **state)
{
	(void)state;
	assert_either_way(UNIT_K(".extern .global .align 8 .u64 p;\n",
				 "ld.global.u64 %d1, [p]; ld.u32 %r0, [%d1];"),
			  UNIT(".visible .global .align 4 .u32 x = 31;\n"
			       ".visible .global .align 8 .u64 p = generic(x);\n"),
			  31);
	assert_either_way(UNIT_K(".extern .global .align 8 .u64 table[2];\n",
				 "ld.global.u64 %d1, [table+8];\n"
				 "{ .param .b32 y; proto: .callprototype (.param .b32 _) _ ();\n"
				 "call (y), %d1, (), proto; ld.param.b32 %r0, [y]; }"),
			  UNIT(DECLARES("one") DECLARES(
				  "two") ".visible .global .align 8 .u64 table[2] = {one, "
					 "two};\n" RETURNS("one", "1") RETURNS("two", "2")),
			  2);
}

static void symbols_without_linkage_stay_in_their_unit(void **state)
{
	(void)state;
	assert_either_way(
		UNIT_K(".global .u32 x = 1;\n" RETURNS("f", "10") ".extern " DECLARES("other"),
		       CALLS("other") "mov.u32 %r2, %r0;\n" CALLS(
			       "f") "ld.global.u32 %r1, [x]; add.s32 %r0, %r0, %r1; add.s32 %r0, "
				    "%r0, %r2;"),
		UNIT(".global .align 8 .u64 x = 200;\n" RETURNS(
			"f",
			"1000") ".visible .func (.param .b32 r) other() {\n"
				".reg .b32 %a, %b; .reg .b64 %c;\n"
				"{ .param .b32 y; call (y), f, (); ld.param.b32 %a, [y]; }\n"
				"ld.global.u64 %c, [x]; cvt.u32.u64 %b, %c; add.s32 %a, %a, %b;\n"
				"st.param.b32 [r], %a; ret; }\n"),
		1211);
	/* not even a variable and a function of one name are in each other's way */
	assert_either_way(UNIT_K(RETURNS("same", "5"), CALLS("same")),
			  UNIT(".global .u32 same = 6;\n"), 5);
}

static void an_external_name_is_not_the_static_one_of_another_unit(void **state)
{
	(void)state;
	assert_refused(UNIT_K(".extern " DECLARES("f"), CALLS("f")) UNIT(RETURNS("f", "1")),
		       "unresolved external function 'f'");
	assert_refused(UNIT(".global .u32 x = 1;\n")
			       UNIT_K(".extern .global .u32 x;\n", "ld.global.u32 %r0, [x];"),
		       "unresolved external variable 'x'");
	/* and what a unit does not declare it does not see, even if another unit shows it */
	assert_refused(UNIT(".visible .global .u32 x = 1;\n") UNIT_K("", "ld.global.u32 %r0, [x];"),
		       "'x' is not defined");
	assert_refused(UNIT(".extern .global .u32 x;\n.global .align 8 .u64 p = generic(x);\n"),
		       "unresolved external variable 'x'");
}

static void of_weak_definitions_the_first_counts(void **state)
{
	static const char first[] = UNIT_K(".weak .global .u32 x = 1;\n.weak " RETURNS("f", "10"),
					   CALLS("f") "ld.global.u32 %r1, [x];"
						      "add.s32 %r0, %r0, %r1;");
	static const char second[] = UNIT(".weak .global .u32 x = 2;\n.weak " RETURNS("f", "20"));

	(void)state;
	assert_int_equal(linked(first, second), 11);
	assert_int_equal(linked(second, first), 22);
}

static void a_weak_definition_gives_way_to_one_that_is_not(void **state)
{
	assert_either_way(
		UNIT_K(".weak .global .align 8 .u64 x[3] = {1, x, 1};\n.weak " RETURNS("f", "10"),
		       CALLS("f") "ld.global.u32 %r1, [x]; add.s32 %r0, %r0, %r1;"),
		UNIT(".visible .global .align 8 .u64 x[3] = {2};\n.visible " RETURNS("f", "20")),
		22);
	(void)state;
}

static void a_weak_kernel_of_several_units_is_one(void **state)
{
	static const char unit[] = HEAD ".weak .entry t(.param .u32 a, .param .u64 b) { ret; }\n";
	char text[1024];
	struct ck_ptx_kernel_info info;
	struct ck_ptx_module *module;

	(void)state;
	snprintf(text, sizeof(text), "%s%s%s%s", unit, unit,
		 HEAD ".visible .entry t(.param .u32 a, .param .u64 b) { ret; }\n", unit);
	module = module_of(text);
	assert_non_null(ck_ptx_kernel_at(module, 0));
	assert_null(ck_ptx_kernel_at(module, 1));
	ck_ptx_kernel_info(ck_ptx_kernel_find(module, "t"), &info);
	assert_int_equal(info.param_count, 2);
	assert_int_equal(info.param_bytes, 16);
	ck_ptx_destroy(module);
}

static void of_common_variables_the_largest_is_the_one(void **state)
{
	struct ck_ptx_module *module;
	uint64_t address;
	size_t size;

	(void)state;
	module = module_of(UNIT(".common .global .b8 x[4];\n") UNIT(".common .global .b8 x[12];\n")
				   UNIT(".common .global .b8 x[8];\n"));
	assert_int_equal(ck_ptx_variable(module, "x", &address, &size), 0);
	assert_int_equal(size, 12);
	ck_ptx_destroy(module);
	assert_either_way(UNIT_K(".common .global .u32 x;\n", "ld.global.u32 %r0, [x];"),
			  UNIT(".visible .global .u32 x = 9;\n"), 9);
}

static void shared_memory_is_the_same_for_functions_of_all_units(void **state)
{
	static const char other[] =
		UNIT(".extern .shared .align 64 .b8 dyn[];\n.weak .shared .align 4 .u32 s;\n"
		     ".visible .func put() {\n"
		     "st.shared.u32 [s], 40; st.shared.u32 [dyn], 2; ret; }\n");
	static const char kernel[] =
		UNIT_K(".extern .shared .align 16 .b8 dyn[];\n.weak .shared .align 4 .u32 s;\n"
		       ".extern .func put();\n",
		       "call put, (); ld.shared.u32 %r0, [s]; ld.shared.u32 %r1, [dyn];"
		       "add.s32 %r0, %r0, %r1; mov.u32 %r1, dyn; and.b32 %r1, %r1, 63;"
		       "add.s32 %r0, %r0, %r1;");
	char text[8192];

	(void)state;
	for (int order = 0; order < 2; order++) {
		struct ck_ptx_grid grid = {{1, 1, 1}, {1, 1, 1}, 16, false, {0}};
		uint64_t params[1] = {(uint64_t)(uintptr_t)output()};
		struct ck_ptx_module *module;

		snprintf(text, sizeof(text), "%s%s", order ? other : kernel,
			 order ? kernel : other);
		module = module_of(text);
		assert_int_equal(
			ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &world_host),
			CUDA_SUCCESS);
		assert_int_equal(*output(), 42);
		ck_ptx_destroy(module);
	}
}

static void declared_shared_memory_of_a_known_size_needs_no_definition(void **state)
{
	struct ck_ptx_grid grid = {{1, 1, 1}, {1, 1, 1}, 0, false, {0}};
	uint64_t params[1] = {(uint64_t)(uintptr_t)output()};
	struct ck_ptx_module *module;
	struct ck_ptx_kernel_info info;

	(void)state;
	module = module_of(UNIT_K(".extern .shared .align 8 .b8 a[260];\n"
				  ".extern .shared .align 4 .u32 b;\n",
				  "st.shared.u32 [a + 256], 40; st.shared.u32 [b], 2;"
				  "ld.shared.u32 %r0, [a + 256]; ld.shared.u32 %r1, [b];"
				  "add.s32 %r0, %r0, %r1;"));
	ck_ptx_kernel_info(ck_ptx_kernel_find(module, "k"), &info);
	assert_int_equal(info.shared_bytes, 264);
	assert_int_equal(ck_ptx_run(ck_ptx_kernel_find(module, "k"), &grid, params, &world_host),
			 CUDA_SUCCESS);
	assert_int_equal(*output(), 42);
	ck_ptx_destroy(module);
}

static void two_definitions_of_one_name_are_refused(void **state)
{
	(void)state;
	assert_refused(UNIT(".visible .global .u32 x;\n") UNIT(".visible .global .u32 x;\n"),
		       "'x' is defined twice");
	assert_refused(UNIT(".visible " RETURNS("f", "1")) UNIT(".visible " RETURNS("f", "1")),
		       "'f' is defined twice");
	/* in one unit not even weak ones */
	assert_refused(UNIT(".weak " RETURNS("f", "1") ".weak " RETURNS("f", "1")),
		       "'f' is defined twice");
	assert_refused(UNIT(".weak .global .u32 x;\n.weak .global .u32 x;\n"),
		       "'x' is defined twice");
	assert_refused(UNIT(".entry k() { ret; }\n.entry k() { ret; }\n"), "'k' is defined twice");
}

static void units_that_disagree_on_what_a_name_is_are_refused(void **state)
{
	(void)state;
	assert_refused(UNIT(".visible .global .u32 x;\n") UNIT(".extern " DECLARES("x")),
		       "'x' is a variable and a function");
	assert_refused(UNIT(".visible .global .u32 x;\n") UNIT(".extern .const .u32 x;\n"),
		       "'x' is declared in two state spaces");
	assert_refused(UNIT(".visible " RETURNS("f", "1"))
			       UNIT(DECLARES("f") ".weak " RETURNS("f", "2")),
		       "'f' is declared with linkage and without");
	assert_refused(UNIT_K(".extern " DECLARES("f"), CALLS("f"))
			       UNIT(".visible .func (.param .b64 r) f() { ret; }\n"),
		       "does not match its parameters");
}

static void a_result_that_another_unit_does_not_have_is_nobody_s(void **state)
{
	(void)state;
	assert_either_way(UNIT_K(".extern " DECLARES("f") ".extern .global .u32 x;\n",
				 CALLS("f") "ld.global.u32 %r0, [x];"),
			  UNIT(".visible .global .u32 x;\n"
			       ".visible .func f() { st.global.u32 [x], 37; ret; }\n"),
			  37);
	assert_either_way(UNIT_K(".extern .func f();\n", "call f, (); mov.b32 %r0, 41;"),
			  UNIT(".visible " RETURNS("f", "1")), 41);
	/* in one unit it is a mistake */
	assert_refused(UNIT_K(".visible .func f() { ret; }\n", CALLS("f")),
		       "does not match its parameters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_of_another_unit_is_called_wherever_it_stands),
		cmocka_unit_test(a_variable_of_another_unit_is_read_wherever_it_stands),
		cmocka_unit_test(a_declaration_after_its_definition_changes_nothing),
		cmocka_unit_test(addresses_in_initialisers_reach_other_units),
		cmocka_unit_test(symbols_without_linkage_stay_in_their_unit),
		cmocka_unit_test(an_external_name_is_not_the_static_one_of_another_unit),
		cmocka_unit_test(of_weak_definitions_the_first_counts),
		cmocka_unit_test(a_weak_definition_gives_way_to_one_that_is_not),
		cmocka_unit_test(a_weak_kernel_of_several_units_is_one),
		cmocka_unit_test(of_common_variables_the_largest_is_the_one),
		cmocka_unit_test(shared_memory_is_the_same_for_functions_of_all_units),
		cmocka_unit_test(declared_shared_memory_of_a_known_size_needs_no_definition),
		cmocka_unit_test(two_definitions_of_one_name_are_refused),
		cmocka_unit_test(units_that_disagree_on_what_a_name_is_are_refused),
		cmocka_unit_test(a_result_that_another_unit_does_not_have_is_nobody_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
