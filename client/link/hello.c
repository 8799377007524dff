/*
 * client/link/hello.c - the first message of a session, and the server's reply.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/link/client.h"
#include "client/link/dial.h"
#include "client/link/hello.h"
#include "client/link/join.h"
#include "client/link/lane.h"
#include "client/link/program.h"
#include "client/link/queue.h"
#include "client/link/reconnect.h"
#include "client/link/session_list.h"
#include "rpc/chan.h"
#include "rpc/hello.h"
#include "rpc/secure.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/machine.h"
#include "util/process/process_limits.h"
#include "util/address/token.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#ifndef CK_RELEASE
#define CK_RELEASE "unknown"
#endif

#define ASKED_MAX 3 /* questions of a server without another answer in between */

bool ckc_hello_was_asked(const struct ckc_client *c)
{
	return c->hello.status == CK_HELLO_KEPT && c->departed.asked < ASKED_MAX;
}

static CUresult hello_status(const struct ckc_client *c, const ck_hello_res *res)
{
	static const CUresult code[] = {
		[CK_HELLO_OK] = CUDA_SUCCESS,
		[CK_HELLO_PROTOCOL] = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
		[CK_HELLO_DENIED] = CUDA_ERROR_NOT_PERMITTED,
		[CK_HELLO_BUSY] = CUDA_ERROR_DEVICE_UNAVAILABLE,
		[CK_HELLO_KEPT] = CUDA_ERROR_DEVICE_UNAVAILABLE,
	};

	if (res->status == CK_HELLO_OK)
		return CUDA_SUCCESS;
	if (res->status == CK_HELLO_WAIT || /* session.c asks again, or logs why not */
	    ckc_hello_was_asked(c))
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	ck_err("the GPU server at %s refuses: %s%s", c->connection.address, res->message,
	       ckc_dial_rest(&c->connection));
	if (res->status == CK_HELLO_DRIVER)
		return res->cuda_error ? (CUresult)res->cuda_error : CUDA_ERROR_NO_DEVICE;
	return (unsigned)res->status < sizeof(code) / sizeof(code[0]) ? code[res->status]
								      : CUDA_ERROR_UNKNOWN;
}

/* This process had another program before it has executed this one. Its first session asks for the
 * sessions of that. */
static bool executed_this(pid_t pid)
{
	for (unsigned int i = 0; i < CK_SERVERS_MAX; i++) {
		if (ckc_sessions.list[i] && ckc_sessions.list[i]->state != CK_STATE_FRESH)
			return false;
	}
	return pid == getpid();
}

/* The server keeps sessions of this machine that have lost their connections: has the network done
 * that, or have their programs ended? */
static void answer_kept(const ck_hello_kept *kept, struct ckc_departed *d)
{
	_Static_assert(CK_ARRAY_SIZE(d->ended) == CK_ENDED_MAX, "the answer has room");
	d->count = 0;
	for (u_int i = 0; i < kept->pids.pids_len; i++) {
		pid_t pid = (pid_t)kept->pids.pids_val[i];

		if (executed_this(pid) || ck_machine_ended(pid))
			d->ended[d->count++] = kept->pids.pids_val[i];
	}
	d->answers = true;
}

/* Keep the session's secret for further connections. In plain text it would be none. */
static bool take_secret(const struct ckc_connection *at, const char *session,
			const ck_hello_secret *secret)
{
	if (secret->secret.secret_len != CK_SECRET)
		return secret->secret.secret_len == 0;
	if (at->pin[0] && !ck_env_word_number("CRICKET_DEBUG", "relay"))
		ck_secure_session(at->secure, (const unsigned char *)session,
				  (const unsigned char *)secret->secret.secret_val);
	return true;
}

static bool take_reply(struct ckc_client *c, const struct ck_hello_reply *reply)
{
	if (c->hello.status == CK_HELLO_KEPT) {
		answer_kept(reply->kept, &c->departed);
		xdr_free((xdrproc_t)xdr_ck_hello_kept, reply->kept);
		return true;
	}
	c->departed.asked = 0; /* a client that waits for a session is asked each time */
	return take_secret(&c->connection, c->hello.session, reply->secret);
}

/* The reply is wiped where it has arrived: the secret in it stays nowhere else. */
static bool_t code_reply(XDR *xdrs, struct ckc_client *c)
{
	unsigned char room[CK_SECRET];
	ck_hello_kept kept = {0};
	ck_hello_secret secret = {.secret.secret_val = (char *)room};
	struct ck_hello_reply reply = {&c->hello,      &kept,	&c->offers,
				       &c->rules,      &secret, &c->shadows_offer,
				       &c->lanes_offer};
	void *arrived = xdrs->x_private;
	size_t size = xdrs->x_handy;
	bool_t ok = xdr_ck_hello_reply(xdrs, &reply) && take_reply(c, &reply);

	explicit_bzero(room, sizeof(room));
	explicit_bzero(arrived, size);
	return ok;
}

