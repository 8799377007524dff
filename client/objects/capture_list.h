/*
 * client/objects/capture_list.h - one capture, for the calls that begin, end and describe captures;
 * client/objects/capture.c keeps the list.
 */
#ifndef CK_CLIENT_OBJECTS_CAPTURE_LIST_H
#define CK_CLIENT_OBJECTS_CAPTURE_LIST_H

#include "client/link/client.h"

struct ckc_capture {
	struct ckc_capture *next;
	uint64_t sequence; /* cuStreamGetCaptureInfo's id; never reused */
	uint64_t origin;   /* the stream in which it began */
	struct ckc_context *context;
	const struct ckc_thread *thread;
	CUstreamCaptureMode mode;
	uint64_t graph; /* its id, if the program has a handle of it; 0: it has none */
	bool to_graph;	/* into a graph that the application provides */
	bool blocking;	/* one of its streams synchronises with the legacy one */
	bool invalid;
};

/* A capture has begun in @stream, into the program's graph @graph, or 0: a new one.
 * OUT_OF_MEMORY. */
CUresult ckc_capture_note(struct ckc_stream *stream, CUstreamCaptureMode mode, uint64_t graph);
/* Copy the capture of @stream; false: there is none. */
bool ckc_capture_find(const struct ckc_stream *stream, struct ckc_capture *out);
/* May the legacy stream be queried? STREAM_CAPTURE_IMPLICIT; the query harms no capture. */
CUresult ckc_capture_legacy(void);
void ckc_capture_forget(uint64_t sequence);
void ckc_capture_invalidate(uint64_t sequence);
/* The program has a handle of the capture's graph, whose id is @graph. */
void ckc_capture_shown(uint64_t sequence, uint64_t graph);
/* Does an active capture add nodes to @graph? */
bool ckc_capture_fills(uint64_t graph);

#endif
