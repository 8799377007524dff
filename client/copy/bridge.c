/*
 * client/copy/bridge.c - bridges between the workers of two sessions, and copies over them; see
 * client/copy/server_to_server.h.
 *
 * The worker of one session issues tickets, and that of the other connects and shows them:
 * whichever way works. A bridge carries one copy at a time, so for copies at the same time there
 * are several. The bridges of two sessions are kept with the one that comes first in the list of
 * servers.
 */
#include <stdlib.h>
#include <string.h>

#include "client/copy/server_to_server.h"
#include "client/copy/state.h"
#include "client/link/hooks.h"
#include "client/wire/parallel_calls.h"
#include "util/address/address.h"
#include "util/env.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define WIDTH 4 /* connections of a bridge, unless CRICKET_CONNECTIONS says more or less */
#define WIDTH_MAX 8
#define RETRY_MS 60000 /* after an attempt that failed */
#define TICKET 16      /* bytes */
#define ADDRESSES_MAX 4096

/* The two sessions of a copy: @near has the bridges. */
struct pair {
	struct ckc_client *near, *far;
	struct ckc_bridges *bridges;
	unsigned int slot; /* of the far session */
};

static struct pair pair_of(const struct ckc_server_to_server *c)
{
	struct ckc_client *a = c->to.context->client, *b = c->from.context->client;
	struct pair p = {.near = a->index < b->index ? a : b, .far = a->index < b->index ? b : a};

	p.bridges = &p.near->copying->bridges;
	p.slot = p.far->index;
	return p;
}

static bool is_wanted(const struct pair *p)
{
	return ckc_session_offers(p->near, CK_PROC_direct_ticket) &&
	       ckc_session_offers(p->far, CK_PROC_direct_ticket) &&
	       ck_env_word_number("CRICKET_DEBUG", "direct") != 0;
}

static unsigned int get_bridge_width(void)
{
	long n = ck_env_long("CRICKET_CONNECTIONS");

	return n <= 0 ? WIDTH : (unsigned int)ck_min(n, (long)WIDTH_MAX);
}

/* --- making one */

/* Where the issuer's server can be reached: as this process reaches it, and as it says itself. */
static size_t list_addresses(const struct ckc_client *issuer, const ck_direct_ticket_res *res,
			     char out[ADDRESSES_MAX])
{
	const char *joins = issuer->connection.joins;
	size_t used = 0, more = res->addresses.addresses_len;

	if (ck_address_has(joins, CK_ADDRESS_NETWORK))
		used = (size_t)snprintf(out, ADDRESSES_MAX, "%s\n", joins);
	if (more > 0 && used + more <= ADDRESSES_MAX) {
		memcpy(out + used, res->addresses.addresses_val, more);
		used += more;
	}
	return used;
}

/* Have @dialer connect to @issuer, which has issued the tickets of @issued. */
static CUresult dial_issuer(struct ckc_client *dialer, const struct ckc_client *issuer,
			    const ck_direct_ticket_res *issued, uint64_t *bridge)
{
	char *addresses = malloc(ADDRESSES_MAX);
	const char *pin = issuer->connection.pin;
	ck_direct_dial_args args = {
		.session = CK_LIST(issuer->hello.session, sizeof(issuer->hello.session)),
		.tickets = CK_LIST(issued->tickets.tickets_val, issued->tickets.tickets_len),
		.addresses = CK_LIST(addresses,
				     addresses ? list_addresses(issuer, issued, addresses) : 0),
		.pin = CK_LIST(pin, strlen(pin)),
	};
	ck_direct_dial_res res = {.bridge = 0};
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (addresses)
		err = ckc_call_aside(dialer, CK_PROC_direct_dial, &args, &res);
	free(addresses);
	*bridge = res.bridge;
	return err;
}

static void end_bridge(struct ckc_client *c, uint64_t bridge)
{
	ck_direct_end_args args = {.bridge = bridge};
	ck_direct_end_res res = {.head = {0}};

	if (c->state == CK_STATE_READY)
		ckc_call_aside(c, CK_PROC_direct_end, &args, &res);
}

/* @issuer issues tickets, and @dialer connects: with TLS, if this process uses it with one of
 * both. */
