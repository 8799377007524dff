/*
 * emu/ptx/ops/op_surf.c - executors of suld, sust, sured and suq: a surface is bytes in rows.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/ops.h"

/* The bytes of a row, the row and the slice that lane @l means. */
static void read_coordinates(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
			     int64_t place[3])
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];
	unsigned int geometry = in->mod[CK_PTX_MOD_GEOMETRY], first = 0;

	if (geometry == CK_PTX_A1D || geometry == CK_PTX_A2D)
		place[2] = (int32_t)ck_ptx_row(w, access->coord[first++])[l];
	place[0] = (int32_t)ck_ptx_row(w, access->coord[first++])[l];
	if (geometry == CK_PTX_2D || geometry == CK_PTX_A2D || geometry == CK_PTX_3D)
		place[1] = (int32_t)ck_ptx_row(w, access->coord[first++])[l];
	if (geometry == CK_PTX_3D)
		place[2] = (int32_t)ck_ptx_row(w, access->coord[first])[l];
}

/* The memory of @size bytes that lane @l means; *@at NULL: outside, and that is no fault. */
static int locate_surface_bytes(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t l,
				uint32_t size, uint8_t **at)
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];
	unsigned int bound = in->mod[CK_PTX_MOD_BOUND];
	uint64_t object = ck_ptx_row(w, access->object)[l];
	int64_t place[3] = {0, 0, 0}, end[3];
	const struct ck_ptx_texture *surface;
	const struct ck_ptx_image *m;
	int err;

	if (access->by_name)
		memcpy(&object, (const void *)(uintptr_t)object, sizeof(object));
	err = ck_ptx_texture_find(w, object, true, &surface);
	if (err)
		return err;
	m = &surface->levels[0];
	read_coordinates(w, in, l, place);
	if (place[0] & (size - 1))
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	end[0] = (int64_t)m->size[0] * surface->texel;
	end[1] = m->size[1];
	end[2] = m->size[2];
	*at = NULL;
	for (unsigned int d = 0; d < 3; d++) {
		int64_t last = end[d] - (d == 0 ? (int64_t)size : 1);

		if (place[d] >= 0 && place[d] <= last)
			continue;
		if (bound == CK_PTX_BOUND_TRAP || last < 0)
			return CUDA_ERROR_LAUNCH_FAILED;
		if (bound == CK_PTX_BOUND_ZERO)
			return 0;
		place[d] = place[d] < 0 ? 0 : last - (d == 0 ? last % (int64_t)size : 0);
	}
	*at = (uint8_t *)(uintptr_t)(m->base + (uint64_t)place[2] * m->slice +
				     (uint64_t)place[1] * m->pitch + (uint64_t)place[0]);
	return 0;
}

EXECUTOR(suld)
{
	uint32_t size = ck_ptx_type_bytes(in->type);

	EACH_LANE(mask, l, {
		uint8_t *at;
		int err = locate_surface_bytes(w, in, l, size * in->vec, &at);

		if (unlikely(err))
			return err;
		for (unsigned int i = 0; i < in->vec; i++) {
			uint64_t value = 0;

			if (at)
				memcpy(&value, at + i * size, size);
			D(i)[l] = value;
		}
	});
	return 0;
}

EXECUTOR(sust)
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];
	uint32_t size = ck_ptx_type_bytes(in->type);

	EACH_LANE(mask, l, {
		uint8_t *at;
		int err = locate_surface_bytes(w, in, l, size * in->vec, &at);

		if (unlikely(err))
			return err;
		for (unsigned int i = 0; at && i < in->vec; i++)
			memcpy(at + i * size, &ck_ptx_row(w, access->data[i])[l], size);
	});
	return 0;
}

static uint64_t combine_values(const struct ck_ptx_insn *in, uint64_t old, uint64_t value)
{
	int64_t a = ck_ptx_signed(old, in->type), b = ck_ptx_signed(value, in->type);
	uint64_t ua = ck_ptx_unsigned(old, in->type), ub = ck_ptx_unsigned(value, in->type);
	bool is_signed = ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT;

	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_ADD:
		return old + value;
	case CK_PTX_MIN:
		return is_signed ? (uint64_t)ck_min(a, b) : ck_min(ua, ub);
	case CK_PTX_MAX:
		return is_signed ? (uint64_t)ck_max(a, b) : ck_max(ua, ub);
	case CK_PTX_AND:
		return old & value;
	default:
		return old | value;
	}
}

/* Indivisible, as other streams' grids may change the same place. */
static void reduce_memory(const struct ck_ptx_insn *in, void *at, uint64_t value)
{
	if (ck_ptx_type_bytes(in->type) == 8) {
		uint64_t old = __atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED);

		while (!__atomic_compare_exchange_n((uint64_t *)at, &old,
						    combine_values(in, old, value), true,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
	} else {
		uint32_t old = __atomic_load_n((uint32_t *)at, __ATOMIC_RELAXED);

		while (!__atomic_compare_exchange_n((uint32_t *)at, &old,
						    (uint32_t)combine_values(in, old, value), true,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
	}
}

EXECUTOR(sured)
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];

	EACH_LANE(mask, l, {
		uint8_t *at;
		int err = locate_surface_bytes(w, in, l, ck_ptx_type_bytes(in->type), &at);

		if (unlikely(err))
			return err;
		if (at)
			reduce_memory(in, at, ck_ptx_row(w, access->data[0])[l]);
	});
	return 0;
}

/* Only unformatted access: x counts bytes, and nothing is converted. */
static bool is_plain(const struct ck_ptx_insn *in)
{
	unsigned int geometry = in->mod[CK_PTX_MOD_GEOMETRY];

	return in->mod[CK_PTX_MOD_UNFORMATTED] && in->mod[CK_PTX_MOD_BOUND] &&
	       geometry != CK_PTX_CUBE && geometry != CK_PTX_ACUBE &&
	       ck_ptx_type_bytes(in->type) * in->vec <= 16;
}

ck_ptx_exec ck_ptx_pick_suld(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return is_plain(in) ? suld : NULL;
}

ck_ptx_exec ck_ptx_pick_sust(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return is_plain(in) ? sust : NULL;
}

ck_ptx_exec ck_ptx_pick_sured(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_ADD:
	case CK_PTX_MIN:
	case CK_PTX_MAX:
		return is_plain(in) && ck_ptx_type_class(in->type) != CK_PTX_CLASS_BITS ? sured
											: NULL;
	case CK_PTX_AND:
	case CK_PTX_OR:
		return is_plain(in) && ck_ptx_type_class(in->type) == CK_PTX_CLASS_BITS ? sured
											: NULL;
	default:
		return NULL;
	}
}

EXECUTOR(suq)
{
	const struct ck_ptx_access *access = &w->block->run->module->accesses[in->target];
	unsigned int query = in->mod[CK_PTX_MOD_QUERY];

	EACH_LANE(mask, l, {
		uint64_t object = ck_ptx_row(w, access->object)[l];
		const struct ck_ptx_texture *t;
		int err;

		if (access->by_name)
			memcpy(&object, (const void *)(uintptr_t)object, sizeof(object));
		err = ck_ptx_texture_find(w, object, true, &t);
		if (unlikely(err))
			return err;
		D(0)
		[l] = t->levels[0]
			      .size[query == CK_PTX_QUERY_LAYERS ? 2 : query - CK_PTX_QUERY_WIDTH];
	});
	return 0;
}

ck_ptx_exec ck_ptx_pick_suq(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	return in->mod[CK_PTX_MOD_QUERY] <= CK_PTX_QUERY_LAYERS ? suq : NULL;
}
