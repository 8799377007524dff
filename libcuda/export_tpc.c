/*
 * libcuda/export_tpc.c - table 9 behind cuGetExportTable: which GPC each TPC of the device is in;
 * differs from card to card. Where the facts are from: export_tables.c.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gen/api.h"
#include "libcuda/export_tables.h"
#include "libcuda/locks.h"
#include "libcuda/libcuda.h"
#include "util/util.h"

#ifndef CK_NO_EXPORT_TABLES

CK_EXPORT_UNUSED(tpc)

struct tpc_map {
	bool asked;
	CUresult err;
	size_t count;
	unsigned char *gpc, *index;
};

/* A query that failed is not repeated. */
static void tpc_map_fill(struct tpc_map *map, CUdevice device)
{
	int sms = 0;

	cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	map->asked = true;
	map->count = (size_t)ck_max(sms, 0) / 2;
	map->gpc = calloc(map->count + 1, 1);
	map->index = calloc(map->count + 1, 1);
	map->err = CUDA_ERROR_OUT_OF_MEMORY;
	if (!map->gpc || !map->index)
		return;
	map->err = CUDA_ERROR_NOT_SUPPORTED;
	if (map->count > 0)
		map->err = ck_libcuda_tpc_map(device, map->gpc, map->index, map->count);
}

/* Two arrays for the caller, who gives them back through tpc_free. */
static CUresult tpc_get(unsigned char **gpc, unsigned char **index)
{
	static struct ck_mutex maps_lock = CK_MUTEX(CK_RANK_TPC_MAPS);
	static struct tpc_map maps[CK_LIBCUDA_DEVICES];
	struct tpc_map *map;
	CUdevice device;
	CUresult err;

	if (!gpc || !index)
		return CUDA_ERROR_INVALID_VALUE;
	*gpc = *index = NULL;
	err = cuCtxGetDevice(&device);
	if (err)
		return err;
	if (device >= CK_LIBCUDA_DEVICES)
		return CUDA_ERROR_NOT_SUPPORTED;
	map = &maps[device];
	ck_lock(&maps_lock);
	if (!map->asked)
		tpc_map_fill(map, device);
	ck_unlock(&maps_lock);
	if (map->err)
		return map->err;
	*gpc = malloc(map->count);
	*index = malloc(map->count);
	if (!*gpc || !*index) {
		free(*gpc);
		free(*index);
		*gpc = *index = NULL;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memcpy(*gpc, map->gpc, map->count);
	memcpy(*index, map->index, map->count);
	return CUDA_SUCCESS;
}

static CUresult tpc_free(void *gpc, void *index)
{
	free(gpc);
	free(index);
	return CUDA_SUCCESS;
}

const void *const ck_export_tpc[17] = {
	CK_EXPORT_WORDS(17),
	[1 ... 3] = tpc_unused,
	tpc_get,
	[5 ... 12] = tpc_unused,
	tpc_free,
	[14 ... 16] = tpc_unused,
};

#endif
