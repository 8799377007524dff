/*
 * server/door/request.h - admission to requests that need no session: the state of the GPUs, the
 * client's files, reports that programs have ended.
 */
#ifndef CK_SERVER_DOOR_REQUEST_H
#define CK_SERVER_DOOR_REQUEST_H

#include <stdbool.h>

#include "server/processes/session_info.h"
#include "server/worker/hello_check.h"

struct cks_admission;

struct cks_request {
	const char *program; /* that sends such requests, for the audit log */
	const char *refused; /* the begin of the log's line about a refusal */
	char *token;	     /* as in ck_hello_args */
	unsigned int token_size;
};

/* May @owner->peer, which is connected on @fd, make @request? True: @owner has its identity. False:
 * @why says why not; the refusal is logged, counted and recorded like that of a hello. */
bool cks_request_admit(struct cks_admission *admission, int fd, const struct cks_request *request,
		       struct cks_owner *owner, char why[CK_WHY_SIZE]);

#endif
