/*
 * client/wire/session.c - the connection to the server: find it, hello, join, loss.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/client.h"
#include "client/wire/command.h"
#include "client/wire/lane.h"
#include "libcuda/logs.h"
#include "client/wire/hooks.h"
#include "client/wire/stats.h"
#include "rpc/alias.h"
#include "rpc/chan.h"
#include "rpc/inject.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/map.h"

CK_LOG_DEFINE("client");

/* Ring sizes of a connection. Commands are sent ahead; a lane has one call at a time. */
#define RING_COMMANDS (4u << 20)
#define RING_LANE (256u << 10)
#define RING_TO_CLIENT (256u << 10)

#ifndef CK_RELEASE
#define CK_RELEASE "unknown"
#endif

static int dial_timeout_ms(void)
{
	long seconds = ck_env_long("CRICKET_TIMEOUT");

	return seconds > 0 && seconds < 86400 ? (int)seconds * 1000 : 10000;
}

/* Connect to the unix socket of this host's server, if one answers. */
static bool dial_local(struct ckc_connection *at, struct ck_chan **chan)
{
	const char *path;

	for (unsigned int i = 0; (path = ck_chan_default_unix(i)) != NULL; i++) {
		snprintf(at->address, sizeof(at->address), "unix:%s", path);
		if (access(path, F_OK) == 0 &&
		    ck_chan_dial(at->address, dial_timeout_ms(), chan) == 0)
			return true;
	}
	return false;
}

/* Does @where name this host and the default port, so that the unix socket can replace it? */
static bool names_this_host(const char *where)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	char port[16];

	snprintf(port, sizeof(port), ":%d", CK_DEFAULT_PORT);
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(where, names[i], length) == 0 &&
		    (where[length] == '\0' || strcmp(where + length, port) == 0))
			return true;
	}
	return false;
}

/* Apply CRICKET_INJECT, if it is set and valid. */
static int play_network(void)
{
	const char *inject = ck_env_string("CRICKET_INJECT");
	int ret = ck_inject_set(inject);

	if (ret < 0)
		ck_err("CRICKET_INJECT=%s is neither rtt=TIME nor bw=RATE nor both, as in "
		       "rtt=500us,bw=10G",
		       inject);
	else if (ck_inject_current())
		ck_info("a slower network is played: CRICKET_INJECT=%s", inject);
	return ret;
}

static int dial_server(struct ckc_connection *at, struct ck_chan **chan)
{
	const char *where = ck_env_string("REMOTE_GPU_ADDRESS");
	bool anywhere = !where || !*where;
	char why[160];
	int ret = play_network();

	if (ret < 0)
		return ret;
	at->wanted = CK_RINGS_IF_ANY;
	if ((anywhere || names_this_host(where)) && dial_local(at, chan)) {
		ck_info("connection to this host by \"%s\"", at->address);
		return 0;
	}
	if (anywhere) {
		ck_err("no GPU server: none answers on this host's unix socket; start "
		       "cricket-rpc-server, "
		       "or set REMOTE_GPU_ADDRESS=HOST[:PORT] or unix:/PATH");
		return -ENODEV;
	}
	at->wanted = strncmp(where, "shm:", 4) == 0 && !ck_inject_current() ? CK_RINGS : CK_SOCKETS;
	snprintf(at->address, sizeof(at->address), "%s", where);
	ck_info("connection to host \"%s\"", at->address);
	ret = ck_chan_dial(at->address, dial_timeout_ms(), chan);
	if (ret < 0)
		ck_err("cannot reach the GPU server at REMOTE_GPU_ADDRESS=%s: %s", at->address,
		       ck_chan_dial_error(at->address, ret, why, sizeof(why)));
	return ret;
}

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
	ck_err("the GPU server at %s refuses: %s", c->connection.address, res->message);
	if (res->status == CK_HELLO_DRIVER)
		return res->cuda_error ? (CUresult)res->cuda_error : CUDA_ERROR_NO_DEVICE;
	return (unsigned)res->status < sizeof(code) / sizeof(code[0]) ? code[res->status]
								      : CUDA_ERROR_UNKNOWN;
}

/* Make the first exchange on a connection. It offers shared memory, which carries the rest if both
 * ends can. */
