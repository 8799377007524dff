/*
 * server/door/new_connection_tls.c - connections that use TLS, until their first record has come
 * over it; see new_connection.c.
 *
 * Nothing that a client can send without much work has a process started. The supervisor answers
 * the probe itself, and waits for the whole first record of the handshake. The front process makes
 * the handshake, and has a relay for a connection only when something has come over it
 * (server/front/). Both are bounded here, for each peer and in all: the oldest goes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/children/front_process.h"
#include "server/children/workers.h"
#include "server/door/answer.h"
#include "server/door/new_connection_part.h"
#include "server/front/front.h"
#include "server/rules/audit.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

static const struct {
	size_t of_peer, in_all;
	const char *what;
} bounds[] = {
	[CK_STAGE_HANDSHAKE] = {512, 1024, "unfinished TLS handshakes"},
	[CK_STAGE_ANSWERED] = {256, 512, "unfinished TLS handshakes whose clients answer"},
	[CK_STAGE_RELAYED] = {32, 256, "TLS connections without a whole first record"},
};

static bool counts_in_stage(const struct cks_new_connection *f, enum cks_new_connection_stage stage)
{
	return f->stage == stage && !f->joining;
}

/* The oldest at @stage of @bucket, or of the peer that has most silent connections. */
static struct cks_new_connection *find_victim(struct cks_new_connection_list *l,
					      enum cks_new_connection_stage stage,
					      const unsigned int *bucket)
{
	struct cks_new_connection *victim = NULL;

	for (size_t i = 0; i < l->count; i++) {
		struct cks_new_connection *f = &l->list[i];

		if (!counts_in_stage(f, stage) || (bucket && f->bucket != *bucket))
			continue;
		if (!victim || (!bucket && l->silent[f->bucket] > l->silent[victim->bucket]))
			victim = f;
	}
	return victim;
}

/* The one that must go before another of @bucket may come to @stage; NULL: there is room. */
static struct cks_new_connection *one_too_many(struct cks_new_connection_list *l,
					       enum cks_new_connection_stage stage,
					       unsigned int bucket)
{
	size_t of_peer = 0, in_all = 0;

	for (size_t i = 0; i < l->count; i++) {
		if (!counts_in_stage(&l->list[i], stage))
			continue;
		in_all++;
		of_peer += l->list[i].bucket == bucket;
	}
	if (of_peer >= bounds[stage].of_peer)
		return find_victim(l, stage, &bucket);
	return in_all >= bounds[stage].in_all ? find_victim(l, stage, NULL) : NULL;
}

/* Its next look finds that it has ended; the list is not changed here, because it is walked
 * through. */
static void push_out(struct cks_new_connection *f)
{
	char name[CK_PEER_NAME];

	ck_info("%s has too many %s: the oldest is closed", cks_peer_name(&f->peer, name),
		bounds[f->stage].what);
	f->stage = CK_STAGE_PLAIN;
	shutdown(f->fd, SHUT_RDWR);
}

bool cks_new_connection_probed(struct cks_new_connection_list *l, struct cks_new_connection *f,
			       const struct cks_peeked *p)
{
	unsigned char answer[CK_TLS_ANSWER];

	(void)l;
	if (f->stage != CK_STAGE_PLAIN || f->probed) {
		ck_info("a connection asks for TLS inside of TLS: closed");
		return false;
	}
	f->probed = true;
	ck_tls_answer(p->xid, answer);
	return cks_answer_bytes(f->fd, p, answer, sizeof(answer));
}

/* Its bytes come decrypted from now on, over another descriptor. It stays the same one for all
 * limits. */
bool cks_new_connection_unwrap(struct cks_new_connection_list *l, struct cks_new_connection *f,
			       int64_t now)
{
	struct cks_new_connection *victim;
	int plain, ret;

	if (f->stage != CK_STAGE_PLAIN || ck_relayed_get(f->fd, NULL)) {
		ck_info("a connection asks for TLS inside of TLS: closed");
		return false;
	}
	f->again = l->fronts_again;
	if (now < l->fronts_again)
		return true;
	victim = one_too_many(l, CK_STAGE_HANDSHAKE, f->bucket);
	f->again = victim ? victim->born + CK_YOUNG_MS : 0;
	if (now < f->again)
		return true;
	ret = cks_front_process_pass(l->fronts, f->fd, &plain);
	if (ret == -EAGAIN) {
		f->again = l->fronts_again = now + CK_JOIN_MS;
		return true;
	}
	if (ret < 0) {
		ck_warn("no TLS for a connection: %s", strerror(-ret));
		return false;
	}
	if (victim)
		push_out(victim);
	close(f->fd);
	f->fd = plain;
	f->probed = false;
	f->stage = CK_STAGE_HANDSHAKE;
	f->again = 0;
	return true;
}

/* The one that is too many there goes. */
static void move_to(struct cks_new_connection_list *l, struct cks_new_connection *f,
		    enum cks_new_connection_stage stage)
{
	struct cks_new_connection *victim = one_too_many(l, stage, f->bucket);

	if (victim)
		push_out(victim);
	f->stage = stage;
}

bool cks_new_connection_proved(struct cks_new_connection_list *l, struct cks_new_connection *f,
			       const unsigned char *bytes)
{
	char taken;

	if (f->stage != CK_STAGE_HANDSHAKE || bytes[0] != CK_FRONT_ANSWERS ||
	    recv(f->fd, &taken, 1, MSG_DONTWAIT) != 1)
		return false;
	move_to(l, f, CK_STAGE_ANSWERED);
	return true;
}

static bool awaits_client(const struct cks_new_connection *f)
{
	return f->stage == CK_STAGE_HANDSHAKE || f->stage == CK_STAGE_ANSWERED;
}

bool cks_new_connection_refused(struct cks_new_connection_list *l,
				const struct cks_new_connection *f, const unsigned char *bytes,
				size_t size)
{
	const struct cks_audit_client unknown = {.program = "", .host = ""};
	const struct cks_owner owner = {.peer = f->peer};
	char why[CK_TLS_WHY];

	if (!awaits_client(f) || ck_relayed_get(f->fd, NULL))
		return false;
	snprintf(why, sizeof(why), "%.*s", (int)ck_min(size, sizeof(why)), (const char *)bytes);
	cks_audit_refused(l->admission.audit, &owner, &unknown, CK_REFUSED_CERTIFICATE, why);
	cks_workers_totals(l->admission.workers)->refused[CK_REFUSED_CERTIFICATE]++;
	return true;
}

void cks_new_connection_received(struct cks_new_connection_list *l, struct cks_new_connection *f)
{
	if (awaits_client(f))
		move_to(l, f, CK_STAGE_RELAYED);
}
