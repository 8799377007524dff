/*
 * client/nccl/library.c - the server's NCCL: whether it is there, its version, unique ids; its last
 * error.
 */
#include <string.h>

#include "client/nccl/nccl.h"
#include "client/wire/servers.h"
#include "rpc/proc.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

/* The text stays until the next call. */
const char *ckc_ncclGetLastError(ncclComm_t handle)
{
	struct ckc_nccl *s = ckc_client_root()->nccl;
	ck_nccl_ask_args args = {.question = CK_NCCL_ASK_LAST_ERROR};
	ck_nccl_ask_res res;
	struct ckc_nccl_comm *comm;
	size_t size;

	ck_lock(&s->lock);
	memcpy(s->told, s->text, sizeof(s->told));
	ck_unlock(&s->lock);
	if (!handle || ckc_nccl_comm_from(handle, &comm))
		return s->told;
	memset(&res, 0, sizeof(res));
	args.comm = comm->number;
	if (ckc_call_aside(comm->client, CK_PROC_nccl_ask, &args, &res) == CUDA_SUCCESS &&
	    res.text.text_len > 0) {
		size = ck_min((size_t)res.text.text_len, sizeof(s->told) - 1);
		memcpy(s->told, res.text.text_val, size);
		s->told[size] = '\0';
	}
	xdr_free((xdrproc_t)xdr_ck_nccl_ask_res, &res);
	return s->told;
}

void ckc_ncclResetDebugInit(void)
{
}

/* --- the library */

static ncclResult_t open_library(struct ckc_client *c)
{
	ck_nccl_open_args args = {.head.ctx = 0};
	ck_nccl_open_res res;
	ncclResult_t ret;
	CUresult err;

	if (!ckc_session_offers(c, CK_PROC_nccl_open))
		return ckc_nccl_fail(ncclSystemError,
				     "the server, of an older release, does not run NCCL");
	memset(&res, 0, sizeof(res));
	err = ckc_call_aside(c, CK_PROC_nccl_open, &args, &res);
	ret = err ? ckc_nccl_from_driver(err) : res.result;
	if (!err && ret) {
		ck_err("%s: %.*s", ckc_session_server(c), (int)res.reason.reason_len,
		       res.reason.reason_val);
		ckc_nccl_fail_with(ret, res.reason.reason_val, res.reason.reason_len);
	}
	if (!ret)
		c->nccl->version = res.code;
	xdr_free((xdrproc_t)xdr_ck_nccl_open_res, &res);
	return ret;
}

ncclResult_t ckc_nccl_ready(struct ckc_client *c)
{
	struct ckc_nccl *s = c->nccl;
	ncclResult_t ret;

	switch (atomic_load(&c->state)) {
	case CK_STATE_READY:
		break;
	case CK_STATE_LOST:
		return ckc_nccl_from_driver(CUDA_ERROR_DEVICE_UNAVAILABLE);
	default:
		return ckc_nccl_fail(ncclUnhandledCudaError, "no session with a server");
	}
	ck_lock(&s->open_lock);
	if (!s->asked)
		s->opened = open_library(c);
	s->asked = true;
	ret = s->opened;
	ck_unlock(&s->open_lock);
	return ret;
}

/* The session for a call without a communicator: that of the current context, else one that lives.
 * Connects if need be. */
static ncclResult_t open_session(struct ckc_client **out)
{
	const struct ckc_context *context = ckc_context_current();
	CUresult err = context ? CUDA_SUCCESS : ckc_servers_open();

	if (err)
		return ckc_nccl_from_driver(err);
	ckc_route_home();
	*out = ckc_client_current();
	return ckc_nccl_ready(*out);
}

/* In a pool, the oldest: all servers have its functions. */
ncclResult_t ckc_ncclGetVersion(int *version)
{
	struct ckc_client *c;
	ncclResult_t ret;

	if (!version)
		return ckc_nccl_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
	ret = open_session(&c);
	if (!ret)
		*version = c->nccl->version;
	for (unsigned int i = 0; !ret && i < ckc_servers_count(); i++) {
		c = ckc_server_session(i);
		if (ckc_nccl_ready(c) == ncclSuccess)
			*version = ck_min(*version, c->nccl->version);
	}
	return ret;
}

/* It has the address of the worker, which waits for the other ranks there. */
ncclResult_t ckc_ncclGetUniqueId(ncclUniqueId *id)
{
	ck_nccl_unique_id_args args = {.head.ctx = 0};
	ck_nccl_unique_id_res res;
	struct ckc_client *c;
	ncclResult_t ret;
	CUresult err;

	if (!id)
		return ckc_nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
	ret = open_session(&c);
	if (ret)
		return ret;
	memset(&res, 0, sizeof(res));
	err = ckc_call_aside(c, CK_PROC_nccl_unique_id, &args, &res);
	ret = err ? ckc_nccl_from_driver(err) : res.result;
	if (!ret && res.id.id_len != sizeof(*id))
		ret = ckc_nccl_fail(ncclInternalError, "the server's unique id has %u bytes",
				    res.id.id_len);
	else if (!err && ret)
		ckc_nccl_fail_with(ret, res.reason.reason_val, res.reason.reason_len);
	if (!ret)
		memcpy(id, res.id.id_val, sizeof(*id));
	xdr_free((xdrproc_t)xdr_ck_nccl_unique_id_res, &res);
	return ret;
}