/* The CUDA error for @error of a hello. */
static const char *explain_error(const struct ckc_connection *at, int error, char *room,
				 size_t size)
{
	if (ck_chan_helper_ended(at->address, room, size))
		return room;
	if (error == -EPIPE)
		return "it closed the connection; is it a cricket-rpc-server?";
	if (error == -EPROTO)
		return "it is not a cricket-rpc-server, or one of another release";
	if (error == -EPROTONOSUPPORT)
		return "it speaks another version of the protocol; install the same release on "
		       "both sides";
	return strerror(-error);
}

/* The server has not answered the hello: -errno. */
static CUresult report_unanswered(const struct ckc_connection *at, int ret)
{
	char room[256];

	ck_err("the GPU server at %s sent no valid reply: %s%s", at->address,
	       explain_error(at, ret, room, sizeof(room)), ckc_dial_rest(at));
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

static CUresult take_part(ck_hello_part *part)
{
	const char *text = ck_env_string("CRICKET_SM");

	if (!text || !*text || ck_env_percent(text, &part->sm) == 0)
		return CUDA_SUCCESS;
	ck_err("CRICKET_SM: not a part of the multiprocessors as in 25%%: %s", text);
	return CUDA_ERROR_INVALID_VALUE;
}

/* The credentials of the variables, as they are now: a file may have changed since the last
 * hello. */
static CUresult take_token(char token[CK_TOKEN_SIZE])
{
	const char *variable;
	int ret = ck_token_find(token, &variable);

	if (ret < 0)
		ck_err("%s: the token cannot be read: %s", variable, strerror(-ret));
	return ret < 0 ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

/* Has the server started the worker as the program wants? One of a release before
 * CRICKET_WORKER_PREFIX does not know. */
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

/* Where this process is, and the answer to a question of the server. */
static void take_place(struct ckc_departed *d, ck_hello_place *place)
{
	ck_machine_id((unsigned char *)place->machine);
	place->asked = d->answers;
	d->answers = false;
	if (!place->asked)
		return;
	d->asked++;
	place->ended.ended_len = d->count;
	place->ended.ended_val = d->ended;
}

/* Without shared memory the session continues over sockets, unless the user requires shared
 * memory. */
static CUresult choose_transport(struct ckc_client *c, const struct ck_chan *chan)
{
	struct ckc_connection *at = &c->connection;
	char why[CK_LIMIT_TEXT];

	if (at->wanted == CK_SOCKETS || ck_chan_in_rings(chan))
		return CUDA_SUCCESS;
	if (at->wanted == CK_RINGS && c->hello.status == CK_HELLO_OK) {
		ck_err("no shared memory with the GPU server at %s%s%s; an address with unix: "
		       "needs none",
		       at->address, at->no_rings ? ": " : "",
		       at->no_rings ? ck_limit_text(at->no_rings, why) : "");
		return CUDA_ERROR_NO_DEVICE;
	}
	at->wanted = CK_SOCKETS;
	return CUDA_SUCCESS;
}

CUresult ckc_hello(struct ckc_client *c, struct ckc_lane *lane, struct ck_chan *chan)
{
	char host[256] = "", program[CKC_PROGRAM], token[CK_TOKEN_SIZE];
	struct ck_hello greeting = {
		.args = {.protocol = CK_PROTOCOL,
			 .release = CK_RELEASE,
			 .token = {0, token},
			 .application = program,
			 .host = host,
			 .pid = (u_int)getpid()},
		.wishes = {.resume = ckc_reconnect_seconds()},
		.limits = {.memory = (u_quad_t)ck_max(ck_env_long("CRICKET_MEMORY"), 0l)},
	};
	struct ckc_connection *at = &c->connection;
	CUresult err = take_prefix(&greeting.start);
	int ret;

	if (!err)
		err = take_part(&greeting.part);
	if (!err)
		err = take_token(token);
	if (err)
		return err;
	greeting.args.token.token_len = (u_int)strlen(token);
	gethostname(host, sizeof(host) - 1);
	ckc_program_name(program);
	ckc_queue_request(c, &greeting.queue);
	note_need(at, &greeting.need);
	take_place(&c->departed, &greeting.place);
	ck_machine_host((unsigned char *)greeting.host.host);
	c->offered_ns = ck_now_ns();
	ret = ckc_first_exchange(c, lane,
				 &(struct ckc_exchange){
					 .proc = CK_HELLO,
					 .args = &greeting,
					 .res = c,
					 .xdr_args = (xdrproc_t)xdr_ck_hello,
					 .xdr_res = (xdrproc_t)code_reply,
				 });
	if (ret < 0)
		return ckc_dial_unfinished(at, ret) ? CUDA_ERROR_DEVICE_UNAVAILABLE
						    : report_unanswered(at, ret);
	err = choose_transport(c, chan);
	if (!err)
		err = hello_status(c, &c->hello);
	return err ? err : check_prefix(c, &greeting.start);
}
