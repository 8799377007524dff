/*
 * emu/objects/event_ipc.c - CUDA's handles of events for other processes (cuIpc...).
 */
#include <string.h>
#include <unistd.h>

#include "emu/objects/event_part.h"

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
	int fd;

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, &handle, sizeof(h));
	fd = ck_emu_ipc_handle_open(&h, CK_EMU_IPC_EVENT);
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	shared = ck_emu_ipc_event_map(fd);
	if (!shared) {
		close(fd);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return ck_emu_event_import(context, shared, fd, phEvent);
}
