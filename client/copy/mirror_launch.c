/*
 * client/copy/mirror_launch.c - the bytes of mirrors: filled before a launch, fetched after it,
 * exchanged around its host functions; see mirror.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/copy/mirror.h"
#include "client/copy/mirror_part.h"
#include "client/managed/managed.h"
#include "client/objects/callback.h"
#include "client/memory/pinned.h"
#include "client/wire/delivery.h"

#define PIECE ((size_t)1 << 30)		/* bytes per message; lengths on the wire are 32 bits */
#define SMALL_PIECE ((size_t)512 << 10) /* the same, for a message sent as one record */

static size_t size_of(const struct ckc_mirror *m)
{
	return m->box.width * m->box.height * m->box.depth;
}

/* A packed buffer for the bytes of @m: the application's memory if it is packed, or new memory.
 * Managed memory is none: a launch of another thread could take pages away before bytes for them
 * have arrived. */
static char *bytes_take(const struct ckc_mirror *m)
{
	return ckc_box_is_packed(&m->box) && !ckc_managed_may_be(m->box.start)
		       ? (char *)(uintptr_t)m->box.start
		       : malloc(size_of(m));
}

static bool is_own(const struct ckc_mirror *m, const char *bytes)
{
	return (uintptr_t)bytes == m->box.start;
}

static void bytes_give(const struct ckc_mirror *m, char *bytes)
{
	if (!is_own(m, bytes))
		free(bytes);
}

static CUresult fill_mirror(const struct ckc_mirror *m)
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

static CUresult fetch_mirror(const struct ckc_mirror *m, uint64_t ctx, uint64_t exec)
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
static CUresult transfer_mirrors(const struct ckc_exec *exec, uint64_t ctx, bool source)
{
	CUresult err = CUDA_SUCCESS;
	struct ckc_mirror m;

	for (unsigned int i = 0; i < exec->mirror_count && !err; i++) {
		if (!ckc_mirror_find(exec->mirrors[i], &m))
			continue;
		if (source && (m.source || m.read || ckc_mirrors_current()->functions))
			err = fill_mirror(&m);
		else if (!source && !m.source)
			err = fetch_mirror(&m, ctx, exec->object.id);
	}
	return err;
}

static bool has_destination(const struct ckc_exec *exec)
{
	struct ckc_mirror m;

	for (unsigned int i = 0; i < exec->mirror_count; i++) {
		if (ckc_mirror_find(exec->mirrors[i], &m) && !m.source)
			return true;
	}
	return false;
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
	all->launch++;
	all->exec = exec->object.id;
	ck_unlock(&all->lock);
}

/* The launch has ended: functions of other graphs leave its mirrors, and the program's memory,
 * alone. */
static void forget_running(struct ckc_mirrors *all)
{
	ck_lock(&all->lock);
	free(all->running);
	all->running = NULL;
	all->running_count = 0;
	all->launch++;
	while (all->exchanging > 0)
		ck_cond_wait(&all->exchanged, &all->lock);
	ck_unlock(&all->lock);
}

static CUresult end_exec(uint64_t ctx, struct ckc_exec *exec)
{
	uint64_t id = exec->object.id;

	free(exec->mirrors);
	ckc_object_free(exec);
	return ckc_mirrors_any() ? ckc_mirror_owner_end(id) : ck_wire_cuGraphExecDestroy(ctx, id);
}

/* The exec that was kept for its launch, which has ended. */
static void end_kept(struct ckc_mirrors *all, uint64_t ctx)
{
	struct ckc_exec *exec;

	ck_lock(&all->lock);
	exec = all->kept;
	all->kept = NULL;
	ck_unlock(&all->lock);
	if (exec)
		end_exec(ctx, exec);
}

CUresult ckc_mirror_exec_end(uint64_t ctx, struct ckc_exec *exec)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	bool keep;

	ck_lock(&all->lock);
	keep = all->running && all->exec == exec->object.id;
	if (keep)
		all->kept = exec;
	ck_unlock(&all->lock);
	return keep ? CUDA_SUCCESS : end_exec(ctx, exec);
}

