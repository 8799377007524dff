/*
 * server/processes/admit.c - see admit.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/processes/admit.h"
#include "server/processes/answer.h"
#include "server/processes/options.h"
#include "server/processes/supervisor.h"
#include "server/session/identity.h"
#include "server/session/version.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

ck_hello_status cks_admit_judge(const struct cks_options *options, struct cks_token *token,
				const ck_hello_args *args, char why[CK_WHY_SIZE])
{
	if (args->protocol != CK_PROTOCOL) {
		snprintf(why, CK_WHY_SIZE,
			 "client %.64s speaks protocol %u, server %s speaks %d; install the same "
			 "release on "
			 "both sides",
			 args->release, args->protocol, CK_RELEASE, CK_PROTOCOL);
		return CK_HELLO_PROTOCOL;
	}
	if (!cks_token_admits(token, options->token_file, args->token.token_val,
			      args->token.token_len)) {
		snprintf(why, CK_WHY_SIZE,
			 "the server admits only clients with its token; set CRICKET_TOKEN");
		return CK_HELLO_DENIED;
	}
	return CK_HELLO_OK;
}

static void refuse(int fd, const struct cks_peeked *call, ck_hello_status status, const char *why)
{
	ck_hello_res res = {
		.status = status,
		.message = (char *)(uintptr_t)why,
		.protocol = CK_PROTOCOL,
		.release = (char *)(uintptr_t)CK_RELEASE,
	};

	cks_answer(fd, call, (xdrproc_t)xdr_ck_hello_res, &res);
}

static bool decode(const unsigned char *bytes, const struct cks_peeked *call, ck_hello_args *args)
{
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)bytes + call->args,
		      (u_int)(call->record - call->args), XDR_DECODE);
	return xdr_ck_hello_args(&xdrs, args);
}

/* The first word of a hello: its protocol version. The rest of another version's hello may have
 * another layout. */
static uint32_t first_word(const unsigned char *bytes, const struct cks_peeked *call)
{
	uint32_t word;

	if (call->record - call->args < sizeof(word))
		return CK_PROTOCOL;
	memcpy(&word, bytes + call->args, sizeof(word));
	return ntohl(word);
}

/* Would one more session exceed a limit? @why: the reason. */
static bool has_too_many(const struct cks_admission *a, const struct cks_owner *owner,
			 char why[CK_WHY_SIZE])
{
	const uint64_t *most = a->options->limits.value;
	struct cks_session_counts counts;
	char name[CK_PEER_NAME];

	cks_workers_count(a->workers, owner, &counts);
	if (counts.all >= a->options->max_sessions)
		snprintf(why, CK_WHY_SIZE,
			 "the server has no more sessions to give (--max-sessions)");
	else if (counts.peer >= most[CK_LIMIT_ADDRESS])
		snprintf(why, CK_WHY_SIZE,
			 "%s has %zu sessions, and the server gives one address no more "
			 "(--%s)",
			 cks_peer_name(&owner->peer, name), counts.peer,
			 cks_limit_name(CK_LIMIT_ADDRESS));
	else if (counts.identity >= most[CK_LIMIT_IDENTITY])
		snprintf(why, CK_WHY_SIZE,
			 "%s has %zu sessions, and the server gives one identity no more "
			 "(--%s)",
			 owner->identity.name, counts.identity, cks_limit_name(CK_LIMIT_IDENTITY));
	else
		return false;
	return true;
}

/* The token identifies the client only if the server requires one: otherwise it may be made up. */
static void start_session(struct cks_admission *a, int fd, const struct cks_peer *peer,
			  const ck_hello_args *args, const struct cks_peeked *call)
{
	const void *token = cks_token_wanted(a->options->token_file) ? args->token.token_val : NULL;
	struct cks_owner owner = {.peer = *peer};
	char why[CK_WHY_SIZE];
	int ret;

	if (a->draining) {
		refuse(fd, call, CK_HELLO_BUSY,
		       "it is stopping, and waits only for running programs");
		return;
	}
	cks_identity_of(fd, token, args->token.token_len, &owner.identity);
	if (has_too_many(a, &owner, why)) {
		ck_warn("a session is refused: %s", why);
		refuse(fd, call, CK_HELLO_BUSY, why);
		return;
	}
	ret = cks_workers_serve(a->workers, fd, &owner);
	if (ret < 0) {
		ck_err("starting a worker: %s", strerror(-ret));
		refuse(fd, call, CK_HELLO_BUSY, "the server cannot start another process");
	}
}

static void judge(struct cks_admission *a, int fd, const struct cks_peer *peer,
		  const ck_hello_args *args, const struct cks_peeked *call)
{
	char why[CK_WHY_SIZE], name[CK_PEER_NAME];
	ck_hello_status status = cks_admit_judge(a->options, &a->token, args, why);

	if (status == CK_HELLO_OK) {
		start_session(a, fd, peer, args, call);
		return;
	}
	ck_info("%s: %s pid %u refused: %s", cks_peer_name(peer, name), args->application,
		args->pid, why);
	refuse(fd, call, status, why);
}

void cks_admit(struct cks_admission *a, int fd, const struct cks_peer *peer,
	       const unsigned char *bytes, const struct cks_peeked *call)
{
	ck_hello_args args = {0},
		      foreign = {.release = (char *)"?", .application = (char *)"a program"};
	char name[CK_PEER_NAME];

	foreign.protocol = first_word(bytes, call);
	if (decode(bytes, call, &args))
		judge(a, fd, peer, &args, call);
	else if (foreign.protocol != CK_PROTOCOL)
		judge(a, fd, peer, &foreign, call);
	else
		ck_info("%s: a hello that cannot be read: closed", cks_peer_name(peer, name));
	xdr_free((xdrproc_t)xdr_ck_hello_args, &args);
}
