/*
 * server/door/admit.c - see admit.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rpc/hello.h"
#include "server/children/queue.h"
#include "server/children/workers.h"
#include "server/door/admit.h"
#include "server/door/answer.h"
#include "server/door/disconnected_sessions.h"
#include "server/door/offers.h"
#include "server/options/options.h"
#include "server/policy/policy.h"
#include "server/processes/session_info.h"
#include "server/rules/audit.h"
#include "server/session/identity.h"
#include "server/session/version.h"
#include "server/worker/hello_check.h"
#include "util/log.h"
#include "util/text.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

static void send_reply(int fd, const struct cks_peeked *call, ck_hello_status status,
		       const char *why)
{
	ck_hello_res res = {
		.status = status,
		.message = (char *)(uintptr_t)why,
		.protocol = CK_PROTOCOL,
		.release = (char *)(uintptr_t)CK_RELEASE,
	};

	cks_answer(fd, call, (xdrproc_t)xdr_ck_hello_res, &res);
}

static void refuse_client(struct cks_admission *a, enum cks_refusal kind, int fd,
			  const struct cks_peeked *call, ck_hello_status status, const char *why)
{
	cks_workers_totals(a->workers)->refused[kind]++;
	send_reply(fd, call, status, why);
}

static bool decode_hello(const unsigned char *bytes, const struct cks_peeked *call,
			 struct ck_hello *says)
{
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)bytes + call->args, (u_int)call->args_size,
		      XDR_DECODE);
	return xdr_ck_hello(&xdrs, says) && says->part.sm <= 100;
}

/* The first word of a hello: its protocol version. The rest of another version's hello may have
 * another layout. */
static uint32_t first_word(const unsigned char *bytes, const struct cks_peeked *call)
{
	uint32_t word;

	if (call->args_size < sizeof(word))
		return CK_PROTOCOL;
	memcpy(&word, bytes + call->args, sizeof(word));
	return ntohl(word);
}

/* A client that asks for a session. */
struct applicant {
	int fd;
	const ck_hello_args *args; /* those of its hello, if its protocol is known */
	const struct cks_peeked *call;
	struct cks_owner owner; /* its identity is empty until the token is checked */
	struct ck_hello says;
	char prefix[CK_PREFIX + 1]; /* of its worker; empty: none */
	enum cks_gpu_turn turn;
};

static struct cks_audit_client client_of(const struct applicant *p)
{
	return (struct cks_audit_client){p->args->application, p->args->host ? p->args->host : "",
					 p->args->pid, p->prefix};
}

/* Give it no session. */
static void turn_away(struct cks_admission *a, const struct applicant *p, ck_hello_status status,
		      enum cks_refusal kind, const char *why)
{
	const struct cks_audit_client client = client_of(p);

	cks_audit_refused(a->audit, &p->owner, &client, kind, why);
	refuse_client(a, kind, p->fd, p->call, status, why);
}

/* Which limit would one more session exceed, and @why? CK_REFUSALS: none. */
static enum cks_refusal find_limit(const struct cks_admission *a, const struct cks_owner *owner,
				   char why[CK_WHY_SIZE])
{
	const uint64_t *most = a->options->limits.value;
	struct cks_session_counts counts;
	char name[CK_PEER_NAME];
	uint32_t sessions;

	cks_workers_count(a->workers, owner, &counts);
	if (counts.all >= a->options->max_sessions) {
		snprintf(why, CK_WHY_SIZE, "the server has no free session (--max-sessions)");
		return CK_REFUSED_FULL;
	}
	if (counts.peer >= most[CK_LIMIT_ADDRESS]) {
		snprintf(why, CK_WHY_SIZE,
			 "%s has %zu session%s, the maximum for one address (--%s)",
			 cks_peer_name(&owner->peer, name), counts.peer,
			 counts.peer == 1 ? "" : "s", cks_limit_texts(CK_LIMIT_ADDRESS).name);
		return CK_REFUSED_ADDRESS;
	}
	sessions = cks_workers_identity_terms(a->workers, &owner->identity)->sessions;
	if (sessions && counts.identity >= sessions) {
		snprintf(why, CK_WHY_SIZE, "%s has %zu session%s, the maximum of the policy",
			 owner->identity.name, counts.identity, counts.identity == 1 ? "" : "s");
		return CK_REFUSED_IDENTITY;
	}
	if (!sessions && counts.identity >= most[CK_LIMIT_IDENTITY]) {
		snprintf(why, CK_WHY_SIZE,
			 "%s has %zu session%s, the maximum for one identity (--%s)",
			 owner->identity.name, counts.identity, counts.identity == 1 ? "" : "s",
			 cks_limit_texts(CK_LIMIT_IDENTITY).name);
		return CK_REFUSED_IDENTITY;
	}
	return CK_REFUSALS;
}

/* The session is recorded first: with --audit-required, a session that cannot be recorded may not
 * begin. */
