/*
 * client/link/join.h - the first exchange on each connection of a session.
 */
#ifndef CK_CLIENT_LINK_JOIN_H
#define CK_CLIENT_LINK_JOIN_H

#include <stdbool.h>
#include <stddef.h>

#include "client/link/client.h"
#include "rpc/chan.h"

struct ckc_exchange;
struct ckc_lane;

/* Make the first exchange on a connection, with a time limit. It offers shared memory, which
 * carries the rest if both ends can. 0 or -errno. */
int ckc_first_exchange(struct ckc_client *c, struct ckc_lane *lane, struct ckc_exchange *x);

/*
 * Join with *@chan as the session's command stream. If it is NULL, or has been closed in the
 * meantime, another connection replaces it. Over a network, this does not wait for the server to
 * accept it: *@accepted is then false, and if the server refuses, the session is lost later. 0 or
 * -errno; *@chan is then closed.
 */
int ckc_join_commands(struct ckc_client *c, struct ck_chan **chan, bool *accepted);

/* Over a network, join with @chan as a lane for calls, and put it into the pool; owns @chan. On
 * this host it is closed: a connection costs nothing when it is needed. */
void ckc_join_reserve(struct ckc_client *c, struct ck_chan *chan);

/* The server has closed the stream, and so the session. */
static inline bool ckc_command_over(const struct ckc_client *c)
{
	return !c->command.chan || ck_chan_peer_gone(c->command.chan);
}

/* Take a lane from the pool, or open one and wait until the server accepts it, with retries. The
 * caller owns it. 0 or -errno. */
int ckc_join_lane(struct ckc_client *c, struct ckc_lane **lane);
/* The same with one attempt, for a lane that the program can do without: a thread of the program
 * may need the place. */
int ckc_join_lane_once(struct ckc_client *c, struct ckc_lane **lane);

/* The same without a wait for the server: the first call on the lane finds out. */
int ckc_join_lane_soon(struct ckc_client *c, struct ckc_lane **lane);

/* Is it a temporary failure of joining? With too many new connections at once, the server closes
 * one or cannot pass it to the worker. */
bool ckc_join_passing(int ret);

#endif
