/*
 * server/rules/audit.h - the audit log (`--audit FILE`): who had what, from where, when, and why it
 * ended.
 *
 * One JSON object on a line for each event, as docs/audit.md describes. Unlike the server's log it
 * drops and sums up nothing. All functions accept a NULL log, which stands for none.
 */
#ifndef CK_SERVER_RULES_AUDIT_H
#define CK_SERVER_RULES_AUDIT_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "server/policy/refusal.h"
#include "server/processes/session_info.h"

struct cks_audit;

#define CK_AUDIT_VERSION 1

/* A client's own description; not verified. */
struct cks_audit_client {
	const char *program, *host;
	unsigned int pid;
	const char *prefix; /* that it wants its worker started through; NULL or empty: none */
};

/* Open @path, or make it with mode 0600. *@out is NULL without a @path. @required: sessions that it
 * cannot record must not begin. -errno, logged. */
int cks_audit_open(const char *path, bool required, struct cks_audit **out);
void cks_audit_close(struct cks_audit *audit);

/* Open the path again, which may be a new file by now. If that fails, the old one stays
 * (logged). */
int cks_audit_reopen(struct cks_audit *audit);
/* An error of opening the log, -errno, in words. */
const char *cks_audit_reason(int error);

/* Record @event with the members of @fields, which it takes; NULL: none. */
void cks_audit_event(struct cks_audit *audit, const char *event, json_t *fields);

/* A client of @owner gets no session, because of @kind; @why: in words. The identity in @owner may
 * be empty: not known. */
void cks_audit_refused(struct cks_audit *audit, const struct cks_owner *owner,
		       const struct cks_audit_client *client, enum cks_refusal kind,
		       const char *why);

/* A client of @owner waits for a session, because of @why. */
void cks_audit_waits(struct cks_audit *audit, const struct cks_owner *owner,
		     const struct cks_audit_client *client, const char *why);

/* Session @number begins. False: that cannot be recorded, and must be. */
bool cks_audit_begin(struct cks_audit *audit, unsigned int number, const struct cks_owner *owner,
		     const struct cks_audit_client *client);

/* @session is here again, from files or after a crash of the server: @from. */
void cks_audit_return(struct cks_audit *audit, const struct cks_session_info *session,
		      const char *from);

/* @session has ended, because of @cause. */
void cks_audit_end(struct cks_audit *audit, const struct cks_session_info *session,
		   const char *cause);

/* @user has given @command for @session, or for none (NULL). @reply: the answer; NULL: it comes
 * later. */
void cks_audit_command(struct cks_audit *audit, uid_t user, const char *command,
		       const char *session, const json_t *reply);

#endif
