/*
 * client/wire/session.c - the connection to the server: where it is, hello, join, and its loss.
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

/* Bytes of the rings of a connection. Commands are sent ahead; a lane has one call at a time. */
#define RING_COMMANDS (4u << 20)
#define RING_LANE (256u << 10)
#define RING_TO_CLIENT (256u << 10)

#ifndef CK_RELEASE
#define CK_RELEASE "unknown"
#endif

struct ck_client ck_client;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char address[512];		/* where the server was found */
static char joins[512];			/* the same one, whatever a name stands for later */
static enum { SOCKETS, RINGS_IF_ANY, RINGS } wanted; /* over what, where it is on this host */
static CUresult failed;			/* what an attempt to connect ended with */
static bool connecting;			/* such an attempt is being made */
static struct ck_map *images;		/* that the server holds, by alias (rpc/alias.h) */
static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;

static int dial_timeout_ms(void)
{
	long seconds = ck_env_long("CRICKET_TIMEOUT");

	return seconds > 0 && seconds < 86400 ? (int)seconds * 1000 : 10000;
}

/* The unix socket of this host's server, if one answers. */
static bool dial_local(struct ck_chan **chan)
{
	const char *path;

	for (unsigned int i = 0; (path = ck_chan_default_unix(i)) != NULL; i++) {
		snprintf(address, sizeof(address), "unix:%s", path);
		if (access(path, F_OK) == 0 &&
		    ck_chan_dial(address, dial_timeout_ms(), chan) == 0)
			return true;
	}
	return false;
}

/* Names this host, and the port on which its server listens by default, as well as its socket. */
static bool names_this_host(const char *where)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
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

/* CRICKET_INJECT, if it is set and says what can be played. */
static int play_network(void)
{
	const char *inject = ck_env_string("CRICKET_INJECT");
	int ret = ck_inject_set(inject);

	if (ret < 0)
		ck_err("CRICKET_INJECT=%s is neither rtt=TIME nor bw=RATE nor both, as in "
		       "rtt=500us,bw=10G", inject);
	else if (ck_inject_current())
		ck_info("a slower network is played: CRICKET_INJECT=%s", inject);
	return ret;
}

static int dial_server(struct ck_chan **chan)
{
	const char *where = ck_env_string("REMOTE_GPU_ADDRESS");
	bool anywhere = !where || !*where;
	char why[160];
	int ret = play_network();

	if (ret < 0)
		return ret;
	wanted = RINGS_IF_ANY;
	if ((anywhere || names_this_host(where)) && dial_local(chan)) {
		ck_info("connection to this host by \"%s\"", address);
		return 0;
	}
	if (anywhere) {
		ck_err("no GPU server: none answers on this host's unix socket; start cricket-rpc-server, "
		       "or set REMOTE_GPU_ADDRESS=HOST[:PORT] or unix:/PATH");
		return -ENODEV;
	}
	wanted = strncmp(where, "shm:", 4) == 0 && !ck_inject_current() ? RINGS : SOCKETS;
	snprintf(address, sizeof(address), "%s", where);
	ck_info("connection to host \"%s\"", address);
	ret = ck_chan_dial(address, dial_timeout_ms(), chan);
	if (ret < 0)
		ck_err("cannot reach the GPU server at REMOTE_GPU_ADDRESS=%s: %s", address,
		       ck_chan_dial_error(address, ret, why, sizeof(why)));
	return ret;
}

static CUresult hello_status(const ck_hello_res *res)
{
	static const CUresult code[] = {
		[CK_HELLO_OK] = CUDA_SUCCESS,
		[CK_HELLO_PROTOCOL] = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		[CK_HELLO_DENIED] = CUDA_ERROR_NOT_PERMITTED,
		[CK_HELLO_BUSY] = CUDA_ERROR_DEVICE_UNAVAILABLE,
	};

	if (res->status == CK_HELLO_OK)
		return CUDA_SUCCESS;
	ck_err("the GPU server at %s refuses: %s", address, res->message);
	if (res->status == CK_HELLO_DRIVER)
		return res->cuda_error ? (CUresult)res->cuda_error : CUDA_ERROR_NO_DEVICE;
	return (unsigned)res->status < sizeof(code) / sizeof(code[0]) ? code[res->status] :
									CUDA_ERROR_UNKNOWN;
}

/* The first exchange on a connection: behind it, where both ends can, it is in shared memory. */
static int first_exchange(struct ck_lane *lane, struct ck_chan *chan, size_t to_server,
			  struct ck_exchange *x)
{
	int ret;

	if (wanted != SOCKETS)
		ck_chan_offer_rings(chan, to_server, RING_TO_CLIENT); /* or it stays a socket */
	ck_lane_timeout(lane, dial_timeout_ms());
	ret = ck_lane_exchange(lane, x);
	if (ret < 0)
		return ret;
	ck_lane_timeout(lane, 0);
	ck_chan_enter_rings(chan);
	return 0;
}

