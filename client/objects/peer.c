/*
 * client/objects/peer.c - access of one device to another's memory. Nothing connects the GPUs of
 * two servers.
 */
#include "client/objects/context.h"

/* The current context, and the id of @handle. PEER_ACCESS_UNSUPPORTED: they are on different
 * servers. */
static CUresult enter_peer(CUcontext handle, uint64_t *ctx, uint64_t *peer)
{
	CUresult err = ckc_enter(ctx);

	if (!err)
		err = ckc_context_id(handle, peer);
	if (!err && ckc_context_known(handle)->client != ckc_context_current()->client)
		err = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	return err;
}

CK_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	uint64_t ctx, peer;
	CUresult err = enter_peer(peerContext, &ctx, &peer);

	return err ? err : ck_wire_cuCtxEnablePeerAccess(ctx, peer, Flags);
}

CK_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
	uint64_t ctx, peer;
	CUresult err = enter_peer(peerContext, &ctx, &peer);

	if (err == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	return err ? err : ck_wire_cuCtxDisablePeerAccess(ctx, peer);
}
