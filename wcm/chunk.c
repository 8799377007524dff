/*
 * wcm/chunk.c - chunks: made by their owner, and opened by the other ranks.
 *
 * Ranks that are threads of one process have one address space: they take the owner's address, and
 * their device is let in. In another process the chunk is opened by CUDA's IPC handle (ipc), or
 * imported from a descriptor and mapped (vmm).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "util/log.h"
#include "util/util.h"
#include "wcm/lib.h"

CK_LOG_DEFINE("wcm");

/* Identifies this process among all others, across namespaces. */
static uint64_t process_key;

static void draw_key(void)
{
	if (getrandom(&process_key, sizeof(process_key), 0) != (ssize_t)sizeof(process_key))
		process_key = (uint64_t)getpid();
}

static void identify_process(uint64_t process[2])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, draw_key);
	process[0] = process_key;
	process[1] = (uint64_t)getpid(); /* a fork has the same key */
}

static bool is_near(const struct ck_wcm_offer *offer)
{
	uint64_t process[2];

	identify_process(process);
	return memcmp(process, offer->process, sizeof(process)) == 0;
}

/* --- descriptors: vmm */

static int let_in(const wcm_group *g, CUdeviceptr address, size_t size)
{
	CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, g->device},
				CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	return ck_wcm_status_of(g->driver->cuMemSetAccess(address, size, &desc, 1),
				"cuMemSetAccess");
}

/* Map a handle, which is used up, for this rank's device. */
static int map_handle(const wcm_group *g, CUmemGenericAllocationHandle handle, size_t size,
		      CUdeviceptr *address)
{
	const struct ck_wcm_driver *d = g->driver;
	CUdeviceptr at = 0;
	int status;

	status =
		ck_wcm_status_of(d->cuMemAddressReserve(&at, size, 0, 0, 0), "cuMemAddressReserve");
	if (status != WCM_OK)
		goto release;
	status = ck_wcm_status_of(d->cuMemMap(at, size, 0, handle, 0), "cuMemMap");
	if (status != WCM_OK)
		goto free_address;
	status = let_in(g, at, size);
	if (status != WCM_OK)
		goto unmap;
	d->cuMemRelease(handle);
	*address = at;
	return WCM_OK;
unmap:
	d->cuMemUnmap(at, size);
free_address:
	d->cuMemAddressFree(at, size);
release:
	d->cuMemRelease(handle);
	return status;
}

static int can_export(const wcm_group *g)
{
	int vmm = 0, fd = 0;

	if (g->driver->cuDeviceGetAttribute(
		    &vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, g->device) ||
	    g->driver->cuDeviceGetAttribute(
		    &fd, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
		    g->device))
		return WCM_EIO;
	return vmm && fd ? WCM_OK : WCM_ENOTSUP;
}

