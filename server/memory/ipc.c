/*
 * server/memory/ipc.c - cuIpc: handles of memory and of events, exchanged for tickets (share.h).
 */
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/share.h"
#include "server/session/session.h"

/* --- memory */

struct ipc_left {
	CUipcMemHandle handle;
	uint64_t size;
};

static CUresult driver_handle(const struct cks_allocation *memory, struct cks_ticket *ticket)
{
	struct ipc_left left;
	CUresult err;

	if (!ck_driver.cuIpcGetMemHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	memset(&left, 0, sizeof(left));
	left.size = memory->size;
	err = ck_driver.cuIpcGetMemHandle(&left.handle, memory->address);
	return err ? err : cks_share_handle(memory->address, &left, sizeof(left), ticket);
}

CUresult ck_serve_ipc_memory(struct cks_request *q, ck_ipc_memory_args *a, ck_ipc_memory_res *res)
{
	struct cks_allocation memory;
	struct cks_ticket ticket;
	CUresult err;

	if (!cks_memory_find(q->session->memory, a->ptr, &memory))
		return CUDA_ERROR_INVALID_VALUE;
	err = memory.leased ? cks_lease_handle(q->session, a->ptr, a->size, &ticket)
			    : driver_handle(&memory, &ticket);
	if (err)
		return err;
	return cks_ticket_answer(&ticket, &res->ticket.ticket_val, &res->ticket.ticket_len);
}

static CUresult driver_open(struct cks_request *q, const struct ipc_left *left, unsigned int flags,
			    CUdeviceptr *address)
{
	CUresult err;

	if (!ck_driver.cuIpcOpenMemHandle_v2 || !ck_driver.cuIpcCloseMemHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuIpcOpenMemHandle_v2(address, left->handle, flags);
	return err ? err : cks_memory_import(q->session->memory, q->ctx, *address, left->size);
}

CUresult ck_serve_ipc_memory_open(struct cks_request *q, ck_ipc_memory_open_args *a,
				  ck_ipc_memory_open_res *res)
{
	union {
		struct ipc_left left;
		uint64_t size; /* of leased memory, which comes with a file */
	} u;
	CUdeviceptr address = 0;
	size_t size = 0;
	int fd = -1;
	CUresult err;

	memset(&u, 0, sizeof(u)); /* the reply has its size also where nothing was claimed */
	err = cks_share_claim(a->ticket.ticket_val, a->ticket.ticket_len, &u, sizeof(u), &size,
			      &fd);
	if (!err && fd >= 0 && size == sizeof(u.size))
		err = cks_lease_open(q, (struct cks_ticket *)a->ticket.ticket_val, fd, u.size,
				     &address);
	else if (!err && fd < 0 && size == sizeof(u.left))
		err = driver_open(q, &u.left, a->flags, &address);
	else if (!err)
		err = CUDA_ERROR_INVALID_HANDLE;
	if (fd >= 0)
		close(fd);
	res->ptr = address;
	res->size = size == sizeof(u.size) ? u.size : u.left.size;
	return err;
}

CUresult ck_serve_ipc_memory_close(struct cks_request *q, ck_ipc_memory_close_args *a,
				   ck_ipc_memory_close_res *res)
{
	CUresult err;

	(void)res;
	if (cks_lease_close(q, a->ptr))
		return CUDA_SUCCESS;
	if (!ck_driver.cuIpcCloseMemHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuIpcCloseMemHandle(a->ptr);
	if (!err && a->last)
		cks_memory_unmap(q->session->memory, a->ptr, 1);
	return err;
}

/* --- events */

CUresult ck_serve_ipc_event(struct cks_request *q, ck_ipc_event_args *a, ck_ipc_event_res *res)
{
	CUipcEventHandle handle;
	struct cks_ticket ticket;
	CUevent event;
	CUresult err;

	if (!ck_driver.cuIpcGetEventHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!cks_event_find(q, a->event, &event))
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuIpcGetEventHandle(&handle, event);
	if (!err)
		err = cks_share_handle(0, &handle, sizeof(handle), &ticket);
	if (err)
		return err;
	return cks_ticket_answer(&ticket, &res->ticket.ticket_val, &res->ticket.ticket_len);
}

CUresult ck_serve_ipc_event_open(struct cks_request *q, ck_ipc_event_open_args *a,
				 ck_ipc_event_open_res *res)
{
	CUipcEventHandle handle;
	CUevent event = NULL;
	size_t size = 0;
	CUresult err;
	int fd = -1;

	(void)res;
	if (!ck_driver.cuIpcOpenEventHandle || !ck_driver.cuEventDestroy_v2)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = cks_share_claim(a->ticket.ticket_val, a->ticket.ticket_len, &handle, sizeof(handle),
			      &size, &fd);
	if (fd >= 0)
		close(fd);
	if (err || size != sizeof(handle))
		return err ? err : CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuIpcOpenEventHandle(&event, handle);
	if (!err)
		err = cks_event_put(q, a->event, event);
	if (err && event)
		ck_driver.cuEventDestroy_v2(event);
	return err;
}
