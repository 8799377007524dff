/*
 * server/objects/tpc.c - the TPC map, read from an undocumented table of the driver; see tpc.h.
 *
 * The only file of the server that uses such an interface. Provenance: own observation of CUDA
 * 13.0's libraries on an H200 (driver 580); nothing here comes from NVIDIA's sources. In the table
 * with the id below, word 0 is the size in bytes. Word 4 is a function that returns two arrays from
 * malloc with one byte per TPC; word 13 frees both. Build with -DCK_NO_EXPORT_TABLES to omit it.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/session.h"
#include "server/objects/tpc.h"

#ifdef CK_NO_EXPORT_TABLES

CUresult cks_tpc_map(CUdevice device, struct cks_tpc *out)
{
	(void)device;
	out->count = 0;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#else

#define CK_TPC_GET 4
#define CK_TPC_RELEASE 13
#define CK_SMS_A_TPC 2

static const CUuuid table_id = {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0,
				 0xf1, 0xe7, 0xdd, 0x8b, 0xca}};

/* The table's words, or NULL if the driver has no table of that size. */
static const uintptr_t *find_table(void)
{
	const void *table = NULL;

	if (!ck_driver.cuGetExportTable ||
	    ck_driver.cuGetExportTable(&table, &table_id) != CUDA_SUCCESS || !table)
		return NULL;
	if (*(const uintptr_t *)table < (CK_TPC_RELEASE + 1) * sizeof(uintptr_t))
		return NULL;
	return table;
}

static size_t tpc_count(CUdevice device)
{
	int sms = 0;

	if (!ck_driver.cuDeviceGetAttribute ||
	    ck_driver.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device))
		return 0;
	return sms > 0 ? (size_t)sms / CK_SMS_A_TPC : 0;
}

CUresult cks_tpc_map(CUdevice device, struct cks_tpc *out)
{
	const uintptr_t *table = find_table();
	CUresult (*get)(unsigned char **, unsigned char **);
	CUresult (*release)(unsigned char *, unsigned char *);
	unsigned char *gpc = NULL, *index = NULL;
	size_t count = tpc_count(device);
	CUdevice current = -1;
	CUresult err;

	out->count = 0;
	if (!table || count == 0 || count > CK_TPC_MAX || !ck_driver.cuCtxGetDevice)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuCtxGetDevice(&current);
	if (err || current != device)
		return CUDA_ERROR_INVALID_CONTEXT;
	memcpy(&get, &table[CK_TPC_GET], sizeof(get));
	memcpy(&release, &table[CK_TPC_RELEASE], sizeof(release));
	err = get(&gpc, &index);
	if (err || !gpc || !index)
		return err ? err : CUDA_ERROR_NOT_SUPPORTED;
	memcpy(out->gpc, gpc, count);
	memcpy(out->index, index, count);
	out->count = count;
	release(gpc, index);
	return CUDA_SUCCESS;
}

#endif

CUresult ck_serve_tpc_map(struct cks_request *q, ck_tpc_map_args *a, ck_tpc_map_res *res)
{
	struct cks_tpc map = {0};
	CUdevice device = -1;
	CUresult err;

	(void)q;
	(void)a;
	if (!ck_driver.cuCtxGetDevice)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuCtxGetDevice(&device);
	if (!err)
		err = cks_tpc_map(device, &map);
	if (err)
		return err;
	res->gpc.gpc_val = malloc(map.count);
	res->index.index_val = malloc(map.count);
	if (!res->gpc.gpc_val || !res->index.index_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(res->gpc.gpc_val, map.gpc, map.count);
	memcpy(res->index.index_val, map.index, map.count);
	res->gpc.gpc_len = res->index.index_len = (u_int)map.count;
	return CUDA_SUCCESS;
}
