/*
 * server/worker/hello.c - versions, token, driver, device snapshot: start a session or refuse
 * it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cricket.h"
#include "rpc/hello.h"
#include "rpc/proc.h"
#include "server/direct/direct.h"
#include "server/memory/lease.h"
#include "server/memory/pinned.h"
#include "server/memory/memory.h"
#include "server/modules/answer_store.h"
#include "server/modules/modcache.h"
#include "server/options/options.h"
#include "server/policy/meter.h"
#include "server/policy/terms.h"
#include "server/processes/mps_client.h"
#include "server/processes/peer.h"
#include "server/session/driver.h"
#include "server/session/identity.h"
#include "server/session/session.h"
#include "server/session/version.h"
#include "server/store/chunk_store.h"
#include "server/store/chunk_writer.h"
#include "server/store/held_chunks.h"
#include "server/store/start_list.h"
#include "server/worker/device_snapshot.h"
#include "server/worker/dispatch.h"
#include "server/worker/hello.h"
#include "server/worker/hello_check.h"
#include "server/worker/park.h"
#include "server/worker/session_tls.h"
#include "util/env.h"
#include "util/log.h"
#include "util/text.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* A hello on its way to its reply. */
struct hello {
	const struct cks_options *options;
	struct ck_chan *chan;
	struct ck_output *output;
	struct cks_client *client;
	struct ck_hello says; /* part of it is for the supervisor, which has obeyed */
	uint32_t xid;
	ck_hello_res res;
};

static int read_hello(struct ck_reader *reader, struct hello *h)
{
	struct ck_call_header header;
	struct ck_record record;
	XDR xdrs;
	int ret = ck_reader_next(reader, &record);

	if (ret < 0)
		return ret;
	if (ck_call_decode(record.body, record.body_size, &header) < 0 ||
	    header.program != CK_PROGRAM || header.version != CK_VERSION || header.proc != CK_HELLO)
		return -EPROTO;
	xdrmem_create(&xdrs, (char *)record.body + header.size,
		      (u_int)(record.body_size - header.size), XDR_DECODE);
	if (!xdr_ck_hello(&xdrs, &h->says))
		return -EPROTO;
	h->xid = header.xid;
	return 0;
}

