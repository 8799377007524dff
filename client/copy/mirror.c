/*
 * client/copy/mirror.c - the table of mirrors, and the transfer of their bytes; see mirror.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/memory/box.h"
#include "cuda/copy_side.h"
#include "client/wire/delivery.h"
#include "client/copy/mirror.h"
#include "client/copy/state.h"
#include "client/memory/pinned.h"
#include "util/map.h"

#define PIECE ((size_t)1 << 30)		/* bytes per message; lengths on the wire are 32 bits */
#define SMALL_PIECE ((size_t)512 << 10) /* the same, for a message sent as one record */

struct mirror {
	uint64_t id;
	bool source;		  /* the copy reads it */
	struct ckc_box box;	  /* in the memory of the application */
	struct ck_copy_side side; /* as the application described it */
};

static struct ckc_mirrors *all_mirrors(void)
{
	return &ckc_client_current()->copying->mirrors;
}

bool ckc_mirrors_any(void)
{
	return all_mirrors()->count != 0;
}

static void forget(uint64_t id)
{
	struct ckc_mirrors *all = all_mirrors();
	struct mirror *m;

	ck_lock(&all->lock);
	m = all->map ? ck_map_remove(all->map, &id, sizeof(id)) : NULL;
	if (m)
		all->count--;
	ck_unlock(&all->lock);
	free(m);
}

/* Copy the mirror @id; false: there is none. */
static bool find(uint64_t id, struct mirror *out)
{
	struct ckc_mirrors *all = all_mirrors();
	const struct mirror *m;

	ck_lock(&all->lock);
	m = all->map ? ck_map_find(all->map, &id, sizeof(id)) : NULL;
	if (m)
		*out = *m;
	ck_unlock(&all->lock);
	return m != NULL;
}

