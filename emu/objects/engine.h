/*
 * emu/objects/engine.h - shared by engine.c and wait.c: the queues, and lists of points to wait
 * for.
 *
 * One lock for all queues: a command is a kernel or a copy, dear against the lock.
 */
#ifndef CK_EMU_OBJECTS_ENGINE_H
#define CK_EMU_OBJECTS_ENGINE_H

#include "emu/core/emu.h"
#include "emu/core/locks.h"

extern struct ck_mutex ck_emu_engine_lock;
/* All that are open or still working; under the lock. */
extern struct ck_emu_stream *ck_emu_engine_streams;

/* --- one point; the lock is held --- */

static inline bool ck_emu_point_reached_locked(const struct ck_emu_point *point)
{
	return !point->stream || point->stream->completed >= point->number;
}

static inline void ck_emu_point_wait_locked(const struct ck_emu_point *point)
{
	while (!ck_emu_point_reached_locked(point))
		ck_cond_wait(&point->stream->done, &ck_emu_engine_lock);
}

/* A list of points that grows; each holds a reference. */
struct ck_emu_points {
	struct ck_emu_point *list;
	unsigned int count, room;
};

/*
 * The next three, with the lock held, give 0 or -ENOMEM. Add the end of a stream's queue, unless
 * it is reached.
 */
int ck_emu_points_add(struct ck_emu_points *points, struct ck_emu_stream *stream, uint64_t number);
/* Add the points for which a command of @stream waits by the legacy rule. */
int ck_emu_points_add_order(struct ck_emu_points *points, struct ck_emu_stream *stream);
/* Add the events that the whole context waits for (cuCtxWaitEvent). */
int ck_emu_points_add_gate(struct ck_emu_points *points, struct ck_emu_stream *stream);
/* Without the lock: the last reference of a stream may go here. */
void ck_emu_points_fini(struct ck_emu_point *list, unsigned int count);

#endif
