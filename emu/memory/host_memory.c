/*
 * emu/memory/host_memory.c - host memory that devices may use: allocated here, or registered.
 *
 * Host and device share one address space, so a host pointer is its own device pointer.
 */
#include <errno.h>
#include <sys/mman.h>

#include "emu/memory/arena.h"
#include "emu/core/hooks.h"
#include "util/page.h"
#include "util/process/proc_file.h"

#define PAGE ck_page()
#define ALLOC_FLAGS                                                                                \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                             \
	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |                              \
	 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	size_t size;
	void *base;

	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!pp || Flags & ~(unsigned int)ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	*pp = NULL;
	if (!bytesize)
		return CUDA_SUCCESS;
	if (ck_add_overflow(bytesize, PAGE - 1, &size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	size &= ~(PAGE - 1);
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (ck_emu_arena_add_host(context, (uint64_t)base, bytesize, CK_EMU_MEMORY_HOST, Flags) <
	    0) {
		munmap(base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*pp = base;
	return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

/* Take a range of host memory out of the table once no device uses it any more. */
static CUresult host_remove(struct ck_emu_context *context, void *p, enum ck_emu_memory_kind kind,
			    struct ck_emu_memory *memory)
{
	CUresult result = ck_emu_hooks->capture_unsafe();

	if (result != CUDA_SUCCESS)
		return result;
	/* it may be any context's work that uses it, and the pages are about to go */
	result = ck_emu_all_wait();
	if (context)
		ck_emu_print_flush(context);
	if (result == CUDA_SUCCESS)
		result = ck_emu_context_state(context);
	if (result != CUDA_SUCCESS)
		return result;
	return ck_emu_arena_remove((uint64_t)p, kind, memory) ? CUDA_SUCCESS
							      : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeHost(void *p)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter_owned(&context);
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS || !p)
		return result;
	result = host_remove(context, p, CK_EMU_MEMORY_HOST, &memory);
	if (result == CUDA_SUCCESS)
		munmap(p, CK_ALIGN_UP(memory.size, PAGE));
	return result;
}

/* The range of host memory around a pointer. */
static bool host_find(const void *p, struct ck_emu_memory *memory)
{
	return ck_emu_arena_find((uint64_t)p, memory) &&
	       (memory->kind == CK_EMU_MEMORY_HOST || memory->kind == CK_EMU_MEMORY_REGISTERED);
}

/* True when all of the pages are mapped with the rights that devices need: one that follows a bad
 * address ends the process. */
static bool is_pinnable(uint64_t lo, size_t size, bool read_only)
{
	return ck_mappings_all(lo, size, read_only ? ck_mapping_readable : ck_mapping_writable);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_memory memory;
	int ret;

	if (result == CUDA_SUCCESS)
		result = ck_emu_hooks->capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!p || !bytesize || Flags & ~(unsigned int)REGISTER_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_pinnable((uint64_t)p, bytesize, Flags & CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_INVALID_VALUE;
	if (host_find(p, &memory) && memory.kind == CK_EMU_MEMORY_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	ret = ck_emu_arena_add_host(context, (uint64_t)p, bytesize, CK_EMU_MEMORY_REGISTERED,
				    Flags);
	if (ret == -EEXIST)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (ret == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return ret < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter_owned(&context);
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	if (!ck_emu_arena_find((uint64_t)p, &memory))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (memory.kind != CK_EMU_MEMORY_REGISTERED || memory.lo != (uint64_t)p)
		return CUDA_ERROR_INVALID_VALUE;
	return host_remove(context, p, CK_EMU_MEMORY_REGISTERED, &memory);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pdptr || !p || Flags || !host_find(p, &memory))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (CUdeviceptr)p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pFlags || !host_find(p, &memory))
		return CUDA_ERROR_INVALID_VALUE;
	/* with unified addressing all host memory is mapped */
	*pFlags = memory.flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}