static CUresult hello(struct ck_lane *lane, struct ck_chan *chan)
{
	const char *token = ck_env_string("CRICKET_TOKEN");
	char host[256] = "";
	ck_hello_args args = {
		.protocol = CK_PROTOCOL,
		.release = CK_RELEASE,
		.token = { token ? (u_int)strlen(token) : 0, (char *)(uintptr_t)token },
		.application = program_invocation_short_name,
		.host = host,
		.pid = (u_int)getpid(),
	};
	int ret;

	gethostname(host, sizeof(host) - 1);
	ret = first_exchange(lane, chan, RING_LANE, &(struct ck_exchange){
		.proc = CK_HELLO, .args = &args, .res = &ck_client.hello,
		.xdr_args = (xdrproc_t)xdr_ck_hello_args,
		.xdr_res = (xdrproc_t)xdr_ck_hello_res,
	});
	if (ret < 0) {
		ck_err("the GPU server at %s does not answer as it should: %s", address,
		       ret == -EPIPE	       ? "it closed the connection; is it a cricket-rpc-server?" :
		       ret == -EPROTO	       ? "it is no cricket-rpc-server, or of another release" :
		       ret == -EPROTONOSUPPORT ? "it speaks another version of the protocol; install "
						 "the same release on both sides" :
						 strerror(-ret));
		return ret == -EPROTONOSUPPORT ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH :
						 CUDA_ERROR_NO_DEVICE;
	}
	if (wanted != SOCKETS && !ck_chan_in_rings(chan)) {
		if (wanted == RINGS && ck_client.hello.status == CK_HELLO_OK) {
			ck_err("no shared memory with the GPU server at %s", address);
			return CUDA_ERROR_NO_DEVICE;
		}
		wanted = SOCKETS;
	}
	return hello_status(&ck_client.hello);
}

int ck_session_join(int kind, struct ck_chan **chan)
{
	ck_join_args args = { .lane = (ck_lane_kind)kind };
	ck_join_res res = { .status = 1 };
	struct ck_lane *lane;
	struct ck_chan *c;
	int ret = ck_chan_dial(joins, dial_timeout_ms(), &c);

	if (ret < 0)
		return ret;
	memcpy(args.session, ck_client.hello.session, sizeof(args.session));
	memcpy(args.key, ck_client.hello.key, sizeof(args.key));
	ret = ck_lane_create(c, &lane);
	if (ret < 0)
		return ret;
	ret = first_exchange(lane, c, kind == CK_LANE_COMMAND ? RING_COMMANDS : RING_LANE,
			     &(struct ck_exchange){
		.proc = CK_JOIN, .args = &args, .res = &res,
		.xdr_args = (xdrproc_t)xdr_ck_join_args,
		.xdr_res = (xdrproc_t)xdr_ck_join_res,
	});
	if (ret == 0 && res.status != 0)
		ret = -EACCES;
	if (ret < 0) {
		ck_lane_destroy(lane);
		return ret;
	}
	*chan = ck_lane_detach(lane);
	return 0;
}

static void remember_images(void)
{
	images = ck_map_create();
	for (u_int i = 0; images && i < ck_client.hello.modules.modules_len; i++)
		ck_map_insert(images, ck_client.hello.modules.modules_val[i].hash, CK_HASH,
			      &ck_client);
}

bool ck_session_has_image(const unsigned char hash[32])
{
	struct ck_hash image, alias;
	bool held;

	memcpy(image.bytes, hash, sizeof(image.bytes));
	ck_image_alias(ck_client.hello.session, &image, &alias);
	pthread_mutex_lock(&images_lock);
	held = images && ck_map_find(images, alias.bytes, CK_HASH);
	if (images && !held)
		ck_map_insert(images, alias.bytes, CK_HASH, &ck_client);
	pthread_mutex_unlock(&images_lock);
	return held;
}

/* A child whose parent had a session but not called cuInit may have a session of its own: NVML is
 * what programs ask before they fork, because the real one survives that. */
static void start_anew(void)
{
	ck_lane_forget();
	ck_command_forget();
	pthread_mutex_init(&images_lock, NULL);
	if (!connecting) {	/* what another thread was just filling is left as it is */
		ck_map_destroy(images);
		xdr_free((xdrproc_t)xdr_ck_hello_res, &ck_client.hello);
	}
	connecting = false;
	images = NULL;
	memset(&ck_client.hello, 0, sizeof(ck_client.hello));
	failed = CUDA_SUCCESS;
	ck_client.state = CK_STATE_FRESH;
}

/* The child of a fork has no session. Its copies of the connections are closed, so that the server
 * sees the end of the parent when that ends. */
