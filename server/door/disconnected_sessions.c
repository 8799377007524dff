/*
 * server/door/disconnected_sessions.c - see disconnected_sessions.h.
 */
#include <stdio.h>
#include <string.h>

#include "rpc/hello.h"
#include "server/children/workers.h"
#include "server/door/admit.h"
#include "server/door/answer.h"
#include "server/door/disconnected_sessions.h"
#include "server/door/request.h"
#include "server/processes/messages.h"
#include "server/session/version.h"
#include "util/log.h"
#include "util/text.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

#define CK_ENDING_MS 2000 /* how long a client waits for the end of another one's session */

/* Its worker need not say goodbye: its client cannot hear it. */
static void end_kept(struct cks_session_info *s, const char *why)
{
	char name[CK_SESSION_NAME];

	if (s->cut.ending || !cks_workers_gone_client(s, why))
		return;
	s->cut.ending = ck_now_ms();
	ck_info("session %s has no connections, and ends: %s", cks_session_name(s, name), why);
}

/* The one that has waited longest; NULL: there is none. */
static struct cks_session_info *find_oldest(struct cks_workers *w, size_t *count)
{
	struct cks_session_info *s = NULL, *found = NULL;

	*count = 0;
	while ((s = cks_workers_next(w, s)) != NULL) {
		if (!cks_disconnected(s) || s->cut.ending)
			continue;
		++*count;
		if (!found || s->cut.since < found->cut.since)
			found = s;
	}
	return found;
}

void cks_disconnected_run(struct cks_workers *w, size_t most)
{
	struct cks_session_info *s = NULL;
	size_t count;

	if (!cks_workers_cut(w))
		return;
	while ((s = cks_workers_next(w, s)) != NULL) {
		if (s->cut.reported && cks_disconnected(s))
			end_kept(s, "its program has ended");
	}
	while ((s = find_oldest(w, &count)) != NULL && count > most) {
		end_kept(s, "too many sessions wait for their programs (--max-kept)");
		if (!s->cut.ending)
			break; /* it does not listen: it is ending by itself */
	}
}

/* --- programs of one machine, that have the same identity */

static bool is_known(const char machine[CK_ID])
{
	static const char none[CK_ID];

	return memcmp(machine, none, CK_ID) != 0;
}

static bool is_of(const struct cks_session_info *s, const struct cks_identity *identity,
		  const char machine[CK_ID])
{
	return is_known(machine) && memcmp(s->machine, machine, CK_ID) == 0 &&
	       ck_hash_equal(&s->owner.identity.key, &identity->key);
}

/* Of whom others have not said that they have ended. @newcomer: NULL, or only those whose session
 * is kept, and its own process, whose connections the server may not miss yet. */
static size_t list_programs(struct cks_workers *w, const struct cks_identity *identity,
			    const char machine[CK_ID], const struct cks_newcomer *newcomer,
			    u_int pids[CK_ENDED_MAX])
{
	size_t count = 0;

	for (struct cks_session_info *s = NULL;
	     count < CK_ENDED_MAX && (s = cks_workers_next(w, s)) != NULL;) {
		if (is_of(s, identity, machine) && !s->cut.ending && !s->cut.reported &&
		    (!newcomer || cks_disconnected(s) || s->client_pid == newcomer->pid))
			pids[count++] = s->client_pid;
	}
	return count;
}

/* Process @pid has ended; it may be the one of @s. */
static void report_end(struct cks_session_info *s, u_int pid)
{
	if (pid == s->client_pid && !s->cut.reported)
		s->cut.reported = ck_now_ms();
}

static void take_report(struct cks_workers *w, const struct cks_identity *identity,
			const char machine[CK_ID], const u_int *pids, size_t count)
{
	for (struct cks_session_info *s = NULL; (s = cks_workers_next(w, s)) != NULL;) {
		if (!is_of(s, identity, machine))
			continue;
		for (size_t i = 0; i < count; i++)
			report_end(s, pids[i]);
		if (s->cut.reported && cks_disconnected(s))
			end_kept(s, "its program has ended");
	}
}

/* --- clients that begin */

