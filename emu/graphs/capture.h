/*
 * emu/graphs/capture.h - shared by the files of stream capture; see capture.c. All with the lock of
 * the graphs held.
 */
#ifndef CK_EMU_GRAPHS_CAPTURE_H
#define CK_EMU_GRAPHS_CAPTURE_H

#include "emu/graphs/graph.h"

/* From the begin in one stream to the end there. Ended ones are kept for events only. */
struct ck_emu_capture {
	struct ck_emu_capture *next;
	atomic_uint refs;
	uint64_t id;
	struct ck_emu_graph *graph; /* with a reference */
	bool lent;		    /* the graph is the application's: it was there before */
	CUstreamCaptureMode mode;
	const void *thread; /* that began it */
	bool invalid, ended;
	struct ck_emu_stream *origin;
	struct ck_emu_capture_end *ends;
};

/* A stream's part in a capture. */
struct ck_emu_capture_end {
	struct ck_emu_capture_end *next;
	struct ck_emu_capture *capture;
	struct ck_emu_stream *stream; /* with a reference */
	struct ck_emu_after after;
};

/* Begin one into @graph; *@end is the origin's. */
CUresult ck_emu_capture_create(struct ck_emu_stream *stream, struct ck_emu_graph *graph,
			       CUstreamCaptureMode mode, struct ck_emu_capture_end **end);
/* End it: no stream captures for it any more. */
void ck_emu_capture_finish(struct ck_emu_capture *capture);
/* Release a reference. */
void ck_emu_capture_put(struct ck_emu_capture *capture);
/* Make a stream take part: NULL when out of memory. */
struct ck_emu_capture_end *ck_emu_capture_end_create(struct ck_emu_capture *capture,
						     struct ck_emu_stream *stream);
/* Whether this thread may end it. */
bool ck_emu_capture_mine(const struct ck_emu_capture *capture);
/* A stream's part; NULL: it does not capture. */
struct ck_emu_capture_end *ck_emu_capture_end_of(struct ck_emu_stream *stream);
/* IMPLICIT for the legacy stream of a context that has a capturing blocking stream. */
CUresult ck_emu_capture_implicit(struct ck_emu_stream *stream, bool invalidate);

/* The end of a stream that was seen to capture: ILLEGAL_STATE, INVALIDATED. */
CUresult ck_emu_capture_end_get(struct ck_emu_stream *stream, struct ck_emu_capture_end **end);

/* A node once; false when out of memory. */
bool ck_emu_after_add(struct ck_emu_after *after, struct ck_emu_node *node,
		      const CUgraphEdgeData *data);
/* The same with all of @from. */
bool ck_emu_after_add_all(struct ck_emu_after *to, const struct ck_emu_after *from);
void ck_emu_after_clear(struct ck_emu_after *after);
void ck_emu_after_fini(struct ck_emu_after *after);

#endif
