/*
 * client/objects/libcuda_backend.c - the functions that libcuda/ requires of this library; see
 * libcuda/libcuda.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/link/stats.h"
#include "libcuda/libcuda.h"
#include "libcuda/procaddress.h"

CUresult ck_libcuda_context(CUcontext handle, CUcontext *context)
{
	const struct ckc_client *c = ckc_client_current();

	if (atomic_load_explicit(&c->state, memory_order_relaxed) == CK_STATE_EXITING)
		return CUDA_ERROR_DEINITIALIZED;
	if (!handle || handle == (CUcontext)-1)
		*context = (CUcontext)ckc_context_current();
	else
		*context = ckc_object_check(handle, CK_OBJECT_CONTEXT);
	return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult ck_libcuda_primary(CUcontext *context, CUdevice device)
{
	CUresult err = ckc_process_check();
	const struct ckc_gpu *gpu;

	if (err)
		return err;
	gpu = ckc_gpu(device);
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	*context = (CUcontext)gpu->primary;
	return CUDA_SUCCESS;
}

/* Fetch the map from the server; the first reply does not contain it. */
static CUresult tpc_map_fetch(unsigned char *gpc, unsigned char *index, size_t tpcs)
{
	void *gpcs = NULL, *indices = NULL;
	size_t gpcs_size = 0, indices_size = 0;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err) /* the server answers for the device of the context */
		err = ck_wire_tpc_map(ctx, &gpcs, &gpcs_size, &indices, &indices_size);
	if (!err && (gpcs_size < tpcs || indices_size < tpcs))
		err = CUDA_ERROR_NOT_FOUND; /* never fewer bytes than the caller will read */
	if (!err) {
		memcpy(gpc, gpcs, tpcs);
		memcpy(index, indices, tpcs);
	}
	free(gpcs);
	free(indices);
	return err;
}

CUresult ck_libcuda_tpc_map(CUdevice device, unsigned char *gpc, unsigned char *index, size_t tpcs)
{
	const ck_device *facts = ckc_gpu(device)->facts;

	if (facts->tpc_gpc.tpc_gpc_len < tpcs || facts->tpc_index.tpc_index_len < tpcs)
		return tpc_map_fetch(gpc, index, tpcs);
	memcpy(gpc, facts->tpc_gpc.tpc_gpc_val, tpcs);
	memcpy(index, facts->tpc_index.tpc_index_val, tpcs);
	return CUDA_SUCCESS;
}

bool ck_libcuda_inside(bool inside)
{
	bool was = ckc_inside_callback;

	ckc_inside_callback = inside;
	return was;
}

int ck_libcuda_version(void)
{
	const struct ckc_client *c = ckc_client_root();

	return c->driver_version ? c->driver_version : CK_CUDA_VERSION_ON_TABLE;
}

/* Programs get addresses before they call anything, so counting begins here. */
void *ck_libcuda_address(const struct ck_entry *entry)
{
	ckc_stats_init();
	return unlikely(ckc_stats_on) && entry->counted ? entry->counted : entry->function;
}
