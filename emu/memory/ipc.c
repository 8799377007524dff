/*
 * emu/memory/ipc.c - CUDA's handles of memory for other processes (cuIpc...).
 *
 * The memory of a device is a file (arena.c). A handle names the process and its descriptor, and
 * the other process opens that. So the exporter must be alive when a handle is opened, and both
 * must be of one user.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/core/locks.h"
#include "emu/memory/arena.h"
#include "emu/objects/ipc.h"
#include "util/page.h"
#include "util/util.h"

#define PAGE ck_page()

/* Memory of another process; opened again, it is the same. */
struct opened {
	struct opened *next;
	struct ck_emu_ipc_handle handle;
	struct ck_emu_context *context; /* to compare with */
	uint64_t address;
	unsigned int count;
};

static struct ck_mutex opened_lock = CK_MUTEX(CK_RANK_IPC);
static struct opened *all;

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_ipc_handle h;
	struct ck_emu_memory memory;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle || !ck_emu_arena_find(dptr, &memory) || memory.kind != CK_EMU_MEMORY_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	result = ck_emu_ipc_handle_make(&h, CK_EMU_IPC_MEMORY, ck_emu_arena_file(memory.device));
	if (result != CUDA_SUCCESS)
		return result;
	h.offset = ck_emu_arena_offset(memory.device, memory.lo);
	h.size = memory.size;
	h.device = memory.device;
	ck_emu_arena_note_shared(memory.lo);
	memcpy(pHandle, &h, sizeof(h));
	return CUDA_SUCCESS;
}

/* Of this context and still in the table, from which the end of a context takes it. Lock held. */
static struct opened *find_open(const struct ck_emu_ipc_handle *h,
				const struct ck_emu_context *context)
{
	struct ck_emu_memory memory;

	for (struct opened *o = all; o; o = o->next) {
		if (o->context == context && memcmp(&o->handle, h, sizeof(*h)) == 0 &&
		    ck_emu_arena_find(o->address, &memory) && memory.kind == CK_EMU_MEMORY_IPC &&
		    memory.context == context)
			return o;
	}
	return NULL;
}

/* Map the pages around the memory; its address, or 0. */
static uint64_t map_file(const struct ck_emu_ipc_handle *h)
{
	uint64_t first = h->offset & ~(PAGE - 1), end;
	int fd = ck_emu_ipc_handle_open(h, CK_EMU_IPC_MEMORY);
	struct stat st;
	void *at = MAP_FAILED;

	if (fd < 0)
		return 0;
	if (!ck_add_overflow(h->offset, h->size, &end) && h->size && fstat(fd, &st) == 0 &&
	    end <= (uint64_t)st.st_size)
		at = mmap(NULL, CK_ALIGN_UP(end, PAGE) - first, PROT_READ | PROT_WRITE, MAP_SHARED,
			  fd, (off_t)first);
	close(fd);
	return at == MAP_FAILED ? 0 : (uint64_t)at + (h->offset - first);
}

void ck_emu_ipc_unmap(uint64_t address, size_t size)
{
	uint64_t first = address & ~(PAGE - 1);

	munmap((void *)first, CK_ALIGN_UP(address + size, PAGE) - first);
}

/* Lock held. */
static CUresult open_new(const struct ck_emu_ipc_handle *h, struct ck_emu_context *context,
			 CUdeviceptr *out)
{
	struct ck_emu_memory memory = {.size = h->size,
				       .kind = CK_EMU_MEMORY_IPC,
				       .context = context,
				       .device = h->device};
	struct opened *o = calloc(1, sizeof(*o));

	memory.lo = o ? map_file(h) : 0;
	if (!memory.lo) {
		free(o);
		return o ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (ck_emu_arena_add_mapping(&memory) < 0) {
		ck_emu_ipc_unmap(memory.lo, h->size);
		free(o);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*o = (struct opened){
		.next = all, .handle = *h, .context = context, .address = memory.lo, .count = 1};
	all = o;
	*out = memory.lo;
	return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_ipc_handle h;
	struct opened *o;

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&h, &handle, sizeof(h));
	if (!pdptr || Flags & ~(unsigned int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.mark != CK_EMU_IPC_MARK || !ck_emu_device_at(h.device))
		return CUDA_ERROR_INVALID_HANDLE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT; /* it is here already */
	ck_lock(&opened_lock);
	o = find_open(&h, context);
	if (o) {
		o->count++;
		*pdptr = o->address;
	} else {
		result = open_new(&h, context, pdptr);
	}
	ck_unlock(&opened_lock);
	return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_memory memory;
	struct opened **at = &all, *o;

	if (result != CUDA_SUCCESS)
		return result;
	ck_lock(&opened_lock);
	while (*at && (*at)->address != dptr)
		at = &(*at)->next;
	o = *at;
	if (o && --o->count == 0) {
		*at = o->next;
		ck_emu_all_wait();
		if (ck_emu_arena_remove(dptr, CK_EMU_MEMORY_IPC, &memory))
			ck_emu_ipc_unmap(dptr, memory.size);
		free(o);
	}
	ck_unlock(&opened_lock);
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