static CUresult connect_by(struct ckc_client *issuer, struct ckc_client *dialer, uint64_t *issued,
			   uint64_t *dialed)
{
	ck_direct_ticket_args args = {.count = get_bridge_width()};
	ck_direct_ticket_res res = {.bridge = 0};
	CUresult err;

	if (dialer->connection.pin[0] && !issuer->connection.pin[0])
		return CUDA_ERROR_OPERATING_SYSTEM;
	err = ckc_call_aside(issuer, CK_PROC_direct_ticket, &args, &res);
	if (!err) {
		err = dial_issuer(dialer, issuer, &res, dialed);
		if (err)
			end_bridge(issuer, res.bridge);
	}
	*issued = res.bridge;
	xdr_free((xdrproc_t)xdr_ck_direct_ticket_res, &res);
	return err;
}

static CUresult make_bridge(const struct pair *p, struct ckc_bridge *b)
{
	CUresult err = connect_by(p->near, p->far, &b->near, &b->far);

	if (err)
		err = connect_by(p->far, p->near, &b->far, &b->near);
	if (err)
		ck_info("the servers at %s and %s copy through this process: error %d",
			ckc_session_server(p->near), ckc_session_server(p->far), (int)err);
	return err;
}

/* --- having one */

/* A bridge that no copy uses, or an empty place if no other thread makes one. Call with the lock
 * held. */
static struct ckc_bridge *find_bridge(const struct pair *p)
{
	struct ckc_bridge *free = NULL;
	bool making = p->bridges->making[p->slot];

	for (struct ckc_bridge *b = p->bridges->list[p->slot];
	     b < p->bridges->list[p->slot] + CK_BRIDGES; b++) {
		if (!b->taken && (b->live || (!free && !making)))
			free = b;
		if (free && free->live)
			break;
	}
	return free;
}

/* Make the bridge at @b, which is taken. False: it is given back, and there is none for a while. */
static bool make_here(const struct pair *p, struct ckc_bridge *b)
{
	struct ckc_bridges *all = p->bridges;
	CUresult err = make_bridge(p, b);
	int cancel = ck_lock_uncancelled(&all->lock);

	all->making[p->slot] = false;
	b->taken = !err;
	if (err)
		all->retry_ms[p->slot] = ck_now_ms() + RETRY_MS;
	ck_cond_broadcast(&all->given);
	ck_unlock_uncancelled(&all->lock, cancel);
	return !err;
}

/* Take a bridge, and make it if it is not there. NULL: there is none for now. *@fresh: it has just
 * been made. */
static struct ckc_bridge *acquire_bridge(const struct pair *p, bool *fresh)
{
	struct ckc_bridges *all = p->bridges;
	int cancel = ck_lock_uncancelled(&all->lock);
	struct ckc_bridge *b = NULL;

	while (ck_now_ms() >= all->retry_ms[p->slot] && !(b = find_bridge(p)))
		ck_cond_wait(&all->given, &all->lock);
	*fresh = b && !b->live;
	if (b)
		b->taken = true;
	if (*fresh)
		all->making[p->slot] = true;
	ck_unlock_uncancelled(&all->lock, cancel);
	return *fresh && !make_here(p, b) ? NULL : b;
}

static void release_bridge(const struct pair *p, struct ckc_bridge *b, bool live)
{
	if (!live) {
		end_bridge(p->near, b->near);
		end_bridge(p->far, b->far);
	}
	ck_lock(&p->bridges->lock);
	b->live = live;
	b->taken = false;
	ck_cond_signal(&p->bridges->given);
	ck_unlock(&p->bridges->lock);
}

static void reset_bridges_in_child(struct ckc_client *c)
{
	struct ckc_bridges *all = &c->copying->bridges;

	ck_mutex_renew(&all->lock);
	memset(all->list, 0, sizeof(all->list));
	memset(all->making, 0, sizeof(all->making));
}
CK_ON_FORK(reset_bridges_in_child);

/* --- using one */

/* The calls of both ends; which fields are used depends on the message. */
struct ends {
	struct ckc_parallel send, receive;
	union {
		ck_direct_send_args range;
		ck_direct_send_3d_args box;
	} from;
	union {
		ck_direct_receive_args range;
		ck_direct_receive_3d_args box;
	} to;
	ck_direct_send_res sent;
	ck_direct_receive_res received;
};

_Static_assert(sizeof(((ck_direct_send_3d_args *)NULL)->copy) == sizeof(CUDA_MEMCPY3D),
	       "the structure travels as its bytes");
