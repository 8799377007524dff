/*
 * emu/ptx/ops/op_tex.c - executors of tex, tld4 and txq.
 */
#include "emu/ptx/ops/ops.h"
#include "emu/ptx/ops/sample.h"

int ck_ptx_texture_find(struct ck_ptx_warp *w, uint64_t object, bool surface,
			const struct ck_ptx_texture **texture)
{
	struct ck_ptx_run *run = w->block->run;

	if (unlikely(!run->texture[surface] || run->object[surface] != object)) {
		run->texture[surface] = NULL;
		if (run->host->texture)
			run->texture[surface] =
				run->host->texture(run->host->opaque, object, surface);
		run->object[surface] = object;
	}
	*texture = run->texture[surface];
	return *texture ? 0 : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* The operands of @in, and for lane @l the texture that it names. */
static int find_texture(struct ck_ptx_warp *w, const struct ck_ptx_access *access, uint32_t l,
			const struct ck_ptx_texture **texture)
{
	uint64_t object = ck_ptx_row(w, access->object)[l];

	/* the address of a reference is a constant that the module made */
	if (access->by_name)
		memcpy(&object, (const void *)(uintptr_t)object, sizeof(object));
	return ck_ptx_texture_find(w, object, false, texture);
}

/* Where lane @l looks: layer, coordinates, and for a cube the face. */
static void place_of(struct ck_ptx_warp *w, const struct ck_ptx_insn *in,
		     const struct ck_ptx_access *access, uint32_t l, struct ck_ptx_place *place)
{
	static const uint8_t dims[] = {
		[CK_PTX_1D] = 1,  [CK_PTX_2D] = 2,   [CK_PTX_3D] = 3,	 [CK_PTX_A1D] = 1,
		[CK_PTX_A2D] = 2, [CK_PTX_CUBE] = 3, [CK_PTX_ACUBE] = 3,
	};
	unsigned int geometry = in->mod[CK_PTX_MOD_GEOMETRY], first = 0;

	*place = (struct ck_ptx_place){.w = w, .lane = l, .dims = dims[geometry]};
	if (geometry == CK_PTX_A1D || geometry == CK_PTX_A2D || geometry == CK_PTX_ACUBE) {
		place->layered = true;
		place->layer = (int32_t)ck_ptx_row(w, access->coord[first++])[l];
	}
	place->integer = in->type2 == CK_PTX_S32;
	for (unsigned int d = 0; d < place->dims; d++) {
		uint64_t bits = ck_ptx_row(w, access->coord[first + d])[l];

		place->at[d] = ck_ptx_f32(bits);
		place->index[d] = (int32_t)bits;
	}
	if (geometry == CK_PTX_CUBE || geometry == CK_PTX_ACUBE) {
		unsigned int face = ck_ptx_cube_face(place->at, place->at);

		place->layer = place->layer * 6 + face;
		place->layered = place->cube = true;
		place->dims = 2;
	}
}

static float level_of(struct ck_ptx_warp *w, const struct ck_ptx_insn *in,
		      const struct ck_ptx_access *access, uint32_t l,
		      const struct ck_ptx_place *place)
{
	float dx[3], dy[3];

	if (in->mod[CK_PTX_MOD_LEVEL] == CK_PTX_LEVEL)
		return ck_ptx_f32(ck_ptx_row(w, access->lod)[l]);
	if (in->mod[CK_PTX_MOD_LEVEL] != CK_PTX_GRAD)
		return 0;
	for (unsigned int d = 0; d < place->dims; d++) {
		dx[d] = ck_ptx_f32(ck_ptx_row(w, access->dx[d])[l]);
		dy[d] = ck_ptx_f32(ck_ptx_row(w, access->dy[d])[l]);
	}
	return ck_ptx_gradient_lod(place->texture, place->dims, dx, dy);
}

/* One sample for each lane, or with @gather the four texels around its place. */
static inline int fetch_all(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask,
			    bool gather)
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];

	EACH_LANE(mask, l, {
		struct ck_ptx_place place;
		uint32_t value[4];
		int err;

		place_of(w, in, access, l, &place);
		err = find_texture(w, access, l, &place.texture);
		if (!err && gather)
			err = ck_ptx_gather(&place, in->mod[CK_PTX_MOD_COMPONENT] - 1u, value);
		else if (!err)
			err = ck_ptx_sample(&place, level_of(w, in, access, l, &place), value);
		if (unlikely(err))
			return err;
		for (unsigned int c = 0; c < 4; c++)
			D(c)[l] = value[c];
		ck_ptx_row(w, access->resident)[l] = 1;
	});
	return 0;
}

EXECUTOR(tex)
{
	return fetch_all(w, in, mask, false);
}

ck_ptx_exec ck_ptx_pick_tex(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int geometry = in->mod[CK_PTX_MOD_GEOMETRY];
	bool cube = geometry == CK_PTX_CUBE || geometry == CK_PTX_ACUBE;

	/* a place on a cube is a direction */
	return in->vec == 4 && !(cube && in->type2 == CK_PTX_S32) ? tex : NULL;
}

EXECUTOR(tld4)
{
	return fetch_all(w, in, mask, true);
}

ck_ptx_exec ck_ptx_pick_tld4(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int geometry = in->mod[CK_PTX_MOD_GEOMETRY];

	return in->vec == 4 && in->mod[CK_PTX_MOD_COMPONENT] &&
			       (geometry == CK_PTX_2D || geometry == CK_PTX_A2D ||
				geometry == CK_PTX_CUBE || geometry == CK_PTX_ACUBE)
		       ? tld4
		       : NULL;
}

EXECUTOR(txq)
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];
	bool by_level = in->mod[CK_PTX_MOD_LEVEL] == CK_PTX_LEVEL;
	unsigned int query = in->mod[CK_PTX_MOD_QUERY];

	EACH_LANE(mask, l, {
		const struct ck_ptx_texture *t;
		uint32_t number = by_level ? (uint32_t)ck_ptx_row(w, access->lod)[l] : 0;
		int err = find_texture(w, access, l, &t);

		if (unlikely(err))
			return err;
		if (query == CK_PTX_QUERY_LEVELS)
			D(0)[l] = t->level_count;
		else if (query == CK_PTX_QUERY_NORMALIZED)
			D(0)[l] = (t->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
		else if (query == CK_PTX_QUERY_LAYERS)
			D(0)[l] = t->levels[0].size[2];
		else
			D(0)
		[l] = t->levels[ck_min(number, t->level_count - 1)]
			      .size[query - CK_PTX_QUERY_WIDTH];
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_txq(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int level = in->mod[CK_PTX_MOD_LEVEL];

	if (level == CK_PTX_GRAD || level == CK_PTX_BASE_LEVEL ||
	    (level && in->mod[CK_PTX_MOD_QUERY] > CK_PTX_QUERY_DEPTH))
		return NULL;
	return txq;
}
