/*
 * server/worker/worker_lanes.c - the client's connections: the first one, those that join or link,
 * and a thread for each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cricket.h"
#include "rpc/reader_memory.h"
#include "server/direct/direct.h"
#include "server/processes/messages.h"
#include "server/worker/dispatch.h"
#include "server/worker/first_message.h"
#include "server/worker/worker_part.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

#define CK_DRAIN_MS 1000 /* after a bye: for commands still arriving */
#define CK_DRAIN_STEP_MS 2

int worker_thread(void *(*run)(void *), void *data)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ret = -pthread_create(&thread, &attributes, run, data);
	pthread_attr_destroy(&attributes);
	return ret;
}

/* After a bye: let earlier commands execute, if they arrive in time. */
static void drain_commands(void)
{
	const struct timespec step = {.tv_nsec = CK_DRAIN_STEP_MS * 1000000L};
	struct ck_chan *commands = atomic_load(&worker.commands);
	uint64_t executed = atomic_load(&worker.session->executed);
	int quiet = 0;

	if (!commands)
		return;
	/* idle twice, with nothing executed in between: the command thread sleeps */
	for (int ms = 0; ms < CK_DRAIN_MS && quiet < 2; ms += CK_DRAIN_STEP_MS) {
		uint64_t now = atomic_load(&worker.session->executed);

		quiet = ck_chan_pending(commands) == 0 && now == executed ? quiet + 1 : 0;
		executed = now;
		nanosleep(&step, NULL);
	}
}

static void run_lane(struct ck_chan *chan, struct ck_reader *reader)
{
	int ret = cks_dispatch_calls(worker.session, chan, reader);

	if (ret == CK_DISPATCH_BYE) {
		drain_commands();
		worker_end("the program has ended");
	}
	if (ret == -EPROTO)
		worker_end("the client broke the protocol");
	if (ret == -ENOBUFS)
		ck_warn("%s: more than %d unfinished long messages: a connection is closed",
			ck_chan_peer(chan), CK_LONG_MESSAGES);
	else if (ret < 0)
		ck_debug("%s: %s", ck_chan_peer(chan), strerror(-ret));
}

static _Noreturn void run_commands(struct ck_chan *chan, struct ck_reader *reader)
{
	int ret;

	atomic_store(&worker.commands, chan);
	ret = cks_dispatch_commands(worker.session, chan, reader);

	if (ret == -EPROTO)
		worker_end("the client broke the protocol");
	worker_end(ret == 0 ? "the client has ended" : strerror(-ret));
}

/* From now on, the session lives as long as its command connection. */
static void claim_commands(struct ck_chan *chan)
{
	int ret = worker_watch_add(ck_chan_fd(chan));

	if (ret < 0)
		worker_end(strerror(-ret));
	worker_watch_drop(worker.hello_fd);
}

/* Take one of the session's places for calls. */
static bool take_place(void)
{
	if (atomic_fetch_add(&worker.lanes, 1) < worker.max_lanes)
		return true;
	atomic_fetch_sub(&worker.lanes, 1);
	ck_warn("a session requests more than %u connections for calls: refused (--max-lanes)",
		worker.max_lanes);
	return false;
}

/* Of a thread: its connection is the one on which the client waits for words. */
static __thread bool is_listener;

void worker_listens(void)
{
	is_listener = true;
	atomic_fetch_sub(&worker.lanes, 1);
}

/* May a connection of this kind be added? One for calls has a place then. The connection for
 * commands needs none: it may come after all that the session may have for calls. */
static bool admit_lane(ck_lane_kind kind)
{
	if (kind == CK_LANE_COMMAND)
		return !atomic_exchange(&worker.command_taken, true);
	return kind == CK_LANE_CALL && take_place();
}

/* Check and answer a join. 0 or -errno. */
static int take_join(struct ck_chan *chan, const struct cks_first_message *first)
{
	ck_join_res res = {.status = 1};
	bool commands = first->args.lane == CK_LANE_COMMAND;
	int ret;

	if (!atomic_load(&worker.keep) && cks_first_message_proves(first, worker.session) &&
	    admit_lane(first->args.lane))
		res.status = 0;
	if (res.status == 0 && ck_chan_take_rings(chan) == -EPROTO)
		ck_warn("%s: offers shared memory that is not valid", ck_chan_peer(chan));
	if (res.status == 0 && commands)
		claim_commands(chan);
	ret = cks_dispatch_reply(chan, first->xid, (xdrproc_t)xdr_ck_join_res, &res);
	ck_chan_enter_rings(chan);
	if (ret < 0 && res.status == 0 && commands)
		worker_end(strerror(-ret));
	if (res.status != 0) {
		ck_warn("%s: a join was refused", ck_chan_peer(chan));
		return -EACCES;
	}
	return 0; /* after an error, its thread finds out */
}

/* Check and answer a link. *@chan: the channel to serve; NULL: it is served already, or the link
 * was refused. */
