/*
 * client/objects/event_times.h - times between events, of which one question brings many.
 *
 * Only the driver can say the time between two events exactly: it answers with a float, and the
 * difference of two such answers loses digits. So the server asks it for pairs of events. The
 * client remembers the latest records of timed events in their order. A program that asks for one
 * pair is taken to ask for pairs of later records that lie in the same way, so the answer brings
 * those too. While a program does ask, its waits bring the times between the events that they
 * cover.
 */
#ifndef CK_CLIENT_OBJECTS_EVENT_TIMES_H
#define CK_CLIENT_OBJECTS_EVENT_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/objects/state.h"

/* After the message that records @e, outside of a capture. @version: of the record. */
void ckc_times_record(struct ckc_event *e, uint64_t version);

/* Before anything else may record @e, or before it is destroyed. */
void ckc_times_forget(struct ckc_event *e);

/* Records of two events of one session. */
struct ckc_pair {
	const struct ckc_event *start, *end;
	uint64_t start_version, end_version;
};

/* The time between them, from an earlier answer or from the server. */
CUresult ckc_times_between(uint64_t ctx, const struct ckc_pair *pair, float *milliseconds);

/* Wait for @e; for the stream with id @stream, or for all of the context if @whole. */
CUresult ckc_times_wait_event(uint64_t ctx, const struct ckc_event *e);
CUresult ckc_times_wait_work(const struct ckc_context *ctx, uint64_t stream, bool whole);

#endif
