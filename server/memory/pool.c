/*
 * server/memory/pool.c - memory pools; allocations from them are in memory.c.
 */
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/memory.h"
#include "server/session/session.h"
#include "server/memory/share.h"

#define ACCESS_MAX 1024 /* descriptors in one message */

CUresult ck_serve_cuMemPoolCreate(struct cks_request *q, cuMemPoolCreate_args *a,
				  cuMemPoolCreate_res *res)
{
	CUmemPoolProps props;
	CUmemoryPool pool = NULL;
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemPoolCreate || !ck_driver.cuMemPoolDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	memcpy(&props, a->poolProps, sizeof(props));
	props.win32SecurityAttributes = NULL;
	if (!cks_pool_allowed(&props))
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemPoolCreate(&pool, &props);
	if (err)
		return err;
	err = cks_pool_put(q, a->pool, pool);
	if (err)
		ck_driver.cuMemPoolDestroy(pool);
	return err;
}

/* The pool that @ask knows of a GPU. */
static CUresult name_pool(struct cks_request *q, const char *bytes, int type, uint64_t *name,
			  CUresult (*ask)(CUmemoryPool *pool, const CUmemLocation *location,
					  CUmemAllocationType type))
{
	CUmemPoolProps props = {.allocType = (CUmemAllocationType)type};
	CUmemoryPool pool = NULL;
	CUresult err;

	memcpy(&props.location, bytes, sizeof(props.location));
	if (!ask || !cks_pool_allowed(&props))
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ask(&pool, &props.location, props.allocType);
	return err ? err : cks_handle_name(q, CK_KIND_POOL, pool, 0, name);
}

CUresult ck_serve_cuMemGetDefaultMemPool(struct cks_request *q, cuMemGetDefaultMemPool_args *a,
					 cuMemGetDefaultMemPool_res *res)
{
	return name_pool(q, a->location, a->type, &res->pool_out, ck_driver.cuMemGetDefaultMemPool);
}

CUresult ck_serve_cuMemGetMemPool(struct cks_request *q, cuMemGetMemPool_args *a,
				  cuMemGetMemPool_res *res)
{
	return name_pool(q, a->location, a->type, &res->pool, ck_driver.cuMemGetMemPool);
}

/* First take back what was shared: the driver may give the next pool the same handle. */
CUresult ck_serve_cuMemPoolDestroy(struct cks_request *q, cuMemPoolDestroy_args *a,
				   cuMemPoolDestroy_res *res)
{
	CUmemoryPool pool;
	CUresult err;

	(void)res;
	if (!ck_driver.cuMemPoolDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_pool_find(q, a->pool, &pool))
		return CUDA_ERROR_INVALID_HANDLE;
	cks_share_freed((uintptr_t)pool);
	err = ck_driver.cuMemPoolDestroy(pool);
	if (!err)
		cks_handle_remove(q, a->pool);
	return err;
}

/* An int and a 64-bit word can share an address, because both are little-endian. */
CUresult ck_serve_pool_attribute(struct cks_request *q, ck_pool_attribute_args *a,
				 ck_pool_attribute_res *res)
{
	CUmemPool_attribute attr = (CUmemPool_attribute)a->attr;
	cuuint64_t value = a->set ? a->value : 0;
	CUmemoryPool pool;
	CUresult err;

	if (!ck_driver.cuMemPoolGetAttribute || !ck_driver.cuMemPoolSetAttribute)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_pool_find(q, a->pool, &pool))
		return CUDA_ERROR_INVALID_HANDLE;
	/* the size of other attributes is unknown */
	if (attr < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
	    attr > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	err = a->set ? ck_driver.cuMemPoolSetAttribute(pool, attr, &value)
		     : ck_driver.cuMemPoolGetAttribute(pool, attr, &value);
	res->result = value;
	return err;
}

