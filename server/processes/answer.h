/*
 * server/processes/answer.h - what the supervisor answers itself: calls that need no session, refusals.
 *
 * Each takes the call's record off the connection, and sends what fits at once, which these answers do.
 */
#ifndef CK_SERVER_PROCESSES_ANSWER_H
#define CK_SERVER_PROCESSES_ANSWER_H

#include <rpc/rpc.h>
#include <stdbool.h>

#include "server/processes/peek.h"

/* The result @res, coded by @xdr. False: the connection is of no further use. */
bool ck_answer(int fd, const struct ck_peeked *call, xdrproc_t xdr, const void *res);

/* An answer to a call of @kind: the null procedure's, or that there is no such one. False: as above. */
bool ck_answer_small(int fd, enum ck_peek kind, const struct ck_peeked *call);

#endif