static CUresult note(struct mirror *m)
{
	struct ckc_mirrors *all = all_mirrors();
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
	ck_unlock(&all->lock);
	return ret == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Place @m's box as its side of the copy says; false: invalid, or too large. */
static bool place(struct mirror *m)
{
	const struct ck_copy_side *s = &m->side;
	const size_t at[3] = {s->x, s->y, s->z};
	size_t bytes;

	return s->host && ckc_box_place(&m->box, (uintptr_t)s->host, s->pitch, s->height, at) &&
	       !ck_mul_overflow(m->box.width, m->box.height, &bytes) &&
	       !ck_mul_overflow(bytes, m->box.depth, &bytes);
}

static CUresult make(const CUDA_MEMCPY3D *c, enum ck_copy_end end, uint64_t *id)
{
	struct mirror *m = malloc(sizeof(*m));
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*m = (struct mirror){
		.source = end == CK_COPY_SOURCE,
		.side = ck_copy_side(c, end),
		.box = {.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth}};
	if (place(m))
		err = note(m);
	if (err)
		free(m);
	else
		*id = m->id;
	return err;
}

/* Encode one end of a copy: the id of its array, or a mirror for the application's memory. */
static CUresult encode(CUDA_MEMCPY3D *c, enum ck_copy_end end, uint64_t *made)
{
	struct ck_copy_side side = ck_copy_side(c, end);
	uint64_t id = 0;
	CUresult err = CUDA_SUCCESS;

	if (side.type == CU_MEMORYTYPE_UNIFIED) {
		side.type = ckc_on_device(side.device) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		side.host = (void *)(uintptr_t)side.device;
		ck_copy_side_set(c, end, &side);
	}
	if (side.type == CU_MEMORYTYPE_ARRAY) {
		err = ckc_array_id(side.array, &id);
		side.array = (CUarray)(uintptr_t)id;
	} else if (side.type == CU_MEMORYTYPE_HOST) {
		err = make(c, end, made);
		ck_copy_side_pack(&side, c, (void *)(uintptr_t)*made);
	}
	ck_copy_side_set(c, end, &side);
	return err;
}

void ckc_mirror_undo(const struct ckc_mirrored *m)
{
	for (int i = 0; i < 2; i++) {
		if (m->made[i])
			forget(m->made[i]);
	}
}

CUresult ckc_mirror_copy(const CUDA_MEMCPY3D *copy, struct ckc_mirrored *out)
{
	CUresult err;

	*out = (struct ckc_mirrored){.copy = *copy};
	if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
		return CUDA_ERROR_INVALID_VALUE;
	err = encode(&out->copy, CK_COPY_SOURCE, &out->made[0]);
	if (!err)
		err = encode(&out->copy, CK_COPY_DESTINATION, &out->made[1]);
	if (err)
		ckc_mirror_undo(out);
	return err;
}

static CUresult restore(CUDA_MEMCPY3D *c, enum ck_copy_end end)
{
	struct ck_copy_side side = ck_copy_side(c, end);
	struct mirror m;

	if (side.type == CU_MEMORYTYPE_ARRAY) {
		side.array = ckc_object_named(CK_OBJECT_ARRAY, (uintptr_t)side.array);
	} else if (side.type == CU_MEMORYTYPE_HOST) {
		if (!find((uintptr_t)side.host, &m))
			return CUDA_ERROR_UNKNOWN;
		side = m.side;
		side.type = CU_MEMORYTYPE_HOST;
	}
	ck_copy_side_set(c, end, &side);
	return CUDA_SUCCESS;
}

CUresult ckc_mirror_restore(CUDA_MEMCPY3D *c)
{
	CUresult err = restore(c, CK_COPY_DESTINATION);

	return err ? err : restore(c, CK_COPY_SOURCE);
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
		forget(ids[i]);
	free(ids);
}

void ckc_mirror_assign(struct ckc_exec *exec, CUresult err, uint64_t *ids, size_t count,
		       uint64_t *gone, size_t gone_count)
{
	struct ckc_mirrors *all = all_mirrors();
	uint64_t *old = ids;

	ck_lock(&all->launch_lock);
	if (!err) {
		old = exec->mirrors;
		exec->mirrors = ids;
		exec->mirror_count = (unsigned int)count;
	}
	ck_unlock(&all->launch_lock);
	free(old);
	forget_all(gone, gone_count);
}

static size_t size_of(const struct mirror *m)
{
	return m->box.width * m->box.height * m->box.depth;
}

/* A packed buffer for the bytes of @m: the application's memory if it is packed, or new memory. */
static char *bytes_take(const struct mirror *m)
{
	return ckc_box_is_packed(&m->box) ? (char *)(uintptr_t)m->box.start : malloc(size_of(m));
}

static bool is_own(const struct mirror *m, const char *bytes)
{
	return (uintptr_t)bytes == m->box.start;
}

static void bytes_give(const struct mirror *m, char *bytes)
{
	if (!is_own(m, bytes))
		free(bytes);
}

static CUresult fill(const struct mirror *m)
{
	size_t size = size_of(m);
	char *from = bytes_take(m);
	CUresult err = from ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (from && !is_own(m, from))
		ckc_box_pack(&m->box, from);
	for (size_t at = 0; at < size && !err; at += PIECE)
		err = ck_wire_mirror_fill(0, m->id, at, from + at, ck_min(size - at, PIECE));
	bytes_give(m, from);
	return err;
}

static CUresult fetch(const struct mirror *m, uint64_t ctx, uint64_t exec)
{
	size_t size = size_of(m);
	char *to = bytes_take(m);
	CUresult err = to ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t at = 0; at < size && !err; at += PIECE) {
		size_t n = ck_min(size - at, PIECE);
		struct ckc_sink sink = {to + at, n};

		err = ck_wire_mirror_read(ctx, m->id, exec, at, n, &sink);
	}
	if (!err && !is_own(m, to))
		ckc_box_unpack(&m->box, to);
	bytes_give(m, to);
	return err;
}

/* Transfer the mirrors of @exec on one side: fill sources, fetch destinations. */
static CUresult each(const struct ckc_exec *exec, uint64_t ctx, bool source)
{
	CUresult err = CUDA_SUCCESS;
	struct mirror m;

	for (unsigned int i = 0; i < exec->mirror_count && !err; i++) {
		if (!find(exec->mirrors[i], &m))
			continue;
		if (source && (m.source || all_mirrors()->functions))
			err = fill(&m);
		else if (!source && !m.source)
			err = fetch(&m, ctx, exec->object.id);
	}
	return err;
}

/* Note the mirrors of the running launch, for its host functions. */
static void note_running(struct ckc_mirrors *all, const struct ckc_exec *exec)
{
	uint64_t *ids = all->functions ? malloc(exec->mirror_count * sizeof(*ids)) : NULL;

	if (ids)
		memcpy(ids, exec->mirrors, exec->mirror_count * sizeof(*ids));
	ck_lock(&all->lock);
	free(all->running);
	all->running = ids;
	all->running_count = ids ? exec->mirror_count : 0;
	all->exec = exec->object.id;
	ck_unlock(&all->lock);
}

/* Call with the launch lock held. A mirror is filled only after the previous launch has finished
 * with all its own. */