static int create_piece(const wcm_group *g, size_t size, struct ck_wcm_chunk *piece, int *fd)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, g->device}};
	const struct ck_wcm_driver *d = g->driver;
	CUmemGenericAllocationHandle handle;
	int status = can_export(g), out = -1;
	size_t granularity = 0;

	if (status != WCM_OK)
		return status;
	status = ck_wcm_status_of(d->cuMemGetAllocationGranularity(
					  &granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
				  "cuMemGetAllocationGranularity");
	if (status != WCM_OK)
		return status;
	if (granularity == 0 || ck_add_overflow(size, granularity - 1, &size))
		return WCM_EINVAL;
	size -= size % granularity;
	status = ck_wcm_status_of(d->cuMemCreate(&handle, size, &prop, 0), "cuMemCreate");
	if (status != WCM_OK)
		return status;
	status =
		ck_wcm_status_of(d->cuMemExportToShareableHandle(
					 &out, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
				 "cuMemExportToShareableHandle");
	if (status != WCM_OK) {
		d->cuMemRelease(handle);
		return status;
	}
	status = map_handle(g, handle, size, &piece->address);
	if (status != WCM_OK) {
		close(out);
		return status;
	}
	*fd = out;
	piece->size = size;
	piece->how = CK_WCM_CREATED;
	return WCM_OK;
}

static int import_piece(const wcm_group *g, const struct ck_wcm_offer *offer, int fd,
			struct ck_wcm_chunk *piece)
{
	CUmemGenericAllocationHandle handle;
	int status;

	status = ck_wcm_status_of(
		g->driver->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
							  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		"cuMemImportFromShareableHandle");
	if (status == WCM_OK)
		status = map_handle(g, handle, offer->size, &piece->address);
	if (status != WCM_OK)
		return status;
	piece->size = offer->size;
	piece->how = CK_WCM_IMPORTED;
	return WCM_OK;
}

/* --- CUDA's handles: ipc */

static int allocate_piece(const wcm_group *g, size_t size, struct ck_wcm_chunk *piece,
			  CUipcMemHandle *handle)
{
	const struct ck_wcm_driver *d = g->driver;
	int status = ck_wcm_status_of(d->cuMemAlloc_v2(&piece->address, size), "cuMemAlloc");

	if (status != WCM_OK)
		return status;
	status =
		ck_wcm_status_of(d->cuIpcGetMemHandle(handle, piece->address), "cuIpcGetMemHandle");
	if (status != WCM_OK)
		d->cuMemFree_v2(piece->address);
	else
		piece->how = CK_WCM_MADE;
	return status;
}

static int open_handle(const wcm_group *g, const struct ck_wcm_offer *offer,
		       struct ck_wcm_chunk *piece)
{
	int status = ck_wcm_status_of(
		g->driver->cuIpcOpenMemHandle_v2(&piece->address, offer->handle,
						 CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		"cuIpcOpenMemHandle");

	if (status == WCM_OK)
		piece->how = CK_WCM_OPENED;
	return status;
}

/* --- ranks of one process */

static int open_near(const wcm_group *g, const struct ck_wcm_offer *offer,
		     struct ck_wcm_chunk *piece)
{
	int status = WCM_OK;
	CUresult err;

	if (offer->device != g->device && offer->size) {
		status = let_in(g, offer->address, offer->size);
	} else if (offer->device != g->device) {
		err = g->driver->cuCtxEnablePeerAccess((CUcontext)(uintptr_t)offer->context, 0);
		if (err != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
			status = ck_wcm_status_of(err, "cuCtxEnablePeerAccess");
	}
	if (status != WCM_OK)
		return status;
	piece->address = offer->address;
	piece->how = CK_WCM_NEAR;
	return WCM_OK;
}

/* Whether this rank's device reaches the owner's, as far as this process can see both. */
static int check_peer_access(const wcm_group *g, const CUuuid *owner)
{
	const struct ck_wcm_driver *d = g->driver;
	int can = 0;
	CUuuid uuid;

	for (int i = 0; i < d->device_count; i++) {
		if (d->cuDeviceGetUuid(&uuid, i) || memcmp(&uuid, owner, sizeof(uuid)) != 0)
			continue;
		if (i == g->device)
			return WCM_OK;
		if (d->cuDeviceCanAccessPeer(&can, g->device, i) || !can) {
			ck_err("device %d cannot reach the memory of device %d", g->device, i);
			return WCM_ENOPEER;
		}
	}
	return WCM_OK; /* not seen here: the driver will say */
}

/* --- functions for memory.c */

int ck_wcm_chunk_make(const wcm_group *g, int backing, size_t size, struct ck_wcm_chunk *piece,
		      struct ck_wcm_offer *offer, int *fd)
{
	memset(piece, 0, sizeof(*piece));
	memset(offer, 0, sizeof(*offer));
	*fd = -1;
	identify_process(offer->process);
	offer->device = g->device;
	offer->context = (uint64_t)(uintptr_t)g->context;
	offer->status = ck_wcm_status_of(g->driver->cuDeviceGetUuid(&offer->uuid, g->device),
					 "cuDeviceGetUuid");
	if (offer->status == WCM_OK)
		offer->status = backing == WCM_VMM ? create_piece(g, size, piece, fd)
						   : allocate_piece(g, size, piece, &offer->handle);
	offer->address = piece->address;
	offer->size = piece->size;
	return offer->status;
}

int ck_wcm_chunk_open(const wcm_group *g, const struct ck_wcm_offer *offer, int fd,
		      struct ck_wcm_chunk *piece)
{
	int status = check_peer_access(g, &offer->uuid);

	memset(piece, 0, sizeof(*piece));
	if (status != WCM_OK)
		return status;
	if (is_near(offer))
		return open_near(g, offer, piece);
	if (offer->size)
		return fd >= 0 ? import_piece(g, offer, fd, piece) : WCM_EVERSION;
	return open_handle(g, offer, piece);
}

void ck_wcm_chunk_close(const wcm_group *g, struct ck_wcm_chunk *piece)
{
	const struct ck_wcm_driver *d = g->driver;

	switch (piece->how) {
	case CK_WCM_MADE:
		d->cuMemFree_v2(piece->address);
		break;
	case CK_WCM_OPENED:
		d->cuIpcCloseMemHandle(piece->address);
		break;
	case CK_WCM_CREATED:
	case CK_WCM_IMPORTED:
		d->cuMemUnmap(piece->address, piece->size);
		d->cuMemAddressFree(piece->address, piece->size);
		break;
	case CK_WCM_NEAR:
	case CK_WCM_NONE:
		break;
	}
	piece->how = CK_WCM_NONE;
}