static void take_link(struct ck_chan **chan, const struct cks_first_message *first)
{
	struct cks_reconnect *keep = atomic_load(&worker.keep);
	struct ck_chan *connection = *chan;
	ck_link_res res = {.status = 1};

	*chan = NULL;
	if (keep && cks_first_message_proves(first, worker.session)) {
		cks_reconnect_link(keep, connection, first->xid, &first->args, admit_lane, chan);
		return;
	}
	ck_warn("%s: a link was refused", ck_chan_peer(connection));
	cks_dispatch_reply(connection, first->xid, (xdrproc_t)xdr_ck_link_res, &res);
	ck_chan_close(connection);
}

/* Check and answer a connection of another server's worker, which belongs to a link from then
 * on. */
static void take_direct(struct ck_chan *chan, const struct cks_first_message *first)
{
	struct cks_session *s = worker.session;
	ck_direct_res res = {.status = 0};
	void *place = NULL;

	if (cks_direct_admit(s->direct, (const unsigned char *)first->direct.ticket, chan, &place) <
	    0) {
		ck_warn("%s: a ticket was refused", ck_chan_peer(chan));
		res.status = 1;
	}
	/* after an error, the link's thread finds out */
	cks_dispatch_reply(chan, first->xid, (xdrproc_t)xdr_ck_direct_res, &res);
	if (place)
		cks_direct_begin(place);
	else
		ck_chan_close(chan);
}

/* Serve a connection that has its place until it ends. */
static void serve_lane(struct ck_chan *chan, ck_lane_kind lane)
{
	struct ck_reader *reader = NULL;
	int ret = ck_reader_create_small(chan, worker.room, &reader);

	if (lane == CK_LANE_COMMAND && (ret < 0 || ck_reader_widen(reader) < 0))
		worker_end(strerror(ENOMEM));
	if (lane == CK_LANE_COMMAND)
		run_commands(chan, reader);
	if (ret == 0)
		run_lane(chan, reader);
	ck_reader_destroy(reader);
	ck_chan_close(chan);
	if (!is_listener)
		atomic_fetch_sub(&worker.lanes, 1);
}

/* A connection joins or links; the supervisor has checked that its first record, or that of its
 * handshake, is complete. */
static void *join_thread(void *data)
{
	struct cks_first_message first;
	struct ck_chan *chan;
	int fd = (int)(intptr_t)data;
	int ret = ck_chan_adopt(fd, &chan);

	if (ret < 0) {
		close(fd);
		atomic_fetch_sub(&worker.joining, 1);
		return NULL;
	}
	ret = cks_session_tls_read_first(worker.tls, &chan, &first);
	if (ret == 0 && first.kind == CK_FIRST_DIRECT) {
		take_direct(chan, &first);
		chan = NULL;
	} else if (ret == 0 && first.kind == CK_FIRST_LINK) {
		take_link(&chan, &first);
	} else if (ret == 0) {
		ret = take_join(chan, &first);
	}
	atomic_fetch_sub(&worker.joining, 1);
	if (ret == 0 && chan)
		serve_lane(chan, first.args.lane);
	else if (chan)
		ck_chan_close(chan);
	return NULL;
}

void worker_join(int fd)
{
	atomic_fetch_add(&worker.joining, 1);
	if (worker_thread(join_thread, (void *)(intptr_t)fd) == 0)
		return;
	atomic_fetch_sub(&worker.joining, 1);
	close(fd);
}

/* --- the connection of the hello, which becomes the first call lane */

/* It is watched from the start: a client may disconnect while the driver loads. */
int worker_open_first(struct first_lane *first)
{
	int ret = ck_chan_adopt(CK_WORKER_CONNECTION, &first->chan);

	if (ret == 0)
		ret = ck_reader_memory_create(CK_LONG_MESSAGES, &worker.room);
	if (ret == 0)
		ret = ck_reader_create_small(first->chan, worker.room, &first->reader);
	if (ret < 0)
		return ret;
	snprintf(worker.peer, sizeof(worker.peer), "%s", ck_chan_peer(first->chan));
	worker.hello_fd = ck_chan_fd(first->chan);
	cks_peer_of(worker.hello_fd, &worker.owner);
	return worker_watch_begin(worker.hello_fd);
}

int worker_outlive(struct first_lane *first, unsigned int seconds)
{
	struct cks_reconnect *keep;
	int ret;

	if (seconds == 0)
		return 0;
	ret = cks_reconnect_create(seconds, &keep);
	if (ret == 0)
		ret = cks_reconnect_first(keep, first->chan, &first->chan);
	if (ret < 0)
		return ret;
	atomic_store(&worker.keep, keep);
	ret = worker_watch_cuts(cks_reconnect_fd(keep));
	if (ret < 0)
		return ret;
	ck_reader_destroy(first->reader); /* it has read nothing beyond the hello */
	return ck_reader_create_small(first->chan, worker.room, &first->reader);
}

/* Its descriptor stays open: while it may still be watched, another connection must not get the
 * same number. */
static void *first_thread(void *data)
{
	struct first_lane *first = data;

	run_lane(first->chan, first->reader);
	if (atomic_load(&worker.keep))
		ck_chan_close(first->chan);
	else
		ck_chan_shutdown(first->chan); /* the lane answers no further calls */
	atomic_fetch_sub(&worker.lanes, 1);
	return NULL;
}

int worker_serve_first(struct first_lane *first)
{
	atomic_fetch_add(&worker.lanes, 1);
	return worker_thread(first_thread, first);
}
