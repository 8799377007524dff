/*
 * client/nccl/table.c - the table of functions for the stand-in library; calls that are refused.
 */
#include <string.h>

#include "client/nccl/nccl.h"
#include "client/link/hooks.h"
#include "nccl/library.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

CK_HOOK(own_table, nccl, .id = CK_NCCL_CLIENT_UUID, .table = &ckc_nccl_table);

ncclResult_t ckc_nccl_refused(const char *name)
{
	static bool told;

	if (!__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		ck_warn("%s is not supported: it returns ncclInvalidUsage", name);
	return ckc_nccl_fail(ncclInvalidUsage, "%s is not possible with NCCL in the workers", name);
}
