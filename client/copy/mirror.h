/*
 * client/copy/mirror.h - host memory that the copies of a graph read and write.
 *
 * The server cannot see it, so each such copy has a mirror there, pinned memory of the copy's size
 * without gaps. Before a launch the mirrors of sources are filled; when it is done those of
 * destinations are fetched. Which mirrors a graph has is the server's to say: it sees clones,
 * children and updates.
 */
#ifndef CK_CLIENT_COPY_MIRROR_H
#define CK_CLIENT_COPY_MIRROR_H

#include "client/wire/client.h"

/* Is there any? While there is none, graphs cost nothing here. */
bool ck_mirrors_any(void);

/* A copy as it travels, and the mirrors made for it: 0 where a side needs none. */
struct ck_mirrored {
	CUDA_MEMCPY3D copy;
	uint64_t made[2];
};

/*
 * @copy with ids in place of what the server cannot use: arrays, and host memory, which gets
 * mirrors. INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult ck_mirror_copy(const CUDA_MEMCPY3D *copy, struct ck_mirrored *out);
/* The copy came to nothing: its mirrors are forgotten. */
void ck_mirror_undo(const struct ck_mirrored *m);
/* The other way round: a copy that the server describes, with the application's own memory. */
CUresult ck_mirror_restore(CUDA_MEMCPY3D *copy);

/* Put a copy into a stream that is being captured. */
CUresult ck_mirror_capture(const CUDA_MEMCPY3D *copy, uint64_t stream);
CUresult ck_mirror_capture_flat(uint64_t dst, bool to_device, uint64_t src, bool from_device,
				size_t size, uint64_t stream);

/*
 * Unless the change has failed with @err the mirrors of @exec are now @ids; those of @gone are
 * forgotten. Both arrays are taken over.
 */
void ck_mirror_assign(struct ck_exec *exec, CUresult err, uint64_t *ids, size_t count,
		      uint64_t *gone, size_t gone_count);
/* Launch an @exec that has mirrors. */
CUresult ck_mirror_launch(struct ck_exec *exec, uint64_t ctx, uint64_t stream);
/* Graphs may have functions of the application in them from now on. */
void ck_mirror_functions(void);
/*
 * Around such a function: destinations as they are now, and then sources as it has left them. False:
 * some bytes have not moved, since the session is lost or there is no memory.
 */
__attribute__((warn_unused_result)) bool ck_mirror_pull(void);
__attribute__((warn_unused_result)) bool ck_mirror_push(void);
/* A graph or an exec of this id goes; the mirrors that nobody else needs go with it. */
CUresult ck_mirror_owner_end(uint64_t object);

#endif
