/*
 * server/objects/tpc.c - the GPC of each TPC of a device, which cuBLASLt queries: read from an
 * undocumented table of the driver.
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

#ifdef CK_NO_EXPORT_TABLES

static CUresult read_map(CUdevice device, ck_tpc_map_res *res)
{
	(void)device;
	(void)res;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#else

#define CK_TPC_GET 4
#define CK_TPC_RELEASE 13
#define CK_SMS_A_TPC 2
#define CK_TPC_MAX 4096

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

/* Two bytes for each TPC of @device, whose context is current: its GPC, and its index in that. */
static CUresult read_map(CUdevice device, ck_tpc_map_res *res)
{
	const uintptr_t *table = find_table();
	CUresult (*get)(unsigned char **, unsigned char **);
	CUresult (*release)(unsigned char *, unsigned char *);
	unsigned char *gpc = NULL, *index = NULL;
	size_t count = tpc_count(device);
	CUresult err;

	if (!table || count == 0 || count > CK_TPC_MAX)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(&get, &table[CK_TPC_GET], sizeof(get));
	memcpy(&release, &table[CK_TPC_RELEASE], sizeof(release));
	err = get(&gpc, &index);
	if (err || !gpc || !index)
		return err ? err : CUDA_ERROR_NOT_SUPPORTED;
	res->gpc.gpc_val = malloc(count);
	res->index.index_val = malloc(count);
	if (res->gpc.gpc_val && res->index.index_val) {
		memcpy(res->gpc.gpc_val, gpc, count);
		memcpy(res->index.index_val, index, count);
		res->gpc.gpc_len = res->index.index_len = (u_int)count;
	} else {
		err = CUDA_ERROR_OUT_OF_MEMORY;
	}
	release(gpc, index);
	return err;
}

#endif

CUresult ck_serve_tpc_map(struct cks_request *q, ck_tpc_map_args *a, ck_tpc_map_res *res)
{
	CUdevice device = -1;
	CUresult err;

	(void)q;
	(void)a;
	if (!ck_driver.cuCtxGetDevice)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuCtxGetDevice(&device);
	return err ? err : read_map(device, res);
}
