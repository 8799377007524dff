/*
 * client/wire/session.c - a session with the server: its beginning; fork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "client/link/client.h"
#include "client/wire/command.h"
#include "client/link/dial.h"
#include "client/link/hello.h"
#include "client/link/hooks.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/link/queue.h"
#include "client/link/reconnect.h"
#include "client/link/session_list.h"
#include "client/link/stats.h"
#include "client/wire/user_messages.h"
#include "libcuda/libcuda.h"
#include "rpc/chan.h"
#include "rpc/image_alias.h"
#include "rpc/secure.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/map.h"
#include "util/process/process_limits.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

static void remember_images(struct ckc_client *c)
{
	struct ck_map *images = ck_map_create();

	for (u_int i = 0; images && i < c->hello.modules.modules_len; i++)
		ck_map_insert(images, c->hello.modules.modules_val[i].hash, CK_HASH, c);
	memcpy(c->connection.images_of, c->hello.session, sizeof(c->connection.images_of));
	c->connection.images = images;
}

bool ckc_session_has_image(struct ckc_client *c, const unsigned char hash[32])
{
	struct ckc_connection *at = &c->connection;
	struct ck_hash image, alias;
	bool held;

	memcpy(image.bytes, hash, sizeof(image.bytes));
	ck_image_alias(at->images_of, &image, &alias);
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
	ckc_reconnect_forget(c);
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
	ck_secure_forget(c->connection.secure, true);
	ckc_each_hook(fork, h) h->run(c);
	if (c->state != CK_STATE_READY && c->state != CK_STATE_LOST && !c->connection.connecting)
		return;
	if (!c->initialized) {
		start_anew(c);
		return;
	}
	c->state = CK_STATE_FORKED;
	if (ckc_keeps(c)) {
		ckc_reconnect_forked(c);
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

/* Join with the connections other than that of the hello; owns them. */
static CUresult join_others(struct ckc_client *c, struct ck_chan *chans[CKC_DIALED])
{
	struct ck_chan *commands;
	/* each costs the server a thread, and saves a round trip */
	unsigned int reserve = atomic_load(&c->lanes.round_trip_ns) < CKC_RESERVE_NS
				       ? 1
				       : CKC_DIALED - CKC_DIALED_RESERVE;
	char why[CK_LIMIT_TEXT];
	bool accepted;
	int ret;

	/* others replace those that it closes */
	ckc_dial_encrypt(&c->connection, chans + CKC_DIALED_COMMANDS, 1 + reserve);
	commands = chans[CKC_DIALED_COMMANDS];
	ret = ckc_join_commands(c, &commands, &accepted);
	if (ret == 0)
		ret = ckc_command_start(c, commands, accepted);
	if (ret < 0) {
		ck_err("the GPU server at %s: cannot join the session: %s", c->connection.address,
		       ck_limit_text(ret, why));
		close_reserve(chans, 0);
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	for (unsigned int i = 0; i < reserve; i++)
		ckc_join_reserve(c, chans[CKC_DIALED_RESERVE + i]);
	close_reserve(chans, reserve);
	return CUDA_SUCCESS;
}

/* The server keeps the session: make the lane of the hello one that lasts. */
static CUresult make_lane_lasting(struct ckc_client *c, struct ckc_lane **lane)
{
	struct ck_chan *chan = ckc_lane_detach(*lane);
	int ret = ckc_reconnect_begin(c, &chan, ckc_session_lost);

	c->passes_fds = false; /* a unix socket may lead into a tunnel */
	*lane = NULL;
	if (ret < 0)
		ck_chan_close(chan);
	else
		ret = ckc_lane_create(c, chan, lane);
	if (ret == 0)
		return CUDA_SUCCESS;
	return ret == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Say hello, and join; owns all connections. */
static CUresult make_session(struct ckc_client *c, struct ck_chan *chans[CKC_DIALED])
{
	struct ckc_lane *lane = NULL;
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (ckc_lane_create(c, chans[CKC_DIALED_HELLO], &lane) == 0)
		err = ckc_hello(c, lane, chans[CKC_DIALED_HELLO]);
	if (!err && c->offers.keep > 0)
		err = make_lane_lasting(c, &lane);
	if (err) {
		ck_chan_close(chans[CKC_DIALED_COMMANDS]);
		close_reserve(chans, 0);
	} else {
		err = join_others(c, chans);
	}
	/* the lane of the hello is on top of the pool: the next call takes it, unless a process
	 * relays it and no other connection can replace its own */
	if (lane && (err || (c->connection.direct && !ckc_keeps(c))))
		ckc_lane_destroy(lane);
	else if (lane)
		ckc_lane_release(lane);
	if (!err && c->connection.direct)
		ckc_reconnect_replace_first(c);
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

/* Must a server be asked again, this one or another? The answer to a hello that has failed is
 * forgotten. */
static bool is_to_go_on(struct ckc_client *c, CUresult err)
{
	ck_hello_status status = c->hello.status;
	bool more = false;

	if (!err)
		return false;
	if (status == CK_HELLO_BUSY)
		ckc_dial_busy(&c->connection);
	if (ckc_hello_was_asked(c) || c->connection.unfinished)
		more = true;
	else if (status == CK_HELLO_WAIT)
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

static void log_warning(const char *line)
{
	ck_warn("%s", line);
}

/* Connect for the first time. Another thread may fork at any time. */
static CUresult begin_session(struct ckc_client *c)
{
	static bool at_fork;
	CUresult err;

	if (!__atomic_exchange_n(&at_fork, true, __ATOMIC_RELAXED)) {
		pthread_atfork(NULL, NULL, in_child);
		ck_env_check(CK_ENV_CLIENT, log_warning);
	}
	c->connection.connecting = true;
	ckc_stats_init();
	ck_logs_begin();
	err = connect_session(c);
	c->connection.failed = err;
	if (!err) {
		c->state = CK_STATE_READY;
		ckc_user_messages_listen(c);
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
		return c->connection.failed ? c->connection.failed : begin_session(c);
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

static CUresult check_session(void)
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
	return check_session();
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