/* Fetch the destinations of @exec, which has been launched. */
static CUresult fetch_results(struct ckc_mirrors *all, const struct ckc_exec *exec, uint64_t ctx)
{
	struct ckc_sink nothing = {0};
	CUresult err;

	if (!has_destination(exec))
		return CUDA_SUCCESS;
	err = ck_wire_mirror_read(ctx, 0, exec->object.id, 0, 0, &nothing);
	forget_running(all);
	return err ? err : transfer_mirrors(exec, ctx, false);
}

/* Call with the launch lock held. A mirror is filled only after the previous launch has finished
 * with all its own. */
static CUresult launch_graph(struct ckc_client *c, struct ckc_exec *exec,
			     struct ckc_context *context, struct ckc_stream *stream)
{
	static bool told;
	struct ckc_mirrors *all = &c->copying->mirrors;
	struct ckc_sink nothing = {0};
	uint64_t ctx = context->object.id;
	CUresult err = CUDA_SUCCESS;

	if (all->exec)
		err = ck_wire_mirror_read(ctx, 0, all->exec, 0, 0, &nothing);
	if (err)
		return err;
	forget_running(all);
	end_kept(all, ctx);
	/* functions, copies or the device may still write a source */
	if (ckc_callback_pending() || ckc_pinned_any(c) || ckc_delivery_any(c))
		err = ckc_stream_reach(context, stream);
	if (err)
		return err;
	if (exec->clash)
		return ckc_refused("a copy in a graph from host memory of which another copy "
				   "writes a part",
				   &told);
	err = transfer_mirrors(exec, ctx, true);
	if (err)
		return err;
	note_running(all, exec);
	err = ck_wire_cuGraphLaunch(ctx, exec->object.id, stream ? stream->object.id : 0);
	return err ? err : fetch_results(all, exec, ctx);
}

CUresult ckc_mirror_launch(struct ckc_exec *exec, struct ckc_context *context,
			   struct ckc_stream *stream)
{
	struct ckc_client *c = ckc_client_current();
	CUresult err;

	ck_lock(&c->copying->mirrors.launch_lock);
	err = launch_graph(c, exec, context, stream);
	ck_unlock(&c->copying->mirrors.launch_lock);
	return err;
}

void ckc_mirror_functions(void)
{
	ckc_mirrors_current()->functions = true;
}

/* --- around host functions */

/* The mirrors of the running launch, and the bytes that they had before the function. */
struct ckc_exchange {
	uint64_t launch;
	size_t count;
	struct {
		uint64_t id;
		char *bytes; /* packed; NULL: the mirror has ended */
	} mirrors[];
};

/* NULL: out of memory. */
static struct ckc_exchange *begin_pull(struct ckc_mirrors *all)
{
	struct ckc_exchange *x;

	ck_lock(&all->lock);
	x = calloc(1, sizeof(*x) + all->running_count * sizeof(x->mirrors[0]));
	if (x) {
		x->launch = all->launch;
		x->count = all->running_count;
		all->exchanging++;
	}
	for (size_t i = 0; x && i < x->count; i++)
		x->mirrors[i].id = all->running[i];
	ck_unlock(&all->lock);
	return x;
}

/* Has the launch not ended since? */
static bool begin_push(struct ckc_mirrors *all, const struct ckc_exchange *x)
{
	bool same;

	ck_lock(&all->lock);
	same = all->launch == x->launch;
	all->exchanging += same;
	ck_unlock(&all->lock);
	return same;
}

static void end_exchange(struct ckc_mirrors *all)
{
	ck_lock(&all->lock);
	if (--all->exchanging == 0)
		ck_cond_broadcast(&all->exchanged);
	ck_unlock(&all->lock);
}

static void free_exchange(struct ckc_exchange *x)
{
	for (size_t i = 0; i < x->count; i++)
		free(x->mirrors[i].bytes);
	free(x);
}

