/*
 * client/copy/multi_server_3d.c - copies of boxes of which a side is on another server than the
 * current context's; see client/copy/multi_server.h.
 */
#include <stdlib.h>

#include "client/copy/copy_3d.h"
#include "client/copy/multi_server.h"
#include "client/wire/command.h"

#define PIECE ((size_t)16 << 20) /* memory that a copy needs here */

/* The context that a device side is copied in; NULL: none is active there. */
static struct ckc_context *home_of(struct ckc_side *s, struct ckc_context *current)
{
	struct ckc_context *context = NULL;
	struct ckc_client *c = s->array ? ckc_object_session(s->array, &context) : NULL;

	if (s->array)
		return !c || c == current->client ? current : context;
	c = s->context ? ckc_object_session(s->context, &context) : NULL;
	if (c && c != current->client)
		return context;
	return ckc_multi_server_home(current, s->start);
}

/* A packed box of this process's memory. */
static struct ckc_side packed_side(const struct ckc_box_copy *b, const char *bytes)
{
	return (struct ckc_side){.start = (uint64_t)(uintptr_t)bytes,
				 .pitch = b->width,
				 .slice = b->width * b->height,
				 .extent = b->width * b->height * b->depth};
}

static CUresult one_piece(const struct ckc_box_copy *b, const struct ckc_shore *to,
			  const struct ckc_shore *from)
{
	struct ckc_box_place down = {.ctx = from->context, .id = from->stream};
	struct ckc_box_place up = {.ctx = to->context, .id = to->stream};
	struct ckc_box_copy first = *b, second = *b;
	char *bytes = malloc(b->width * b->height * b->depth);
	CUresult err;

	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	first.dst = second.src = packed_side(b, bytes);
	ckc_route(from->context->client);
	err = ckc_box_to_host(&first, &down);
	ckc_route(to->context->client);
	if (!err)
		err = ckc_box_to_device(&second, &up);
	free(bytes);
	return err;
}

static CUresult in_pieces(const struct ckc_box_copy *b, const struct ckc_shore *to,
			  const struct ckc_shore *from)
{
	size_t whole, bytes = b->width * b->height * b->depth;
	enum ckc_box_cut cut = ckc_box_cut(b, &whole);
	size_t step = ck_max(PIECE / (bytes / whole), (size_t)1);
	CUresult err = CUDA_SUCCESS;

	if (bytes <= PIECE)
		return one_piece(b, to, from);
	for (size_t at = 0; at < whole && !err; at += step) {
		struct ckc_box_copy part = ckc_box_part(b, cut, at, ck_min(step, whole - at));

		err = in_pieces(&part, to, from);
	}
	return err;
}

/* The pieces go out as commands, so the wait for them is behind these. */
static CUresult relay_box(const struct ckc_server_to_server *c)
{
	struct ckc_client *to = c->to.context->client;
	CUresult err = ckc_server_to_server_wait(&c->from, c->from.seq);

	if (!err)
		err = in_pieces(&c->box->copy, &c->to, &c->from);
	return err ? err : ckc_server_to_server_wait(&c->to, ckc_command_number(to));
}

static CUresult check_side(const struct ckc_side *s, const struct ckc_context *context)
{
	ckc_route(context->client);
	return s->array ? CUDA_SUCCESS : ckc_device_reach(s->start, s->extent);
}

/* Between two servers. */
static CUresult copy_across_servers(struct ckc_box_copy *b, const struct ckc_box_place *p,
				    struct ckc_context *to, struct ckc_context *from)
{
	struct ckc_server_to_server_box box = {.copy = *b, .relay = relay_box};
	struct ckc_box_copy half = *b;
	const struct ckc_multi_server where = {
		.context = p->ctx, .stream = p->stream, .waits = p->waits};
	struct ckc_server_to_server c = {.to.context = to,
					 .from.context = from,
					 .size = b->width * b->height * b->depth,
					 .box = &box};

	half.src = packed_side(b, NULL);
	ckc_box_describe(&half, &box.to);
	half = *b;
	half.dst = packed_side(b, NULL);
	ckc_box_describe(&half, &box.from);
	return ckc_multi_server_cross(&where, &c);
}

/* Copy; a side that is no device's has no context. */
static CUresult copy_box(struct ckc_box_copy *b, const struct ckc_box_place *p,
			 struct ckc_context *to, struct ckc_context *from)
{
	struct ckc_context *one = to ? to : from;
	CUresult err = to ? check_side(&b->dst, to) : CUDA_SUCCESS;

	if (!err && from)
		err = check_side(&b->src, from);
	if (err)
		return err;
	if (to && from && to->client != from->client)
		return copy_across_servers(b, p, to, from);
	err = ckc_multi_server_begin(p->ctx, p->stream);
	if (err)
		return err;
	ckc_route(one->client);
	if (to && from)
		err = ckc_box_between_devices(b, &(struct ckc_box_place){.ctx = one});
	else
		err = ckc_box_in_parts(b, &(struct ckc_box_place){.ctx = one});
	ckc_route(one->client);
	return err ? err : ckc_stream_wait(one, NULL);
}

bool ckc_box_between(struct ckc_box_copy *b, const struct ckc_box_place *p, CUresult *err)
{
	struct ckc_context *to, *from;

	if (likely(!ckc_many))
		return false;
	to = b->dst.device ? home_of(&b->dst, p->ctx) : p->ctx;
	from = b->src.device ? home_of(&b->src, p->ctx) : p->ctx;
	ckc_route(p->ctx->client);
	if (to == p->ctx && from == p->ctx)
		return false;
	*err = CUDA_ERROR_INVALID_VALUE;
	if (to && from)
		*err = copy_box(b, p, b->dst.device ? to : NULL, b->src.device ? from : NULL);
	return true;
}
