/*
 * server/copy/copy_iterator.h - a copy between packed bytes and device memory, cut into pieces.
 *
 * Packed bytes are sent: rows of the copied width, without gaps. A piece is a run of them that one
 * call of the driver moves.
 */
#ifndef CK_SERVER_COPY_COPY_ITERATOR_H
#define CK_SERVER_COPY_COPY_ITERATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda/types.h"

struct cks_request;

/* Decode the CUDA_MEMCPY3D of a message: ids become the driver's arrays, and the client's pointers
 * are dropped. INVALID_HANDLE: there is no such array. */
CUresult cks_copy_decode(struct cks_request *q, const void *bytes, CUDA_MEMCPY3D *copy);

struct cks_copy_iterator {
	size_t total; /* packed bytes of the whole copy */
	size_t piece; /* packed bytes of the current piece */
	size_t done;  /* packed bytes before it */
	bool flat;    /* a plain range at address; else a box of shape */
	bool to_device;
	CUdeviceptr address;
	CUDA_MEMCPY3D shape; /* only the device's side and the extent are used */
	size_t x, y, z;	     /* position of the current piece in the extent */
	size_t w, h, d;	     /* its extent */
};

/* Start a walk over @size bytes at @address. */
void cks_copy_iterator_flat(struct cks_copy_iterator *walk, bool to_device, CUdeviceptr address,
			    size_t size);

/*
 * Start a walk over the device's side of @copy. INVALID_VALUE: it is neither plain device memory
 * nor an array, the extent exceeds its pitch or height, or sizes overflow.
 */
CUresult cks_copy_iterator_box(struct cks_copy_iterator *walk, bool to_device,
			       const CUDA_MEMCPY3D *copy);

/* Go to the next (at first: the first) piece, of at most CK_PIECE_MAX bytes. False: no more. */
bool cks_copy_iterator_next(struct cks_copy_iterator *walk);

/* Copy the current piece, packed at @host, in @stream. */
CUresult cks_copy_iterator_copy(const struct cks_copy_iterator *walk, void *host, CUstream stream);

#endif
