/*
 * tests/unit/test_elf_image.c - telling images apart and finding their length.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "elf/image.h"
#include "tests/unit/elf_data.h"
#include "util/util.h"

static const struct {
	const char *name;
	enum ck_image_kind kind;
} files[] = {
	{"sm_75.cubin", CK_IMAGE_ELF},
	{"sm_90.cubin", CK_IMAGE_ELF},
	{"sm_120.cubin", CK_IMAGE_ELF},
	{"rdc_sm_80.cubin", CK_IMAGE_ELF},
	{"linked_sm_80.cubin", CK_IMAGE_ELF},
	{"compress_default.fatbin", CK_IMAGE_CONTAINER},
	{"compress_size.fatbin", CK_IMAGE_CONTAINER},
	{"named.fatbin", CK_IMAGE_CONTAINER},
};

static void the_length_found_is_that_of_the_file(void **state)
{
	struct ck_image image;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(files); i++) {
		struct elf_data data = elf_data_read(files[i].name);

		assert_int_equal(ck_image_classify(data.bytes, &image), 0);
		assert_int_equal(image.kind, files[i].kind);
		assert_int_equal(image.size, data.size);
		assert_ptr_equal(image.data, data.bytes);
		assert_int_equal(image.wrapper, 0);
		elf_data_free(&data);
	}
}

static void bytes_behind_an_image_do_not_count(void **state)
{
	struct elf_data data = elf_data_read("sm_90.cubin");
	char *longer = calloc(1, data.size + 100);
	struct ck_image image;

	(void)state;
	memcpy(longer, data.bytes, data.size);
	assert_int_equal(ck_image_classify_bounded(longer, data.size + 100, &image), 0);
	assert_int_equal(image.size, data.size);
	free(longer);
	elf_data_free(&data);
}

static void an_image_cut_anywhere_is_refused_within_its_bound(void **state)
{
	static const char *const names[] = {"sm_75.cubin", "compress_size.fatbin"};
	struct ck_image image;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		struct elf_data data = elf_data_read(names[i]);

		for (size_t size = 0; size < data.size; size += 1 + size / 50) {
			char *cut = malloc(size ? size : 1);

			memcpy(cut, data.bytes, size);
			assert_int_equal(ck_image_classify_bounded(cut, size, &image), -ENOEXEC);
			free(cut);
		}
		elf_data_free(&data);
	}
}

static void a_wrapper_leads_to_its_container(void **state)
{
	struct elf_data data = elf_data_read("compress_none.fatbin");
	const void *list[] = {data.bytes, NULL};
	struct {
		uint32_t magic, version;
		const void *data, *list;
	} wrapper = {CK_IMAGE_WRAPPER_MAGIC, 1, data.bytes, NULL};
	struct ck_image image;

	(void)state;
	assert_int_equal(ck_image_classify(&wrapper, &image), 0);
	assert_int_equal(image.kind, CK_IMAGE_CONTAINER);
	assert_ptr_equal(image.data, data.bytes);
	assert_int_equal(image.size, data.size);
	assert_int_equal(image.wrapper, 1);
	assert_null(image.prelinked);
	wrapper.version = 2;
	wrapper.list = list;
	assert_int_equal(ck_image_classify(&wrapper, &image), 0);
	assert_int_equal(image.wrapper, 2);
	assert_ptr_equal(image.prelinked, list);
	wrapper.version = 3;
	assert_int_equal(ck_image_classify(&wrapper, &image), -ENOEXEC);
	wrapper.version = 1;
	wrapper.data = NULL;
	assert_int_equal(ck_image_classify(&wrapper, &image), -ENOEXEC);
	wrapper.data = &wrapper;
	assert_int_equal(ck_image_classify(&wrapper, &image), -ENOEXEC);
	/* pointers from the wire mean nothing here */
	wrapper.data = data.bytes;
	assert_int_equal(ck_image_classify_bounded(&wrapper, sizeof(wrapper), &image), -ENOEXEC);
	elf_data_free(&data);
}

static void text_may_start_with_blanks_or_a_comment_and_is_as_long_as_its_nul_says(void **state)
{
	static const char *const texts[] = {".version 9.0\n", "\n  .version 9.0",
					    "//\n.version 9.0", "/**/"};
	struct ck_image image;

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		char *text = strdup(texts[i]);
		size_t size = strlen(text) + 1;

		assert_int_equal(ck_image_classify(text, &image), 0);
		assert_int_equal(image.kind, CK_IMAGE_PTX);
		assert_int_equal(image.size, size);
		assert_int_equal(ck_image_classify_bounded(text, size, &image), 0);
		assert_int_equal(image.size, size);
		assert_int_equal(ck_image_classify_bounded(text, size - 1, &image), -ENOEXEC);
		free(text);
	}
}

static void what_is_no_image_is_refused_and_leaves_the_output(void **state)
{
	static const char *const texts[] = {"",
					    " ",
					    "hello",
					    "\x7f"
					    "ELF",
					    "\x7f"
					    "EL",
					    "P\xED",
					    "\xB1\x43"};
	struct ck_image image = {.size = 77};

	(void)state;
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		char bytes[64] = {0};
		char *exact = strdup(texts[i]);

		strcpy(bytes, texts[i]);
		assert_int_equal(ck_image_classify(bytes, &image), -ENOEXEC);
		assert_int_equal(ck_image_classify_bounded(exact, strlen(exact), &image), -ENOEXEC);
		free(exact);
	}
	assert_int_equal(ck_image_classify(NULL, &image), -EINVAL);
	assert_int_equal(ck_image_classify_bounded(NULL, 0, &image), -EINVAL);
	assert_int_equal(image.size, 77);
}

static void an_elf_file_of_another_machine_is_refused(void **state)
{
	struct elf_data data = elf_data_read("sm_80.cubin");
	struct ck_image image;

	(void)state;
	data.bytes[18] = 62; /* x86-64 */
	assert_int_equal(ck_image_classify(data.bytes, &image), -ENOEXEC);
	elf_data_free(&data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_length_found_is_that_of_the_file),
		cmocka_unit_test(bytes_behind_an_image_do_not_count),
		cmocka_unit_test(an_image_cut_anywhere_is_refused_within_its_bound),
		cmocka_unit_test(a_wrapper_leads_to_its_container),
		cmocka_unit_test(
			text_may_start_with_blanks_or_a_comment_and_is_as_long_as_its_nul_says),
		cmocka_unit_test(what_is_no_image_is_refused_and_leaves_the_output),
		cmocka_unit_test(an_elf_file_of_another_machine_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
