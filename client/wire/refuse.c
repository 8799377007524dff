/*
 * client/wire/refuse.c - calls on the table that are not supported.
 */
#include "client/link/client.h"
#include "client/link/stub.h"
#include "rpc/proc.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

CUresult ckc_refused(const char *name, bool *told)
{
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		ck_warn("%s is not supported: it returns CUDA_ERROR_NOT_SUPPORTED", name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ckc_not_offered(struct ckc_client *c, uint32_t proc)
{
	if (!__atomic_exchange_n(&c->missing[proc], true, __ATOMIC_RELAXED))
		ck_warn("the server, of another release, does not know %s: it returns "
			"CUDA_ERROR_NOT_SUPPORTED",
			ck_procs[proc].name);
	return CUDA_ERROR_NOT_SUPPORTED;
}
