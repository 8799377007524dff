/*
 * emu/memory/share.c - exporting and importing memory, in one process or from one to another.
 *
 * Physical memory is a file, whose descriptor says all. A pool's descriptor is a file that names
 * the pool; a pointer's data name the file of its pages, as handles of cuIpc do.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/objects/ipc.h"
#include "emu/memory/pool.h"
#include "emu/memory/vmm.h"
#include "util/page.h"

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define MARK 0x6c6f6f702d6b63ull

/* The content of the file that stands for a pool. */
struct pool_file {
	uint64_t mark, name;
	int32_t device, handle_types;
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
	p->exported |= fd >= 0;
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

static int pool_file_create(const struct ck_emu_pool *pool)
{
	struct pool_file file = {MARK, pool->name, pool->props.location.id,
				 (int32_t)pool->props.handleTypes};
	int fd = memfd_create("cricket memory pool", MFD_CLOEXEC);

	if (fd < 0 || write(fd, &file, sizeof(file)) == (ssize_t)sizeof(file))
		return fd;
	close(fd);
	return -1;
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool handle,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_pool *pool;
	int fd = -1;

	if (result != CUDA_SUCCESS)
		return result;
	pool = handle_out && !flags && handleType == POSIX_FD ? ck_emu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(pool->props.handleTypes & POSIX_FD) || pool->imported)
		result = CUDA_ERROR_INVALID_VALUE;
	else if ((fd = pool_file_create(pool)) < 0)
		result = CUDA_ERROR_OPERATING_SYSTEM;
	else
		memcpy(handle_out, &fd, sizeof(fd));
	pool->exported |= result == CUDA_SUCCESS;
	ck_emu_object_put(&pool->base);
	return result;
}

/* From an imported pool nothing is allocated; it is there to import pointers into. */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
					    CUmemAllocationHandleType handleType,
					    unsigned long long flags)
{
	CUresult result = ck_emu_enter_bare();
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	struct ck_emu_pool *pool;
	struct pool_file file;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool_out || flags || handleType != POSIX_FD ||
	    pread((int)(intptr_t)handle, &file, sizeof(file), 0) != (ssize_t)sizeof(file) ||
	    file.mark != MARK || !ck_emu_device_at(file.device))
		return CUDA_ERROR_INVALID_VALUE;
	props.handleTypes = (CUmemAllocationHandleType)file.handle_types;
	props.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, file.device};
	pool = ck_emu_pool_create(&props);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->imported = true;
	pool->name = file.name;
	result = ck_emu_object_publish(&pool->base);
	if (result == CUDA_SUCCESS)
		*pool_out = (CUmemoryPool)pool;
	else
		ck_emu_object_put(&pool->base);
	return result;
}

/* --- pointers */

/* The piece of @pool that begins at @address, or NULL. Lock held. */
static const struct ck_emu_block *block_at(const struct ck_emu_pool *pool, uint64_t address)
{
	const struct ck_emu_block *block = pool->blocks;

	while (block && block->address != address)
		block = block->next;
	return block;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	CUresult result = ck_emu_enter_bare();
	const struct ck_emu_block *block;
	const struct ck_emu_pool *pool;
	struct ck_emu_ipc_handle h;
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	ck_lock(&ck_emu_pool_lock);
	result = CUDA_ERROR_INVALID_VALUE;
	if (shareData_out && ck_emu_arena_find(ptr, &memory) && memory.lo == ptr &&
	    memory.kind == CK_EMU_MEMORY_POOL) {
		pool = memory.owner;
		block = block_at(pool, ptr);
		if (block && !block->alias)
			result = ck_emu_ipc_handle_make(&h, CK_EMU_IPC_POINTER, block->fd);
		h.size = memory.size;
		h.device = memory.device;
		h.pool = pool->name;
	}
	ck_unlock(&ck_emu_pool_lock);
	if (result == CUDA_SUCCESS)
		memcpy(shareData_out, &h, sizeof(h));
	return result;
}

/* The whole pages of a piece, as its file has them; MAP_FAILED. */
static void *map_piece(const struct ck_emu_ipc_handle *h, size_t *size)
{
	int fd = ck_emu_ipc_handle_open(h, CK_EMU_IPC_POINTER);
	void *at = MAP_FAILED;
	struct stat st;

	if (fd < 0)
		return MAP_FAILED;
	if (fstat(fd, &st) == 0 && h->size > 0 && h->size <= (uint64_t)st.st_size) {
		*size = CK_ALIGN_UP(h->size, ck_page());
		at = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	}
	close(fd);
	return at;
}

/* A second place for the bytes of the piece that @h names, in @pool. Lock held. */
static CUresult create_alias_block(struct ck_emu_pool *pool, const struct ck_emu_ipc_handle *h,
				   CUdeviceptr *ptr)
{
	struct ck_emu_block *block = calloc(1, sizeof(*block));
	size_t size = 0;
	void *at = block ? map_piece(h, &size) : MAP_FAILED;

	if (at == MAP_FAILED) {
		free(block);
		return block ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->address = (uint64_t)at;
	block->size = size;
	block->alias = true;
	block->fd = -1;
	if (ck_emu_pool_enter(pool, block, h->size) < 0) {
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
	struct ck_emu_ipc_handle h;
	struct ck_emu_pool *pool;

	if (result != CUDA_SUCCESS)
		return result;
	pool = ptr_out && shareData ? ck_emu_pool_get(handle) : NULL;
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, shareData, sizeof(h));
	result = CUDA_ERROR_INVALID_VALUE;
	ck_lock(&ck_emu_pool_lock);
	if (pool->imported && h.pool == pool->name)
		result = create_alias_block(pool, &h, ptr_out);
	ck_unlock(&ck_emu_pool_lock);
	ck_emu_object_put(&pool->base);
	return result;
}
