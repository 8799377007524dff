/*
 * tests/unit/test_elf_ptxhead.c - the head of PTX text: version, target, kernels.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf/ptxhead.h"
#include "util/util.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* Exactly the bytes of the text, without its NUL, so that a read beyond is seen by ASan. */
static int kernels_read(const char *text, struct ck_kernels *kernels)
{
	size_t size = strlen(text);
	char *exact = malloc(size ? size : 1);
	int ret;

	memcpy(exact, text, size);
	ret = ck_ptx_kernels(exact, size, kernels);
	free(exact);
	return ret;
}

static void version_and_target_are_read(void **state)
{
	static const struct {
		const char *text;
		unsigned major, minor, sm;
		bool arch, family;
		unsigned address_size;
	} cases[] = {
		{HEAD, 8, 0, 80, 0, 0, 64},
		{"// x\n/* .version 1.0 */ .version 9.1 .target sm_90a, debug\n.address_size 64", 9,
		 1, 90, 1, 0, 64},
		{"\n.version 9.0\n.target sm_103f", 9, 0, 103, 0, 1, 0},
	};
	struct ck_ptx_head head;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++) {
		assert_int_equal(ck_ptx_head(cases[i].text, strlen(cases[i].text), &head), 0);
		assert_int_equal(head.version_major, cases[i].major);
		assert_int_equal(head.version_minor, cases[i].minor);
		assert_int_equal(head.sm, cases[i].sm);
		assert_int_equal(head.arch_specific, cases[i].arch);
		assert_int_equal(head.family, cases[i].family);
		assert_int_equal(head.address_size, cases[i].address_size);
	}
}

static void a_text_without_version_or_target_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		".target sm_80",
		".version",
		".version 9",
		".version x.y\n.target sm_80",
		".version 9.0\n.entry k() {}",
		".version 9.0\n.target sm_",
		".version 9.0.1\n.target sm_80",
		".version 9.0\n.target sm_80x",
		".version 9.0\n.target compute_80",
	};
	struct ck_ptx_head head = {.sm = 77};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++)
		assert_int_equal(ck_ptx_head(texts[i], strlen(texts[i]), &head), -ENOEXEC);
	assert_int_equal(head.sm, 77);
}

static void parameters_are_laid_out_by_size_and_alignment(void **state)
{
	static const char text[] = HEAD
		".visible .entry k(.param .u8 a, .param .u16 b, .param .f64 c, .param .s8 d,\n"
		"  .param .align 16 .b8 e[17], .param .b32 f[3], .param .align 1 .b8 g[2][0x3],\n"
		"  .param .u64 .ptr .global .align 128 h, .param .v4 .f32 i, .param .texref j,\n"
		"  .param .b32 k)\n"
		"{ ret; }";
	static const struct ck_kernel_param expected[] = {
		{0, 1, CK_PARAM_INTEGER},  {2, 2, CK_PARAM_INTEGER},   {8, 8, CK_PARAM_FLOAT},
		{16, 1, CK_PARAM_INTEGER}, {32, 17, CK_PARAM_BYTES},   {52, 12, CK_PARAM_BYTES},
		{64, 6, CK_PARAM_BYTES},   {72, 8, CK_PARAM_POINTER},  {80, 16, CK_PARAM_BYTES},
		{96, 8, CK_PARAM_UNKNOWN}, {104, 4, CK_PARAM_UNKNOWN},
	};
	struct ck_kernels kernels;

	(void)state;
	assert_int_equal(kernels_read(text, &kernels), 0);
	assert_int_equal(kernels.count, 1);
	assert_int_equal(kernels.items[0].param_count, CK_ARRAY_SIZE(expected));
	for (size_t i = 0; i < CK_ARRAY_SIZE(expected); i++) {
		assert_int_equal(kernels.items[0].params[i].offset, expected[i].offset);
		assert_int_equal(kernels.items[0].params[i].size, expected[i].size);
		assert_int_equal(kernels.items[0].params[i].kind, expected[i].kind);
	}
	assert_int_equal(kernels.items[0].param_bytes, 108);
	ck_kernels_free(&kernels);
}

