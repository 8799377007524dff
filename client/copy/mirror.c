/*
 * client/copy/mirror.c - the table of mirrors, and copies that name them; see mirror.h.
 */
#include <stdlib.h>

#include "client/managed/managed.h"
#include "client/memory/box.h"
#include "client/memory/pinned.h"
#include "cuda/copy_side.h"
#include "client/copy/mirror.h"
#include "client/copy/mirror_part.h"
#include "util/map.h"

bool ckc_mirrors_any(void)
{
	return ckc_mirrors_current()->count != 0;
}

static void remove_mirror(uint64_t id)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	struct ckc_mirror *m;

	ck_lock(&all->lock);
	m = all->map ? ck_map_remove(all->map, &id, sizeof(id)) : NULL;
	if (m)
		all->count--;
	ck_unlock(&all->lock);
	free(m);
}

bool ckc_mirror_find(uint64_t id, struct ckc_mirror *out)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	const struct ckc_mirror *m;

	ck_lock(&all->lock);
	m = all->map ? ck_map_find(all->map, &id, sizeof(id)) : NULL;
	if (m)
		*out = *m;
	ck_unlock(&all->lock);
	return m != NULL;
}

/* From then on it may end at any time: a copy in @out. */
static CUresult insert_mirror(struct ckc_mirror *m, struct ckc_mirror *out)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	static _Atomic uint64_t last; /* per process: a number is never reused */
	int ret = -1;

	ck_lock(&all->lock);
	if (!all->map)
		all->map = ck_map_create();
	m->id = atomic_fetch_add(&last, 1) + 1;
	if (all->map)
		ret = ck_map_insert(all->map, &m->id, sizeof(m->id), m);
	if (ret == 0)
		all->count++;
	*out = *m;
	ck_unlock(&all->lock);
	return ret == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Place @m's box as its side of the copy says; false: invalid, or too large. */
static bool place_box(struct ckc_mirror *m)
{
	const struct ck_copy_side *s = &m->side;
	const size_t at[3] = {s->x, s->y, s->z};
	size_t bytes;

	return s->host && ckc_box_place(&m->box, (uintptr_t)s->host, s->pitch, s->height, at) &&
	       !ck_mul_overflow(m->box.width, m->box.height, &bytes) &&
	       !ck_mul_overflow(bytes, m->box.depth, &bytes);
}

/* Is @m older than @source, a mirror that a copy reads, and does a copy write bytes of it into @m?
 * An earlier copy does not read what a later one writes, even if that is in the same graph. */
static bool may_write(const struct ckc_mirror *m, const struct ckc_mirror *source)
{
	return !m->source && m->id < source->id && ckc_boxes_overlap(&m->box, &source->box);
}

/* If a copy has been recorded that writes all bytes of the source @m, find its mirror: if it is in
 * the same graph, @m is to be the part @within of that one. 0: there is none. */
static uint64_t find_whole(const struct ckc_mirror *m, struct ckc_box *within)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	struct ck_map_iter i = CK_MAP_ITER_INIT;
	struct ckc_mirror *newest = NULL;
	uint64_t whole = 0;

	ck_lock(&all->lock);
	while (ck_map_next(all->map, &i)) {
		struct ckc_mirror *other = i.value;

		if (may_write(other, m) && (!newest || other->id > newest->id))
			newest = other;
	}
	if (newest && ckc_box_contains(&newest->box, &m->box, within)) {
		newest->read = true;
		whole = newest->id;
	}
	ck_unlock(&all->lock);
	return whole;
}

static CUresult make_mirror(const CUDA_MEMCPY3D *c, enum ck_copy_end end, struct ckc_mirror *out)
{
	struct ckc_mirror *m = malloc(sizeof(*m));
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*m = (struct ckc_mirror){
		.source = end == CK_COPY_SOURCE,
		.side = ck_copy_side(c, end),
		.box = {.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth}};
	if (place_box(m))
		err = insert_mirror(m, out);
	if (err)
		free(m);
	return err;
}

/* Has the device memory at the address @host, as the host has? */
static bool is_on_device(const void *host)
{
	return ckc_pinned_holds(host, 1) ||
	       ckc_managed_backs(ckc_client_current(), (uintptr_t)host);
}

/* The mirror @m is a side of @c; a part of another one in the same graph has its place there. */
static void name_mirror(struct ck_copy_side *side, const CUDA_MEMCPY3D *c,
			const struct ckc_mirror *m)
{
	struct ckc_box within;

	ck_copy_side_pack(side, c, (void *)(uintptr_t)m->id);
	side->device = m->source ? find_whole(m, &within) : 0;
	if (!side->device)
		return;
	side->x = within.start;
	side->pitch = within.pitch;
	side->height = within.slice / within.pitch;
}

/* Encode one end of a copy: the id of its array, or a mirror for the application's memory. */
static CUresult encode_side(CUDA_MEMCPY3D *c, enum ck_copy_end end, uint64_t *made)
{
	struct ck_copy_side side = ck_copy_side(c, end);
	struct ckc_mirror m;
	uint64_t id = 0;
	CUresult err = CUDA_SUCCESS;

	if (side.type == CU_MEMORYTYPE_UNIFIED) {
		side.type = ckc_on_device(side.device) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		side.host = (void *)(uintptr_t)side.device;
		ck_copy_side_set(c, end, &side);
	}
	/* other nodes may use these bytes on the device */
	if (side.type == CU_MEMORYTYPE_HOST && is_on_device(side.host)) {
		side.type = CU_MEMORYTYPE_DEVICE;
		side.device = (uintptr_t)side.host;
		ck_copy_side_set(c, end, &side);
	}
	if (side.type == CU_MEMORYTYPE_ARRAY) {
		err = ckc_array_id(side.array, &id);
		side.array = (CUarray)(uintptr_t)id;
	} else if (side.type == CU_MEMORYTYPE_HOST) {
		err = make_mirror(c, end, &m);
		if (!err)
			name_mirror(&side, c, &m);
		*made = err ? 0 : m.id;
	}
	ck_copy_side_set(c, end, &side);
	return err;
}

