/*
 * client/wire/session.c - a session with the server: hello, loss, fork, end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/words.h"
#include "client/wire/client.h"
#include "client/wire/command.h"
#include "client/wire/dial.h"
#include "client/wire/join.h"
#include "client/wire/keep.h"
#include "client/wire/lane.h"
#include "client/wire/queue.h"
#include "client/wire/servers.h"
#include "libcuda/logs.h"
#include "client/wire/hooks.h"
#include "client/wire/stats.h"
#include "rpc/alias.h"
#include "rpc/chan.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/map.h"

CK_LOG_DEFINE("client");

#ifndef CK_RELEASE
#define CK_RELEASE "unknown"
#endif

static CUresult hello_status(const struct ckc_client *c, const ck_hello_res *res)
{
	static const CUresult code[] = {
		[CK_HELLO_OK] = CUDA_SUCCESS,
		[CK_HELLO_PROTOCOL] = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		[CK_HELLO_DENIED] = CUDA_ERROR_NOT_PERMITTED,
		[CK_HELLO_BUSY] = CUDA_ERROR_DEVICE_UNAVAILABLE,
	};

	if (res->status == CK_HELLO_OK)
		return CUDA_SUCCESS;
	if (res->status == CK_HELLO_WAIT) /* connect_session asks again, or says why not */
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	ck_err("the GPU server at %s refuses: %s%s", c->connection.address, res->message,
	       ckc_dial_rest(&c->connection));
	if (res->status == CK_HELLO_DRIVER)
		return res->cuda_error ? (CUresult)res->cuda_error : CUDA_ERROR_NO_DEVICE;
	return (unsigned)res->status < sizeof(code) / sizeof(code[0]) ? code[res->status]
								      : CUDA_ERROR_UNKNOWN;
}

/* A hello as it travels: a server ignores wishes that it does not know. */
struct greeting {
	ck_hello_args args;
	ck_hello_wishes wishes;
	ck_hello_queue queue;
	ck_hello_limits limits;
	ck_hello_start start;
	ck_hello_need need;
};

static bool_t code_greeting(XDR *xdrs, struct greeting *g)
{
	return xdr_ck_hello_args(xdrs, &g->args) && xdr_ck_hello_wishes(xdrs, &g->wishes) &&
	       xdr_ck_hello_queue(xdrs, &g->queue) && xdr_ck_hello_limits(xdrs, &g->limits) &&
	       xdr_ck_hello_start(xdrs, &g->start) && xdr_ck_hello_need(xdrs, &g->need);
}

/* The reply to a hello as it travels: see ck_hello_more, which releases before it do not send. */
static bool_t code_hello(XDR *xdrs, struct ckc_client *c)
{
	if (!xdr_ck_hello_res(xdrs, &c->hello))
		return FALSE;
	if (xdrs->x_handy > 0 && !xdr_ck_hello_more(xdrs, &c->offers))
		return FALSE;
	return xdrs->x_handy == 0 || xdr_ck_hello_rules(xdrs, &c->rules);
}

/* What @error of a hello means. */
static const char *explain(const struct ckc_connection *at, int error, char *room, size_t size)
{
	if (ck_chan_helper_ended(at->address, room, size))
		return room;
	if (error == -EPIPE)
		return "it closed the connection; is it a cricket-rpc-server?";
	if (error == -EPROTO)
		return "it is no cricket-rpc-server, or of another release";
	if (error == -EPROTONOSUPPORT)
		return "it speaks another version of the protocol; install the same release on "
		       "both sides";
	return strerror(-error);
}

/* The server has not answered the hello: -errno. */
static CUresult unanswered(const struct ckc_connection *at, int ret)
{
	char room[256];

	ck_err("the GPU server at %s does not answer as it should: %s%s", at->address,
	       explain(at, ret, room, sizeof(room)), ckc_dial_rest(at));
	return ret == -EPROTONOSUPPORT ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
}

/* Put the name of the worker's prefix into @start; an error if it is none. */
static CUresult take_prefix(ck_hello_start *start)
{
	const char *name = ck_env_string("CRICKET_WORKER_PREFIX");
	size_t length = name ? strlen(name) : 0;

	if (length >= sizeof(start->prefix)) {
		ck_err("CRICKET_WORKER_PREFIX: no server has a command with a name of %zu letters",
		       length);
		return CUDA_ERROR_NOT_PERMITTED;
	}
	if (length > 0)
		memcpy(start->prefix, name, length);
	return CUDA_SUCCESS;
}