static void only_true_kernels_are_listed(void **state)
{
	static const char text[] =
		HEAD "// .entry no1() {}\n/* .entry no2() {} */\n"
		     ".file 1 \".entry no3() {\"\n"
		     ".visible .entry declared(.param .u32 x);\n"
		     ".func (.param .b32 r) no4(.param .b32 a) { { .reg .b32 %r<2>; } ret; }\n"
		     ".section .debug_info { .b8 1, 2 }\n"
		     ".entry first { ret; }\n"
		     ".visible .entry $s_econd%() { // }\n  { mov.u32 %r1, 1; } /* } */ ret; }\n"
		     ".weak .entry declared(.param .u32 x) { ret; }\n";
	static const char *const expected[] = {"first", "$s_econd%", "declared"};
	struct ck_kernels kernels;

	(void)state;
	assert_int_equal(kernels_read(text, &kernels), 0);
	assert_int_equal(kernels.count, CK_ARRAY_SIZE(expected));
	for (size_t i = 0; i < CK_ARRAY_SIZE(expected); i++)
		assert_string_equal(kernels.items[i].name, expected[i]);
	assert_int_equal(kernels.items[2].param_bytes, 4);
	ck_kernels_free(&kernels);
}

static void limits_and_shared_memory_are_read(void **state)
{
	static const char text[] =
		HEAD ".extern .shared .align 16 .b8 dynamic[];\n.shared .b32 modulewide[100];\n"
		     ".entry a() .pragma \"x;{\"; .maxntid 16, 2 .minnctapersm 3\n{\n"
		     "  .shared .align 4 .b8 s1[5];\n  .shared .b64 s2, s3[2];\n"
		     "  @%p1 ld.shared.b32 %r1, [s1];\nL: st.shared::cta.u32 [s1], {%r1};\n}\n"
		     ".entry b() .reqntid 8, 4, 2 .maxnreg 32 { { .shared .u8 t; } ret; }\n";
	struct ck_kernels kernels;

	(void)state;
	assert_int_equal(kernels_read(text, &kernels), 0);
	assert_int_equal(kernels.count, 2);
	assert_int_equal(kernels.items[0].max_threads, 32);
	assert_int_equal(kernels.items[0].block[0], 0);
	assert_int_equal(kernels.items[0].shared, 8 + 8 + 16);
	assert_int_equal(kernels.items[1].max_threads, 64);
	assert_int_equal(kernels.items[1].block[0], 8);
	assert_int_equal(kernels.items[1].block[2], 2);
	assert_int_equal(kernels.items[1].shared, 1);
	ck_kernels_free(&kernels);
}

static void a_text_of_several_units_is_read_as_one(void **state)
{
	static const char text[] =
		HEAD ".extern .global .u32 x;\n.weak .const .b8 w[4];\n.global .u32 own;\n"
		     ".weak .entry t(.param .u32 a) { .shared .b8 s[4]; }\n"
		     ".visible .entry first() {}\n.entry same() {}\n"
		     ".version 9.0\n.target sm_90\n.address_size 64\n"
		     ".visible .global .u32 x = 1;\n.weak .const .b8 w[8];\n.global .u64 own;\n"
		     ".weak .entry t(.param .u32 a, .param .u32 b) {}\n"
		     ".weak .entry second() {}\n.entry same(.param .u32 a) {}\n";
	static const char *const kernel_names[] = {"t", "first", "same", "second", "same"};
	struct ck_kernels kernels;
	struct ck_ptx_head head;

	(void)state;
	assert_int_equal(ck_ptx_head(text, sizeof(text), &head), 0);
	assert_int_equal(head.sm, 80);
	assert_int_equal(kernels_read(text, &kernels), 0);
	assert_int_equal(kernels.count, CK_ARRAY_SIZE(kernel_names));
	for (size_t i = 0; i < kernels.count; i++)
		assert_string_equal(kernels.items[i].name, kernel_names[i]);
	/* the first of the weak ones, with its own parameters and shared memory */
	assert_int_equal(kernels.items[0].param_count, 1);
	assert_int_equal(kernels.items[0].shared, 4);
	assert_int_equal(kernels.items[4].param_count, 1);
	ck_kernels_free(&kernels);
}

