/*
 * server/worker/reconnect.c - see reconnect.h.
 *
 * A program that ends says goodbye on its command stream. One that is killed cannot. Its kernel
 * ends its connections, or resets those with unread bytes, and so do proxies, tunnels and laptops
 * that wake up. So how a connection ends says nothing about the program, and the session waits as
 * long as it has promised. The end of a program on this machine is seen by itself (worker_watch.c);
 * others can report it (CK_ENDED).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "server/worker/dispatch.h"
#include "server/worker/reconnect.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define ANSWER_MS 10000 /* for the reply to a link to leave */
#define BYE_MS 100
#define FIRST 0 /* the number of the hello's channel */

#define BIT(kind) (1u << (kind))

struct cks_reconnect {
	struct ck_links *links;
	int64_t limit_ms;
	int64_t cut; /* when all channels were seen to be cut; 0: they are not */
	bool told;
	atomic_bool away;
};

int cks_reconnect_create(unsigned int seconds, struct cks_reconnect **out)
{
	struct cks_reconnect *keep = calloc(1, sizeof(*keep));
	int ret = keep ? ck_links_create(NULL, NULL, false, &keep->links) : -ENOMEM;

	if (ret < 0) {
		free(keep);
		return ret;
	}
	keep->limit_ms = (int64_t)seconds * 1000;
	*out = keep;
	return 0;
}

int cks_reconnect_first(struct cks_reconnect *keep, struct ck_chan *connection,
			struct ck_chan **chan)
{
	struct ck_link *link;
	int ret = ck_links_open(keep->links, ck_chan_peer(connection), FIRST, CK_LANE_CALL, &link);

	if (ret == 0)
		ret = ck_links_attach(keep->links, link, connection, 0, false, false);
	if (ret == 0) {
		*chan = link->chan;
		ck_links_put(keep->links, link);
	}
	return ret;
}

static int send_reply(struct ck_chan *connection, uint32_t xid, int status, uint64_t received)
{
	ck_link_res res = {.status = status, .received = received};
	int ret;

	ck_chan_timeout(connection, ANSWER_MS);
	ret = cks_dispatch_reply(connection, xid, (xdrproc_t)xdr_ck_link_res, &res);
	ck_chan_timeout(connection, 0);
	return ret;
}

/* Find or make the channel; its link is held. */
static int find_or_open(struct cks_reconnect *keep, const struct ck_chan *connection,
			const ck_link_args *args, bool (*admit)(ck_lane_kind kind),
			struct ck_link **link, bool *fresh)
{
	int ret;

	*fresh = false;
	*link = ck_links_find(keep->links, args->number);
	if (*link)
		return (*link)->kind == (uint32_t)args->lane ? 0 : -EACCES;
	if (args->received > 0)
		return -ESTALE; /* it has been there, in a later state of the session */
	if (!admit(args->lane))
		return -EACCES;
	ret = ck_links_open(keep->links, ck_chan_peer(connection), args->number, args->lane, link);
	*fresh = ret == 0;
	return ret;
}

/* Give the channel its connection. Each end sends again the bytes that the other one lacks. */
static void attach_connection(struct cks_reconnect *keep, struct ck_link *link,
			      struct ck_chan *connection, uint32_t xid, const ck_link_args *args)
{
	uint64_t received;
	int ret;

	ck_links_detach(keep->links, link, &received);
	ret = ck_lasting_reaches(link->chan, args->received) ? 0 : -ESTALE;
	if (ret < 0)
		send_reply(connection, xid, 4, received);
	else
		ret = send_reply(connection, xid, 0, received);
	if (ret < 0)
		ck_chan_close(connection);
	else
		ret = ck_links_attach(keep->links, link, connection, args->received, false, false);
	if (ret == 0)
		ck_lasting_resend(link->chan);
	else
		ck_info("%s: a connection that cannot replace a lost one: %s",
			ck_chan_peer(link->chan), strerror(-ret));
}

int cks_reconnect_link(struct cks_reconnect *keep, struct ck_chan *connection, uint32_t xid,
		       const ck_link_args *args, bool (*admit)(ck_lane_kind kind),
		       struct ck_chan **fresh)
{
	struct ck_link *link;
	bool is_fresh;
	int ret = find_or_open(keep, connection, args, admit, &link, &is_fresh);

	*fresh = NULL;
	if (ret < 0) {
		send_reply(connection, xid, ret == -ESTALE ? 4 : 2, 0);
		ck_chan_close(connection);
		if (link)
			ck_links_put(keep->links, link);
		return ret;
	}
	attach_connection(keep, link, connection, xid, args);
	if (is_fresh)
		*fresh = link->chan;
	ck_links_put(keep->links, link);
	ck_links_wake(keep->links); /* the session may no longer be cut */
	return 0;
}

int cks_reconnect_fd(const struct cks_reconnect *keep)
{
	return ck_links_fd(keep->links);
}

void cks_reconnect_handle(struct cks_reconnect *keep)
{
	ck_links_handle(keep->links, 0);
}

static void note_cut(struct cks_reconnect *keep, const struct ck_links_state *state)
{
	if (state->up > 0 || state->down == 0) {
		if (keep->told)
			ck_info("the client is back");
		keep->told = false;
		keep->cut = 0;
		return;
	}
	if (keep->cut == 0)
		keep->cut = ck_now_ms();
	if (!keep->told)
		ck_info("all connections are cut: waiting %lld s for others",
			(long long)keep->limit_ms / 1000);
	keep->told = true;
}

const char *cks_reconnect_verdict(struct cks_reconnect *keep, int64_t *left)
{
	struct ck_links_state state;

	*left = -1;
	if (atomic_load(&keep->away))
		return NULL;
	ck_links_state(keep->links, &state);
	if (state.ended & BIT(CK_LANE_COMMAND))
		return "the client has ended";
	note_cut(keep, &state);
	if (keep->cut == 0)
		return NULL;
	*left = ck_max(keep->cut + keep->limit_ms - ck_now_ms(), (int64_t)0);
	return *left > 0 ? NULL : "the client has not come back (--keep)";
}

void cks_reconnect_bye(struct cks_reconnect *keep)
{
	ck_links_bye(keep->links, BIT(CK_LANE_COMMAND), BYE_MS);
}

void cks_reconnect_leave(struct cks_reconnect *keep)
{
	atomic_store(&keep->away, true);
	ck_links_cut(keep->links);
}

void cks_reconnect_return(struct cks_reconnect *keep)
{
	keep->cut = 0;
	atomic_store(&keep->away, false);
	ck_links_wake(keep->links);
}
