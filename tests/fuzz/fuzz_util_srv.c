/*
 * tests/fuzz/fuzz_util_srv.c - any bytes as an answer of DNS: refused, or hosts whose names are
 * those of hosts, in every order.
 */
#include <string.h>

#include "tests/fuzz/standalone.h"
#include "util/address/srv.h"

static uint32_t state;

static uint32_t draw(uint32_t most)
{
	state = state * 1664525 + 1013904223;
	return most ? state % (most + 1) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ck_srv_list list;
	unsigned int before;

	if (ck_srv_parse(data, size, &list) < 0)
		return 0;
	CK_FUZZ_CHECK(list.count > 0 && list.count <= CK_SRV_MAX);
	before = list.count;
	state = (uint32_t)size;
	ck_srv_order(&list, draw);
	CK_FUZZ_CHECK(list.count == before);
	for (unsigned int i = 0; i < list.count; i++) {
		const struct ck_srv_target *t = &list.targets[i];

		CK_FUZZ_CHECK(t->port && t->host[0] && memchr(t->host, 0, sizeof(t->host)));
		CK_FUZZ_CHECK(!strpbrk(t->host, "/,|: \n\033"));
		CK_FUZZ_CHECK(i == 0 || t[-1].priority <= t->priority);
	}
	return 0;
}
