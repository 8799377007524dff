/*
 * emu/copy/box.h - copies of rows and slices between memory that an application names.
 */
#ifndef CK_EMU_COPY_BOX_H
#define CK_EMU_COPY_BOX_H

#include "emu/core/emu.h"

/* Bytes to move: @depth slices of @height rows of @width bytes; both ends are addresses here. */
struct ck_emu_box {
	uint64_t dst, src;
	size_t width, height, depth;
	size_t dst_pitch, src_pitch; /* from row to row */
	size_t dst_slice, src_slice; /* from slice to slice */
	bool peer;		     /* each end is used in a context of its own */
};

/* The description of one side of a copy. */
enum ck_emu_side {
	CK_EMU_SIDE_HOST,   /* any memory of the process */
	CK_EMU_SIDE_DEVICE, /* memory that devices know */
	CK_EMU_SIDE_ANY,    /* found out from the address */
	CK_EMU_SIDE_ARRAY,  /* an array's memory, within its extents */
};

/*
 * Check and carry out a copy. @sync: it is done when the call returns, unless both sides are
 * device memory; then, and without @sync, it is queued. Pageable host memory is read before
 * the call returns, and written.
 */
CUresult ck_emu_box_copy(const struct ck_emu_box *box, enum ck_emu_side dst, enum ck_emu_side src,
			 CUstream stream, bool sync);
/* copy_nd.c: the same of a description, each side of which is used in a context of its own. */
CUresult ck_emu_copy_peer(const CUDA_MEMCPY3D *c, CUstream stream, bool sync);
/* First byte to last, in bytes, of one end; false when it does not fit 64 bits. */
bool ck_emu_box_extent(const struct ck_emu_box *box, size_t pitch, size_t slice, size_t *extent);

#endif
