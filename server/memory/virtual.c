/*
 * server/memory/virtual.c - virtual memory management, and sharing within a session.
 *
 * Mappings are noted in allocation.c's table, so that the bounds of copies can be checked. A
 * descriptor exported by the driver stays in this process and is closed in the same call.
 */
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/memory/share.h"
#include "server/memory/virtual.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define ACCESS_MAX 1024 /* descriptors in one message */

bool cks_virtual_supported(void)
{
	return ck_driver.cuMemAddressReserve && ck_driver.cuMemAddressFree &&
	       ck_driver.cuMemCreate && ck_driver.cuMemRelease && ck_driver.cuMemMap &&
	       ck_driver.cuMemUnmap && ck_driver.cuMemSetAccess;
}

bool cks_virtual_reserve(CUdeviceptr at, size_t size)
{
	CUdeviceptr got = 0;
	CUresult err = ck_driver.cuMemAddressReserve(&got, size, 0, at, 0);

	if (err)
		ck_debug("nothing is reserved at %#llx: %s", (unsigned long long)at,
			 cks_error_name(err));
	else if (got != at)
		ck_driver.cuMemAddressFree(got, size);
	return !err && got == at;
}

CUresult cks_virtual_grant(CUdeviceptr at, size_t size, uint64_t writers, uint64_t readers)
{
	CUmemAccessDesc desc[CK_MAX_DEVICES];
	size_t count = 0;

	for (int i = 0; i < CK_MAX_DEVICES; i++) {
		uint64_t bit = (uint64_t)1 << i;

		if ((writers | readers) & bit)
			desc[count++] = (CUmemAccessDesc){
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i},
				.flags = writers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
						       : CU_MEM_ACCESS_FLAGS_PROT_READ,
			};
	}
	return count > 0 ? ck_driver.cuMemSetAccess(at, size, desc, count) : CUDA_SUCCESS;
}

/* Copy a structure from a message; drop its pointer, which is for Windows only. */
static CUmemAllocationProp prop_of(const void *bytes)
{
	CUmemAllocationProp prop;

	memcpy(&prop, bytes, sizeof(prop));
	prop.win32HandleMetaData = NULL;
	return prop;
}

CUresult ck_serve_cuMemCreate(struct cks_request *q, cuMemCreate_args *a, cuMemCreate_res *res)
{
	CUmemAllocationProp prop = prop_of(a->prop);
	CUmemGenericAllocationHandle handle = 0;
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemCreate || !ck_driver.cuMemRelease ||
	    !cks_location_allowed(&prop.location))
		return CUDA_ERROR_NOT_SUPPORTED;
	cks_lease_await_thaw(q);
	err = ck_driver.cuMemCreate(&handle, a->size, &prop, a->flags);
	if (err)
		return err;
	err = cks_physical_put(q, a->handle, handle);
	if (err)
		ck_driver.cuMemRelease(handle);
	else
		cks_memory_created(q->session->memory, a->handle, a->size);
	return err;
}

CUresult ck_serve_cuMemGetAllocationGranularity(struct cks_request *q,
						cuMemGetAllocationGranularity_args *a,
						cuMemGetAllocationGranularity_res *res)
{
	CUmemAllocationProp prop = prop_of(a->prop);
	size_t granularity = 0;
	CUresult err;

	(void)q;
	if (!ck_driver.cuMemGetAllocationGranularity)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemGetAllocationGranularity(&granularity, &prop,
						      (CUmemAllocationGranularity_flags)a->option);
	res->granularity = granularity;
	return err;
}

/* --- mappings */

/* Held over changes of both the driver and the tables: a request for access finds each mapping with
 * its rights. */
static struct ck_mutex mappings_lock = CK_MUTEX(CK_RANK_MAPPINGS);

/* window.c owns the window: it forgets a range first and then unmaps it. */
static bool in_window(const struct cks_session *s, CUdeviceptr at, size_t size)
{
	return at < s->window_hi && (at >= s->window_lo || size > s->window_lo - at);
}

static CUresult map_memory(struct cks_request *q, const cuMemMap_args *a,
			   CUmemGenericAllocationHandle handle)
{
	CUresult err = ck_driver.cuMemMap(a->ptr, a->size, a->offset, handle, a->flags);

	if (err)
		return err;
	err = cks_memory_map(q->session->memory, a->ptr, a->size, handle,
			     a->offset == 0 &&
				     cks_memory_is_whole(q->session->memory, a->handle, a->size));
	if (err)
		ck_driver.cuMemUnmap(a->ptr, a->size);
	return err;
}