/* Has the server started the worker as the program wants? One of a release before CRICKET_WORKER_PREFIX does not know. */
static CUresult check_prefix(const struct ckc_client *c, const ck_hello_start *start)
{
	if (!start->prefix[0] ||
	    memcmp(start->prefix, c->offers.prefix, sizeof(start->prefix)) == 0)
		return CUDA_SUCCESS;
	ck_err("the GPU server at %s does not start its worker through %s "
	       "(CRICKET_WORKER_PREFIX): it is too old",
	       c->connection.address, start->prefix);
	return CUDA_ERROR_NOT_PERMITTED;
}

/* Memory that the choice of this server has counted on. */
static void note_need(const struct ckc_connection *at, ck_hello_need *need)
{
	need->memory = (u_quad_t)ck_max(ck_env_long("CRICKET_NEED"), 0l);
	if (need->memory == 0 || !at->entry)
		return;
	need->devices.devices_len = at->entry->count;
	need->devices.devices_val = (u_int *)(uintptr_t)at->entry->devices;
}

static CUresult hello(struct ckc_client *c, struct ckc_lane *lane, struct ck_chan *chan)
{
	const char *token = ck_env_string("CRICKET_TOKEN");
	char host[256] = "";
	struct greeting greeting = {
		.args = {.protocol = CK_PROTOCOL,
			 .release = CK_RELEASE,
			 .token = {token ? (u_int)strlen(token) : 0, (char *)(uintptr_t)token},
			 .application = program_invocation_short_name,
			 .host = host,
			 .pid = (u_int)getpid()},
		.wishes = {.resume = ckc_keep_wish()},
		.limits = {.memory = (u_quad_t)ck_max(ck_env_long("CRICKET_MEMORY"), 0l)},
	};
	struct ckc_connection *at = &c->connection;
	CUresult err = take_prefix(&greeting.start);
	int ret;

	if (err)
		return err;
	gethostname(host, sizeof(host) - 1);
	ckc_queue_wish(c, &greeting.queue);
	note_need(at, &greeting.need);
	c->offered_ns = ck_now_ns();
	ret = ckc_first_exchange(c, lane,
				 &(struct ckc_exchange){
					 .proc = CK_HELLO,
					 .args = &greeting,
					 .res = c,
					 .xdr_args = (xdrproc_t)code_greeting,
					 .xdr_res = (xdrproc_t)code_hello,
				 });
	if (ret < 0)
		return unanswered(at, ret);
	if (at->wanted != CK_SOCKETS && !ck_chan_in_rings(chan)) {
		if (at->wanted == CK_RINGS && c->hello.status == CK_HELLO_OK) {
			ck_err("no shared memory with the GPU server at %s", at->address);
			return CUDA_ERROR_NO_DEVICE;
		}
		at->wanted = CK_SOCKETS;
	}
	err = hello_status(c, &c->hello);
	return err ? err : check_prefix(c, &greeting.start);
}

static void remember_images(struct ckc_client *c)
{
	struct ck_map *images = ck_map_create();

	for (u_int i = 0; images && i < c->hello.modules.modules_len; i++)
		ck_map_insert(images, c->hello.modules.modules_val[i].hash, CK_HASH, c);
	c->connection.images = images;
}

bool ckc_session_has_image(struct ckc_client *c, const unsigned char hash[32])
{
	struct ckc_connection *at = &c->connection;
	struct ck_hash image, alias;
	bool held;

	memcpy(image.bytes, hash, sizeof(image.bytes));
	ck_image_alias(c->hello.session, &image, &alias);
	ck_lock(&at->images_lock);
	held = at->images && ck_map_find(at->images, alias.bytes, CK_HASH);
	if (at->images && !held)
		ck_map_insert(at->images, alias.bytes, CK_HASH, c);
	ck_unlock(&at->images_lock);
	return held;
}

/*
 * Give a forked child its own session, if the parent had one but did not call cuInit. Programs
 * query NVML before they fork, because the real one survives that. State that another thread of the
 * parent was filling is left alone.
 */
static void start_anew(struct ckc_client *c)
{
	struct ckc_client *own = c->index == 0 ? ckc_client_create() : NULL;
	struct ckc_thread *t = ckc_thread();

	ckc_lane_forget(c);
	if (t)
		t->lane = NULL;
	ckc_command_forget(c);
	ckc_keep_forget(c);
	if (!c->connection.connecting) {
		ck_map_destroy(c->connection.images);
		xdr_free((xdrproc_t)xdr_ck_hello_res, &c->hello);
		xdr_free((xdrproc_t)xdr_ck_hello_more, &c->offers);
	}
	c->state = CK_STATE_FORKED; /* stays so if there is no memory for another session */
	if (own)
		__atomic_store_n(&ckc_client_default, own, __ATOMIC_RELEASE);
}