static void in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	ck_each_hook(fork, h)
		h->run();
	if (ck_client.state != CK_STATE_READY && ck_client.state != CK_STATE_LOST && !connecting)
		return;
	if (!ck_client.initialized) {
		start_anew();
		return;
	}
	ck_client.state = CK_STATE_FORKED;
	ck_lane_forked();
	ck_command_forked();
}

static void note_server(const struct ck_chan *chan)
{
	const char *peer = ck_chan_peer(chan);

	if (strncmp(peer, "tcp ", 4) == 0 && strcmp(peer, "tcp ?") != 0)
		snprintf(joins, sizeof(joins), "tcp://%s", peer + 4);
	else
		memcpy(joins, address, sizeof(joins));
}

static CUresult connect_session(void)
{
	struct ck_chan *chan, *commands;
	struct ck_lane *lane;
	CUresult err;
	int ret = dial_server(&chan);

	if (ret < 0)
		return CUDA_ERROR_NO_DEVICE;
	if (ck_lane_create(chan, &lane) < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_client.passes_fds = ck_chan_passes_fds(chan);
	note_server(chan);
	err = hello(lane, chan);
	if (err) {
		ck_lane_destroy(lane);
		return err;
	}
	ret = ck_session_join(CK_LANE_COMMAND, &commands);
	if (ret == 0)
		ret = ck_command_start(commands);
	if (ret < 0) {
		ck_err("the GPU server at %s: cannot join the session: %s", address,
		       strerror(-ret));
		ck_lane_destroy(lane);
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	remember_images();
	ck_lane_release(lane);
	/* never more than the table has entries for: libraries choose their calls by it */
	ck_client.driver_version = ck_client.hello.driver_version < CK_CUDA_VERSION_ON_TABLE ?
					   ck_client.hello.driver_version :
					   CK_CUDA_VERSION_ON_TABLE;
	ck_info("session with %s: %u device%s%s", address, ck_client.hello.devices.devices_len,
		ck_client.hello.devices.devices_len == 1 ? "" : "s",
		ck_client.hello.emulated ? ", emulated" : "");
	return CUDA_SUCCESS;
}

/* The first attempt. A fork in another thread may come at any time of it. */
static CUresult begin(void)
{
	static bool at_fork;
	CUresult err;

	if (!at_fork)
		pthread_atfork(NULL, NULL, in_child);
	at_fork = true;
	connecting = true;
	ck_stats_init();
	ck_logs_begin();
	err = connect_session();
	failed = err;
	if (!err)
		ck_client.state = CK_STATE_READY;
	connecting = false;
	return err;
}

CUresult ck_session_open(void)
{
	int cancel = ck_cancel_disable();
	CUresult err = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (ck_client.state == CK_STATE_FORKED)
		err = CUDA_ERROR_NOT_INITIALIZED;
	else if (ck_client.state == CK_STATE_LOST)
		err = CUDA_ERROR_DEVICE_UNAVAILABLE;
	else if (ck_client.state == CK_STATE_EXITING)
		err = CUDA_ERROR_DEINITIALIZED;
	else if (ck_client.state == CK_STATE_FRESH && failed)
		err = failed;
	else if (ck_client.state == CK_STATE_FRESH)
		err = begin();
	pthread_mutex_unlock(&lock);
	ck_cancel_restore(cancel);
	return err;
}

const char *ck_session_server(void)
{
	return address;
}

void ck_session_lost(const char *why)
{
	int ready = CK_STATE_READY;

	if (!atomic_compare_exchange_strong(&ck_client.state, &ready, CK_STATE_LOST))
		return;
	ck_err("the GPU server at %s is lost (%s): every CUDA call fails from now on", address,
	       why);
	ck_command_abandon();
	ck_lane_shut_all();
	ck_lane_drop_all();
}

CUresult ck_session_check(void)
{
	int state = atomic_load_explicit(&ck_client.state, memory_order_relaxed);

	if (unlikely(ck_inside_callback))
		return CUDA_ERROR_NOT_PERMITTED;
	if (likely(state == CK_STATE_READY && ck_client.initialized)) {
		if (unlikely(ck_stats_on))
			ck_stats_entered();
		return CUDA_SUCCESS;
	}
	if (state == CK_STATE_LOST)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	return state == CK_STATE_EXITING ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

/* After the application's own exit handlers, before the libraries below us go. What kernels
 * printed last is fetched, within two seconds; then the server sees the connections close. */
__attribute__((destructor)) static void at_exit(void)
{
	struct ck_thread *t;

	if (ck_client.state == CK_STATE_FORKED)
		return;
	if (ck_client.state != CK_STATE_READY)
		goto out;
	ck_client.state = CK_STATE_EXITING;	/* what fails from now on is not told */
	t = ck_thread();
	if (ck_command_stop() && t->lane && !ck_lane_busy(t->lane)) {
		ck_lane_timeout(t->lane, 2000);
		ck_output_fetch();
	}
out:
	if (ck_stats_on)
		ck_stats_end_of_process();
}