CUresult ck_serve_cuMemMap(struct cks_request *q, cuMemMap_args *a, cuMemMap_res *res)
{
	CUmemGenericAllocationHandle handle;
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemMap || !ck_driver.cuMemUnmap)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_physical_find(q, a->handle, &handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if (in_window(q->session, a->ptr, a->size) ||
	    cks_memory_leased(q->session->memory, a->ptr, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&mappings_lock);
	err = map_memory(q, a, handle);
	ck_unlock(&mappings_lock);
	return err;
}

CUresult ck_serve_cuMemUnmap(struct cks_request *q, cuMemUnmap_args *a, cuMemUnmap_res *res)
{
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemUnmap)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (cks_memory_leased(q->session->memory, a->ptr, a->size))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&mappings_lock);
	err = ck_driver.cuMemUnmap(a->ptr, a->size);
	if (!err)
		cks_memory_unmap(q->session->memory, a->ptr, a->size);
	cks_share_check(q);
	ck_unlock(&mappings_lock);
	return err;
}

CUresult ck_serve_cuMemRelease(struct cks_request *q, cuMemRelease_args *a, void *res)
{
	CUmemGenericAllocationHandle handle;
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemRelease)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_physical_find(q, a->handle, &handle))
		return CUDA_ERROR_INVALID_HANDLE;
	ck_lock(&mappings_lock);
	cks_handle_remove(q, a->handle);
	cks_memory_released(q->session->memory, a->handle);
	err = ck_driver.cuMemRelease(handle);
	cks_share_check(q);
	ck_unlock(&mappings_lock);
	return err;
}

/* Is any memory in the range read-only, so that write access must be refused? */
static bool has_read_only(struct cks_memory *m, CUdeviceptr at, size_t size)
{
	CUdeviceptr end = at + size;
	struct cks_allocation found;

	while (at < end && cks_memory_find(m, at, &found)) {
		if (cks_share_is_read_only(found.physical))
			return true;
		at = found.address + found.size;
	}
	return false;
}

/* Leases stay reachable for all devices of the session: copies need it (lease.h). */
static CUresult set_access(struct cks_memory *m, CUdeviceptr at, size_t size, CUmemAccessDesc *desc,
			   size_t count)
{
	bool leased = cks_memory_leased(m, at, size);
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
		    has_read_only(m, at, size))
			return CUDA_ERROR_NOT_PERMITTED;
		if (!leased || desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			desc[kept++] = desc[i];
	}
	return kept > 0 ? ck_driver.cuMemSetAccess(at, size, desc, kept) : CUDA_SUCCESS;
}

CUresult ck_serve_set_access(struct cks_request *q, ck_set_access_args *a, ck_set_access_res *res)
{
	CUmemAccessDesc desc[ACCESS_MAX];
	size_t bytes = a->desc.desc_len;
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemSetAccess)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (bytes == 0 || bytes > sizeof(desc) || bytes % sizeof(desc[0]))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(desc, a->desc.desc_val, bytes);
	ck_lock(&mappings_lock);
	err = set_access(q->session->memory, a->ptr, a->size, desc, bytes / sizeof(desc[0]));
	ck_unlock(&mappings_lock);
	return err;
}

/* --- further handles of the same memory */

CUresult cks_physical_adopt(struct cks_request *q, uint64_t id, CUmemGenericAllocationHandle handle,
			    char *out)
{
	CUmemAllocationProp prop;
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	memset(&prop, 0, sizeof(prop));
	if (ck_driver.cuMemGetAllocationPropertiesFromHandle)
		err = ck_driver.cuMemGetAllocationPropertiesFromHandle(&prop, handle);
	prop.win32HandleMetaData = NULL;
	memcpy(out, &prop, sizeof(prop));
	if (!err)
		err = cks_physical_put(q, id, handle);
	if (err)
		ck_driver.cuMemRelease(handle);
	return err;
}

/* The driver returns the same handle again and counts it; here, each one gets its own id. */
CUresult ck_serve_physical_retain(struct cks_request *q, ck_physical_retain_args *a,
				  ck_physical_retain_res *res)
{
	CUmemGenericAllocationHandle handle = 0;
	uint64_t known;
	CUresult err;

	if (!ck_driver.cuMemRetainAllocationHandle || !ck_driver.cuMemRelease)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)a->ptr);
	if (!err && cks_handles_known(q->session->handles, CK_KIND_PHYSICAL,
				      (void *)(uintptr_t)handle, &known))
		cks_memory_tie(q->session->memory, known, handle);
	return err ? err : cks_physical_adopt(q, a->object, handle, res->prop);
}

