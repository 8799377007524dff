/*
 * client/link/hello.h - the first message of a session.
 */
#ifndef CK_CLIENT_LINK_HELLO_H
#define CK_CLIENT_LINK_HELLO_H

#include <stdbool.h>

#include "cuda/types.h"

struct ck_chan;
struct ckc_client;
struct ckc_lane;

/*
 * Say hello on @lane, whose channel is @chan, and decode the reply into @c->hello, @c->offers and
 * @c->rules. Returns the error for cuInit, which has been logged, unless the server asks the
 * client to wait (@c->hello.status).
 */
CUresult ckc_hello(struct ckc_client *c, struct ckc_lane *lane, struct ck_chan *chan);

/* Has the server asked back, so that it is to get another hello, with the answer? */
bool ckc_hello_was_asked(const struct ckc_client *c);

#endif