static int first_exchange(struct ckc_client *c, struct ckc_lane *lane, struct ck_chan *chan,
			  size_t to_server, struct ckc_exchange *x)
{
	int ret;

	if (c->connection.wanted != CK_SOCKETS)
		ck_chan_offer_rings(chan, to_server, RING_TO_CLIENT); /* or it stays a socket */
	ckc_lane_timeout(lane, dial_timeout_ms());
	ret = ckc_lane_exchange(lane, x);
	if (ret < 0)
		return ret;
	ckc_lane_timeout(lane, 0);
	ck_chan_enter_rings(chan);
	return 0;
}

/* The reply to a hello as it travels: see ck_hello_more, which releases before it do not send. */
static bool_t code_hello(XDR *xdrs, struct ckc_client *c)
{
	if (!xdr_ck_hello_res(xdrs, &c->hello))
		return FALSE;
	return xdrs->x_handy == 0 || xdr_ck_hello_more(xdrs, &c->offers);
}

static CUresult hello(struct ckc_client *c, struct ckc_lane *lane, struct ck_chan *chan)
{
	const char *token = ck_env_string("CRICKET_TOKEN");
	char host[256] = "";
	ck_hello_args args = {
		.protocol = CK_PROTOCOL,
		.release = CK_RELEASE,
		.token = {token ? (u_int)strlen(token) : 0, (char *)(uintptr_t)token},
		.application = program_invocation_short_name,
		.host = host,
		.pid = (u_int)getpid(),
	};
	struct ckc_connection *at = &c->connection;
	int ret;

	gethostname(host, sizeof(host) - 1);
	c->offered_ns = ck_now_ns();
	ret = first_exchange(c, lane, chan, RING_LANE,
			     &(struct ckc_exchange){
				     .proc = CK_HELLO,
				     .args = &args,
				     .res = c,
				     .xdr_args = (xdrproc_t)xdr_ck_hello_args,
				     .xdr_res = (xdrproc_t)code_hello,
			     });
	if (ret < 0) {
		ck_err("the GPU server at %s does not answer as it should: %s", at->address,
		       ret == -EPIPE	? "it closed the connection; is it a cricket-rpc-server?"
		       : ret == -EPROTO ? "it is no cricket-rpc-server, or of another release"
		       : ret == -EPROTONOSUPPORT
			       ? "it speaks another version of the protocol; install "
				 "the same release on both sides"
			       : strerror(-ret));
		return ret == -EPROTONOSUPPORT ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
					       : CUDA_ERROR_NO_DEVICE;
	}
	if (at->wanted != CK_SOCKETS && !ck_chan_in_rings(chan)) {
		if (at->wanted == CK_RINGS && c->hello.status == CK_HELLO_OK) {
			ck_err("no shared memory with the GPU server at %s", at->address);
			return CUDA_ERROR_NO_DEVICE;
		}
		at->wanted = CK_SOCKETS;
	}
	return hello_status(c, &c->hello);
}

