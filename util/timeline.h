/*
 * util/timeline.h - events of a timeline as text, in the JSON form of Chrome's trace viewer, which
 * Perfetto reads too.
 *
 * A document is CK_TIMELINE_HEAD, the events, CK_TIMELINE_TAIL.
 */
#ifndef CK_UTIL_TIMELINE_H
#define CK_UTIL_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_TIMELINE_HEAD "{\"displayTimeUnit\":\"ms\",\"traceEvents\":["
#define CK_TIMELINE_TAIL "\n]}\n"

struct ck_timeline {
	char *bytes;
	size_t size, room;
	uint64_t events; /* so far; the first has no comma in front of it */
	bool failed;	 /* no memory: the event that was being written is left out */
	bool args;	 /* the arguments of the event have begun */
	size_t began;	 /* where the event that is being written begins */
};

/* Where and when an event is. */
struct ck_timeline_place {
	uint64_t ns, process, thread;
};

/* Begin an event of a @phase ('X', 'i', 's', 'f', 'M') and end it. Texts added in between are
 * fields of the event, then ck_timeline_args() and its arguments. */
void ck_timeline_begin(struct ck_timeline *t, char phase, const char *name, const char *category,
		       const struct ck_timeline_place *place);
void ck_timeline_end(struct ck_timeline *t);
void ck_timeline_args(struct ck_timeline *t);

/* A field or an argument. Bytes that are no UTF-8 are replaced. */
void ck_timeline_number(struct ck_timeline *t, const char *key, int64_t value);
void ck_timeline_text(struct ck_timeline *t, const char *key, const char *bytes, size_t size);
void ck_timeline_us(struct ck_timeline *t, const char *key, uint64_t ns); /* in us */

/* Forget the text, which the caller has written, and not how many events there were. */
void ck_timeline_clear(struct ck_timeline *t);
void ck_timeline_free(struct ck_timeline *t);

#endif