_Static_assert(sizeof(ck_direct_send_res) == sizeof(ck_direct_send_3d_res), "both are a head");

static CUresult begin_send(struct ends *e, const struct ckc_server_to_server *c, uint64_t bridge,
			   uint64_t number)
{
	const struct ckc_shore *from = &c->from;
	struct ckc_parallel_call call = {.client = from->context->client,
					 .proc = c->box ? CK_PROC_direct_send_3d
							: CK_PROC_direct_send,
					 .seq = from->seq,
					 .ctx = from->context->object.id,
					 .args = &e->from,
					 .res = &e->sent};

	if (c->box) {
		e->from.box = (ck_direct_send_3d_args){
			.bridge = bridge, .number = number, .stream = from->stream};
		memcpy(e->from.box.copy, &c->box->from, sizeof(e->from.box.copy));
	} else {
		e->from.range = (ck_direct_send_args){.bridge = bridge,
						      .number = number,
						      .src = from->at,
						      .size = c->size,
						      .stream = from->stream};
	}
	return ckc_parallel_begin(&e->send, &call);
}

static CUresult begin_receive(struct ends *e, const struct ckc_server_to_server *c, uint64_t bridge,
			      uint64_t number)
{
	const struct ckc_shore *to = &c->to;
	struct ckc_parallel_call call = {.client = to->context->client,
					 .proc = c->box ? CK_PROC_direct_receive_3d
							: CK_PROC_direct_receive,
					 .seq = to->seq,
					 .ctx = to->context->object.id,
					 .args = &e->to,
					 .res = &e->received};

	if (c->box) {
		e->to.box = (ck_direct_receive_3d_args){
			.bridge = bridge, .number = number, .stream = to->stream};
		memcpy(e->to.box.copy, &c->box->to, sizeof(e->to.box.copy));
	} else {
		e->to.range = (ck_direct_receive_args){.bridge = bridge,
						       .number = number,
						       .dst = to->at,
						       .size = c->size,
						       .stream = to->stream};
	}
	return ckc_parallel_begin(&e->receive, &call);
}

/* Both ends report; OPERATING_SYSTEM says only that the bridge has failed, maybe because of the
 * other end's error. */
static CUresult pick_worse_error(CUresult a, CUresult b)
{
	return a && a != CUDA_ERROR_OPERATING_SYSTEM ? a : b ? b : a;
}

static CUresult copy_over_bridge(const struct pair *p, const struct ckc_bridge *b,
				 const struct ckc_server_to_server *c)
{
	bool from_near = c->from.context->client == p->near;
	uint64_t number = atomic_fetch_add(&p->bridges->numbers, 1);
	uint64_t source = from_near ? b->near : b->far, target = from_near ? b->far : b->near;
	struct ends e = {.sent = {.head = {0}}};
	CUresult sent = begin_send(&e, c, source, number);
	CUresult received = begin_receive(&e, c, target, number);

	if (sent)
		end_bridge(c->to.context->client, target);
	/* a sender that is lost ends its connections, but one whose receiver is lost may wait for
	 * long */
	received = ckc_parallel_end(&e.receive);
	if (received)
		end_bridge(c->from.context->client, source);
	sent = ckc_parallel_end(&e.send);
	return pick_worse_error(sent, received);
}

bool ckc_direct_possible(const struct ckc_server_to_server *c)
{
	struct pair p = pair_of(c);
	struct ckc_bridge *b;
	bool fresh;

	if (!is_wanted(&p))
		return false;
	b = acquire_bridge(&p, &fresh);
	if (b)
		release_bridge(&p, b, true);
	return b;
}

bool ckc_direct_copy(const struct ckc_server_to_server *c, CUresult *err)
{
	struct pair p = pair_of(c);
	bool fresh = false;

	if (!is_wanted(&p))
		return false;
	while (!fresh) { /* an old bridge may have ended since its last copy */
		struct ckc_bridge *b = acquire_bridge(&p, &fresh);

		if (!b)
			return false;
		*err = copy_over_bridge(&p, b, c);
		release_bridge(&p, b, !*err);
		if (*err != CUDA_ERROR_OPERATING_SYSTEM)
			return true;
	}
	ck_info("a direct copy between the servers at %s and %s has failed: it goes through this "
		"process",
		ckc_session_server(p.near), ckc_session_server(p.far));
	return false;
}
