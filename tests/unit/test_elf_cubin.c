/*
 * tests/unit/test_elf_cubin.c - kernels of cubins of several architectures.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "elf/cubin.h"
#include "elf/nvinfo.h"
#include "elf/ptxhead.h"
#include "tests/unit/elf_data.h"
#include "util/util.h"

static const struct {
	const char *name;
	unsigned sm;
} cubins[] = {
	{"sm_75.cubin", 75},   {"sm_80.cubin", 80},   {"sm_90.cubin", 90},
	{"sm_100.cubin", 100}, {"sm_120.cubin", 120},
};

static struct ck_kernels kernels_read(const char *name)
{
	struct elf_data data = elf_data_read(name);
	struct ck_kernels kernels;

	assert_int_equal(ck_cubin_kernels(data.bytes, data.size, &kernels), 0);
	elf_data_free(&data);
	return kernels;
}

static const struct ck_kernel *kernel_find(const struct ck_kernels *kernels, const char *name)
{
	for (size_t i = 0; i < kernels->count; i++) {
		if (strcmp(kernels->items[i].name, name) == 0)
			return &kernels->items[i];
	}
	fail_msg("no kernel %s", name);
	return NULL;
}

static void assert_params(const struct ck_kernel *kernel, const struct ck_kernel_param *params,
			  uint32_t count, uint32_t bytes)
{
	assert_int_equal(kernel->param_count, count);
	assert_int_equal(kernel->param_bytes, bytes);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(kernel->params[i].offset, params[i].offset);
		assert_int_equal(kernel->params[i].size, params[i].size);
	}
}

static void the_target_is_read_from_the_header(void **state)
{
	unsigned sm;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cubins); i++) {
		struct elf_data data = elf_data_read(cubins[i].name);

		assert_int_equal(ck_cubin_sm(data.bytes, data.size, &sm), 0);
		assert_int_equal(sm, cubins[i].sm);
		/* CUDA 12: another ABI mark, and the number in the low byte */
		data.bytes[7] = 0x33;
		data.bytes[8] = 7;
		memcpy(data.bytes + 48, (uint32_t[]){0x00560556}, 4);
		assert_int_equal(ck_cubin_sm(data.bytes, data.size, &sm), 0);
		assert_int_equal(sm, 0x56);
		data.bytes[7] = 0;
		assert_int_equal(ck_cubin_sm(data.bytes, data.size, &sm), -ENOEXEC);
		elf_data_free(&data);
	}
}

static void mixed_parameters_have_the_layout_of_the_abi_on_every_architecture(void **state)
{
	static const struct ck_kernel_param mixed[] = {
		{0, 8, 0}, {8, 4, 0}, {12, 1, 0}, {16, 24, 0}, {40, 2, 0}};
	static const struct ck_kernel_param chars[] = {{0, 8, 0}, {8, 1, 0}};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cubins); i++) {
		struct ck_kernels kernels = kernels_read(cubins[i].name);

		assert_int_equal(kernels.count, 5);
		assert_params(kernel_find(&kernels, "mixed_args"), mixed, 5, 0x2A);
		assert_params(kernel_find(&kernels, "no_args"), NULL, 0, 0);
		assert_params(kernel_find(&kernels, "_Z9templatedIcEvPT_S0_"), chars, 2, 9);
		ck_kernels_free(&kernels);
		assert_int_equal(kernels.count, 0);
	}
}

static void limits_shared_memory_and_registers_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(cubins); i++) {
		struct ck_kernels kernels = kernels_read(cubins[i].name);
		const struct ck_kernel *bounded = kernel_find(&kernels, "bounded");
		const struct ck_kernel *mixed = kernel_find(&kernels, "mixed_args");

		/* on sm_90 and later the section is 1024 bytes longer: see cubin.c */
		assert_int_equal(bounded->shared, 33 * 4);
		assert_int_equal(bounded->max_threads, 192);
		assert_int_equal(bounded->block[0], 0);
		assert_in_range(bounded->registers, 8, 16);
		assert_int_equal(mixed->shared, 0);
		assert_int_equal(mixed->max_threads, 0);
		ck_kernels_free(&kernels);
	}
}

