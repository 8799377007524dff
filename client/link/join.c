/*
 * client/link/join.c - connections join the session.
 *
 * A join has a reply, but over a network the client does not wait for it: it sends the messages
 * that follow at once, and the server reads them after it has accepted the connection. The reply
 * of a lane is read ahead of that to its first call (lane_exchange.c), the reply on the command
 * stream at its end (command.c). In shared memory, the exchange decides which memory is used, and
 * costs microseconds.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/link/client.h"
#include "client/link/dial.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/link/reconnect.h"
#include "client/link/stats.h"
#include "rpc/chan.h"
#include "rpc/record.h"
#include "util/until.h"

/* Ring sizes of a connection. Commands are sent ahead; a lane has one call at a time. */
#define QUEUE_MS 10000
#define RING_COMMANDS (4u << 20)
#define RING_LANE (256u << 10)
#define RING_TO_CLIENT (256u << 10)

#define JOIN_FIRST_MS 10 /* between two attempts; doubled each time */
#define JOIN_LAST_MS 640

struct join {
	ck_join_args args;
	ck_join_res res;
	struct ckc_exchange exchange;
};

static void join_init(struct join *j, const struct ckc_client *c, ck_lane_kind kind)
{
	*j = (struct join){.args.lane = kind,
			   .res.status = 1,
			   .exchange = {.proc = CK_JOIN,
					.args = &j->args,
					.res = &j->res,
					.xdr_args = (xdrproc_t)xdr_ck_join_args,
					.xdr_res = (xdrproc_t)xdr_ck_join_res}};
	memcpy(j->args.session, c->hello.session, sizeof(j->args.session));
	memcpy(j->args.key, c->hello.key, sizeof(j->args.key));
}

static bool is_for_commands(const struct ckc_exchange *x)
{
	return x->proc == CK_JOIN && ((const ck_join_args *)x->args)->lane == CK_LANE_COMMAND;
}

int ckc_first_exchange(struct ckc_client *c, struct ckc_lane *lane, struct ckc_exchange *x)
{
	uint64_t began = ckc_stats_on ? ck_now_ns() : 0;
	struct ck_chan *chan = ckc_lane_chan(lane);
	int ret = 0;

	if (c->connection.wanted != CK_SOCKETS) /* or it stays a socket */
		ret = ck_chan_offer_rings(chan, is_for_commands(x) ? RING_COMMANDS : RING_LANE,
					  RING_TO_CLIENT);
	if (x->proc == CK_HELLO) /* several threads may join at a time */
		c->connection.no_rings = ret;
	/* a server that is full holds a hello for some seconds */
	ckc_lane_timeout(lane, c->waiting.until_ns ? ck_max(ckc_dial_timeout_ms(), QUEUE_MS)
						   : ckc_dial_timeout_ms());
	ret = ckc_lane_exchange(lane, x);
	if (ret < 0)
		return ret;
	ckc_lane_timeout(lane, 0);
	ck_chan_enter_rings(chan);
	if (ckc_stats_on)
		ckc_stats_waited(x->proc, CK_CALL_HEADER + xdr_sizeof(x->xdr_args, (void *)x->args),
				 ckc_lane_received(lane), began);
	return 0;
}

/* Send the join, and wait for its reply only if @wait. */
static int send_join(struct ckc_client *c, struct ckc_lane *lane, ck_lane_kind kind, bool wait)
{
	struct join j;
	int ret;

	join_init(&j, c, kind);
	if (wait) {
		ret = ckc_first_exchange(c, lane, &j.exchange);
		return ret == 0 && j.res.status != 0 ? -EACCES : ret;
	}
	ret = ckc_lane_send_join(lane, &j.exchange);
	if (ckc_stats_on && ret == 0)
		ckc_stats_sent(CK_JOIN,
			       CK_CALL_HEADER + sizeof(j.args.session) + sizeof(j.args.key) + 4);
	return ret;
}

/* Must the first exchange be complete before more is sent? */
static bool must_wait(const struct ckc_client *c)
{
	return c->connection.wanted != CK_SOCKETS;
}

