/*
 * client/copy/server_to_server.c - see client/copy/server_to_server.h; and ranges that travel
 * through this process.
 *
 * While one piece goes to the one server, the next one comes from the other.
 */
#include <stdlib.h>

#include "client/copy/server_to_server.h"
#include "client/managed/pages.h"
#include "client/wire/command.h"
#include "client/wire/parallel_calls.h"
#include "client/link/session_list.h"

#define PIECE ((size_t)4 << 20) /* two of them are memory that a copy needs here */

static CUresult prepare_shore(struct ckc_shore *s)
{
	struct ckc_client *c = s->context->client;
	CUresult err;

	ckc_route(c);
	err = ckc_pages_stream(s->context, &s->stream);
	s->seq = ckc_command_number(c);
	ckc_command_flush(c);
	return err;
}

CUresult ckc_server_to_server_begin(struct ckc_server_to_server *c)
{
	CUresult err = prepare_shore(&c->from);

	return err ? err : prepare_shore(&c->to);
}

/* --- through this process */

struct relay {
	const struct ckc_server_to_server *c;
	char *bytes[2];
	struct download {
		struct ckc_parallel call;
		ck_download_args args;
		ck_download_res res;
	} down;
	struct upload {
		struct ckc_parallel call;
		ck_upload_part_args args;
		ck_upload_part_res res;
		bool begun;
	} up;
};

static void begin_download(struct relay *r, size_t at, unsigned int turn)
{
	const struct ckc_shore *from = &r->c->from;
	size_t size = ck_min(r->c->size - at, PIECE);

	r->down.args =
		(ck_download_args){.src = from->at + at, .stream = from->stream, .size = size};
	r->down.res = (ck_download_res){0};
	ckc_parallel_begin(
		&r->down.call,
		&(struct ckc_parallel_call){.client = from->context->client,
					    .proc = CK_PROC_download,
					    .seq = from->seq,
					    .ctx = from->context->object.id,
					    .args = &r->down.args,
					    .res = &r->down.res,
					    .sink = &(struct ckc_sink){r->bytes[turn], size}});
}

static void begin_upload(struct relay *r, size_t at, unsigned int turn)
{
	const struct ckc_shore *to = &r->c->to;
	size_t size = ck_min(r->c->size - at, PIECE);

	r->up.args = (ck_upload_part_args){
		.dst = to->at + at, .stream = to->stream, .data_length = (u_int)size};
	r->up.res = (ck_upload_part_res){0};
	r->up.begun = true;
	ckc_parallel_begin(&r->up.call, &(struct ckc_parallel_call){.client = to->context->client,
								    .proc = CK_PROC_upload_part,
								    .seq = to->seq,
								    .ctx = to->context->object.id,
								    .args = &r->up.args,
								    .res = &r->up.res,
								    .bulk = r->bytes[turn],
								    .bulk_size = size});
}

static CUresult end_upload(struct relay *r)
{
	CUresult err = r->up.begun ? ckc_parallel_end(&r->up.call) : CUDA_SUCCESS;

	r->up.begun = false;
	return err;
}

CUresult ckc_server_to_server_wait(const struct ckc_shore *s, uint64_t seq)
{
	ck_fetch_args args = {.wait = CK_FETCH_STREAM, .after = s->stream};
	ck_fetch_res res = {.head = {0}};
	struct ckc_parallel call;

	ckc_parallel_begin(&call, &(struct ckc_parallel_call){.client = s->context->client,
							      .proc = CK_PROC_fetch,
							      .seq = seq,
							      .ctx = s->context->object.id,
							      .args = &args,
							      .res = &res,
							      .sink = &(struct ckc_sink){NULL, 0}});
	return ckc_parallel_end(&call);
}

static CUresult relay_pieces(struct relay *r)
{
	CUresult err = CUDA_SUCCESS, last;
	unsigned int turn = 0;

	begin_download(r, 0, turn);
	for (size_t at = 0; at < r->c->size && !err; at += PIECE) {
		err = ckc_parallel_end(&r->down.call);
		last = end_upload(r); /* its buffer is free then */
		err = err ? err : last;
		if (!err && at + PIECE < r->c->size)
			begin_download(r, at + PIECE, !turn);
		if (!err)
			begin_upload(r, at, turn);
		turn = !turn;
	}
	last = end_upload(r);
	err = err ? err : last;
	return err ? err : ckc_server_to_server_wait(&r->c->to, r->c->to.seq);
}

static CUresult relay_range(const struct ckc_server_to_server *c)
{
	size_t room = ck_min(c->size, PIECE);
	struct relay r = {.c = c, .bytes = {malloc(room), malloc(room)}};
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (r.bytes[0] && r.bytes[1])
		err = relay_pieces(&r);
	free(r.bytes[0]);
	free(r.bytes[1]);
	return err;
}

CUresult ckc_server_to_server_copy(const struct ckc_server_to_server *c)
{
	CUresult err;

	if (ckc_direct_copy(c, &err))
		return err;
	return c->box ? c->box->relay(c) : relay_range(c);
}