static void parameters_beyond_4_kilobytes_are_read(void **state)
{
	static const struct ck_kernel_param big[] = {{0, 8, 0}, {8, 5000, 0}, {5008, 4, 0}};
	static const char *const names[] = {"big_sm_75.cubin", "big_sm_90.cubin"};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		struct ck_kernels kernels = kernels_read(names[i]);

		assert_int_equal(kernels.count, 1);
		assert_params(kernel_find(&kernels, "big_args"), big, 3, 5012);
		ck_kernels_free(&kernels);
	}
}

static void device_functions_are_no_kernels(void **state)
{
	struct ck_kernels kernels = kernels_read("rdc_sm_80.cubin");

	(void)state;
	assert_int_equal(kernels.count, 2);
	assert_int_equal(kernel_find(&kernels, "calls")->param_count, 3);
	ck_kernels_free(&kernels);
	kernels = kernels_read("linked_sm_80.cubin");
	assert_int_equal(kernels.count, 1);
	assert_non_null(strstr(kernels.items[0].name, "local_kernel"));
	ck_kernels_free(&kernels);
}

/* The text and the machine code of one source must agree on every kernel. */
static void ptx_text_says_the_same_as_the_cubin(void **state)
{
	struct ck_kernels machine = kernels_read("sm_90.cubin"), text;
	struct elf_data data = elf_data_read("kernels.ptx");

	(void)state;
	assert_int_equal(ck_ptx_kernels(data.bytes, data.size, &text), 0);
	assert_int_equal(text.count, machine.count);
	for (size_t i = 0; i < text.count; i++) {
		const struct ck_kernel *kernel = kernel_find(&machine, text.items[i].name);

		assert_params(&text.items[i], kernel->params, kernel->param_count,
			      kernel->param_bytes);
		assert_int_equal(text.items[i].max_threads, kernel->max_threads);
		assert_int_equal(text.items[i].shared, kernel->shared);
	}
	ck_kernels_free(&text);
	ck_kernels_free(&machine);
	elf_data_free(&data);
}

/* Images lie in an application's read-only memory, at any address. */
static void code_that_can_print_is_told_from_the_rest(void **state)
{
	static const struct {
		const char *name;
		unsigned int prints;
	} images[] = {{"sm_90.cubin", 0},
		      {"linked_sm_80.cubin", 0},
		      {"printf_sm_90.cubin", CK_PRINTS_TEXT},
		      {"assert_sm_90.cubin", CK_PRINTS_FAILURE}};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(images); i++) {
		struct ck_kernels kernels = kernels_read(images[i].name);

		assert_int_equal(kernels.print, images[i].prints);
		ck_kernels_free(&kernels);
	}
}

static void an_image_is_only_read_and_need_not_be_aligned(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	size_t size = (data.size + 2 * 4096) & ~(size_t)4095;
	char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ck_kernels kernels;

	(void)state;
	assert_true(pages != MAP_FAILED);
	for (size_t shift = 0; shift < 16; shift++) {
		assert_int_equal(mprotect(pages, size, PROT_READ | PROT_WRITE), 0);
		memcpy(pages + shift, data.bytes, data.size);
		assert_int_equal(mprotect(pages, size, PROT_READ), 0);
		assert_int_equal(ck_cubin_kernels(pages + shift, data.size, &kernels), 0);
		assert_int_equal(kernels.count, 5);
		ck_kernels_free(&kernels);
	}
	munmap(pages, size);
	elf_data_free(&data);
}

static void a_cut_cubin_is_refused(void **state)
{
	struct elf_data data = elf_data_read("sm_75.cubin");
	struct ck_kernels kernels = {.count = 77};
	uint64_t table;

	(void)state;
	memcpy(&table, data.bytes + 40, sizeof(table));
	for (size_t size = 0; size < table; size += 1 + size / 20) {
		char *cut = malloc(size ? size : 1);

		memcpy(cut, data.bytes, size);
		assert_int_equal(ck_cubin_kernels(cut, size, &kernels), -ENOEXEC);
		free(cut);
	}
	assert_int_equal(kernels.count, 77);
	elf_data_free(&data);
}

#define RECORD(attribute, size) 4, (attribute), (size), 0
#define PARAM(ordinal, offset, size)                                                               \
	RECORD(CK_NVINFO_KPARAM, 12), 0, 0, 0, 0, (ordinal), 0, (offset), 0, 0, 0xF0,              \
		((size) << 2) & 0xFF, ((size) << 2) >> 8
#define BLOCK_SIZE(size) 3, CK_NVINFO_CBANK_PARAM_SIZE, (size), 0

