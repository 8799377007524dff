/*
 * emu/copy/copy_peer.c - copies of boxes between two contexts: the contexts are checked, then
 * copy_nd.c copies by addresses alone.
 */
#include <string.h>

#include "emu/copy/box.h"
#include "emu/core/emu.h"

/* A device side's context exists; @sync: its work so far is waited for. */
static CUresult check_side_context(CUmemorytype type, CUcontext handle, bool sync)
{
	struct ck_emu_context *context;
	CUresult result;

	if (type == CU_MEMORYTYPE_HOST)
		return CUDA_SUCCESS;
	context = ck_emu_object_get(handle, CK_EMU_CONTEXT);
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = sync ? ck_emu_context_wait(context) : ck_emu_context_state(context);
	ck_emu_object_put(&context->base);
	return result;
}

static CUresult prepare_peer_copy(const CUDA_MEMCPY3D_PEER *peer, CUDA_MEMCPY3D *c, bool sync)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	if (!peer)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_side_context(peer->srcMemoryType, peer->srcContext, sync);
	if (result == CUDA_SUCCESS)
		result = check_side_context(peer->dstMemoryType, peer->dstContext, sync);
	_Static_assert(sizeof(*c) == sizeof(*peer), "they differ in the contexts");
	memcpy(c, peer, sizeof(*c));
	c->reserved0 = c->reserved1 = NULL;
	return result;
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	CUDA_MEMCPY3D c;
	CUresult result = prepare_peer_copy(pCopy, &c, true);

	return result == CUDA_SUCCESS ? ck_emu_copy_peer(&c, NULL, true) : result;
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	CUDA_MEMCPY3D c;
	CUresult result = prepare_peer_copy(pCopy, &c, false);

	return result == CUDA_SUCCESS ? ck_emu_copy_peer(&c, hStream, false) : result;
}
