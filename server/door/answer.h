/*
 * server/door/answer.h - replies of the supervisor itself: calls that need no session,
 * refusals.
 *
 * Each function reads the call's record from the connection, and sends only what fits at once;
 * these replies do fit.
 */
#ifndef CK_SERVER_DOOR_ANSWER_H
#define CK_SERVER_DOOR_ANSWER_H

#include <rpc/rpc.h>
#include <stdbool.h>

#include "server/processes/connection_peek.h"

/* Reply with @res, encoded by @xdr. False: close the connection. */
bool cks_answer(int fd, const struct cks_peeked *call, xdrproc_t xdr, const void *res);

/* Reply with a whole record. False: as above. */
bool cks_answer_bytes(int fd, const struct cks_peeked *call, const void *reply, size_t size);

/* Reply to a call of @kind: the null procedure, or a CK_PEEK_NO_.... False: as above. */
bool cks_answer_small(int fd, enum cks_connection_peek kind, const struct cks_peeked *call);

#endif
