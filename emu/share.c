/*
 * emu/share.c - exporting and importing memory, inside one process.
 *
 * Physical memory is a file, whose descriptor says all. A pool's descriptor is a file with its
 * address in this process; a pointer's data are its address.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/pool.h"
#include "emu/vmm.h"

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define MARK 0x6c6f6f702d6b63ull /* before a pool's or pointer's address: not just any bytes */

struct mark {
	uint64_t mark, address;
};

/* --- physical memory */

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_physical *p;
	int fd = -1;

	if (result != CUDA_SUCCESS)
		return result;
	if (!shareableHandle || flags || handleType != POSIX_FD)
		return CUDA_ERROR_INVALID_VALUE;
	p = ck_emu_physical_get(handle);
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->prop.requestedHandleTypes & POSIX_FD)
		fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	ck_emu_object_put(&p->base);
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(shareableHandle, &fd, sizeof(fd));
	return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

static bool is_file(const struct ck_emu_object *object, const void *key)
{
	const struct stat *wanted = key;
	struct stat st;

	return object->kind == CK_EMU_PHYSICAL &&
	       fstat(((const struct ck_emu_physical *)object)->fd, &st) == 0 &&
	       st.st_ino == wanted->st_ino && st.st_dev == wanted->st_dev;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					CUmemAllocationHandleType shHandleType)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_object *found;
	struct stat st;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || shHandleType != POSIX_FD || fstat((int)(intptr_t)osHandle, &st) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	found = ck_emu_object_search(is_file, &st);
	if (!found)
		return ck_emu_physical_import((int)(intptr_t)osHandle, handle);
	result = ck_emu_physical_give((struct ck_emu_physical *)found, handle);
	ck_emu_object_put(found);
	return result;
}

/* --- pools */

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool handle,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	struct mark mark = { MARK, (uint64_t)handle };
	struct ck_emu_pool *pool;
	bool allowed;
	int fd;

	if (result != CUDA_SUCCESS)
		return result;
	pool = handle_out && !flags && handleType == POSIX_FD ? ck_emu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	allowed = pool->props.handleTypes & POSIX_FD;
	ck_emu_object_put(&pool->base);
	if (!allowed)
		return CUDA_ERROR_INVALID_VALUE;
	fd = memfd_create("cricket memory pool", MFD_CLOEXEC);
	if (fd < 0 || write(fd, &mark, sizeof(mark)) != (ssize_t)sizeof(mark)) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	memcpy(handle_out, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

/* From an imported pool nothing is allocated; it is there to import pointers into. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handleType,
					    unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *source, *pool;
	struct mark mark;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool_out || flags || handleType != POSIX_FD ||
	    pread((int)(intptr_t)handle, &mark, sizeof(mark), 0) != (ssize_t)sizeof(mark) ||
	    mark.mark != MARK)
		return CUDA_ERROR_INVALID_VALUE;
	source = ck_emu_pool_get((CUmemoryPool)mark.address);
	if (!source)
		return CUDA_ERROR_INVALID_VALUE;
	pool = ck_emu_pool_create(&source->props);
	ck_emu_object_put(&source->base);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->imported = true;
	result = ck_emu_object_publish(&pool->base);
	if (result == CUDA_SUCCESS)
		*pool_out = (CUmemoryPool)pool;
	else
		ck_emu_object_put(&pool->base);
	return result;
}

/* --- pointers */

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	CUresult result = ck_emu_enter_bare();
	struct mark mark = { MARK, ptr };
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!shareData_out || !ck_emu_arena_find(ptr, &memory) || memory.lo != ptr ||
	    memory.kind != CK_EMU_MEMORY_POOL ||
	    !(((const struct ck_emu_pool *)memory.owner)->props.handleTypes & POSIX_FD))
		return CUDA_ERROR_INVALID_VALUE;
	memset(shareData_out, 0, sizeof(*shareData_out));
	memcpy(shareData_out, &mark, sizeof(mark));
	return CUDA_SUCCESS;
}

/* A second place for the bytes of @memory, in @pool. Lock held. */
static CUresult alias(struct ck_emu_pool *pool, const struct ck_emu_memory *memory,
		      CUdeviceptr *ptr)
{
	struct ck_emu_block *block = calloc(1, sizeof(*block));
	size_t size = CK_ALIGN_UP(memory->size, 4096ul);
	void *at = block ? mremap((void *)memory->lo, 0, size, MREMAP_MAYMOVE) : MAP_FAILED;

	if (at == MAP_FAILED) {
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->address = (uint64_t)at;
	block->size = size;
	block->alias = true;
	if (ck_emu_pool_enter(pool, block, memory->size) < 0) {
		munmap(at, size);
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->next = pool->blocks;
	pool->blocks = block;
	*ptr = (CUdeviceptr)at;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool handle,
				CUmemPoolPtrExportData *shareData)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_memory memory;
	struct ck_emu_pool *pool;
	struct mark mark;

	if (result != CUDA_SUCCESS)
		return result;
	pool = ptr_out && shareData ? ck_emu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&mark, shareData, sizeof(mark));
	result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&ck_emu_pool_lock);
	if (pool->imported && mark.mark == MARK && ck_emu_arena_find(mark.address, &memory) &&
	    memory.kind == CK_EMU_MEMORY_POOL && memory.lo == mark.address)
		result = alias(pool, &memory, ptr_out);
	pthread_mutex_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	return result;
}
