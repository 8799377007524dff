/*
 * client/copy/mirror_launch.c - the bytes of mirrors: filled before a launch, fetched after it,
 * exchanged around its host functions; see mirror.h.
 */
#include <stdlib.h>
#include <string.h>

#include "client/copy/mirror.h"
#include "client/copy/mirror_part.h"
#include "client/memory/pinned.h"
#include "client/wire/delivery.h"

#define PIECE ((size_t)1 << 30)		/* bytes per message; lengths on the wire are 32 bits */
#define SMALL_PIECE ((size_t)512 << 10) /* the same, for a message sent as one record */

static size_t size_of(const struct ckc_mirror *m)
{
	return m->box.width * m->box.height * m->box.depth;
}

/* A packed buffer for the bytes of @m: the application's memory if it is packed, or new memory. */
static char *bytes_take(const struct ckc_mirror *m)
{
	return ckc_box_is_packed(&m->box) ? (char *)(uintptr_t)m->box.start : malloc(size_of(m));
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
		if (source && (m.source || ckc_mirrors_current()->functions))
			err = fill_mirror(&m);
		else if (!source && !m.source)
			err = fetch_mirror(&m, ctx, exec->object.id);
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
static CUresult launch_graph(struct ckc_client *c, struct ckc_exec *exec, uint64_t ctx,
			     uint64_t stream)
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
	err = transfer_mirrors(exec, ctx, true);
	if (err)
		return err;
	note_running(all, exec);
	err = ck_wire_cuGraphLaunch(ctx, exec->object.id, stream);
	return err ? err : transfer_mirrors(exec, ctx, false);
}

CUresult ckc_mirror_launch(struct ckc_exec *exec, uint64_t ctx, uint64_t stream)
{
	struct ckc_client *c = ckc_client_current();
	CUresult err;

	ck_lock(&c->copying->mirrors.launch_lock);
	err = launch_graph(c, exec, ctx, stream);
	ck_unlock(&c->copying->mirrors.launch_lock);
	return err;
}

void ckc_mirror_functions(void)
{
	ckc_mirrors_current()->functions = true;
}

/* List the mirrors of the running launch; the caller frees the list. False: out of memory. */
static bool running_mirrors(uint64_t **ids, size_t *count)
{
	struct ckc_mirrors *all = ckc_mirrors_current();

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
static bool pull_piece(const struct ckc_mirror *m, size_t at, char *to, size_t size)
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

static bool push_piece(const struct ckc_mirror *m, size_t at, char *from, size_t size)
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

static bool exchange_mirror(const struct ckc_mirror *m, bool pull)
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

/* Exchange the mirrors of running kernels. Those with a source are pushed only. */
static bool exchange_all(bool pull)
{
	struct ckc_mirror m;
	uint64_t *ids;
	size_t count;
	bool done = running_mirrors(&ids, &count);

	for (size_t i = 0; i < count && done; i++) {
		if (ckc_mirror_find(ids[i], &m) && !(pull && m.source))
			done = exchange_mirror(&m, pull);
	}
	free(ids);
	return done;
}

/* All mirrors were filled before the launch, so bytes that no copy has written are unchanged. */
bool ckc_mirror_pull(void)
{
	return exchange_all(true);
}

bool ckc_mirror_push(void)
{
	return exchange_all(false);
}