/* These calls bypass the command stream, which may be blocked by the launch. */
static bool move_piece(const struct ckc_mirror *m, size_t at, char *bytes, size_t size, bool pull)
{
	ck_mirror_aside_args args = {.mirror = m->id, .offset = at, .size = pull ? size : 0};
	ck_mirror_aside_res res;
	bool done;

	memset(&res, 0, sizeof(res));
	if (!pull) {
		args.data.data_val = bytes;
		args.data.data_len = (u_int)size;
	}
	done = ckc_call_aside(ckc_client_current(), CK_PROC_mirror_aside, &args, &res) ==
		       CUDA_SUCCESS &&
	       res.back.back_len == args.size;
	if (done && pull)
		memcpy(bytes, res.back.back_val, size);
	free(res.back.back_val);
	return done;
}

/* It is no error if the program has just destroyed the mirror. */
static bool move_bytes(const struct ckc_mirror *m, char *bytes, bool pull, bool *done)
{
	size_t size = size_of(m);

	*done = true;
	for (size_t at = 0; at < size && *done; at += SMALL_PIECE)
		*done = move_piece(m, at, bytes + at, ck_min(size - at, SMALL_PIECE), pull);
	return *done || ckc_client_current()->state == CK_STATE_READY;
}

/* Do functions change what the copy reads? The driver reads pageable memory at the launch, and
 * pinned memory when the copy runs. The function may be another graph's, and the launch have ended:
 * then the program may have freed a source, which is no longer pinned. */
static bool is_exchanged(const struct ckc_mirror *m)
{
	struct ckc_allocation a;

	return !m->source || (ckc_hostmem_find((const void *)(uintptr_t)m->box.start, &a) &&
			      ckc_box_is_within(&m->box, a.base, a.size));
}

/* All mirrors were filled before the launch, so bytes that no copy has written are unchanged. */
static bool pull_mirrors(struct ckc_exchange *x, bool source)
{
	struct ckc_mirror m;
	bool done, ok = true;

	for (size_t i = 0; i < x->count && ok; i++) {
		char *bytes;

		if (!ckc_mirror_find(x->mirrors[i].id, &m) || m.source != source ||
		    !is_exchanged(&m))
			continue;
		bytes = x->mirrors[i].bytes = malloc(size_of(&m));
		if (!bytes)
			return false;
		if (source)
			ckc_box_pack(&m.box, bytes);
		else if ((ok = move_bytes(&m, bytes, true, &done)) && done)
			ckc_box_unpack(&m.box, bytes);
	}
	return ok;
}

bool ckc_mirror_pull(struct ckc_exchange **out)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	struct ckc_exchange *x = begin_pull(all);
	bool ok;

	*out = x;
	if (!x)
		return false;
	/* sources first: copies have written into them, which their mirrors do not know */
	ok = pull_mirrors(x, true) && pull_mirrors(x, false);
	end_exchange(all);
	if (!ok)
		free_exchange(x);
	return ok;
}

static bool push_changes(const struct ckc_mirror *m, const char *before)
{
	char *now;
	bool done, ok;

	if (!is_exchanged(m))
		return true;
	now = malloc(size_of(m));
	ok = now != NULL;
	if (now)
		ckc_box_pack(&m->box, now);
	if (now && memcmp(now, before, size_of(m)) != 0)
		ok = move_bytes(m, now, false, &done);
	free(now);
	return ok;
}

bool ckc_mirror_push(struct ckc_exchange *x)
{
	struct ckc_mirrors *all = ckc_mirrors_current();
	struct ckc_mirror m;
	bool ok = true;

	if (begin_push(all, x)) {
		for (size_t i = 0; i < x->count && ok; i++) {
			if (x->mirrors[i].bytes && ckc_mirror_find(x->mirrors[i].id, &m))
				ok = push_changes(&m, x->mirrors[i].bytes);
		}
		end_exchange(all);
	}
	free_exchange(x);
	return ok;
}
