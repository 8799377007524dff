/*
 * cuda/copy_side.h - the source or the destination of a 3D copy, as one structure.
 *
 * CUDA_MEMCPY3D (CUDA driver API reference, cuMemcpy3D) describes both sides by the same members in
 * the same order. Code that treats both alike takes a side out, changes it, and puts it back.
 */
#ifndef CK_CUDA_COPY_SIDE_H
#define CK_CUDA_COPY_SIDE_H

#include <stddef.h>
#include <string.h>

#include "cuda/base_types.h"

struct ck_copy_side {
	size_t x, y, z; /* where the box begins: bytes, rows, planes */
	size_t lod;
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	void *reserved;
	size_t pitch, height; /* bytes of a row, rows of a plane */
};

enum ck_copy_end { CK_COPY_SOURCE, CK_COPY_DESTINATION };

#define CK_COPY_SAME(member, src, dst)                                                             \
	_Static_assert(offsetof(struct ck_copy_side, member) ==                                    \
				       offsetof(CUDA_MEMCPY3D, src) -                              \
					       offsetof(CUDA_MEMCPY3D, srcXInBytes) &&             \
			       offsetof(struct ck_copy_side, member) ==                            \
				       offsetof(CUDA_MEMCPY3D, dst) -                              \
					       offsetof(CUDA_MEMCPY3D, dstXInBytes),               \
		       "a side of CUDA_MEMCPY3D begins with " #member)
CK_COPY_SAME(x, srcXInBytes, dstXInBytes);
CK_COPY_SAME(type, srcMemoryType, dstMemoryType);
CK_COPY_SAME(host, srcHost, dstHost);
CK_COPY_SAME(device, srcDevice, dstDevice);
CK_COPY_SAME(array, srcArray, dstArray);
CK_COPY_SAME(pitch, srcPitch, dstPitch);
CK_COPY_SAME(height, srcHeight, dstHeight);

static inline size_t ck_copy_offset(enum ck_copy_end end)
{
	return end == CK_COPY_SOURCE ? offsetof(CUDA_MEMCPY3D, srcXInBytes)
				     : offsetof(CUDA_MEMCPY3D, dstXInBytes);
}

static inline struct ck_copy_side ck_copy_side(const CUDA_MEMCPY3D *copy, enum ck_copy_end end)
{
	struct ck_copy_side side;

	memcpy(&side, (const char *)copy + ck_copy_offset(end), sizeof(side));
	return side;
}

static inline void ck_copy_side_set(CUDA_MEMCPY3D *copy, enum ck_copy_end end,
				    const struct ck_copy_side *side)
{
	memcpy((char *)copy + ck_copy_offset(end), side, sizeof(*side));
}

/* A copy's own packed box at @host: rows and planes follow one another. */
static inline void ck_copy_side_pack(struct ck_copy_side *side, const CUDA_MEMCPY3D *copy,
				     const void *host)
{
	side->host = host;
	side->x = side->y = side->z = 0;
	side->pitch = copy->WidthInBytes;
	side->height = copy->Height;
}

#endif
