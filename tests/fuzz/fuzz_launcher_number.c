/*
 * tests/fuzz/fuzz_launcher_number.c - elements, lists and base64 from text, and back.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/text/base64.h"
#include "launcher/text/scan.h"
#include "launcher/text/type.h"
#include "tests/fuzz/standalone.h"

/* What is read and printed reads as the same bytes. */
static void check_element(enum ckl_type type, const char *text, size_t size)
{
	unsigned char first[8] = {0}, second[8] = {0};
	char printed[CK_TYPE_TEXT];
	size_t length, quote;

	if (!ckl_type_read(type, text, size, false, first))
		return;
	length = ckl_type_print(type, first, printed);
	CK_FUZZ_CHECK(length <= CK_TYPE_TEXT - 2);
	quote = printed[0] == '"';
	CK_FUZZ_CHECK(ckl_type_read(type, printed + quote, length - 2 * quote, false, second));
	/* There are many NaNs, and one word for them. */
	CK_FUZZ_CHECK(printed[1] == 'N' || memcmp(first, second, sizeof(first)) == 0);
}

static void check_base64(const char *text, size_t size)
{
	size_t length = size & ~(size_t)3, bytes = length / 4 * 3;
	char *out = malloc(bytes + 1), *back = malloc(length + 1);

	if (ckl_base64_read(text, length, out, bytes) == 0) {
		ckl_base64_print(out, bytes, back);
		CK_FUZZ_CHECK(memcmp(back, text, length) == 0);
	}
	free(out);
	free(back);
}

/* How many elements the list has, one by one into @out; -1 with the index of a wrong one. */
static int read_list(enum ckl_type type, const char *text, size_t size, char *out, size_t *count)
{
	struct ckl_elements it = {.at = text, .end = text + size};
	const char *at;
	size_t length;
	int ret;

	for (*count = 0; (ret = ckl_elements_next(&it, &at, &length)) > 0; ++*count) {
		if (!ckl_type_read(type, at, length, false, out + *count * ckl_type_size(type)))
			return -1;
	}
	return ret < 0 ? -1 : 0;
}

/* Runs and pieces give the same bytes and the same error as one element after the other. */
static void check_list(enum ckl_type type, const char *text, size_t size, size_t piece)
{
	size_t step = ckl_type_size(type), count, commas = ckl_scan_commas(text, size);
	char *one = malloc((size + 1) * step), *all = malloc((size + 1) * step), name[64];
	int ret = read_list(type, text, size, one, &count);
	size_t expected = ret == 0 ? count : commas + 1;
	struct ckl_fail fail = {0};

	CK_FUZZ_CHECK((ckl_type_read_all(type, text, size, expected, all, "a", &fail) == 0) ==
		      (ret == 0));
	if (ret == 0)
		CK_FUZZ_CHECK(memcmp(one, all, count * step) == 0);
	snprintf(name, sizeof(name), "a: element %zu", count);
	CK_FUZZ_CHECK(ret == 0 || strncmp(fail.message, name, strlen(name)) == 0);
	memset(all, 1, (size + 1) * step);
	/* Of no element there is one piece, which has one. */
	CK_FUZZ_CHECK(ckl_type_read_parallel(type, text, size, expected, all, piece) ==
		      (ret == 0 && count > 0));
	if (ret == 0)
		CK_FUZZ_CHECK(memcmp(one, all, count * step) == 0 || count == 0);
	ckl_fail_clear(&fail);
	free(one);
	free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1);
	unsigned sum = 0;

	memcpy(text, data, size);
	for (enum ckl_type type = CK_TYPE_F16; type <= CK_TYPE_BOOL; type++)
		check_element(type, text, size);
	/* Starting threads takes long, so it is one type and one cut for each text. */
	for (size_t i = 0; i < size; i++)
		sum += data[i];
	if (size > 0)
		check_list(CK_TYPE_F16 + sum % CK_TYPE_BOOL, text, size, 1 + sum / 16 % 32);
	check_base64(text, size);
	free(text);
	return 0;
}
