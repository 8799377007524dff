/*
 * tests/fuzz/fuzz_util_servers.c - any text as a list of servers: refused with a reason, or entries
 * that are terminated, have an address and name each device once.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/standalone.h"
#include "util/address/servers.h"

static void check(const struct ck_server_entry *e)
{
	CK_FUZZ_CHECK(memchr(e->address, 0, sizeof(e->address)) && e->count <= CK_SERVER_DEVICES);
	for (unsigned int i = 0; i < e->count; i++) {
		CK_FUZZ_CHECK(e->devices[i] < CK_SERVER_DEVICES);
		for (unsigned int k = 0; k < i; k++)
			CK_FUZZ_CHECK(e->devices[k] != e->devices[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ck_server_list list;
	char *text = malloc(size + 1);
	char why[CK_ADDRESS_WHY] = "";

	CK_FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	ck_servers_is_list(text);
	if (ck_servers_parse(text, &list, why) < 0) {
		CK_FUZZ_CHECK(why[0]);
	} else {
		CK_FUZZ_CHECK(list.count >= 1 && list.count <= CK_SERVERS_MAX);
		for (unsigned int i = 0; i < list.count; i++) {
			check(&list.entries[i]);
			CK_FUZZ_CHECK(list.entries[i].address[0] || !text[0]);
		}
	}
	free(text);
	return 0;
}