static void what_makes_no_sense_is_refused_and_leaves_the_output(void **state)
{
	static const char *const kernels_texts[] = {
		".entry",
		".entry (",
		".entry k(",
		".entry k(.param",
		".entry k(.param .u32",
		".entry k(.param .u32 a",
		".entry k(.param .u32 a)",
		".entry k(.param .u32 a) {",
		".entry k(.param .b8 a[]) {}",
		".entry k(.param .b8 a[99999999]) {}",
		".entry k(.param .b8 a[32764], .param .b8 b) {}",
		".entry k(.param .align 3 .b8 a) {}",
		".entry k(.param .u32 a .param .u32 b) {}",
		".entry k(.u32 a) {}",
		".entry k(.param a) {}",
		".entry k() .maxntid 0 {}",
		".entry k() .maxntid {}",
		".entry k() .reqntid 65536, 65536 {}",
		".entry k() { { }",
		"{",
		".func f() { /* }",
		".entry k() { \"}",
		".entry k(.param .b8 a[0x]) {}",
		".entry k(.param .b8 a[09]) {}",
		".entry k() { .shared .b8 s[2147483647]; .shared .b8 t[2]; }",
	};
	struct ck_kernels kernels = {.count = 77};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(kernels_texts); i++)
		assert_int_equal(kernels_read(kernels_texts[i], &kernels), -ENOEXEC);
	assert_int_equal(kernels.count, 77);
	assert_int_equal(kernels_read(".entry k(.param .b8 a[32764]) {}", &kernels), 0);
	ck_kernels_free(&kernels);
}

static void text_that_can_print_is_told_from_the_rest(void **state)
{
	static const struct {
		const char *text;
		unsigned int prints;
	} texts[] = {
		{".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
		 ".entry k() {}",
		 CK_PRINTS_TEXT},
		{".extern .func __assertfail (.param .b64 a);.entry k() {}", CK_PRINTS_FAILURE},
		{".entry vprint() {} // vprintf", 0},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		struct ck_kernels kernels;

		assert_int_equal(kernels_read(texts[i].text, &kernels), 0);
		assert_int_equal(kernels.count, 1);
		assert_int_equal(kernels.print, texts[i].prints);
		ck_kernels_free(&kernels);
	}
}

static void variables_of_the_module_are_counted(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} texts[] = {
		{".entry k() { ld.global.u32 %r1, [%rd1]; }", 0},
		{".visible .global .align 4 .b8 room[1048576];.entry k() {}", 1048576},
		{".global .u32 a, b[3];.global .v4 .f32 c[2] = {1, 2};.entry k() {}", 48},
		{".extern .global .b8 other[4096];.global .b8 own[8];.entry k() {}", 8},
		{".extern .global .b8 open[];.entry k() {}", 0},
	};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		struct ck_kernels kernels;

		assert_int_equal(kernels_read(texts[i].text, &kernels), 0);
		assert_int_equal(kernels.variables, texts[i].bytes);
		ck_kernels_free(&kernels);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_and_target_are_read),
		cmocka_unit_test(a_text_without_version_or_target_is_refused),
		cmocka_unit_test(parameters_are_laid_out_by_size_and_alignment),
		cmocka_unit_test(only_true_kernels_are_listed),
		cmocka_unit_test(limits_and_shared_memory_are_read),
		cmocka_unit_test(text_that_can_print_is_told_from_the_rest),
		cmocka_unit_test(variables_of_the_module_are_counted),
		cmocka_unit_test(a_text_of_several_units_is_read_as_one),
		cmocka_unit_test(what_makes_no_sense_is_refused_and_leaves_the_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