static void set_message(ck_hello_res *res, ck_hello_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void set_message(ck_hello_res *res, ck_hello_status status, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	free(res->message);
	res->message = strdup(text);
	res->status = status;
}

/* May the client have a session? The supervisor has admitted it, but the token may have changed. */
static void check_client(struct hello *h, struct cks_token *token)
{
	char why[CK_WHY_SIZE];
	ck_hello_status status = cks_hello_check_status(
		cks_hello_check(h->options, token, ck_chan_fd(h->chan), &h->says.args, why));

	if (status != CK_HELLO_OK)
		set_message(&h->res, status, "%s", why);
}

static void start_driver(const struct cks_options *options, ck_hello_res *res)
{
	char why[256];
	CUresult err;

	if (cks_driver_open(options->driver, why, sizeof(why)) < 0) {
		ck_err("driver %s: %s", options->driver, why);
		res->cuda_error = CUDA_ERROR_NO_DEVICE;
		set_message(res, CK_HELLO_DRIVER, "the server's driver %s: %s", options->driver,
			    why);
		return;
	}
	err = cks_mps_client_init();
	if (!err)
		err = cks_snapshot_fill(res);
	if (err) {
		ck_err("driver %s: %s", options->driver, cks_error_name(err));
		res->cuda_error = (int)err;
		set_message(res, CK_HELLO_DRIVER, "the server's driver: %s%s", cks_error_name(err),
			    cks_mps_client_hint(err));
		return;
	}
	res->accepts_cubin = cks_driver_accepts_cubin();
	res->emulated = cks_driver_emulated();
}

/* Result of start_driver, prepared before there is a client. */
static ck_hello_res ready;

int cks_hello_prepare(const struct cks_options *options)
{
	if (ready.devices.devices_val)
		return 0;
	start_driver(options, &ready);
	return ready.status == CK_HELLO_OK ? 0 : -ENODEV;
}

void cks_hello_reserve(const struct cks_options *options)
{
	cks_window_prepare();
	cks_shadows_prepare();
	/* on the first of the devices; "none" is device 0 */
	cks_lease_prepare(atoi(options->warm_devices), options->limits.value[CK_LIMIT_LEASE]);
}

/* Take the prepared result; false: there is none. */
static bool take_ready(ck_hello_res *res)
{
	if (!ready.devices.devices_val)
		return false;
	res->driver_version = ready.driver_version;
	res->accepts_cubin = ready.accepts_cubin;
	res->emulated = ready.emulated;
	res->devices = ready.devices;
	res->p2p = ready.p2p;
	memset(&ready, 0, sizeof(ready));
	return true;
}

/* The session's id and key, random. */
static int choose_names(struct cks_session *s, ck_hello_res *res)
{
	if (getrandom(s->id, sizeof(s->id), 0) != sizeof(s->id) ||
	    getrandom(s->key, sizeof(s->key), 0) != sizeof(s->key))
		return -EIO;
	memcpy(res->session, s->id, sizeof(res->session));
	memcpy(res->key, s->key, sizeof(res->key));
	return 0;
}

static int make_session(struct hello *h, struct cks_session **session)
{
	const struct cks_options *options = h->options;
	const struct ck_hash *key = &h->client->identity.key;
	struct cks_session *s;
	struct cks_modcache *cache;
	struct ck_hash world;
	int ret = cks_modcache_open(options->cache_dir, key,
				    (size_t)ck_env_long("CRICKET_CACHE_SIZE"),
				    options->limits.value[CK_LIMIT_CACHE], &cache);

	if (ret == 0)
		ret = cks_session_create(cache, h->output, (int)h->res.devices.devices_len, &s);
	if (ret < 0)
		return ret;
	*session = s;
	cks_faults_listen(&s->faults);
	cks_direct_set_up(s->direct, &options->pool_peers, options->listen, options->listen_count);
	cks_pinned_bound(s->pinned, options->limits.value[CK_LIMIT_PINNED]);
	cks_snapshot_world(&h->res, &world);
	s->answers = cks_answer_store_open(options->cache_dir, key, h->client->application, &world);
	cks_chunk_store_create(options->cache_dir, key, options->limits.value[CK_LIMIT_STORE],
			       &s->store);
	s->start = cks_start_list_open(s->store, h->client->application);
	s->writer = cks_chunk_writer_create(s->store, s->start);
	s->held = cks_held_create(s->store, s->start);
	cks_held_begin(s->held);
	ret = choose_names(s, &h->res);
	if (ret == 0)
		ret = cks_session_tls_choose(s, ck_chan_fd(h->chan));
	return ret < 0 ? ret : cks_snapshot_modules(&h->res, cache);
}

/* From now on, device memory counts. The memory of the devices, and of a lease that is ready, may
 * be less then. */
static void begin_meter(const ck_hello_limits *limits, ck_hello_res *res)
{
	size_t memory;

	cks_meter_begin(limits->memory);
	cks_lease_renew();
	for (u_int i = 0; i < res->devices.devices_len; i++) {
		if (ck_driver.cuDeviceTotalMem_v2 &&
		    !ck_driver.cuDeviceTotalMem_v2(&memory, (CUdevice)i))
			res->devices.devices_val[i].memory = memory;
	}
}

/* All steps between the call and the reply. *@session stays as it is if the status is not OK. */
static int prepare_session(struct hello *h, struct cks_session **session)
{
	struct cks_token token = {.known = false};

	if (!h->client->judged)
		check_client(h, &token);
	if (h->res.status == CK_HELLO_OK && !take_ready(&h->res))
		start_driver(h->options, &h->res);
	if (h->res.status != CK_HELLO_OK)
		return 0;
	if (h->options->policy || h->says.limits.memory)
		begin_meter(&h->says.limits, &h->res);
	cks_hello_reserve(h->options);
	if (!h->client->judged)
		cks_hello_check_identity(h->options, &token, &h->says.args, ck_chan_fd(h->chan),
					 &h->client->identity);
	return make_session(h, session);
}

/* The parts that are ready for the session. */
static void fill_offer(struct cks_session *session, const struct cks_client *client,
		       ck_hello_more *more)
{
	struct cks_lease_offer lease;
	size_t recalled = 0;

	more->recalled.recalled_val = cks_answer_store_read(session->answers, &recalled);
	more->recalled.recalled_len = (u_int)recalled;
	more->keep = client->keep;
	memcpy(more->prefix, client->prefix, sizeof(more->prefix));
	cks_lease_offer(session, &lease);
	more->arena = lease.arena;
	more->arena_size = lease.arena_size;
	more->lease_device = lease.device;
	more->lease_size = lease.size;
	if (cks_window_offer(session)) {
		more->window = session->window_lo;
		more->window_size = session->window_hi - session->window_lo;
	}
}

/* With the numbers of all messages that this server knows. @session is NULL if there is none. */
static int answer_hello(struct hello *h, struct cks_session *session)
{
	unsigned char known[(CK_PROC_END + 7) / 8] = {0};
	ck_hello_more more = {.procedures = {sizeof(known), (char *)known}};
	ck_hello_rules rules = {.words = true};
	ck_hello_secret secret = {{0}};
	ck_hello_shadows shadows = {0};
	ck_hello_lanes lanes = {(unsigned int)h->options->limits.value[CK_LIMIT_LANES]};
	struct ck_hello_reply reply = {&h->res, NULL, &more, &rules, &secret, &shadows, &lanes};
	int ret;

	if (session) {
		fill_offer(session, h->client, &more);
		if (session->has_secret)
			secret.secret.secret_len = CK_SECRET;
		secret.secret.secret_val = (char *)session->secret;
		shadows.address = cks_shadows_place(&shadows.size);
	}
	for (uint32_t i = 0; i < CK_PROC_END; i++) {
		if (ck_proc(i))
			known[i / 8] |= (unsigned char)(1u << i % 8);
	}
	ret = cks_dispatch_reply(h->chan, h->xid, (xdrproc_t)xdr_ck_hello_reply, &reply);
	free(more.recalled.recalled_val);
	return ret;
}

/* Can the client lose its connections without ending? A unix socket may be the end of a tunnel, as
 * ssh makes them. */
static bool may_be_cut(const struct hello *h)
{
	return strncmp(ck_chan_peer(h->chan), "tcp ", 4) == 0 ||
	       cks_peer_is_tunnel(ck_chan_fd(h->chan), h->says.args.pid,
				  (const unsigned char *)h->says.place.machine,
				  (const unsigned char *)h->says.host.host);
}

static unsigned int seconds_kept(const struct hello *h)
{
	uint64_t most = h->options->limits.value[CK_LIMIT_KEEP];
	struct cks_terms terms;

	cks_meter_terms(&terms);
	if (terms.resume >= 0)
		most = (uint64_t)terms.resume;
	return may_be_cut(h) ? (unsigned int)ck_min((uint64_t)h->says.wishes.resume, most) : 0;
}

static void note_client(struct hello *h)
{
	const ck_hello_args *args = &h->says.args;
	struct cks_client *client = h->client;

	ck_text_copy(client->application, sizeof(client->application), args->application);
	ck_text_copy(client->host, sizeof(client->host), args->host);
	ck_text_copy(client->release, sizeof(client->release), args->release);
	client->pid = args->pid;
	client->keep = seconds_kept(h);
	memcpy(client->machine, h->says.place.machine, sizeof(client->machine));
	if (ck_env_string("CRICKET_SESSION"))
		memcpy(client->prefix, h->says.start.prefix, sizeof(client->prefix));
}

/* The client was sent the reason. */
static int report_refusal(const struct hello *h)
{
	ck_info("%s: %s pid %u refused: %s", ck_chan_peer(h->chan), h->client->application,
		h->client->pid, h->res.message);
	cks_park_end(NULL, h->res.message);
	return -ECONNREFUSED;
}

/* Make the session and answer, or answer why there is none. */
static int serve_hello(struct hello *h, int (*announce)(const struct cks_session *session),
		       struct cks_session **session)
{
	bool ok;
	int ret;

	h->res.message = strdup("");
	h->res.release = strdup(CK_RELEASE);
	ret = prepare_session(h, session);
	ok = h->res.status == CK_HELLO_OK;
	if (ret == 0 && ok)
		ret = announce(*session);
	if (ret < 0)
		ck_err("no session: %s", strerror(-ret));
	else if (!h->res.message || !h->res.release)
		ret = -ENOMEM;
	else
		ret = answer_hello(h, ok ? *session : NULL);
	ck_chan_enter_rings(h->chan);
	return ret == 0 && !ok ? report_refusal(h) : ret;
}

int cks_hello(const struct cks_options *options, struct ck_chan *chan, struct ck_reader *reader,
	      struct ck_output *output, int (*announce)(const struct cks_session *session),
	      struct cks_client *client, struct cks_session **session)
{
	struct hello h = {
		.options = options,
		.chan = chan,
		.output = output,
		.client = client,
		.res.protocol = CK_PROTOCOL,
	};
	int ret = read_hello(reader, &h);

	if (ret == 0) {
		if (ck_chan_take_rings(chan) == -EPROTO)
			ck_warn("%s: offers shared memory that is not valid", ck_chan_peer(chan));
		note_client(&h);
		ret = serve_hello(&h, announce, session);
	} else {
		ck_warn("%s: no hello: %s", ck_chan_peer(chan), strerror(-ret));
	}
	xdr_free((xdrproc_t)xdr_ck_hello_res, &h.res);
	xdr_free((xdrproc_t)xdr_ck_hello, &h.says);
	return ret;
}
