/*
 * client/tpc.c - the TPC map of a device, asked of the server once a context is current.
 */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/export_tables.h"

CUresult ck_tpc_map_fetch(CUdevice device, unsigned char *gpc, unsigned char *index, size_t tpcs)
{
	void *gpcs = NULL, *indices = NULL;
	size_t gpcs_size = 0, indices_size = 0;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	(void)device;	/* the server answers for the device of the context */
	if (!err)
		err = ck_wire_ck_tpc_map(ctx, &gpcs, &gpcs_size, &indices, &indices_size);
	if (!err && (gpcs_size < tpcs || indices_size < tpcs))
		err = CUDA_ERROR_NOT_FOUND;	/* never shorter than what the caller will read */
	if (!err) {
		memcpy(gpc, gpcs, tpcs);
		memcpy(index, indices, tpcs);
	}
	free(gpcs);
	free(indices);
	return err;
}