static int info_read(const unsigned char *bytes, size_t size, struct ck_kernel *kernel)
{
	unsigned char *exact = malloc(size);
	int ret;

	memcpy(exact, bytes, size);
	*kernel = (struct ck_kernel){0};
	ret = ck_nvinfo_kernel(exact, size, kernel);
	free(kernel->params);
	free(exact);
	return ret;
}

static void records_that_contradict_each_other_are_refused(void **state)
{
	static const unsigned char good[] = {PARAM(1, 8, 4), PARAM(0, 0, 8), BLOCK_SIZE(12)};
	static const unsigned char twice[] = {PARAM(0, 8, 4), PARAM(0, 0, 8), BLOCK_SIZE(12)};
	static const unsigned char gap[] = {PARAM(2, 8, 4), PARAM(0, 0, 8), BLOCK_SIZE(12)};
	static const unsigned char overlap[] = {PARAM(1, 4, 4), PARAM(0, 0, 8), BLOCK_SIZE(12)};
	static const unsigned char outside[] = {PARAM(1, 9, 4), PARAM(0, 0, 8), BLOCK_SIZE(12)};
	static const unsigned char form[] = {5, 0x17, 0, 0};
	static const unsigned char nothing[] = {0, 0, 0, 0};
	static const unsigned char block[] = {
		RECORD(CK_NVINFO_REQUIRED_THREADS, 12), 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
	struct ck_kernel kernel;

	(void)state;
	assert_int_equal(info_read(good, sizeof(good), &kernel), 0);
	assert_int_equal(info_read(good, sizeof(good) - 1, &kernel), -ENOEXEC);
	assert_int_equal(info_read(twice, sizeof(twice), &kernel), -ENOEXEC);
	assert_int_equal(info_read(gap, sizeof(gap), &kernel), -ENOEXEC);
	assert_int_equal(info_read(overlap, sizeof(overlap), &kernel), -ENOEXEC);
	assert_int_equal(info_read(outside, sizeof(outside), &kernel), -ENOEXEC);
	assert_int_equal(info_read(form, sizeof(form), &kernel), -ENOEXEC);
	assert_int_equal(info_read(nothing, sizeof(nothing), &kernel), -ENOEXEC);
	assert_int_equal(info_read(block, sizeof(block), &kernel), -ENOEXEC);
}

static void the_bank_size_serves_where_the_block_size_is_missing(void **state)
{
	static const unsigned char bank[] = {
		PARAM(0, 0, 8), RECORD(CK_NVINFO_PARAM_CBANK, 8), 1, 0, 0, 0, 0x60, 1, 16, 0};
	static const unsigned char both[] = {BLOCK_SIZE(8),
					     PARAM(0, 0, 8),
					     RECORD(CK_NVINFO_PARAM_CBANK, 8),
					     1,
					     0,
					     0,
					     0,
					     0x60,
					     1,
					     16,
					     0};
	static const unsigned char block[] = {
		RECORD(CK_NVINFO_REQUIRED_THREADS, 12), 8, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0};
	struct ck_kernel kernel;

	(void)state;
	assert_int_equal(info_read(bank, sizeof(bank), &kernel), 0);
	assert_int_equal(kernel.param_bytes, 16);
	assert_int_equal(info_read(both, sizeof(both), &kernel), 0);
	assert_int_equal(kernel.param_bytes, 8);
	assert_int_equal(info_read(block, sizeof(block), &kernel), 0);
	assert_int_equal(kernel.max_threads, 64);
	assert_int_equal(kernel.block[0], 8);
	assert_int_equal(kernel.block[1], 4);
	assert_int_equal(kernel.block[2], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_target_is_read_from_the_header),
		cmocka_unit_test(mixed_parameters_have_the_layout_of_the_abi_on_every_architecture),
		cmocka_unit_test(limits_shared_memory_and_registers_are_read),
		cmocka_unit_test(parameters_beyond_4_kilobytes_are_read),
		cmocka_unit_test(device_functions_are_no_kernels),
		cmocka_unit_test(ptx_text_says_the_same_as_the_cubin),
		cmocka_unit_test(code_that_can_print_is_told_from_the_rest),
		cmocka_unit_test(an_image_is_only_read_and_need_not_be_aligned),
		cmocka_unit_test(a_cut_cubin_is_refused),
		cmocka_unit_test(records_that_contradict_each_other_are_refused),
		cmocka_unit_test(the_bank_size_serves_where_the_block_size_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
