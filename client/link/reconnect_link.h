/*
 * client/link/reconnect_link.h - the first message on a connection that carries a lasting channel,
 * and its reply.
 */
#ifndef CK_CLIENT_LINK_RECONNECT_LINK_H
#define CK_CLIENT_LINK_RECONNECT_LINK_H

#include <stdint.h>

#include "client/link/client.h"

struct ck_chan;
struct ck_link;

/* Ask the server to continue the channel of @link over @connection, from byte @received of
 * its sent bytes. 0 or -errno. */
int ckc_reconnect_link_send(struct ckc_client *c, const struct ck_link *link,
			    struct ck_chan *connection, uint64_t received);

/*
 * Read the reply, and nothing behind it. -ENOENT: the server has no such session; -EACCES: it
 * refuses the channel; -EREMOTE: the session is on another server, @moved; -ESTALE: it is an
 * earlier state of this one.
 */
int ckc_reconnect_link_answer(struct ck_chan *connection, ck_link_res *res,
			      char moved[CK_MOVED_MAX + 1]);

#endif
