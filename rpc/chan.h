/*
 * rpc/chan.h - a byte channel between client and server, over any transport.
 *
 * tcp, unix and shm fill struct ck_transport_ops (rpc/transport/). Addresses are those of
 * util/address/address.h. shm: is for dialing only: a unix socket whose ends continue in shared
 * memory.
 *
 * Functions return 0 or -errno and set outputs only on 0. At most one thread reads and one writes a
 * channel at a time; close it only when neither does.
 */
#ifndef CK_RPC_CHAN_H
#define CK_RPC_CHAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/address/address.h"

struct ck_chan;

/* Connect within @timeout_ms. The caller, which knows the address, logs errors. */
int ck_chan_dial(const char *address, int timeout_ms, struct ck_chan **chan);

/* Open @count channels, at most CK_DIAL_MAX, at the same time and to the same server: all or none.
 * A network's round trip passes once. On error, @chans has no meaning. */
#define CK_DIAL_MAX 16
int ck_chan_dial_many(const char *address, int timeout_ms, struct ck_chan **chans,
		      unsigned int count);

/* Take ownership of a connected socket @fd, and set TCP options. */
int ck_chan_adopt(int fd, struct ck_chan **chan);

/* Has the program that this process started for @address (see companion.h) ended? @text of @size
 * bytes then says why. Call it when a connection fails: it may wait a second. False for addresses
 * that need no program. */
bool ck_chan_helper_ended(const char *address, char *text, size_t size);

/* Describe @error (-errno) of dialing @address, with advice, in @text of @size bytes; returns
 * @text. */
const char *ck_chan_dial_error(const char *address, int error, char *text, size_t size);

/* Make a listening socket for @address, non-blocking, close-on-exec: returns the fd, or -errno. A
 * unix path left by a dead server is replaced; -EADDRINUSE: a server answers there. */
int ck_chan_listen(const char *address);

/* Send all of @iov / read exactly @size bytes. -EPIPE or -ECONNRESET: the peer is gone (a read at
 * the end of the stream returns -EPIPE). @iov is modified. */
int ck_chan_writev(struct ck_chan *chan, struct iovec *iov, int count);
int ck_chan_read(struct ck_chan *chan, void *buf, size_t size);

/*
 * The same for a writer that leaves the bytes of entry @lent as they are until ck_chan_reclaim has
 * returned. A lasting channel (rpc/lasting.h) then need not copy them. Reclaim returns soon: it
 * copies the bytes that it still needs.
 */
int ck_chan_lend(struct ck_chan *chan, struct iovec *iov, int count, int lent);
void ck_chan_reclaim(struct ck_chan *chan);

/* The writer leaves lent bytes as they are until the peer has read them, even if a lasting channel
 * could copy them: so the kernel need not copy them either. For a client, whose calls wait for the
 * replies. */
void ck_chan_lend_pages(struct ck_chan *chan);

/* For a writer that reuses lent bytes part by part: *@until is for ck_chan_reclaim_until, which
 * returns when the bytes of this entry, and those lent before it, are the writer's again. The peer
 * is asked to confirm them at once. */
int ck_chan_lend_until(struct ck_chan *chan, struct iovec *iov, int count, int lent,
		       uint64_t *until);
void ck_chan_reclaim_until(struct ck_chan *chan, uint64_t until);

/*
 * On one host, descriptors can be sent with bytes. ck_chan_writev_fd sends @fd, which the caller
 * keeps, with the first byte. The reader of these bytes takes descriptors in the order of sending.
 * It gets a descriptor, close-on-exec, which it must close, or -ENOENT if none has arrived. Both
 * functions return -EOPNOTSUPP if the transport passes none. A peer that sends more than are taken
 * breaks its channel (-EPROTO).
 */
bool ck_chan_passes_fds(const struct ck_chan *chan);
int ck_chan_writev_fd(struct ck_chan *chan, struct iovec *iov, int count, int fd);
int ck_chan_take_fd(struct ck_chan *chan);

/*
 * Rings in shared memory replace a unix socket's buffers. The client offers them before it writes
 * its first record. The server takes them after reading that record, before it replies. Both enter
 * them after the reply, which uses the socket. If anything is missing (CRICKET_DEBUG=no-shm on
 * either side, an old peer, no memory file), the channel stays a working socket.
 *
 * Sizes are powers of two, in bytes. Offering and taking: -EOPNOTSUPP, -ENOENT (nothing was
 * offered), -EPROTO (invalid file). Entering returns whether the channel uses rings from now on.
 */
int ck_chan_offer_rings(struct ck_chan *chan, size_t to_server, size_t to_client);
int ck_chan_take_rings(struct ck_chan *chan);
bool ck_chan_enter_rings(struct ck_chan *chan);
bool ck_chan_in_rings(const struct ck_chan *chan);

/* The ring that a channel in rings reads; else NULL. */
struct ck_pipe;
struct ck_pipe *ck_chan_ring(struct ck_chan *chan);

/* Read at least 1 and at most @size bytes; returns the count or -errno. */
long ck_chan_read_some(struct ck_chan *chan, void *buf, size_t size);

/*
 * Let readers of @chan spin for up to @us microseconds before they sleep (util/spin.h): waking a
 * sleeper costs more than a round trip. For busy channels, and those that a thread waits on.
 */
void ck_chan_spin(struct ck_chan *chan, unsigned int us);

/*
 * Call @quiet when a thread has waited on @chan for about a second, and again after each further
 * second; it then waits on. Set it while no thread waits; NULL: no calls.
 */
void ck_chan_on_quiet(struct ck_chan *chan, void (*quiet)(void *closure), void *closure);

/* Make reads and writes of @chan fail with -ETIMEDOUT if no byte moves for @ms; 0: no limit. */
void ck_chan_timeout(struct ck_chan *chan, int ms);

/* Wake threads blocked in read or write on @chan, permanently; callable from any thread. */
void ck_chan_shutdown(struct ck_chan *chan);
void ck_chan_close(struct ck_chan *chan);

/* The approximate number of bytes received and not yet read. */
size_t ck_chan_pending(struct ck_chan *chan);

/* For poll(2). -1: there is none, or the program has closed it (util/process/private_fds.h). */
int ck_chan_fd(struct ck_chan *chan);

/* Has the program closed the descriptor? */
bool ck_chan_fd_gone(struct ck_chan *chan);

/* In a forked child: close its copy of the descriptor. Takes no lock; @chan is not used any
 * more. */
void ck_chan_forked(struct ck_chan *chan);
/* Has the peer closed its end, or died? Unread bytes do not matter. */
bool ck_chan_peer_gone(struct ck_chan *chan);
/* The shortest round trip over TCP to the next host that the kernel has measured, in microseconds;
 * 0: not known. */
uint32_t ck_chan_round_trip_us(struct ck_chan *chan);
/* From here on a link is long: windows of ordinary sockets, some megabytes, hold less than a fast
 * link carries in this time, and client and server use more connections. */
#define CK_CHAN_LONG_US 5000u
const char *ck_chan_peer(const struct ck_chan *chan); /* "tcp 127.0.0.1:4711", "unix /run/x" */

/* Path of this user's default unix socket on this host, the same for client and server. The client
 * tries index 0, 1, ... until NULL (user runtime directory, system, temporary directory). */
const char *ck_chan_default_unix(unsigned int index);

/*
 * Call @try for each of these paths until one succeeds: returns its result, and in *@path the path.
 * Else the error that says most to a user who has named none: -EACCES before others, -ENOENT last.
 */
int ck_chan_try_usual(int (*try)(const char *path, void *own), void *own, const char **path);

#endif