int ckc_session_join(struct ckc_client *c, int kind, struct ck_chan **chan)
{
	ck_join_args args = {.lane = (ck_lane_kind)kind};
	ck_join_res res = {.status = 1};
	struct ckc_lane *lane;
	struct ck_chan *made;
	int ret = ck_chan_dial(c->connection.joins, dial_timeout_ms(), &made);

	if (ret < 0)
		return ret;
	memcpy(args.session, c->hello.session, sizeof(args.session));
	memcpy(args.key, c->hello.key, sizeof(args.key));
	ret = ckc_lane_create(c, made, &lane);
	if (ret < 0)
		return ret;
	ret = first_exchange(c, lane, made, kind == CK_LANE_COMMAND ? RING_COMMANDS : RING_LANE,
			     &(struct ckc_exchange){
				     .proc = CK_JOIN,
				     .args = &args,
				     .res = &res,
				     .xdr_args = (xdrproc_t)xdr_ck_join_args,
				     .xdr_res = (xdrproc_t)xdr_ck_join_res,
			     });
	if (ret == 0 && res.status != 0)
		ret = -EACCES;
	if (ret < 0) {
		ckc_lane_destroy(lane);
		return ret;
	}
	*chan = ckc_lane_detach(lane);
	return 0;
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
	struct ckc_client *own = ckc_client_create();

	ckc_lane_forget(c);
	ckc_command_forget(c);
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
static void in_child(void)
{
	struct ckc_client *c = ckc_client_current();

	ck_mutex_renew(&c->connection.set_up_lock);
	ckc_each_hook(fork, h) h->run(c);
	if (c->state != CK_STATE_READY && c->state != CK_STATE_LOST && !c->connection.connecting)
		return;
	if (!c->initialized) {
		start_anew(c);
		return;
	}
	c->state = CK_STATE_FORKED;
	ckc_lane_forked(c);
	ckc_command_forked(c);
}

static void note_server(struct ckc_connection *at, const struct ck_chan *chan)
{
	const char *peer = ck_chan_peer(chan);

	if (strncmp(peer, "tcp ", 4) == 0 && strcmp(peer, "tcp ?") != 0)
		snprintf(at->joins, sizeof(at->joins), "tcp://%s", peer + 4);
	else
		memcpy(at->joins, at->address, sizeof(at->joins));
}

static CUresult connect_session(struct ckc_client *c)
{
	const char *address = c->connection.address;
	struct ck_chan *chan, *commands;
	struct ckc_lane *lane;
	CUresult err;
	int ret = dial_server(&c->connection, &chan);

	if (ret < 0)
		return CUDA_ERROR_NO_DEVICE;
	if (ckc_lane_create(c, chan, &lane) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->passes_fds = ck_chan_passes_fds(chan);
	note_server(&c->connection, chan);
	err = hello(c, lane, chan);
	if (err) {
		ckc_lane_destroy(lane);
		return err;
	}
	ret = ckc_session_join(c, CK_LANE_COMMAND, &commands);
	if (ret == 0)
		ret = ckc_command_start(c, commands);
	if (ret < 0) {
		ck_err("the GPU server at %s: cannot join the session: %s", address,
		       strerror(-ret));
		ckc_lane_destroy(lane);
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	remember_images(c);
	ckc_lane_release(lane);
	/* at most the version that the table covers: libraries choose their calls by it */
	c->driver_version = ck_min(c->hello.driver_version, CK_CUDA_VERSION_ON_TABLE);
	ck_info("session with %s: %u device%s%s", address, c->hello.devices.devices_len,
		c->hello.devices.devices_len == 1 ? "" : "s",
		c->hello.emulated ? ", emulated" : "");
	return CUDA_SUCCESS;
}

/* Connect for the first time. Another thread may fork at any time. */
static CUresult begin(struct ckc_client *c)
{
	static bool at_fork;
	CUresult err;

	if (!__atomic_exchange_n(&at_fork, true, __ATOMIC_RELAXED))
		pthread_atfork(NULL, NULL, in_child);
	c->connection.connecting = true;
	ckc_stats_init();
	ck_logs_begin();
	err = connect_session(c);
	c->connection.failed = err;
	if (!err)
		c->state = CK_STATE_READY;
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

void ckc_session_lost(struct ckc_client *c, const char *why)
{
	int ready = CK_STATE_READY;

	if (!atomic_compare_exchange_strong(&c->state, &ready, CK_STATE_LOST))
		return;
	ck_err("the GPU server at %s is lost (%s): every CUDA call fails from now on",
	       c->connection.address, why);
	ckc_command_abandon(c);
	ckc_lane_shut_all(c);
	ckc_lane_drop_all(c);
}

CUresult ckc_session_check(void)
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

/* Runs after the application's exit handlers and before the libraries that the client uses are
 * unloaded. Fetch the last output of kernels, within two seconds. Then the server sees the
 * connections close. */
__attribute__((destructor)) static void at_exit(void)
{
	struct ckc_client *c = ckc_client_current();
	struct ckc_thread *t;

	if (c->state == CK_STATE_FORKED)
		return;
	if (c->state != CK_STATE_READY)
		goto out;
	c->state = CK_STATE_EXITING; /* errors are not reported from now on */
	t = ckc_thread();
	if (ckc_command_stop(c) && t && t->lane && !ckc_lane_busy(t->lane)) {
		ckc_lane_timeout(t->lane, 2000);
		ckc_output_fetch();
	}
out:
	if (ckc_stats_on)
		ckc_stats_end_of_process();
}
