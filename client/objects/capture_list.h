/*
 * client/objects/capture_list.h - one capture as client/objects/capture.c keeps it, for the calls that begin, end
 * and describe captures.
 */
#ifndef CK_CLIENT_OBJECTS_CAPTURE_LIST_H
#define CK_CLIENT_OBJECTS_CAPTURE_LIST_H

#include "client/wire/client.h"

struct ck_capture {
	struct ck_capture *next;
	uint64_t sequence;		/* cuStreamGetCaptureInfo's id; never used again */
	uint64_t origin;		/* the stream in which it was begun */
	struct ck_context *context;
	const struct ck_thread *thread;
	CUstreamCaptureMode mode;
	bool to_graph;			/* into a graph of the application's own */
	bool blocking;			/* a stream of it keeps order with the legacy one */
	bool invalid;
};

/* A capture has begun in @stream. OUT_OF_MEMORY. */
CUresult ck_capture_note(struct ck_stream *stream, CUstreamCaptureMode mode, bool to_graph);
/* A copy of what is known of the capture of @stream; false: there is none. */
bool ck_capture_find(const struct ck_stream *stream, struct ck_capture *out);
/* May the legacy stream be asked about? STREAM_CAPTURE_IMPLICIT; no capture is harmed by it. */
CUresult ck_capture_legacy(void);
void ck_capture_forget(uint64_t sequence);
void ck_capture_invalidate(uint64_t sequence);

#endif
