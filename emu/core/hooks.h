/*
 * emu/core/hooks.h - functions of higher folders that lower ones call.
 *
 * A folder calls only itself and lower ones (tools/layers). Where an event or a call concerns a
 * higher folder too, the lower one calls a function of this table; driver/init.c fills it in.
 */
#ifndef CK_EMU_CORE_HOOKS_H
#define CK_EMU_CORE_HOOKS_H

#include "emu/core/emu.h"

struct ck_emu_capture;
struct ck_emu_node;

/* Nodes that precede something, such as a capturing stream's next node. */
struct ck_emu_after {
	struct ck_emu_node **nodes; /* with references */
	CUgraphEdgeData *data;
	size_t count, room;
};

/* Where a capture was when an event was recorded in it. */
struct ck_emu_capture_place {
	_Atomic(struct ck_emu_capture *) capture; /* holds a reference; NULL: recorded in none */
	struct ck_emu_after after;
};

struct ck_emu_hooks {
	/* A context ends: before its streams are closed, and once its work and objects have
	 * gone. */
	void (*context_stop)(const struct ck_emu_context *context);
	void (*context_end)(const struct ck_emu_context *context);
	/* Bytes of the device that no range has: false when there are too few. And back. */
	bool (*memory_take)(int device, size_t size);
	void (*memory_give)(int device, size_t size);
	/* A stream is being destroyed. */
	void (*stream_end)(struct ck_emu_stream *stream);

	/* --- stream capture */
	/* Why the host may not wait for this stream, ask it or queue work in it, or SUCCESS. */
	CUresult (*capture_check)(struct ck_emu_stream *stream);
	/*
	 * At the start of a call that may wait for, or disturb, the captures of other threads:
	 * refuse it.
	 */
	CUresult (*capture_unsafe)(void);
	/* Refuse to wait for a context that has a capturing stream. */
	CUresult (*capture_context)(struct ck_emu_context *context);
	/* Make a node of a call in a capturing stream. */
	CUresult (*capture_node)(struct ck_emu_stream *stream, const CUgraphNodeParams *params,
				 const CUlaunchAttribute *attributes, unsigned int attribute_count);
	/* The same of a call that asks for nothing: no node. */
	CUresult (*capture_nothing)(struct ck_emu_stream *stream);
	/* The same of a copy, if the stream captures: false when it does not; nothing was done. */
	bool (*capture_copy)(CUstream handle, const CUDA_MEMCPY3D *copy, CUresult *result);
	/*
	 * The effect of cuMemAllocAsync() and cuMemFreeAsync() in a capturing stream, and of the
	 * latter with memory of a graph in any: false when it is neither, and nothing was done.
	 */
	bool (*capture_alloc)(struct ck_emu_stream *stream, size_t size, CUdeviceptr *address,
			      CUresult *result);
	bool (*capture_free)(struct ck_emu_stream *stream, CUdeviceptr address, CUresult *result);
	/* A call was so wrong that the capture of its stream is lost with it. */
	void (*capture_lose)(struct ck_emu_stream *stream);

	/* --- events of captures */
	/* Set @place to where a capturing stream is. */
	CUresult (*capture_mark)(struct ck_emu_stream *stream, struct ck_emu_capture_place *place);
	/* Forget it; the second when no other reference exists, under any lock. */
	void (*capture_unmark)(struct ck_emu_capture_place *place);
	void (*capture_place_fini)(struct ck_emu_capture_place *place);
	/*
	 * A stream waits for an event that was last recorded at @place: a capturing stream, or one
	 * that joins the capture of the event.
	 */
	CUresult (*capture_join)(struct ck_emu_stream *stream, struct ck_emu_capture_place *place);
	/* The host asks for an event that a capture has recorded, or for the time between two. */
	CUresult (*capture_asked)(struct ck_emu_capture_place *place);
	CUresult (*capture_timed)(struct ck_emu_capture_place *place);

	/* --- graphs */
	/* The effect of cuMemFree() on memory of a graph: NOT_FOUND when no node gave this
	 * address. */
	CUresult (*graph_memory_free)(CUdeviceptr address);
	/* The effect of a kernel's cudaGraphSetConditional(); a bad handle is ignored. */
	void (*graph_condition_set)(CUgraphConditionalHandle id, unsigned int value);
};

/* Set by cuInit, in front of all other calls. */
extern const struct ck_emu_hooks *ck_emu_hooks;

static inline bool ck_emu_capturing(struct ck_emu_stream *stream)
{
	return atomic_load_explicit(&stream->capture, memory_order_acquire) != NULL;
}

static inline bool ck_emu_capture_marked(struct ck_emu_capture_place *place)
{
	return atomic_load_explicit(&place->capture, memory_order_acquire) != NULL;
}

#endif