static void start_session(struct cks_admission *a, const struct applicant *p,
			  const struct cks_prefix *prefix)
{
	const struct cks_audit_client client = client_of(p);
	struct cks_session_info none = {.number = cks_workers_new_number(a->workers),
					.owner = p->owner};
	const struct cks_start start = {&p->owner, none.number, prefix, p->says.part.sm};
	const char *why = "the server cannot start another process";
	int ret;

	if (!cks_audit_begin(a->audit, none.number, &p->owner, &client)) {
		refuse_client(a, CK_REFUSED_FAILED, p->fd, p->call, CK_HELLO_BUSY,
			      "the server cannot write its audit log (--audit-required)");
		return;
	}
	ret = cks_workers_serve(a->workers, p->fd, &start, &why);
	if (ret == 0 && prefix)
		ck_info("the worker of s%u is started through %s", none.number, prefix->name);
	if (ret == 0)
		return;
	ck_err("starting a worker: %s (%s)", strerror(-ret), why);
	cks_audit_end(a->audit, &none, why);
	refuse_client(a, CK_REFUSED_FAILED, p->fd, p->call, CK_HELLO_BUSY, why);
}

/* --- the queue */

static bool may_begin(const void *admission, const struct cks_owner *owner)
{
	char why[CK_WHY_SIZE];

	return find_limit(admission, owner, why) == CK_REFUSALS;
}

static struct cks_waiter *enter_queue(struct cks_admission *a, const struct applicant *p,
				      const char *why)
{
	struct cks_waiter w = {.owner = p->owner, .client_pid = p->args->pid};
	const struct cks_audit_client client = client_of(p);
	struct cks_waiter *entered;

	memcpy(w.ticket, p->says.queue.ticket, sizeof(w.ticket));
	ck_text_copy(w.program, sizeof(w.program), client.program);
	ck_text_copy(w.host, sizeof(w.host), client.host);
	entered = cks_queue_enter(a->queue, &w);
	if (!entered)
		return NULL;
	ck_info("%s pid %u waits for a session: %s", client.program, client.pid, why);
	cks_audit_waits(a->audit, &p->owner, &client, why);
	return entered;
}

static struct cks_waiter *find_waiter(struct cks_admission *a, const struct applicant *p)
{
	return cks_queue_find(a->queue, &p->owner, (const unsigned char *)p->says.queue.ticket);
}

/* It has no session now, because of @why. True: it waits for one, on this connection. */
static bool stand_in_line(struct cks_admission *a, const struct applicant *p,
			  struct cks_waiter *waiter, enum cks_refusal reason, const char *why)
{
	char message[2 * CK_WHY_SIZE];

	if (!waiter && p->says.queue.wait > 0) {
		waiter = enter_queue(a, p, why);
		if (!waiter) {
			reason = CK_REFUSED_QUEUE_FULL;
			why = "too many clients wait for a session already";
		}
	}
	if (!waiter) {
		ck_warn("a session is refused: %s", why);
		turn_away(a, p, CK_HELLO_BUSY, reason, why);
		return false;
	}
	waiter->seen = ck_now_ms();
	if (p->turn == CK_TURN_HOLD)
		return true;
	snprintf(message, sizeof(message), "%s; place %zu of %zu in the queue", why,
		 cks_queue_place(a->queue, waiter), a->queue->count);
	send_reply(p->fd, p->call, CK_HELLO_WAIT, message);
	return false;
}

static void refuse_prefix(struct cks_admission *a, const struct applicant *p)
{
	char why[CK_WHY_SIZE], name[CK_PREFIX + 1];

	ck_text_copy(name, sizeof(name), p->prefix);
	snprintf(why, sizeof(why), "the policy does not let %s start workers through \"%s\"",
		 p->owner.identity.name, name);
	ck_warn("a session is refused: %s", why);
	turn_away(a, p, CK_HELLO_DENIED, CK_REFUSED_IDENTITY, why);
}

/* --- kept sessions of programs that have ended */

static struct cks_newcomer newcomer_of(const struct applicant *p)
{
	return (struct cks_newcomer){&p->owner.identity, p->args->application,
				     p->args->host ? p->args->host : "", p->args->pid,
				     &p->says.place};
}

/* It lacks a place or memory: end a kept session of its predecessor. True: it waits for that. */
static bool replace_kept(struct cks_admission *a, const struct applicant *p)
{
	const struct cks_newcomer newcomer = newcomer_of(p);

	a->looking = p->turn != CK_TURN_GONE && cks_disconnected_replace(a->workers, &newcomer);
	return a->looking;
}

/* Sessions of programs that have ended make room for it. True: it waits for that, or begins again
 * (*@again). */
static bool clear_kept(struct cks_admission *a, const struct applicant *p, bool *again)
{
	const struct cks_newcomer newcomer = newcomer_of(p);

	a->looking = false;
	*again = p->turn != CK_TURN_GONE &&
		 cks_disconnected_ask(a->workers, &newcomer, p->fd, p->call);
	if (!*again && p->turn != CK_TURN_GONE)
		a->looking = cks_disconnected_clear(a->workers, &newcomer);
	return *again || a->looking;
}