static CUresult launch(struct ckc_client *c, struct ckc_exec *exec, uint64_t ctx, uint64_t stream)
{
	struct ckc_mirrors *all = &c->copying->mirrors;
	struct ckc_sink nothing = {0};
	CUresult err = CUDA_SUCCESS;

	if (all->exec)
		err = ck_wire_mirror_read(ctx, 0, all->exec, 0, 0, &nothing);
	if (err)
		return err;
	/* bytes of a source may still be on their way to it */
	if (ckc_pinned_any(c) || ckc_delivery_any(c))
		err = ck_wire_cuStreamSynchronize(ctx, stream);
	if (err)
		return err;
	err = each(exec, ctx, true);
	if (err)
		return err;
	note_running(all, exec);
	err = ck_wire_cuGraphLaunch(ctx, exec->object.id, stream);
	return err ? err : each(exec, ctx, false);
}

CUresult ckc_mirror_launch(struct ckc_exec *exec, uint64_t ctx, uint64_t stream)
{
	struct ckc_client *c = ckc_client_current();
	CUresult err;

	ck_lock(&c->copying->mirrors.launch_lock);
	err = launch(c, exec, ctx, stream);
	ck_unlock(&c->copying->mirrors.launch_lock);
	return err;
}

CUresult ckc_mirror_owner_end(uint64_t object)
{
	uint64_t *gone = NULL;
	size_t count = 0;
	CUresult err = ck_wire_graph_end(0, object, &gone, &count);

	forget_all(gone, count);
	return err;
}

void ckc_mirror_functions(void)
{
	all_mirrors()->functions = true;
}

/* List the mirrors of the running launch; the caller frees the list. False: out of memory. */
static bool running_mirrors(uint64_t **ids, size_t *count)
{
	struct ckc_mirrors *all = all_mirrors();

	*ids = NULL;
	ck_lock(&all->lock);
	*count = all->running_count;
	if (*count > 0)
		*ids = malloc(*count * sizeof(**ids));
	if (*ids)
		memcpy(*ids, all->running, *count * sizeof(**ids));
	ck_unlock(&all->lock);
	return *ids || *count == 0;
}

/* These calls bypass the command stream, which may be blocked by the launch. */
static bool pull_piece(const struct mirror *m, size_t at, char *to, size_t size)
{
	ck_mirror_aside_args args = {.mirror = m->id, .offset = at, .size = size};
	ck_mirror_aside_res res;
	bool done;

	memset(&res, 0, sizeof(res));
	done = ckc_call_aside(ckc_client_current(), CK_PROC_mirror_aside, &args, &res) ==
		       CUDA_SUCCESS &&
	       res.back.back_len == size;
	if (done)
		memcpy(to, res.back.back_val, size);
	free(res.back.back_val);
	return done;
}

static bool push_piece(const struct mirror *m, size_t at, char *from, size_t size)
{
	ck_mirror_aside_args args = {.mirror = m->id, .offset = at};
	ck_mirror_aside_res res;
	bool done;

	memset(&res, 0, sizeof(res));
	args.data.data_val = from;
	args.data.data_len = (u_int)size;
	done = ckc_call_aside(ckc_client_current(), CK_PROC_mirror_aside, &args, &res) ==
	       CUDA_SUCCESS;
	free(res.back.back_val);
	return done;
}

static bool exchange(const struct mirror *m, bool pull)
{
	size_t size = size_of(m);
	char *bytes = bytes_take(m);
	bool done = bytes != NULL;

	if (bytes && !is_own(m, bytes))
		ckc_box_pack(&m->box, bytes);
	for (size_t at = 0; at < size && done; at += SMALL_PIECE) {
		size_t n = ck_min(size - at, SMALL_PIECE);

		done = pull ? pull_piece(m, at, bytes + at, n) : push_piece(m, at, bytes + at, n);
	}
	if (done && pull && !is_own(m, bytes))
		ckc_box_unpack(&m->box, bytes);
	bytes_give(m, bytes);
	/* not an error if the program has just destroyed the mirror */
	return done || (bytes && ckc_client_current()->state == CK_STATE_READY);
}

/* All mirrors were filled before the launch, so bytes that no copy has written are unchanged. */
bool ckc_mirror_pull(void)
{
	struct mirror m;
	uint64_t *ids;
	size_t count;
	bool done = running_mirrors(&ids, &count);

	for (size_t i = 0; i < count && done; i++) {
		if (find(ids[i], &m) && !m.source)
			done = exchange(&m, true);
	}
	free(ids);
	return done;
}

bool ckc_mirror_push(void)
{
	struct mirror m;
	uint64_t *ids;
	size_t count;
	bool done = running_mirrors(&ids, &count);

	for (size_t i = 0; i < count && done; i++) {
		if (find(ids[i], &m))
			done = exchange(&m, false);
	}
	free(ids);
	return done;
}
