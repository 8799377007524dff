/*
 * server/door/request.c - see request.h.
 */
#include "server/children/workers.h"
#include "server/door/admit.h"
#include "server/door/request.h"
#include "server/rules/audit.h"
#include "server/session/version.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

bool cks_request_admit(struct cks_admission *a, int fd, const struct cks_request *r,
		       struct cks_owner *owner, char why[CK_WHY_SIZE])
{
	/* who may have a session, of any protocol */
	const ck_hello_args hello = {.protocol = CK_PROTOCOL, .token = {r->token_size, r->token}};
	const struct cks_audit_client client = {.program = r->program, .host = ""};
	enum cks_refusal kind = cks_hello_check(a->options, &a->token, fd, &hello, why);
	char name[CK_PEER_NAME];

	if (kind == CK_REFUSALS) {
		cks_hello_check_identity(a->options, &a->token, &hello, fd, &owner->identity);
		return true;
	}
	ck_info("%s: %s: %s", cks_peer_name(&owner->peer, name), r->refused, why);
	cks_audit_refused(a->audit, owner, &client, kind, why);
	cks_workers_totals(a->workers)->refused[kind]++;
	return false;
}