int ckc_join_commands(struct ckc_client *c, struct ck_chan **chan, bool *accepted)
{
	bool wait = must_wait(c) || c->connection.direct; /* the first connection ends soon */
	struct ckc_lane *lane;
	int ret = 0;

	if (ckc_keeps(c)) {
		*accepted = true; /* else the keeper tells */
		return ckc_reconnect_link(c, CK_LANE_COMMAND, *chan, chan);
	}
	/* the driver took long to start, or the server is full */
	if (!*chan || ck_chan_peer_gone(*chan)) {
		ck_chan_close(*chan);
		ret = ckc_dial_again(&c->connection, chan);
	}
	if (ret == 0)
		ret = ckc_lane_create(c, *chan, &lane);
	if (ret < 0)
		return ret;
	ret = send_join(c, lane, CK_LANE_COMMAND, wait);
	if (ret < 0) {
		ckc_lane_destroy(lane);
		return ret;
	}
	*chan = ckc_lane_detach(lane);
	*accepted = wait;
	return 0;
}

/* Make a lane on a lasting channel over @connection (NULL: the keeper makes one), and wait for the
 * server only if @wait. */
static int link_lane(struct ckc_client *c, struct ck_chan *connection, bool wait,
		     struct ckc_lane **out)
{
	struct ckc_lane *lane;
	struct ck_chan *chan;
	int ret = ckc_reconnect_link(c, CK_LANE_CALL, connection, &chan);

	if (ret == 0)
		ret = ckc_lane_create(c, chan, &lane);
	if (ret < 0)
		return ret;
	ckc_lane_linked(lane);
	if (wait)
		ret = ckc_lane_accept(lane);
	if (ret < 0)
		ckc_lane_destroy(lane);
	else
		*out = lane;
	return ret;
}

void ckc_join_reserve(struct ckc_client *c, struct ck_chan *chan)
{
	struct ckc_lane *lane;

	if (!chan)
		return;
	if (ckc_keeps(c)) {
		if (link_lane(c, chan, false, &lane) == 0)
			ckc_lane_release(lane);
	} else if (must_wait(c) || c->passes_fds)
		ck_chan_close(chan);
	else if (ckc_lane_create(c, chan, &lane) < 0)
		return;
	else if (send_join(c, lane, CK_LANE_CALL, false) < 0)
		ckc_lane_destroy(lane);
	else
		ckc_lane_release(lane);
}

/* Make one attempt. */
static int open_lane(struct ckc_client *c, bool wait, struct ckc_lane **out)
{
	struct ckc_lane *lane;
	struct ck_chan *chan;
	/* the keeper waits until there may be connections */
	int ret = c->keeping.held ? -EAGAIN : ckc_dial_again(&c->connection, &chan);

	if (ckc_keeps(c) && ret != -EMFILE && ret != -ENFILE)
		return link_lane(c, ret < 0 ? NULL : chan, wait, out);
	if (ret == 0)
		ret = ckc_lane_create(c, chan, &lane);
	if (ret < 0)
		return ret;
	ret = send_join(c, lane, CK_LANE_CALL, wait);
	if (ret < 0)
		ckc_lane_destroy(lane);
	else
		*out = lane;
	return ret;
}

bool ckc_join_passing(int ret)
{
	return ret == -EACCES || ret == -EPIPE || ret == -ECONNRESET || ret == -EAGAIN;
}

static int open_patiently(struct ckc_client *c, struct ckc_lane **lane)
{
	int ret = open_lane(c, true, lane);

	for (unsigned int ms = JOIN_FIRST_MS; ckc_join_passing(ret) && ms <= JOIN_LAST_MS;
	     ms *= 2) {
		if (ckc_command_over(c))
			break;
		usleep(ms * 1000);
		ret = open_lane(c, true, lane);
	}
	return ret;
}

/* Take a lane that is left over. */
static bool take_pooled(struct ckc_client *c, struct ckc_lane **lane)
{
	while ((*lane = ckc_lane_pooled(c))) {
		if (ckc_lane_accept(*lane) == 0)
			return true;
		ckc_lane_destroy(*lane);
	}
	return false;
}

int ckc_join_lane(struct ckc_client *c, struct ckc_lane **lane)
{
	return take_pooled(c, lane) ? 0 : open_patiently(c, lane);
}

int ckc_join_lane_once(struct ckc_client *c, struct ckc_lane **lane)
{
	return take_pooled(c, lane) ? 0 : open_lane(c, true, lane);
}

int ckc_join_lane_soon(struct ckc_client *c, struct ckc_lane **lane)
{
	int ret = -EAGAIN;

	*lane = ckc_lane_pooled(c);
	if (*lane)
		return 0;
	if (!must_wait(c))
		ret = open_lane(c, false, lane);
	return ckc_join_passing(ret) ? open_patiently(c, lane) : ret;
}
