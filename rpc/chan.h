/*
 * rpc/chan.h - a byte channel between client and server, whatever carries it.
 *
 * tcp, unix and shm fill struct ck_transport_ops (rpc/transport/). An address is
 *   HOST | HOST:PORT | tcp://HOST:PORT | [v6]:PORT | unix:/PATH | shm:/PATH
 * of which the last is to be dialed only, and is a unix socket whose ends go on in shared memory
 * Functions return 0 or -errno and set outputs only on 0. A channel is used by one thread for
 * reading and by one for writing at a time; close only when neither does.
 */
#ifndef CK_RPC_CHAN_H
#define CK_RPC_CHAN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define CK_DEFAULT_PORT 9909

struct ck_chan;

/* Connect within @timeout_ms; the error says why (logged by the caller, who knows the address). */
int ck_chan_dial(const char *address, int timeout_ms, struct ck_chan **chan);

/* Take over a connected socket (TCP options are set here); the channel owns @fd from then on. */
int ck_chan_adopt(int fd, struct ck_chan **chan);

/* What @error (-errno) of dialing @address means, and what to do: in @text of @size bytes, returned. */
const char *ck_chan_dial_error(const char *address, int error, char *text, size_t size);

/* A listening socket for @address, non-blocking, close-on-exec: the fd, or -errno.
 * A unix path left by a dead server is replaced; one that answers is -EADDRINUSE. */
int ck_chan_listen(const char *address);

/* Send all of @iov / read exactly @size bytes. -EPIPE or -ECONNRESET: the peer is gone
 * (a read at the end of the stream is -EPIPE). @iov is clobbered. */
int ck_chan_writev(struct ck_chan *chan, struct iovec *iov, int count);
int ck_chan_read(struct ck_chan *chan, void *buf, size_t size);

/*
 * Descriptors go along with bytes where both ends are on one host. ck_chan_writev_fd sends @fd,
 * which stays the caller's, with the first of the bytes; the reader of these takes it, in the
 * order of sending: the descriptor, close-on-exec and then the taker's to close, or -ENOENT where
 * none has come. Both are -EOPNOTSUPP over a transport that passes none. A peer that sends more
 * than are taken breaks its channel (-EPROTO).
 */
bool ck_chan_passes_fds(const struct ck_chan *chan);
int ck_chan_writev_fd(struct ck_chan *chan, struct iovec *iov, int count, int fd);
int ck_chan_take_fd(struct ck_chan *chan);

/*
 * Rings in shared memory in place of a unix socket's buffers. The client offers them before it
 * writes its first record; the server takes them when it has read that, before it answers; both
 * enter them behind the answer, which goes over the socket. Where anything is missing the channel
 * stays a socket and works: CRICKET_SHM=0 on either side, an old peer, no memory file.
 *
 * Sizes are powers of two, in bytes. Offering and taking: -EOPNOTSUPP, -ENOENT (nothing offered),
 * -EPROTO (no file of ours). Entering: whether the channel is in rings from now on.
 */
int ck_chan_offer_rings(struct ck_chan *chan, size_t to_server, size_t to_client);
int ck_chan_take_rings(struct ck_chan *chan);
bool ck_chan_enter_rings(struct ck_chan *chan);
bool ck_chan_in_rings(const struct ck_chan *chan);

/* Read at least 1 and at most @size bytes; the count or -errno. */
long ck_chan_read_some(struct ck_chan *chan, void *buf, size_t size);

/*
 * Readers of @chan look for bytes for up to @us microseconds before they sleep, as util/spin.h
 * says: waking a sleeper costs more than a round trip. For channels that are busy or waited for.
 */
void ck_chan_spin(struct ck_chan *chan, unsigned int us);

/*
 * A thread that has waited for bytes or for room on @chan for about a second calls @quiet, and again after each
 * further second; then it waits on. Set while nobody waits; NULL: nothing is called.
 */
void ck_chan_on_quiet(struct ck_chan *chan, void (*quiet)(void *closure), void *closure);

/* Reads and writes of @chan fail with -ETIMEDOUT when no byte moves for @ms; 0: they wait. */
void ck_chan_timeout(struct ck_chan *chan, int ms);

/* Wake a thread that blocks in read or write on @chan, for good; any thread may call it. */
void ck_chan_shutdown(struct ck_chan *chan);
void ck_chan_close(struct ck_chan *chan);

/* Bytes that have arrived and not been read, about. */
size_t ck_chan_pending(struct ck_chan *chan);

int ck_chan_fd(const struct ck_chan *chan);		/* for poll(2) */
/* Whether the other process has closed its end, by dying too; what is still to be read does not count. */
bool ck_chan_peer_gone(const struct ck_chan *chan);
const char *ck_chan_peer(const struct ck_chan *chan);	/* "tcp 127.0.0.1:4711", "unix /run/x" */

/* Path of the default unix socket of this user on this host, the same on both ends; the client
 * tries index 0, 1, ... until NULL (user runtime directory, system, temporary directory). */
const char *ck_chan_default_unix(unsigned int index);

#endif
