/*
 * tests/fuzz/fuzz_server_nccl.c - any bytes as a batch of NCCL's operations: what is taken for one
 * has only known operations, and all that they point to is inside of it.
 */
#include <string.h>

#include "server/nccl/nccl.h"
#include "tests/fuzz/standalone.h"

#define MOST 65536

static _Alignas(8) unsigned char batch[MOST];

static void check_names(const struct cks_nccl_extra *x)
{
	const ncclConfig_t *config = (const ncclConfig_t *)x->config;

	CK_FUZZ_CHECK(memchr(x->net_name, 0, sizeof(x->net_name)));
	CK_FUZZ_CHECK(memchr(x->comm_name, 0, sizeof(x->comm_name)));
	if (!x->has_config)
		return;
	CK_FUZZ_CHECK(config->size <= CK_NCCL_CONFIG_MAX && config->magic == NCCL_CONFIG_MAGIC);
	if (config->size >= sizeof(*config)) {
		CK_FUZZ_CHECK(!config->netName || config->netName == x->net_name);
		CK_FUZZ_CHECK(!config->commName || config->commName == x->comm_name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ck_nccl_batch *head = (const struct ck_nccl_batch *)batch;
	const struct ck_nccl_op *o = cks_nccl_batch_first(batch);
	static struct cks_nccl_extra x;

	if (size > MOST)
		return 0;
	memcpy(batch, data, size);
	if (!cks_nccl_batch_check(batch, size))
		return 0;
	for (uint32_t i = 0; i < head->count; i++) {
		const char *end = (const char *)cks_nccl_batch_next(o);

		CK_FUZZ_CHECK((const unsigned char *)end <= batch + size);
		if (o->what >= CK_NCCL_INIT && o->what <= CK_NCCL_SHRINK) {
			CK_FUZZ_CHECK(cks_nccl_extra_read(o, &x));
			check_names(&x);
			CK_FUZZ_CHECK((const char *)x.items + (size_t)x.count <= end ||
				      x.count == 0 || o->what == CK_NCCL_SPLIT);
		} else {
			CK_FUZZ_CHECK(cks_nccl_is_op(o->what) || o->what <= CK_NCCL_REDOP_END);
		}
		o = (const struct ck_nccl_op *)end;
	}
	return 0;
}
