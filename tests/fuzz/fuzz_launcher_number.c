/*
 * tests/fuzz/fuzz_launcher_number.c - elements and base64 from text, and back.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/base64.h"
#include "launcher/type.h"
#include "tests/fuzz/standalone.h"

/* What is read and printed reads as the same bytes. */
static void check_element(enum ck_type type, const char *text, size_t size)
{
	unsigned char first[8] = {0}, second[8] = {0};
	char printed[CK_TYPE_TEXT];
	size_t length, quote;

	if (!ck_type_read(type, text, size, false, first))
		return;
	length = ck_type_print(type, first, printed);
	CK_FUZZ_CHECK(length <= CK_TYPE_TEXT - 2);
	quote = printed[0] == '"';
	CK_FUZZ_CHECK(ck_type_read(type, printed + quote, length - 2 * quote, false, second));
	/* There are many NaNs, and one word for them. */
	CK_FUZZ_CHECK(printed[1] == 'N' || memcmp(first, second, sizeof(first)) == 0);
}

static void check_base64(const char *text, size_t size)
{
	size_t length = size & ~(size_t)3, bytes = length / 4 * 3;
	char *out = malloc(bytes + 1), *back = malloc(length + 1);

	if (ck_base64_read(text, length, out, bytes) == 0) {
		ck_base64_print(out, bytes, back);
		CK_FUZZ_CHECK(memcmp(back, text, length) == 0);
	}
	free(out);
	free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size ? size : 1);

	memcpy(text, data, size);
	for (enum ck_type type = CK_TYPE_F16; type <= CK_TYPE_BOOL; type++)
		check_element(type, text, size);
	check_base64(text, size);
	free(text);
	return 0;
}
