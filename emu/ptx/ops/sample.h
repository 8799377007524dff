/*
 * emu/ptx/ops/sample.h - what a texture unit does: coordinates to texels, and texels to one value.
 *
 * By the appendix on texture fetching of the CUDA C++ Programming Guide.
 */
#ifndef CK_EMU_PTX_OPS_SAMPLE_H
#define CK_EMU_PTX_OPS_SAMPLE_H

#include "emu/ptx/memory/exec.h"

/* Where a lane looks. */
struct ck_ptx_place {
	struct ck_ptx_warp *w;
	uint32_t lane;
	const struct ck_ptx_texture *texture;
	unsigned int dims; /* coordinates that are filtered: 1, 2, 3 */
	bool integer;	   /* index, not at: texels by number, no filter */
	float at[3];
	int64_t index[3];
	bool layered; /* layer counts; it is clamped */
	int64_t layer;
	bool cube; /* at is a place on a face: 0 to 1, clamped */
};

/* The value at @place of mipmap level @lod, floats or integers, as the bits of four channels: 0 or
 * what ends the grid. */
int ck_ptx_sample(const struct ck_ptx_place *place, float lod, uint32_t out[4]);
/* Channel @channel of the four texels of a linear filter, in the order of tld4. */
int ck_ptx_gather(const struct ck_ptx_place *place, unsigned int channel, uint32_t out[4]);
/* The level that gradients ask for: of neighbouring pixels, in coordinates. */
float ck_ptx_gradient_lod(const struct ck_ptx_texture *texture, unsigned int dims,
			  const float dx[3], const float dy[3]);
/* Direction (x, y, z) to a face and a place on it: the face's number. */
unsigned int ck_ptx_cube_face(const float direction[3], float at[2]);

#endif