/* There is a session for it; is there the memory that it needs? True: that is being looked at. */
static bool start_if_room(struct cks_admission *a, const struct applicant *p,
			  const struct cks_prefix *prefix)
{
	const struct cks_terms *terms = cks_workers_identity_terms(a->workers, &p->owner.identity);
	char why[CK_WHY_SIZE];
	int ret = a->offers ? cks_memory_need_check(a->offers, &p->says.need, terms, a->since, why,
						    sizeof(why))
			    : 0;

	a->looking = ret == -EAGAIN;
	if (a->looking)
		return true;
	if (ret == 0) {
		start_session(a, p, prefix);
	} else if (replace_kept(a, p)) {
		return true;
	} else {
		ck_warn("a session is refused: %s", why);
		turn_away(a, p, CK_HELLO_BUSY, CK_REFUSED_MEMORY, why);
	}
	return false;
}

/* The client may have a session, if there is one. True: it waits for that. */
static bool admit_applicant(struct cks_admission *a, struct applicant *p)
{
	const struct cks_prefix *prefix = NULL;
	struct cks_waiter *waiter;
	enum cks_refusal limit;
	char why[CK_WHY_SIZE];
	bool again;

	if (a->draining) {
		turn_away(a, p, CK_HELLO_BUSY, CK_REFUSED_DRAINING,
			  "it is stopping, and waits only for running programs");
		return false;
	}
	cks_hello_check_identity(a->options, &a->token, p->args, p->fd, &p->owner.identity);
	if (p->prefix[0])
		prefix = cks_workers_prefix(a->workers, &p->owner.identity, p->prefix);
	if (p->prefix[0] && !prefix) {
		refuse_prefix(a, p);
		return false;
	}
	if (clear_kept(a, p, &again))
		return !again;
	waiter = p->says.queue.wait > 0 ? find_waiter(a, p) : NULL;
	limit = find_limit(a, &p->owner, why);
	if (limit != CK_REFUSALS && replace_kept(a, p))
		return true;
	if (limit == CK_REFUSALS &&
	    cks_queue_others_first(a->queue, a->workers, &p->owner,
				   waiter ? waiter->since : INT64_MAX, may_begin, a)) {
		limit = CK_REFUSED_QUEUE;
		snprintf(why, sizeof(why), "others have waited longer for a session");
	}
	if (waiter && (limit == CK_REFUSALS || p->turn == CK_TURN_GONE)) {
		cks_queue_leave(a->queue, waiter);
		waiter = NULL;
	}
	if (p->turn == CK_TURN_GONE)
		return false;
	if (limit != CK_REFUSALS)
		return stand_in_line(a, p, waiter, limit, why);
	return start_if_room(a, p, prefix);
}

static bool check_applicant(struct cks_admission *a, struct applicant *p)
{
	char why[CK_WHY_SIZE], name[CK_PEER_NAME];
	enum cks_refusal kind = cks_hello_check(a->options, &a->token, p->fd, p->args, why);

	if (kind == CK_REFUSALS)
		return admit_applicant(a, p);
	ck_info("%s: %s pid %u refused: %s", cks_peer_name(&p->owner.peer, name),
		p->args->application, p->args->pid, why);
	turn_away(a, p, cks_hello_check_status(kind), kind, why);
	return false;
}

bool cks_admit_would(struct cks_admission *a, const struct cks_owner *owner, char why[CK_WHY_SIZE])
{
	if (a->draining) {
		snprintf(why, CK_WHY_SIZE, "it is stopping, and waits only for running programs");
		return false;
	}
	if (find_limit(a, owner, why) != CK_REFUSALS)
		return false;
	if (cks_queue_others_first(a->queue, a->workers, owner, INT64_MAX, may_begin, a)) {
		snprintf(why, CK_WHY_SIZE, "others have waited longer for a session");
		return false;
	}
	return true;
}

bool cks_admit(struct cks_admission *a, int fd, const struct cks_peer *peer,
	       const unsigned char *bytes, const struct cks_peeked *call, enum cks_gpu_turn turn)
{
	ck_hello_args foreign = {.release = (char *)"?", .application = (char *)"a program"};
	struct applicant p = {.fd = fd, .call = call, .owner.peer = *peer, .turn = turn};
	char name[CK_PEER_NAME];
	bool waits = false;

	foreign.protocol = first_word(bytes, call);
	if (decode_hello(bytes, call, &p.says)) {
		p.args = &p.says.args;
		memcpy(p.prefix, p.says.start.prefix, CK_PREFIX);
		waits = check_applicant(a, &p);
	} else if (foreign.protocol != CK_PROTOCOL) {
		p.args = &foreign;
		check_applicant(a, &p);
	} else {
		ck_info("%s: an invalid hello: closed", cks_peer_name(peer, name));
	}
	xdr_free((xdrproc_t)xdr_ck_hello, &p.says);
	return waits;
}
