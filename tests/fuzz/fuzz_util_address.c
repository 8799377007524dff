/*
 * tests/fuzz/fuzz_util_address.c - any text as an address: refused with a reason, or parts that are
 * terminated; and the canonical text of one is its own canonical text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/standalone.h"
#include "util/address/address.h"

static void check_parts(const struct ck_address *a)
{
	CK_FUZZ_CHECK(memchr(a->user, 0, sizeof(a->user)) && memchr(a->host, 0, sizeof(a->host)));
	CK_FUZZ_CHECK(memchr(a->path, 0, sizeof(a->path)));
	CK_FUZZ_CHECK(a->port >= -1 && a->port <= 65535);
	CK_FUZZ_CHECK(a->kind != CK_ADDRESS_UNKNOWN && a->host[0] != '-');
}

static void check_canonical(const char *text)
{
	char once[2 * CK_ADDRESS_MAX], twice[2 * CK_ADDRESS_MAX];

	if (ck_address_canonical(text, once, sizeof(once)) < 0)
		return;
	CK_FUZZ_CHECK(ck_address_canonical(once, twice, sizeof(twice)) == 0);
	CK_FUZZ_CHECK(strcmp(once, twice) == 0 && ck_address_same(text, once));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ck_address address;
	char *text = malloc(size + 1), why[CK_ADDRESS_WHY] = "";
	const char *devices;
	size_t length;

	CK_FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	devices = ck_address_devices(text, strlen(text), &length);
	CK_FUZZ_CHECK(length <= strlen(text));
	CK_FUZZ_CHECK(!devices || (devices > text + length && devices <= text + strlen(text)));
	if (ck_address_parse(text, &address, why) < 0)
		CK_FUZZ_CHECK(why[0]);
	else
		check_parts(&address);
	check_canonical(text);
	free(text);
	return 0;
}
