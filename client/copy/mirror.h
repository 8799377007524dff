/*
 * client/copy/mirror.h - host memory that the copies of a graph read and write.
 *
 * The server cannot see this memory. So each such copy has a mirror on the server: packed pinned
 * memory of the copy's size. Before a launch, the mirrors of sources are filled; after it, those of
 * destinations are fetched. The server reports which mirrors a graph has, because it sees clones,
 * children and updates.
 */
#ifndef CK_CLIENT_COPY_MIRROR_H
#define CK_CLIENT_COPY_MIRROR_H

#include "client/link/client.h"

/* Are there any mirrors? If not, graphs cost nothing here. */
bool ckc_mirrors_any(void);

/* An encoded copy, and the mirrors made for it: 0 if a side needs none. */
struct ckc_mirrored {
	CUDA_MEMCPY3D copy;
	uint64_t made[2];
};

/* Encode @copy: replace arrays by ids, and host memory by mirrors. INVALID_VALUE, OUT_OF_MEMORY. */
CUresult ckc_mirror_copy(const CUDA_MEMCPY3D *copy, struct ckc_mirrored *out);
/* The copy failed: forget its mirrors. */
void ckc_mirror_undo(const struct ckc_mirrored *m);
/* The reverse: put the application's own memory into a copy that the server describes. */
CUresult ckc_mirror_restore(CUDA_MEMCPY3D *copy);

/* Add a copy to a stream that is being captured. */
CUresult ckc_mirror_capture(const CUDA_MEMCPY3D *copy, uint64_t stream);
CUresult ckc_mirror_capture_flat(uint64_t dst, bool to_device, uint64_t src, bool from_device,
				 size_t size, uint64_t stream);

/*
 * Unless the change failed with @err, the mirrors of @exec are now @ids, and those of @gone are
 * forgotten. Takes ownership of both arrays.
 */
void ckc_mirror_assign(struct ckc_exec *exec, CUresult err, uint64_t *ids, size_t count,
		       uint64_t *gone, size_t gone_count);
/* Launch an @exec that has mirrors. */
CUresult ckc_mirror_launch(struct ckc_exec *exec, struct ckc_context *context,
			   struct ckc_stream *stream);
/* From now on, graphs may contain host functions of the application. */
void ckc_mirror_functions(void);
/*
 * Call before and after such a function: fetch the destinations' current bytes, then send what the
 * function has changed in them and in pinned sources. False: some bytes were not moved, because the
 * session is lost or memory is exhausted. @x is for the second call, which frees it.
 *
 * The function may belong to another graph than the one whose launch has the mirrors. Then it
 * changes none of their bytes, and they may change while it runs.
 */
struct ckc_exchange;
__attribute__((warn_unused_result)) bool ckc_mirror_pull(struct ckc_exchange **x);
__attribute__((warn_unused_result)) bool ckc_mirror_push(struct ckc_exchange *x);
/* The program destroys @exec, with context @ctx, or 0. Functions of its launch may still need its
 * mirrors, and a wait for that might never end; in that case it ends at the next launch. */
CUresult ckc_mirror_exec_end(uint64_t ctx, struct ckc_exec *exec);
/* A graph or an exec with this id ends; forget the mirrors that no other one uses. */
CUresult ckc_mirror_owner_end(uint64_t object);

#endif