void ckc_mirror_undo(const struct ckc_mirrored *m)
{
	for (int i = 0; i < 2; i++) {
		if (m->made[i])
			remove_mirror(m->made[i]);
	}
}

CUresult ckc_mirror_copy(const CUDA_MEMCPY3D *copy, struct ckc_mirrored *out)
{
	CUresult err;

	*out = (struct ckc_mirrored){.copy = *copy};
	if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
		return CUDA_ERROR_INVALID_VALUE;
	err = encode_side(&out->copy, CK_COPY_SOURCE, &out->made[0]);
	if (!err)
		err = encode_side(&out->copy, CK_COPY_DESTINATION, &out->made[1]);
	if (err)
		ckc_mirror_undo(out);
	return err;
}

/* A part of @m has a place and a pitch of its own; @m itself, and a part like it, is packed. */
static void restore_place(struct ck_copy_side *side, const CUDA_MEMCPY3D *c,
			  const struct ckc_mirror *m)
{
	if (side->x == 0 && (c->Height <= 1 || side->pitch == c->WidthInBytes)) {
		*side = m->side;
	} else {
		side->host = (void *)(uintptr_t)(m->box.start + side->x);
		side->x = side->y = side->z = 0;
	}
	side->type = CU_MEMORYTYPE_HOST;
}

static CUresult restore_side(CUDA_MEMCPY3D *c, enum ck_copy_end end)
{
	struct ck_copy_side side = ck_copy_side(c, end);
	struct ckc_mirror m;

	if (side.type == CU_MEMORYTYPE_ARRAY) {
		side.array = ckc_object_named(CK_OBJECT_ARRAY, (uintptr_t)side.array);
	} else if (side.type == CU_MEMORYTYPE_HOST) {
		if (!ckc_mirror_find((uintptr_t)side.host, &m))
			return CUDA_ERROR_UNKNOWN;
		restore_place(&side, c, &m);
	}
	ck_copy_side_set(c, end, &side);
	return CUDA_SUCCESS;
}

CUresult ckc_mirror_restore(CUDA_MEMCPY3D *c)
{
	CUresult err = restore_side(c, CK_COPY_DESTINATION);

	return err ? err : restore_side(c, CK_COPY_SOURCE);
}

CUresult ckc_mirror_capture(const CUDA_MEMCPY3D *copy, uint64_t stream)
{
	struct ckc_mirrored m;
	uint64_t ctx;
	CUresult err = ckc_enter(&ctx);

	if (!err)
		err = ckc_mirror_copy(copy, &m);
	if (err)
		return err;
	err = ck_wire_capture_copy(ctx, &m.copy, stream);
	if (err)
		ckc_mirror_undo(&m);
	return err;
}

CUresult ckc_mirror_capture_flat(uint64_t dst, bool to_device, uint64_t src, bool from_device,
				 size_t size, uint64_t stream)
{
	const CUDA_MEMCPY3D copy = {
		.srcMemoryType = from_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.srcHost = from_device ? NULL : (void *)(uintptr_t)src,
		.srcDevice = from_device ? src : 0,
		.dstMemoryType = to_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
		.dstHost = to_device ? NULL : (void *)(uintptr_t)dst,
		.dstDevice = to_device ? dst : 0,
		.WidthInBytes = size,
		.Height = 1,
		.Depth = 1,
	};

	return ckc_mirror_capture(&copy, stream);
}

static void forget_all(uint64_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		remove_mirror(ids[i]);
	free(ids);
}

/* Does a copy read memory of which another copy in the list may have written a part before? Those
 * that read all of it are parts of that one, and not in the list. */
static bool mirrors_clash(const uint64_t *ids, size_t count)
{
	struct ckc_mirror written, source;

	for (size_t i = 0; i < count; i++) {
		if (!ckc_mirror_find(ids[i], &written) || written.source)
			continue;
		for (size_t k = 0; k < count; k++) {
			if (ids[k] > written.id && ckc_mirror_find(ids[k], &source) &&
			    source.source && may_write(&written, &source))
				return true;
		}
	}
	return false;
}

void ckc_mirror_assign(struct ckc_exec *exec, CUresult err, uint64_t *ids, size_t count,
		       uint64_t *gone, size_t gone_count)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	uint64_t *old = ids;

	ck_lock(&all->launch_lock);
	if (!err) {
		old = exec->mirrors;
		exec->mirrors = ids;
		exec->mirror_count = (unsigned int)count;
		exec->clash = mirrors_clash(ids, count);
	}
	ck_unlock(&all->launch_lock);
	free(old);
	forget_all(gone, gone_count);
}

CUresult ckc_mirror_owner_end(uint64_t object)
{
	uint64_t *gone = NULL;
	size_t count = 0;
	CUresult err = ck_wire_graph_end(0, object, &gone, &count);

	forget_all(gone, count);
	return err;
}
