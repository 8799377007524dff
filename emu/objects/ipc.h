/*
 * emu/objects/ipc.h - sharing between processes: files in memory, reached as descriptors of the
 * process that made them.
 */
#ifndef CK_EMU_OBJECTS_IPC_H
#define CK_EMU_OBJECTS_IPC_H

#include <stdint.h>

#include "emu/core/emu.h"

#define CK_EMU_IPC_MARK 0x6370692d6b63ull

enum ck_emu_ipc_kind { CK_EMU_IPC_MEMORY = 1, CK_EMU_IPC_EVENT, CK_EMU_IPC_POINTER };

/* The 64 bytes of a handle: the place of its file, and the object in it. */
struct ck_emu_ipc_handle {
	uint64_t mark;
	int32_t pid, fd;
	uint64_t inode;
	uint64_t offset, size;
	int32_t kind, device;
	uint64_t pool; /* of a pointer: the name of its pool */
	uint64_t unused;
};

_Static_assert(sizeof(struct ck_emu_ipc_handle) == 64, "as CUDA has them");

/* Fill in a handle of @kind for the file behind @fd: INVALID_VALUE when there is none. */
CUresult ck_emu_ipc_handle_make(struct ck_emu_ipc_handle *handle, enum ck_emu_ipc_kind kind,
				int fd);
/* A descriptor of the file, the caller's, or -1: no handle of that kind, or its process is gone. */
int ck_emu_ipc_handle_open(const struct ck_emu_ipc_handle *handle, enum ck_emu_ipc_kind kind);

/* The state of an event that processes share: how often it was recorded, and which was reached. */
struct ck_emu_ipc_event {
	_Atomic uint64_t recorded, reached;
};

/* The one behind @fd; NULL: it is none. */
struct ck_emu_ipc_event *ck_emu_ipc_event_map(int fd);
/* A new shared event and its file's descriptor; NULL: none. */
struct ck_emu_ipc_event *ck_emu_ipc_event_create(int *fd);
void ck_emu_ipc_event_close(struct ck_emu_ipc_event *event, int fd); /* NULL, -1: nothing */
void ck_emu_ipc_event_reach(struct ck_emu_ipc_event *event, uint64_t number);
/* Wait until record @number is reached, or the context has gone. */
void ck_emu_ipc_event_wait(const struct ck_emu_ipc_event *event, uint64_t number,
			   const struct ck_emu_context *context);

#endif
