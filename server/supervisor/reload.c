/*
 * server/supervisor/reload.c - see reload.h.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/children/front_process.h"
#include "server/children/workers.h"
#include "server/door/new_connection.h"
#include "server/options/options.h"
#include "server/policy/policy.h"
#include "server/rules/accounts.h"
#include "server/rules/audit.h"
#include "server/supervisor/reload.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

static void append_reason(char why[CK_RELOAD_WHY], const char *what, const char *reason)
{
	size_t n = strlen(why);

	snprintf(why + n, CK_RELOAD_WHY - n, "%s%s: %s", n > 0 ? "; " : "", what, reason);
}

static void read_tokens(const struct cks_reload *r, const char *by, char why[CK_RELOAD_WHY])
{
	char reason[CK_TOKEN_WHY];

	if (cks_new_connection_reload(r->fresh, reason) < 0) {
		ck_err("%s: until it is right, no token is accepted", reason);
		append_reason(why, "no token is accepted", reason);
	} else if (r->options->token_file) {
		ck_info("%s: the token file is read again", by);
	}
}

static void read_certificate(const struct cks_reload *r, char why[CK_RELOAD_WHY])
{
	char reason[CK_FRONT_WORDS];

	if (cks_front_process_reload(r->fronts, reason) < 0)
		append_reason(why, "certificate and key stay as they were", reason);
}

static void read_policy(const struct cks_reload *r, const char *by, char why[CK_RELOAD_WHY])
{
	char reason[CK_POLICY_WHY];
	int ret = r->accounts ? cks_accounts_reload(r->accounts, reason) : 0;

	if (!r->accounts)
		return;
	cks_workers_mark_changed(r->workers);
	ck_info("%s: %s", by, ret < 0 ? "the policy stays as it was" : "the policy is in force");
	cks_audit_event(r->audit, "policy-reload",
			json_pack("{s:s}", "result", ret < 0 ? "refused" : "done"));
	if (ret < 0)
		append_reason(why, "the policy stays as it was", reason);
}

int cks_reload_run(const struct cks_reload *r, const char *by, char why[CK_RELOAD_WHY])
{
	int ret;

	ck_info("%s: the files are read again", by);
	why[0] = '\0';
	ret = cks_audit_reopen(r->audit);
	if (ret < 0)
		append_reason(why, "the audit log stays as it was", cks_audit_reason(ret));
	cks_audit_event(r->audit, "token-reload", NULL);
	read_tokens(r, by, why);
	read_certificate(r, why);
	read_policy(r, by, why);
	return why[0] ? -EINVAL : 0;
}
