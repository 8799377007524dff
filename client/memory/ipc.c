/*
 * client/memory/ipc.c - cuIpc: memory and events shared with other processes, which are other
 * sessions of the same server.
 *
 * The 64 bytes that the program gets are not the driver's handle, which can be guessed. They hold
 * the ticket for the object that the server has deposited with its broker.
 */
#include <stdlib.h>
#include <string.h>

#include "client/link/client.h"
#include "client/memory/share.h"
#include "client/memory/state.h"
#include "m3/shim.h"
#include "util/range.h"

_Static_assert(sizeof(struct ck_ipc_handle) == sizeof(CUipcMemHandle), "as CUDA has them");

/* Turn the server's answer into a handle: NOT_SUPPORTED if nothing was deposited. */
static CUresult handle_make(void *out, enum ck_ipc_kind kind, void *bytes, size_t size)
{
	struct ckc_ticket ticket = ckc_ticket_take(bytes, size);
	struct ck_ipc_handle h = {.mark = CK_IPC_MARK, .kind = kind, .number = ticket.number};

	memcpy(h.key, ticket.key, sizeof(h.key));
	memcpy(out, &h, sizeof(h));
	return h.number ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* Read the ticket in a handle; false: not a handle of that kind. */
static bool handle_read(const void *bytes, enum ck_ipc_kind kind, struct ckc_ticket *ticket)
{
	struct ck_ipc_handle h;

	memcpy(&h, bytes, sizeof(h));
	ticket->number = h.number;
	memcpy(ticket->key, h.key, sizeof(h.key));
	return memcmp(h.mark, CK_IPC_MARK, sizeof(h.mark)) == 0 && h.kind == (uint32_t)kind;
}

/* --- memory */

/* Open count of another session's memory, by address. */
struct ckc_ipc_opened {
	struct ckc_ipc_opened *next;
	CUdeviceptr at;
	unsigned int count;
};

/* Call with the lock held. */
static struct ckc_ipc_opened **find_open(struct ck_ipc_memory *all, CUdeviceptr at)
{
	struct ckc_ipc_opened **link = &all->opened;

	while (*link && (*link)->at != at)
		link = &(*link)->next;
	return link;
}

CK_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct ckc_allocation a;
	void *bytes = NULL;
	size_t size = 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!pHandle || !ckc_allocation_find(dptr, &a) || a.kind != CK_MEMORY_DEVICE || a.mapped ||
	    a.pooled)
		return CUDA_ERROR_INVALID_VALUE;
	err = ck_wire_ipc_memory(ctx, a.arena ? a.base : dptr, a.size, &bytes, &size);
	if (!err && a.arena)
		ckc_allocation_left(a.base);
	return err ? err : handle_make(pHandle, CK_IPC_MEMORY, bytes, size);
}

/* Note opened memory at @at; if it is already open, the driver returns the same address. Call with
 * the lock held. */
static CUresult note_opened_memory(struct ck_ipc_memory *all, struct ckc_context *context,
				   CUdeviceptr at, size_t size)
{
	struct ckc_ipc_opened *o = *find_open(all, at);
	CUresult err;

	if (o) {
		o->count++;
		return CUDA_SUCCESS;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = ckc_allocation_note(&(struct ckc_allocation){
		.base = at,
		.size = size,
		.kind = CK_MEMORY_DEVICE,
		.context = context,
		.device = context->device,
		.opened = true,
	});
	if (err) {
		free(o);
		return err;
	}
	*o = (struct ckc_ipc_opened){.next = all->opened, .at = at, .count = 1};
	all->opened = o;
	return CUDA_SUCCESS;
}

CK_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
					 unsigned int Flags)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);
	CUdeviceptr at = 0;
	struct ck_ipc_memory *all;
	struct ckc_ticket ticket;
	size_t size = 0;
	uint64_t ctx;

	if (err)
		return err;
	if (!pdptr || Flags & ~(unsigned int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_read(&handle, CK_IPC_MEMORY, &ticket))
		return CUDA_ERROR_INVALID_HANDLE;
	ctx = context->object.id;
	err = ck_wire_ipc_memory_open(ctx, &ticket, sizeof(ticket), Flags, &at, &size);
	if (err)
		return err;
	/* ignore a clash: it affects only queries about addresses, and the driver would pick the
	 * same one again */
	ckc_address_claim(at, size);
	all = &context->client->memory->ipc;
	ck_lock(&all->lock);
	err = note_opened_memory(all, context, at, size);
	ck_unlock(&all->lock);
	if (err)
		ck_wire_ipc_memory_close(ctx, at, 1);
	else
		*pdptr = at;
	return err;
}

CK_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);
	struct ckc_ipc_opened **link, *o;
	struct ck_ipc_memory *all;
	bool last;

	if (err)
		return err;
	all = &context->client->memory->ipc;
	ck_lock(&all->lock);
	link = find_open(all, dptr);
	o = *link;
	last = o && --o->count == 0;
	if (last) {
		*link = o->next;
		free(o);
		ckc_allocation_remove(dptr, CK_MEMORY_DEVICE, NULL);
	}
	ck_unlock(&all->lock);
	if (!o)
		return CUDA_ERROR_INVALID_VALUE;
	return ck_wire_ipc_memory_close(context->object.id, dptr, last);
}

/* --- events */

CK_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	struct ckc_event *e = ckc_object_check(event, CK_OBJECT_EVENT);
	void *bytes = NULL;
	size_t size = 0;
	uint64_t ctx;
	CUresult err = ckc_enter_any(&ctx);

	if (err)
		return err;
	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	memset(pHandle, 0, sizeof(*pHandle)); /* some programs ignore the error */
	if (!e || !(e->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_wire_ipc_event(ctx, e->object.id, &bytes, &size);
	return err ? err : handle_make(pHandle, CK_IPC_EVENT, bytes, size);
}

CK_EXPORT CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct ckc_context *context;
	CUresult err = ckc_context_usable(&context);
	struct ckc_event *e;
	struct ckc_ticket ticket;

	if (err)
		return err;
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle_read(&handle, CK_IPC_EVENT, &ticket))
		return CUDA_ERROR_INVALID_HANDLE;
	e = ckc_object_new(CK_OBJECT_EVENT, context);
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
	atomic_store(&e->recorded, true); /* possibly, by another process */
	err = ck_wire_ipc_event_open(context->object.id, e->object.id, &ticket, sizeof(ticket));
	if (err)
		ckc_object_free(e);
	else
		*phEvent = (CUevent)e;
	return err;
}