/* --- sharing: out of the driver and into it again */

static CUresult export_physical(CUmemGenericAllocationHandle handle, int *fd)
{
	if (!ck_driver.cuMemExportToShareableHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuMemExportToShareableHandle(fd, handle,
						      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult export_pool(CUmemoryPool pool, int *fd)
{
	if (!ck_driver.cuMemPoolExportToShareableHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	return ck_driver.cuMemPoolExportToShareableHandle(
		fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

/*
 * The driver decides whether the object may be exported. The export is deposited with the broker;
 * without one, the ticket is empty, and only this session can import the object.
 */
CUresult ck_serve_export(struct cks_request *q, ck_export_args *a, ck_export_res *res)
{
	CUmemGenericAllocationHandle handle = 0;
	struct cks_ticket ticket = {0};
	CUmemoryPool pool;
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	int fd = -1;

	if (a->type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (cks_physical_find(q, a->object, &handle))
		err = export_physical(handle, &fd);
	else if (cks_pool_find(q, a->object, &pool))
		err = export_pool(pool, &fd);
	if (!err && handle && cks_share_is_read_only(handle))
		err = CUDA_ERROR_NOT_PERMITTED;
	else if (!err && (handle ? cks_share_physical(handle, fd, &ticket)
				 : cks_share_pool(pool, fd, &ticket)))
		memset(&ticket, 0, sizeof(ticket));
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	return cks_ticket_answer(&ticket, &res->ticket.ticket_val, &res->ticket.ticket_len);
}

/* Takes ownership of @fd. */
static CUresult import_physical_fd(struct cks_request *q, uint64_t id, int fd, char *prop)
{
	CUmemGenericAllocationHandle handle = 0;
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuMemImportFromShareableHandle && ck_driver.cuMemRelease)
		err = ck_driver.cuMemImportFromShareableHandle(
			&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	return err ? err : cks_physical_adopt(q, id, handle, prop);
}

static CUresult import_physical(struct cks_request *q, uint64_t id,
				CUmemGenericAllocationHandle source, char *prop)
{
	CUresult err;
	int fd = -1;

	err = export_physical(source, &fd);
	return err ? err : import_physical_fd(q, id, fd, prop);
}

/* Takes ownership of @fd. */
static CUresult import_pool_fd(struct cks_request *q, uint64_t id, int fd)
{
	CUmemoryPool pool = NULL;
	CUresult err = CUDA_ERROR_NOT_SUPPORTED;

	if (ck_driver.cuMemPoolImportFromShareableHandle && ck_driver.cuMemPoolDestroy)
		err = ck_driver.cuMemPoolImportFromShareableHandle(
			&pool, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	close(fd);
	if (!err)
		err = cks_pool_put(q, id, pool);
	if (err && pool)
		ck_driver.cuMemPoolDestroy(pool);
	return err;
}

static CUresult import_pool(struct cks_request *q, uint64_t id, CUmemoryPool source)
{
	int fd = -1;
	CUresult err = export_pool(source, &fd);

	return err ? err : import_pool_fd(q, id, fd);
}

CUresult ck_serve_import(struct cks_request *q, ck_import_args *a, ck_import_res *res)
{
	CUmemGenericAllocationHandle handle;
	CUmemoryPool pool;

	/* refuse a further handle of read-only memory: its restriction would be lost */
	if (cks_physical_find(q, a->source, &handle))
		return cks_share_is_read_only(handle)
			       ? CUDA_ERROR_NOT_PERMITTED
			       : import_physical(q, a->object, handle, res->prop);
	if (cks_pool_find(q, a->source, &pool))
		return import_pool(q, a->object, pool);
	return CUDA_ERROR_INVALID_HANDLE;
}

/* Import the deposit of another session. */
CUresult ck_serve_import_ticket(struct cks_request *q, ck_import_ticket_args *a,
				ck_import_ticket_res *res)
{
	size_t size = 0;
	CUresult err;
	int fd = -1;

	err = cks_share_claim(a->ticket.ticket_val, a->ticket.ticket_len, NULL, 0, &size, &fd);
	if (err || fd < 0)
		return err ? err : CUDA_ERROR_INVALID_VALUE;
	return a->pool ? import_pool_fd(q, a->object, fd)
		       : import_physical_fd(q, a->object, fd, res->prop);
}
