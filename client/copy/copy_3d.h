/*
 * client/copy/copy_3d.h - a copy of a box as copy_3d.c has resolved it; for copies between servers.
 */
#ifndef CK_CLIENT_COPY_COPY_3D_H
#define CK_CLIENT_COPY_COPY_3D_H

#include "client/memory/box.h"
#include "client/link/client.h"

/* One side of a copy, resolved to an address in one space, or a place in an array. */
struct ckc_side {
	bool device;
	uint64_t array;	     /* its id; 0: no array */
	size_t at[3];	     /* in an array: bytes, row, slice or layer */
	uint64_t start;	     /* of the first byte to copy */
	size_t pitch, slice; /* bytes between rows, between planes */
	size_t extent;	     /* from the first byte used to the end of the last */
	uint64_t context;    /* id of the context given for it; 0: none */
};

struct ckc_box_copy {
	struct ckc_side dst, src;
	size_t width, height, depth;
};

static inline struct ckc_box ckc_box_of(const struct ckc_side *s, const struct ckc_box_copy *b)
{
	return (struct ckc_box){.start = s->start,
				.width = b->width,
				.height = b->height,
				.depth = b->depth,
				.pitch = s->pitch,
				.slice = s->slice};
}

/* The context and stream of a copy. */
struct ckc_box_place {
	struct ckc_context *ctx;
	struct ckc_stream *stream; /* NULL: legacy */
	uint64_t id;
	bool waits; /* until the copy is done: a synchronous form */
};

/* --- copy_3d_send.c */

/* The four ways of a copy; the server of the place's context makes it. */
CUresult ckc_box_to_device(const struct ckc_box_copy *b, const struct ckc_box_place *p);
CUresult ckc_box_to_host(const struct ckc_box_copy *b, const struct ckc_box_place *p);
CUresult ckc_box_in_parts(const struct ckc_box_copy *b, const struct ckc_box_place *p);
CUresult ckc_box_between_devices(const struct ckc_box_copy *b, const struct ckc_box_place *p);

/* The structure that describes the copy to a server; a host side is packed. */
void ckc_box_describe(const struct ckc_box_copy *b, CUDA_MEMCPY3D *c);

/* How to split a box that is too large for a message: a row, rows, or planes. The number is that of
 * the axis. */
enum ckc_box_cut { CK_CUT_WIDTH, CK_CUT_HEIGHT, CK_CUT_DEPTH };
enum ckc_box_cut ckc_box_cut(const struct ckc_box_copy *b, size_t *whole);
struct ckc_box_copy ckc_box_part(const struct ckc_box_copy *b, enum ckc_box_cut cut, size_t first,
				 size_t count);

/*
 * --- multi_server_3d.c: make the copy if a device side of it is on another server than that of @p,
 * after the work in the place's stream. False: both are on that server.
 */
bool ckc_box_between(struct ckc_box_copy *b, const struct ckc_box_place *p, CUresult *err);

#endif