/* In a forked child there is no session. Close the copies of the connections, so that the server
 * sees the parent's end. */
static void leave_to_parent(struct ckc_client *c)
{
	ck_mutex_renew(&c->connection.set_up_lock);
	ckc_each_hook(fork, h) h->run(c);
	if (c->state != CK_STATE_READY && c->state != CK_STATE_LOST && !c->connection.connecting)
		return;
	if (!c->initialized) {
		start_anew(c);
		return;
	}
	c->state = CK_STATE_FORKED;
	if (ckc_keeps(c)) {
		ckc_keep_forked(c);
		return;
	}
	ckc_lane_forked(c);
	ckc_command_forked(c);
}

static void in_child(void)
{
	for (unsigned int i = ckc_servers_count(); i-- > 0;)
		leave_to_parent(ckc_server_session(i));
	ckc_servers_forget();
}

/* Close those in reserve from the @first on. */
static void close_reserve(struct ck_chan *chans[CKC_DIALED], unsigned int first)
{
	for (unsigned int i = CKC_DIALED_RESERVE + first; i < CKC_DIALED; i++)
		ck_chan_close(chans[i]);
}

/* Join with the other connections than that of the hello; owns them. */
static CUresult join_others(struct ckc_client *c, struct ck_chan *chans[CKC_DIALED])
{
	struct ck_chan *commands = chans[CKC_DIALED_COMMANDS];
	/* each costs the server a thread, and saves a round trip */
	unsigned int reserve = atomic_load(&c->lanes.round_trip_ns) < CKC_RESERVE_NS
				       ? 1
				       : CKC_DIALED - CKC_DIALED_RESERVE;
	bool accepted;
	int ret = ckc_join_commands(c, &commands, &accepted);

	if (ret == 0)
		ret = ckc_command_start(c, commands, accepted);
	if (ret < 0) {
		ck_err("the GPU server at %s: cannot join the session: %s", c->connection.address,
		       strerror(-ret));
		close_reserve(chans, 0);
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	for (unsigned int i = 0; i < reserve; i++)
		ckc_join_reserve(c, chans[CKC_DIALED_RESERVE + i]);
	close_reserve(chans, reserve);
	return CUDA_SUCCESS;
}

/* The server keeps the session: make the lane of the hello one that lasts. */
static CUresult outlive(struct ckc_client *c, struct ckc_lane **lane)
{
	struct ck_chan *chan = ckc_lane_detach(*lane);
	int ret = ckc_keep_begin(c, &chan, ckc_session_lost);

	*lane = NULL;
	if (ret < 0)
		ck_chan_close(chan);
	else
		ret = ckc_lane_create(c, chan, lane);
	return ret < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Say hello, and join; owns all connections. */
static CUresult make_session(struct ckc_client *c, struct ck_chan *chans[CKC_DIALED])
{
	struct ckc_lane *lane = NULL;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (ckc_lane_create(c, chans[CKC_DIALED_HELLO], &lane) == 0)
		err = hello(c, lane, chans[CKC_DIALED_HELLO]);
	if (!err && c->offers.keep > 0)
		err = outlive(c, &lane);
	if (err) {
		ck_chan_close(chans[CKC_DIALED_COMMANDS]);
		close_reserve(chans, 0);
	} else {
		err = join_others(c, chans);
	}
	if (lane && err)
		ckc_lane_destroy(lane);
	else if (lane)
		ckc_lane_release(lane); /* on top of the pool: the next call takes it */
	return err;
}

/* Ask once. */
static CUresult ask_for_session(struct ckc_client *c)
{
	struct ck_chan *chans[CKC_DIALED];
	uint64_t began = ck_now_ns();

	if (ckc_dial_server(&c->connection, chans) < 0)
		return CUDA_ERROR_NO_DEVICE;
	/* the reply to hello may take longer: the server makes a worker for it */
	atomic_store(&c->lanes.round_trip_ns, ck_now_ns() - began);
	c->passes_fds = ck_chan_passes_fds(chans[0]);
	return make_session(c, chans);
}

/* Must a server be asked again, this one or another? The answer to a hello that has failed is forgotten. */
static bool is_to_go_on(struct ckc_client *c, CUresult err)
{
	ck_hello_status status = c->hello.status;
	bool more = false;

	if (!err)
		return false;
	if (status == CK_HELLO_BUSY)
		ckc_dial_busy(&c->connection);
	if (status == CK_HELLO_WAIT)
		more = ckc_queue_go_on(c, c->hello.message);
	else if (status != CK_HELLO_OK || !c->hello.release) /* else it began, and failed later */
		more = ckc_dial_next(&c->connection, ckc_queue_waits(c));
	xdr_free((xdrproc_t)xdr_ck_hello_res, &c->hello);
	memset(&c->hello, 0, sizeof(c->hello));
	return more;
}

static CUresult connect_session(struct ckc_client *c)
{
	CUresult err = CUDA_ERROR_NO_DEVICE;

	ckc_queue_begin(c);
	if (ckc_dial_begin(&c->connection) == 0) {
		do
			err = ask_for_session(c);
		while (is_to_go_on(c, err));
	}
	ckc_dial_end(&c->connection);
	ckc_queue_end(c);
	if (err)
		return err;
	remember_images(c);
	/* at most the version that the table covers: libraries choose their calls by it */
	c->driver_version = ck_min(c->hello.driver_version, CK_CUDA_VERSION_ON_TABLE);
	ck_info("session with %s: %u device%s%s", c->connection.address,
		c->hello.devices.devices_len, c->hello.devices.devices_len == 1 ? "" : "s",
		c->hello.emulated ? ", emulated" : "");
	return CUDA_SUCCESS;
}

static void warn(const char *line)
{
	ck_warn("%s", line);
}

/* Connect for the first time. Another thread may fork at any time. */
static CUresult begin(struct ckc_client *c)
{
	static bool at_fork;
	CUresult err;

	if (!__atomic_exchange_n(&at_fork, true, __ATOMIC_RELAXED)) {
		pthread_atfork(NULL, NULL, in_child);
		ck_env_check(warn);
	}
	c->connection.connecting = true;
	ckc_stats_init();
	ck_logs_begin();
	err = connect_session(c);
	c->connection.failed = err;
	if (!err) {
		c->state = CK_STATE_READY;
		ckc_words_listen(c);
	}
	c->connection.connecting = false;
	return err;
}

static CUresult open_session(struct ckc_client *c)
{
	switch (atomic_load(&c->state)) {
	case CK_STATE_FORKED:
		return CUDA_ERROR_NOT_INITIALIZED;
	case CK_STATE_LOST:
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	case CK_STATE_EXITING:
		return CUDA_ERROR_DEINITIALIZED;
	case CK_STATE_FRESH:
		return c->connection.failed ? c->connection.failed : begin(c);
	default:
		return CUDA_SUCCESS;
	}
}

CUresult ckc_session_open(struct ckc_client *c)
{
	int cancel = ck_lock_uncancelled(&c->connection.set_up_lock);
	CUresult err = open_session(c);

	ck_unlock_uncancelled(&c->connection.set_up_lock, cancel);
	return err;
}

const char *ckc_session_server(const struct ckc_client *c)
{
	return c->connection.address;
}

static void cut(struct ckc_client *c)
{
	ckc_command_abandon(c);
	ckc_lane_shut_all(c);
	ckc_lane_drop_all(c);
	ckc_keep_stop(c);
}

void ckc_session_lost(struct ckc_client *c, const char *why)
{
	int ready = CK_STATE_READY;

	if (!atomic_compare_exchange_strong(&c->state, &ready, CK_STATE_LOST))
		return;
	ck_err("the GPU server at %s is lost (%s): every CUDA call %sfails from now on",
	       c->connection.address, why, ckc_many ? "for its devices " : "");
	cut(c);
}

void ckc_session_leave(struct ckc_client *c)
{
	int ready = CK_STATE_READY;

	if (!atomic_compare_exchange_strong(&c->state, &ready, CK_STATE_LOST))
		return;
	ckc_keep_bye(c);
	cut(c);
}

static CUresult check(void)
{
	const struct ckc_client *c = ckc_client_current();
	int state = atomic_load_explicit(&c->state, memory_order_relaxed);

	if (unlikely(ckc_inside_callback))
		return CUDA_ERROR_NOT_PERMITTED;
	if (likely(state == CK_STATE_READY && c->initialized)) {
		if (unlikely(ckc_stats_on))
			ckc_stats_entered();
		return CUDA_SUCCESS;
	}
	if (state == CK_STATE_LOST)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return state == CK_STATE_EXITING ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult ckc_session_check(void)
{
	if (unlikely(ckc_many))
		ckc_route_home();
	return check();
}

CUresult ckc_process_check(void)
{
	CUresult err = ckc_session_check();

	if (unlikely(err == CUDA_ERROR_DEVICE_UNAVAILABLE && ckc_many)) {
		ckc_route_living();
		err = ckc_client_current()->state == CK_STATE_READY ? CUDA_SUCCESS : err;
	}
	return err;
}
