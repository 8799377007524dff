/*
 * emu/objects/event_part.h - an event, for event.c, event_wait.c and event_ipc.c alone.
 */
#ifndef CK_EMU_OBJECTS_EVENT_PART_H
#define CK_EMU_OBJECTS_EVENT_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/core/emu.h"
#include "emu/core/hooks.h"
#include "emu/objects/ipc.h"

struct ck_emu_event {
	struct ck_emu_object base;
	unsigned int flags;
	struct ck_emu_capture_place
		place; /* of a newest record that was captured; capture_event.c's */
	/* the rest under the lock */
	struct ck_emu_point point;	 /* of the newest record; no stream: never recorded */
	uint64_t records, placed;	 /* how many there were; which one point belongs to */
	int64_t time;			 /* ns, when the newest record was reached */
	struct ck_emu_ipc_event *shared; /* with other processes, which record it too; NULL: not */
	int shared_fd;
};

/* The event behind a handle, with a reference; a call with no need of a current context. */
CUresult ck_emu_event_begin(CUevent handle, struct ck_emu_event **event);

/* The shared state of an event, with its descriptor, or NULL: it is not shared. */
struct ck_emu_ipc_event *ck_emu_event_shared(struct ck_emu_object *event, int *fd);
/* An event of that state, which it takes over: OUT_OF_MEMORY. */
CUresult ck_emu_event_import(struct ck_emu_context *context, struct ck_emu_ipc_event *shared,
			     int fd, CUevent *event);

/* The place of an event's last record, with a reference. */
void ck_emu_event_point(struct ck_emu_event *event, struct ck_emu_point *point);

/* A wait for an event that never was recorded waits for nothing. */
bool ck_emu_event_recorded(struct ck_emu_event *event);

#endif
