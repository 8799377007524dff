/*
 * client/copy/parallel_upload.c - see client/copy/parallel_upload.h.
 *
 * Uploads begin on the connection for commands. The number of lanes is doubled while that makes
 * uploads faster (striping.h). It stays as it is while the program leaves the network idle. Threads
 * connect the lanes, so no upload waits for a connection.
 *
 * An upload goes over all lanes in pieces, by turns. The server begins with the next upload when
 * this one has ended, and buffers of sockets hold it until then.
 */
#include <errno.h>
#include <stdio.h>

#include "client/copy/parallel_upload.h"
#include "client/copy/state.h"
#include "client/wire/command.h"
#include "client/link/hooks.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/wire/pipelined_calls.h"
#include "client/wire/profile.h"
#include "client/link/session_list.h"
#include "client/wire/striping.h"
#include "rpc/proc.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define SIZE_MIN ((size_t)64 << 10) /* a smaller upload is not worth it */
#define PIECE ((size_t)512 << 10)
#define WAITED_NS 1000000 /* far more than to copy an upload into the buffers of a socket */
/*
 * Bytes that a lane has sent and the server has not taken: about a window. A lasting channel keeps
 * them in 4 MiB. With 32 lanes, that is half of what all channels of a session may keep
 * (rpc/links.c); a channel that gets nothing of it carries 64 KiB per round trip.
 */
#define AHEAD_MAX ((size_t)7 << 19)
#define SKIPS 2 /* samples of new connections, until their buffers are full */

bool ckc_parallel_upload_suits(const struct ckc_staged *copy)
{
	struct ckc_client *c = copy->ctx->client;

	return copy->size >= SIZE_MIN && ckc_striping_is_long(c) &&
	       c->offers.procedures.procedures_len > 0 &&
	       ckc_session_offers(c, CK_PROC_upload_beside) &&
	       ckc_session_offers(c, CK_PROC_upload_joined);
}

/* --- the lanes */