CUresult ck_serve_pool_access(struct cks_request *q, ck_pool_access_args *a,
			      ck_pool_access_res *res)
{
	CUmemAccessDesc desc[ACCESS_MAX];
	size_t bytes = a->map.map_len;
	CUmemoryPool pool;

	(void)res;
	if (!ck_driver.cuMemPoolSetAccess)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_pool_find(q, a->pool, &pool))
		return CUDA_ERROR_INVALID_HANDLE;
	if (bytes == 0 || bytes > sizeof(desc) || bytes % sizeof(desc[0]))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(desc, a->map.map_val, bytes);
	return ck_driver.cuMemPoolSetAccess(pool, desc, bytes / sizeof(desc[0]));
}

/* A pointer of one pool, through another pool imported from it. */
CUresult ck_serve_pool_pointer(struct cks_request *q, ck_pool_pointer_args *a,
			       ck_pool_pointer_res *res)
{
	struct cks_allocation source;
	CUmemPoolPtrExportData data;
	CUdeviceptr at = 0;
	CUmemoryPool pool;
	CUresult err;

	if (!ck_driver.cuMemPoolExportPointer || !ck_driver.cuMemPoolImportPointer)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_pool_find(q, a->pool, &pool))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!cks_memory_find(q->session->memory, a->source, &source))
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_driver.cuMemPoolExportPointer(&data, a->source);
	if (!err)
		err = ck_driver.cuMemPoolImportPointer(&at, pool, &data);
	if (!err)
		err = cks_memory_note(q->session->memory, 0, at, source.size);
	res->ptr = at;
	return err;
}

/* --- pointers for other sessions: the driver's export data, and the size of the memory */

struct left_pointer {
	CUmemPoolPtrExportData data;
	uint64_t size;
};

/* Without a broker, the ticket is empty: then only this session can import the pointer. */
CUresult ck_serve_pool_pointer_leave(struct cks_request *q, ck_pool_pointer_leave_args *a,
				     ck_pool_pointer_leave_res *res)
{
	struct cks_allocation memory;
	struct left_pointer left;
	struct cks_ticket ticket = {0};
	CUresult err;

	if (!ck_driver.cuMemPoolExportPointer)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_memory_find(q->session->memory, a->ptr, &memory) || memory.address != a->ptr)
		return CUDA_ERROR_INVALID_VALUE;
	memset(&left, 0, sizeof(left));
	left.size = memory.size;
	err = ck_driver.cuMemPoolExportPointer(&left.data, a->ptr);
	if (err)
		return err;
	if (cks_share_handle(a->ptr, &left, sizeof(left), &ticket))
		memset(&ticket, 0, sizeof(ticket));
	return cks_ticket_answer(&ticket, &res->ticket.ticket_val, &res->ticket.ticket_len);
}

CUresult ck_serve_pool_pointer_claim(struct cks_request *q, ck_pool_pointer_claim_args *a,
				     ck_pool_pointer_claim_res *res)
{
	struct left_pointer left;
	CUdeviceptr at = 0;
	CUmemoryPool pool;
	size_t size = 0;
	CUresult err;
	int fd = -1;

	if (!ck_driver.cuMemPoolImportPointer || !ck_driver.cuMemFree_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_pool_find(q, a->pool, &pool))
		return CUDA_ERROR_INVALID_HANDLE;
	err = cks_share_claim(a->ticket.ticket_val, a->ticket.ticket_len, &left, sizeof(left),
			      &size, &fd);
	if (fd >= 0)
		close(fd);
	if (err || size != sizeof(left))
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_driver.cuMemPoolImportPointer(&at, pool, &left.data);
	if (!err)
		err = cks_memory_note(q->session->memory, 0, at, left.size);
	res->device = -1;
	if (!err && ck_driver.cuPointerGetAttribute)
		ck_driver.cuPointerGetAttribute(&res->device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						at);
	res->ptr = at;
	res->size = left.size;
	return err;
}

CUresult ck_serve_pointer_pool(struct cks_request *q, ck_pointer_pool_args *a,
			       ck_pointer_pool_res *res)
{
	CUmemoryPool pool = NULL;
	uint64_t name = 0;
	CUresult err;

	if (!ck_driver.cuPointerGetAttribute)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a->ptr);
	if (!err)
		err = cks_handle_name(q, CK_KIND_POOL, pool, 0, &name);
	res->pool = name;
	return err;
}
