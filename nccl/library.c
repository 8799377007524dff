/*
 * nccl/library.c - libnccl.so.2 for programs under Cricket's client. All that it does is in the
 * client (client/nccl/).
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "nccl/library.h"

/* Resolved in the driver library of the process. */
CUresult cuGetExportTable(const void **table, const CUuuid *id);

static _Atomic(const struct ck_nccl_table *) known;
static atomic_bool told;

const struct ck_nccl_table *ck_nccl_table(void)
{
	static const CUuuid id = CK_NCCL_CLIENT_UUID;
	const struct ck_nccl_table *table = atomic_load_explicit(&known, memory_order_acquire);
	const void *found = NULL;

	if (table)
		return table;
	if (cuGetExportTable(&found, &id) != CUDA_SUCCESS)
		return NULL;
	atomic_store_explicit(&known, found, memory_order_release);
	return found;
}

ncclResult_t ck_nccl_absent(void)
{
	if (!atomic_exchange(&told, true))
		fprintf(stderr, "cricket: libnccl.so.2: the driver of this process is not cricket-client.so, or an "
				"older one\n");
	return ncclSystemError;
}

const char *ck_nccl_absent_text(void)
{
	ck_nccl_absent();
	return "the driver of this process is not cricket-client.so, or an older one";
}
