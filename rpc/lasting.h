/*
 * rpc/lasting.h - a channel that survives the loss of its connection (D15).
 *
 * A lasting channel uses another channel, its connection, and gets a new one when that breaks. Both
 * ends number the bytes of each direction. A writer keeps bytes that its peer has not confirmed, so
 * that they can be sent again; a reader takes each byte once. While there is no connection, readers
 * wait, and writers do when the kept bytes reach the limit.
 *
 * A channel begins without a connection. The owner attaches one, and after a failure detaches it,
 * learns from the peer how much that has received, and attaches another one (rpc/links.h does this
 * for all channels of a session).
 */
#ifndef CK_RPC_LASTING_H
#define CK_RPC_LASTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rpc/chan.h"

#define CK_LASTING_LIMIT (64u << 20) /* bytes that are kept of one direction */

/* Bytes that several channels keep together, besides CK_LASTING_FREE of each, with which any of
 * them can always go on. */
struct ck_lasting_budget {
	size_t limit;
	atomic_size_t used;
};
#define CK_LASTING_FREE (64u << 10)

struct ck_lasting_owner {
	/* The connection broke, or the channel ended: from any thread, with a lock of the channel
	 * held. */
	void (*changed)(void *closure);
	/* The channel is about to be freed; no lock is held. */
	void (*closing)(void *closure, struct ck_chan *chan);
	/* Read the peer's first words on a connection that was attached before they came. -EACCES:
	 * it refuses the channel; any other error breaks the connection. */
	int (*accept)(void *closure, struct ck_chan *connection);
	void *closure;
	struct ck_lasting_budget *budget; /* outlives the channel; NULL: none */
};

/* @limit: a power of two, normally CK_LASTING_LIMIT. -ENOMEM. */
int ck_lasting_create(const char *peer, const struct ck_lasting_owner *owner, size_t limit,
		      struct ck_chan **chan);

/* Give up the connection, if there is one: it is shut down and closed, and no thread uses it any
 * more. *@received: how many bytes have come from the peer. */
void ck_lasting_detach(struct ck_chan *chan, uint64_t *received);

/*
 * Use @connection from now on, and close it at the end. The peer has received @received bytes.
 * @greets: its first words are for accept(). The channel must be detached. -ESTALE: the peer had
 * confirmed more before; -EPROTO: it was never sent so much; -EPIPE: the channel has ended. On
 * error, @connection is closed.
 */
int ck_lasting_attach(struct ck_chan *chan, struct ck_chan *connection, uint64_t received,
		      bool greets);

/* The result of ck_lasting_attach for @received: 0 or -errno. */
int ck_lasting_fits(struct ck_chan *chan, uint64_t received);

/* Can the peer have received so much? If not, this channel is older than the one that the peer
 * knows. */
bool ck_lasting_reaches(struct ck_chan *chan, uint64_t received);

/* Send the bytes that were written and not yet sent, if no other thread does. It may block: for a
 * thread of the owner. */
void ck_lasting_resend(struct ck_chan *chan);
/* Is there anything for it to send? */
bool ck_lasting_has_unsent(struct ck_chan *chan);

enum ck_lasting_state {
	CK_LASTING_UP,
	CK_LASTING_DOWN,
	CK_LASTING_ENDED, /* given up, shut down, or the peer said goodbye */
};

/* *@why: why it is down (0: it never had a connection; -EPIPE: its stream ended; -ECONNRESET,
 * -ETIMEDOUT ...), or the error of reads and writes when it has ended. */
enum ck_lasting_state ck_lasting_state(struct ck_chan *chan, int *why);

/* The connection may have its end, or the peer's first words: take them in, if no thread reads it.
 * @takes: all bytes, because threads only write to this channel. Else they are for its reader, who
 * has a place for them. */
void ck_lasting_look(struct ck_chan *chan, bool takes);

/* Wait until the peer's first words on a connection have been read: 0, or the error of reads. */
int ck_lasting_greeted(struct ck_chan *chan);

/* No connection will come: reads and writes return @error. */
void ck_lasting_give_up(struct ck_chan *chan, int error);

/* Say goodbye, behind all written bytes, within @ms: the peer will not wait for another
 * connection. */
void ck_lasting_bye(struct ck_chan *chan, int ms);

#endif
