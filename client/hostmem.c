/*
 * client/hostmem.c - pinned memory of the host: pages of this process that the server cannot see.
 *
 * "Pinned" means here that we know the range: copies from and to it are asynchronous, and the
 * calls that ask about it answer. The GPU does not reach it (no zero-copy): the device attributes
 * say so, and asking for a device address is refused.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"

#define ALLOC_FLAGS                                                                               \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                            \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                             \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

/* What is known of the pinned memory at @p; false for all else, device memory too. */
static bool host_find(const void *p, struct ck_allocation *a)
{
	return ck_allocation_find((uintptr_t)p, a) && a->kind != CK_MEMORY_DEVICE;
}

/* Whole pages of its own, so that freed memory is really gone: a late access faults. */
CK_EXPORT CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);
	void *p = NULL;

	if (err)
		return err;
	if (!pp || Flags & ~(unsigned int)ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytesize > 0) {
		p = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
		if (p == MAP_FAILED)
			return CUDA_ERROR_OUT_OF_MEMORY;
		err = ck_allocation_add((uintptr_t)p, bytesize, CK_MEMORY_HOST_ALLOC, context,
					Flags, false);
	}
	if (err)
		munmap(p, bytesize);
	else
		*pp = p;
	return err;
}

CK_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

CK_EXPORT CUresult cuMemFreeHost(void *p)
{
	CUresult err = ck_session_check();
	struct ck_allocation a;

	if (err || !p)
		return err;
	if (!ck_allocation_remove((uintptr_t)p, CK_MEMORY_HOST_ALLOC, &a))
		return CUDA_ERROR_INVALID_VALUE;
	munmap(p, a.size);
	return CUDA_SUCCESS;
}

/* True when all pages of the range are mapped; asks without touching them. */
static bool is_mapped(const void *p, size_t size)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)p & ~(page - 1), end;

	if (ck_add_overflow((uintptr_t)p, size, &end))
		return false;
	return msync((void *)first, end - first, MS_ASYNC) == 0;
}

CK_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	static bool told;
	struct ck_context *context;
	CUresult err = ck_context_usable(&context);

	if (err)
		return err;
	if (!p || bytesize == 0 || Flags & ~(unsigned int)REGISTER_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY))
		return ck_refused("cuMemHostRegister of I/O or read-only memory", &told);
	if (!is_mapped(p, bytesize))
		return CUDA_ERROR_INVALID_VALUE;
	return ck_allocation_add((uintptr_t)p, bytesize, CK_MEMORY_HOST_REGISTERED, context, Flags,
				 false);
}

CK_EXPORT CUresult cuMemHostUnregister(void *p)
{
	CUresult err = ck_session_check();
	struct ck_allocation a;

	if (err)
		return err;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (ck_allocation_remove((uintptr_t)p, CK_MEMORY_HOST_REGISTERED, &a))
		return CUDA_SUCCESS;
	/* pinned, but not registered at this address */
	return host_find(p, &a) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CK_EXPORT CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct ck_allocation a;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!pFlags || !host_find(p, &a))
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = a.flags;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	static bool told;
	struct ck_allocation a;
	uint64_t ctx;
	CUresult err = ck_enter(&ctx);

	if (err)
		return err;
	if (!pdptr || Flags != 0 || !host_find(p, &a))
		return CUDA_ERROR_INVALID_VALUE;
	return ck_refused("cuMemHostGetDevicePointer_v2", &told);
}
