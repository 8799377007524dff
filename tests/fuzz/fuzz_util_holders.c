/*
 * tests/fuzz/fuzz_util_holders.c - any text as the server's list of tokens: refused with its line,
 * or one in which each token is found.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/address/token_file.h"
#include "tests/fuzz/standalone.h"
#include "util/hash.h"

#define TOKEN "the token that is added"

/* Whoever has a line for it already is found first. */
static void add_and_find(const char *text, size_t size)
{
	char name[CK_HOLDER_NAME] = "", hex[CK_HASH_TEXT], *more = malloc(size + 256);
	struct ck_hash hash;
	unsigned int line;

	CK_FUZZ_CHECK(more);
	ck_hash(TOKEN, strlen(TOKEN), &hash);
	ck_hash_print(&hash, hex);
	snprintf(more, size + 256, "%s\nadded:%s:9999-12-31\n", text, hex);
	CK_FUZZ_CHECK(ck_token_file_check(more, strlen(more), &line) == 0);
	CK_FUZZ_CHECK(ck_token_file_find(more, TOKEN, strlen(TOKEN), 0, name));
	CK_FUZZ_CHECK(name[0] && memchr(name, 0, sizeof(name)));
	CK_FUZZ_CHECK(!ck_token_file_find(more, TOKEN, strlen(TOKEN) - 1, 0, name));
	free(more);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	unsigned int line = 0;
	int ret;

	CK_FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	ret = ck_token_file_check(text, size, &line);
	if (ret == 0)
		add_and_find(text, size);
	else if (ret == -EINVAL)
		CK_FUZZ_CHECK(line > 0);
	else
		CK_FUZZ_CHECK(ret == CK_TOKEN_FILE_SECRET || ret == -ENODATA);
	free(text);
	return 0;
}