bool cks_disconnected_ask(struct cks_workers *w, const struct cks_newcomer *n, int fd,
			  const struct cks_peeked *call)
{
	u_int pids[CK_ENDED_MAX];
	ck_hello_res res = {.status = CK_HELLO_KEPT,
			    .message = (char *)(uintptr_t) "have these programs ended?",
			    .protocol = CK_PROTOCOL,
			    .release = (char *)(uintptr_t)CK_RELEASE};
	ck_hello_kept kept = {.pids.pids_val = pids};
	struct ck_hello_reply question = {.res = &res, .kept = &kept};

	if (n->place->asked)
		return false;
	kept.pids.pids_len = (u_int)list_programs(w, n->identity, n->place->machine, n, pids);
	if (kept.pids.pids_len == 0)
		return false;
	cks_answer(fd, call, (xdrproc_t)xdr_ck_hello_reply, &question);
	return true;
}

bool cks_disconnected_ending(struct cks_workers *w, const struct cks_identity *identity)
{
	int64_t now = ck_now_ms();

	for (struct cks_session_info *s = NULL; (s = cks_workers_next(w, s)) != NULL;) {
		int64_t since = s->cut.ending ? s->cut.ending : s->cut.reported;

		if (since && now - since < CK_ENDING_MS &&
		    (!identity || ck_hash_equal(&s->owner.identity.key, &identity->key)))
			return true;
	}
	return false;
}

bool cks_disconnected_clear(struct cks_workers *w, const struct cks_newcomer *n)
{
	take_report(w, n->identity, n->place->machine, n->place->ended.ended_val,
		    n->place->ended.ended_len);
	return cks_disconnected_ending(w, n->identity);
}

/* The longest kept session of the same program on a machine of the same name; but a client of that
 * very machine, as its id says, has been asked. */
static bool replace_kept(struct cks_workers *w, const struct cks_identity *identity,
			 const char *program, const char *host, const char machine[CK_ID])
{
	struct cks_session_info *s = NULL, *oldest = NULL;

	while ((s = cks_workers_next(w, s)) != NULL) {
		if (cks_disconnected(s) && !s->cut.ending && strcmp(s->program, program) == 0 &&
		    strcmp(s->use.host, host) == 0 &&
		    ck_hash_equal(&s->owner.identity.key, &identity->key) &&
		    !is_of(s, identity, machine) && (!oldest || s->cut.since < oldest->cut.since))
			oldest = s;
	}
	if (oldest)
		end_kept(oldest, "the same program has started again");
	return oldest != NULL;
}

bool cks_disconnected_replace(struct cks_workers *w, const struct cks_newcomer *n)
{
	char program[CK_NOTE_TEXT], host[CK_NOTE_HOST]; /* as workers report them */

	ck_text_copy(program, sizeof(program), n->program);
	ck_text_copy(host, sizeof(host), n->host);
	return replace_kept(w, n->identity, program, host, n->place->machine);
}

bool cks_disconnected_give_way(struct cks_workers *w, const struct cks_session_info *guest)
{
	return replace_kept(w, &guest->owner.identity, guest->program, guest->use.host,
			    (const char *)guest->machine);
}

/* --- reports */

static void read_report(struct cks_workers *w, struct cks_admission *a, int fd,
			const struct cks_peer *peer, const ck_ended_args *args, ck_ended_res *res)
{
	const struct cks_request request = {"cricket reap", "a report is refused",
					    args->token.token_val, args->token.token_len};
	struct cks_owner owner = {.peer = *peer};
	char why[CK_WHY_SIZE];

	if (!cks_request_admit(a, fd, &request, &owner, why)) {
		res->status = 1;
		return;
	}
	take_report(w, &owner.identity, args->machine, args->ended.ended_val,
		    args->ended.ended_len);
	res->pids.pids_len =
		(u_int)list_programs(w, &owner.identity, args->machine, NULL, res->pids.pids_val);
}

void cks_disconnected_serve(struct cks_workers *w, struct cks_admission *a, int fd,
			    const struct cks_peer *peer, const unsigned char *bytes,
			    const struct cks_peeked *call)
{
	u_int pids[CK_ENDED_MAX];
	ck_ended_res res = {.pids.pids_val = pids};
	ck_ended_args args = {0};
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)(uintptr_t)bytes + call->args,
		      (u_int)(call->record - call->args), XDR_DECODE);
	if (xdr_ck_ended_args(&xdrs, &args)) {
		read_report(w, a, fd, peer, &args, &res);
		cks_answer(fd, call, (xdrproc_t)xdr_ck_ended_res, &res);
	}
	xdr_free((xdrproc_t)xdr_ck_ended_args, &args);
}