static CUresult handle_broken_lane(struct ckc_client *c, int ret)
{
	char why[128];

	snprintf(why, sizeof(why), "ck_upload_beside: %s", ckc_wire_error(ret));
	ckc_session_lost(c, why);
	return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

/* Errors are reported by the next call that waits, as a command's. */
static int take_reply(struct ckc_beside_lane *lane)
{
	ck_upload_beside_res res = {0};
	struct ckc_exchange x = {.proc = CK_PROC_upload_beside,
				 .xdr_res = ck_procs[CK_PROC_upload_beside].xdr_res,
				 .res = &res};

	lane->ahead -= lane->sizes[lane->answered++ % CK_BESIDE_WAITING];
	return ckc_lane_receive(lane->lane, &x);
}

static unsigned int count_wanted(const struct ckc_beside *b)
{
	return b->count.now > 1 ? b->count.now : 0;
}

/* All lanes that are wanted are connected, or one cannot be: then none is used. Call with the lock
 * held. */
static void use_lanes(struct ckc_beside *b)
{
	unsigned int used = b->refused ? 0 : ck_min(count_wanted(b), b->open);

	if (used == b->used)
		return;
	b->used = used;
	b->sample.began = 0;
	ck_debug("one-way uploads use %u connections", ck_max(used, 1u));
}

/* Take one lane out. False: there is none. */
static bool take_lane(struct ckc_beside *b, struct ckc_beside_lane *lane)
{
	bool any;

	ck_lock(&b->lock);
	any = b->open > 0;
	if (any)
		*lane = b->lanes[--b->open];
	ck_unlock(&b->lock);
	return any;
}

/* No upload uses the lanes, and the program's threads need them. */
static void return_lanes(struct ckc_client *c)
{
	struct ckc_beside_lane lane;

	while (take_lane(&c->copying->beside, &lane)) {
		int ret = 0;

		while (lane.answered != lane.sent && ret == 0)
			ret = take_reply(&lane);
		if (ret < 0)
			handle_broken_lane(c, ret);
		else
			ckc_lane_release(lane.lane);
	}
}

/* Connect one lane. */
static void *connect_lane(void *client)
{
	struct ckc_client *c = client;
	struct ckc_beside *b = &c->copying->beside;
	struct ckc_lane *lane = NULL;
	bool last;
	int ret;

	ckc_route_serve(c);
	ret = ckc_join_lane_once(c, &lane);
	ck_lock(&b->lock);
	if (ret == 0)
		b->lanes[b->open++] = (struct ckc_beside_lane){.lane = lane};
	else
		b->refused = true;
	last = --b->opening == 0;
	if (last)
		use_lanes(b);
	last = last && b->refused;
	ck_unlock(&b->lock);
	if (last)
		return_lanes(c);
	return NULL;
}

/* Connect the lanes that are wanted. Call with the lock held. */
static void adapt_lanes(struct ckc_client *c)
{
	struct ckc_beside *b = &c->copying->beside;

	if (b->opening > 0)
		return;
	while (!b->refused && b->open + b->opening < count_wanted(b)) {
		if (ckc_thread_start(connect_lane, c) == 0)
			b->opening++;
		else
			b->refused = true;
	}
	if (b->opening == 0)
		use_lanes(b);
}

/* --- how many */

static void begin_count(const struct ckc_client *c, struct ckc_connection_count *n)
{
	unsigned int choice = ckc_striping_choice(), most = ckc_striping_most(c);

	if (choice)
		most = ck_min(most, choice);
	ckc_connection_count_init(n, choice ? most : 1, most);
}

static void begin_sample(struct ckc_beside *b, uint64_t now, unsigned int skips)
{
	b->sample.began = now;
	b->sample.waited_ns = 0;
	b->sample.size = 0;
	b->sample.skips = skips;
}

/*
 * An upload of @size bytes has begun at @began, and ended @now. If it waited for the network, the
 * buffers of a connection are full. Between two such times, as many bytes have arrived as were
 * sent. This says nothing about the network if the program was at work for most of the time. Call
 * with the lock held.
 */
static void take_sample(struct ckc_client *c, size_t size, uint64_t began, uint64_t now)
{
	struct ckc_beside *b = &c->copying->beside;

	b->sample.size += size;
	if (now - began < WAITED_NS || b->opening > 0) /* the next number is not used yet */
		return;
	b->sample.waited_ns += now - began;
	if (b->sample.began == 0) {
		begin_sample(b, now, SKIPS);
	} else if (b->sample.size >= ckc_connection_count_sample(&b->count)) {
		uint64_t ns = now - b->sample.began;

		if (b->sample.skips == 0 && b->sample.waited_ns >= ns / 2)
			ckc_striping_note(c, &b->count, b->sample.size, ns);
		begin_sample(b, now, b->sample.skips - (b->sample.skips > 0));
	}
	adapt_lanes(c);
}

static void note_upload(struct ckc_client *c, size_t size, uint64_t began)
{
	struct ckc_beside *b = &c->copying->beside;
	uint64_t now = ck_now_ns();
	int cancel = ck_lock_uncancelled(&b->lock);

	take_sample(c, size, began, now);
	ck_unlock_uncancelled(&b->lock, cancel);
}

/* --- an upload */

static int send_piece(struct ckc_beside *b, ck_upload_beside_args *args, const char *bytes)
{
	struct ckc_beside_lane *lane = &b->lanes[b->next++ % b->used];
	uint64_t began = ck_now_ns(), profiled = ckc_profile_begin();
	struct ckc_exchange x = {
		.proc = CK_PROC_upload_beside,
		.xdr_args = ck_procs[CK_PROC_upload_beside].xdr_args,
		.args = args,
		.bulk = bytes,
		.bulk_size = args->data_length,
		.passing = true,
	};
	int ret = 0;

	while (ret == 0 && lane->sent != lane->answered &&
	       (lane->sent - lane->answered == CK_BESIDE_WAITING ||
		lane->ahead + x.bulk_size > AHEAD_MAX))
		ret = take_reply(lane);
	if (ret == 0)
		ret = ckc_lane_send(lane->lane, &x);
	if (ret < 0)
		return ret;
	lane->sizes[lane->sent++ % CK_BESIDE_WAITING] = args->data_length;
	lane->ahead += x.bulk_size;
	b->sent++;
	ckc_pipelined_note(lane->lane, x.proc, args, x.bulk_size, began, profiled);
	return 0;
}

/* Call with the lock held: the commands that wait for uploads are in the order of these. */
static CUresult send_pieces(struct ckc_client *c, const struct ckc_staged *copy, const char *bytes)
{
	struct ckc_beside *b = &c->copying->beside;
	ck_upload_beside_args args = {.stream = copy->stream ? copy->stream->object.id : 0};
	int ret = 0;

	if (c->state == CK_STATE_LOST)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	args.head = (ck_head){.seq = ckc_command_number(c), .ctx = copy->ctx->object.id};
	ckc_command_flush(c);
	for (size_t at = 0; at < copy->size && ret == 0; at += PIECE) {
		args.dst = copy->device + at;
		args.data_length = (u_int)ck_min(copy->size - at, PIECE);
		ret = send_piece(b, &args, bytes + at);
	}
	return ret < 0 ? handle_broken_lane(c, ret)
		       : ck_wire_upload_joined(copy->ctx->object.id, b->sent);
}

/* Upload @copy on lanes, if any are used. False: there is none. */
static bool send_beside(struct ckc_client *c, const struct ckc_staged *copy, const char *bytes,
			CUresult *err)
{
	struct ckc_beside *b = &c->copying->beside;
	int cancel = ck_lock_uncancelled(&b->lock);
	bool beside = b->used > 0;

	if (b->count.now == 0)
		begin_count(c, &b->count);
	if (beside)
		*err = send_pieces(c, copy, bytes);
	ck_unlock_uncancelled(&b->lock, cancel);
	return beside;
}

CUresult ckc_parallel_upload(const struct ckc_staged *copy)
{
	struct ckc_client *c = copy->ctx->client;
	const char *bytes = ckc_payload_reach(copy->host, copy->size, false);
	uint64_t began = ck_now_ns(), id = copy->stream ? copy->stream->object.id : 0;
	CUresult err;

	if (!bytes)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (!send_beside(c, copy, bytes, &err))
		err = ck_wire_upload(copy->ctx->object.id, copy->device, id, 0, copy->host,
				     copy->size);
	if (!err)
		note_upload(c, copy->size, began);
	return err;
}
