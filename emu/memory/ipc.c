/*
 * emu/memory/ipc.c - CUDA's handles of memory and events for other processes (cuIpc...).
 *
 * The memory of a device is a file (arena.c), and a shared event a page of one. A handle names the
 * process and its descriptor, and the other process opens that. So the exporter must be alive when
 * a handle is opened, and both must be of one user.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "emu/memory/arena.h"
#include "emu/locks.h"
#include "emu/memory/ipc.h"
#include "util/fd.h"
#include "util/page.h"
#include "util/util.h"

#define MARK 0x6370692d6b63ull
#define PAGE ck_page()
#define STEP_NS 100000 /* between two polls of another process's event */

/* --- handles */

CUresult ck_emu_ipc_handle_make(struct ck_emu_ipc_handle *h, enum ck_emu_ipc_kind kind, int fd)
{
	struct stat st;

	memset(h, 0, sizeof(*h));
	if (fd < 0 || fstat(fd, &st) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	h->mark = MARK;
	h->pid = getpid();
	h->fd = fd;
	h->inode = st.st_ino;
	h->kind = kind;
	return CUDA_SUCCESS;
}

int ck_emu_ipc_handle_open(const struct ck_emu_ipc_handle *h, enum ck_emu_ipc_kind kind)
{
	char path[64];
	struct stat st;
	int fd;

	if (h->mark != MARK || h->kind != (int32_t)kind)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h->pid, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != h->inode)) {
		close(fd); /* the number stands for something else by now */
		fd = -1;
	}
	return fd;
}

/* --- memory */

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
	if (h.mark != MARK || !ck_emu_device_at(h.device))
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

/* --- events */

/* The one behind @fd; NULL: none. */
static struct ck_emu_ipc_event *map_event(int fd)
{
	void *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

struct ck_emu_ipc_event *ck_emu_ipc_event_create(int *fd)
{
	struct ck_emu_ipc_event *event = NULL;

	*fd = memfd_create("cricket event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd >= 0 && ck_fd_resize(*fd, PAGE) == 0 &&
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
		event = map_event(*fd);
	if (!event && *fd >= 0)
		close(*fd);
	return event;
}

void ck_emu_ipc_event_close(struct ck_emu_ipc_event *event, int fd)
{
	if (!event)
		return;
	munmap(event, PAGE);
	close(fd);
}

void ck_emu_ipc_event_reach(struct ck_emu_ipc_event *event, uint64_t number)
{
	ck_atomic_lift(&event->reached, number);
}

void ck_emu_ipc_event_wait(const struct ck_emu_ipc_event *event, uint64_t number,
			   const struct ck_emu_context *context)
{
	while (atomic_load(&event->reached) < number && atomic_load(&context->live) &&
	       !atomic_load(&context->cancelled))
		nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	CUresult result = ck_emu_enter_bare();
	struct ck_emu_object *object;
	struct ck_emu_ipc_handle h;
	int fd;

	if (result != CUDA_SUCCESS)
		return result;
	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	memset(pHandle, 0, sizeof(*pHandle)); /* some programs read it and ignore the error */
	object = ck_emu_object_get(event, CK_EMU_EVENT);
	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	if (ck_emu_event_shared(object, &fd))
		result = ck_emu_ipc_handle_make(&h, CK_EMU_IPC_EVENT, fd);
	else
		result = CUDA_ERROR_INVALID_HANDLE;
	ck_emu_object_put(object);
	if (result == CUDA_SUCCESS)
		memcpy(pHandle, &h, sizeof(h));
	return result;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct ck_emu_context *context;
	CUresult result = ck_emu_enter(&context);
	struct ck_emu_ipc_event *shared;
	struct ck_emu_ipc_handle h;
	struct stat st;
	int fd;

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, &handle, sizeof(h));
	fd = ck_emu_ipc_handle_open(&h, CK_EMU_IPC_EVENT);
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	shared = fstat(fd, &st) == 0 && st.st_size == (off_t)PAGE ? map_event(fd) : NULL;
	if (!shared) {
		close(fd);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return ck_emu_event_import(context, shared, fd, phEvent);
}
