/*
 * rpc/transport/transport.h - what rpc/chan.c asks of a transport.
 *
 * A transport is one file and one table. tcp.c and unix.c share the byte moving of socket.c; a
 * channel of shm.c begins as one of unix.c and changes its table when both ends have agreed.
 *
 * Ops return 0 or -errno and set outputs only on 0, as rpc/chan.h says of their callers.
 */
#ifndef CK_RPC_TRANSPORT_H
#define CK_RPC_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "rpc/chan.h"
#include "util/spin.h"

#define CK_PEER_SIZE 160	   /* a unix path or a numeric address, with its kind */
#define CK_STALL_MS 500		   /* a wait in which nothing happens looks around this often */
#define CK_FDS_WAITING 8	   /* descriptors that have come and nobody has taken yet */
#define CK_SOCKET_BUFFER (4 << 20) /* bytes asked of the kernel for each direction */

struct ck_transport_ops {
	const char *name;

	/* @where is the address without its scheme, for instance "host:9909" or "/run/x". */
	int (*dial)(const char *where, int timeout_ms, struct ck_chan **chan);
	int (*listen)(const char *where); /* the descriptor or -errno */

	/* @fd is connected, blocking and close-on-exec; it stays the caller's on an error. */
	int (*adopt)(int fd, struct ck_chan **chan);

	/* @fd goes with the first byte, -1 for none: always where take_fd is NULL. */
	int (*writev)(struct ck_chan *chan, struct iovec *iov, int count, int fd);

	/* At least @least (1 to @size) and at most @size bytes; fewer only on a short wait,
	 * never none. The count, or -errno; the end of the stream is -EPIPE. */
	long (*read)(struct ck_chan *chan, void *buf, size_t size, size_t least);

	/* The oldest descriptor that came with bytes already read, or -ENOENT. NULL: this
	 * transport passes none. */
	int (*take_fd)(struct ck_chan *chan);

	/* Bytes that have arrived and not been read; 0 where that cannot be told. */
	size_t (*pending)(struct ck_chan *chan);

	/* Nothing has moved on a blocked channel for a while: 0 to wait on, -errno to give up.
	 * NULL: wait for ever, the kernel knows when this kind of peer dies. */
	int (*check)(struct ck_chan *chan);

	/* Have waits in the kernel return now and then, for ck_chan_on_quiet. NULL: they do. */
	void (*awake)(struct ck_chan *chan);

	void (*shutdown)(struct ck_chan *chan);
	void (*close)(struct ck_chan *chan); /* frees @chan */
};

struct ck_chan {
	const struct ck_transport_ops *ops;
	int fd;
	struct ck_spin spin; /* a read looks for bytes before it sleeps */
	int timeout_ms; /* no wait for the next bytes is longer; 0: for ever */
	void (*quiet)(void *closure); /* ck_chan_on_quiet; or NULL */
	void *quiet_closure;
	atomic_bool down; /* ck_chan_shutdown was called: what is still queued is not read */
	int fds[CK_FDS_WAITING]; /* came with bytes that have been read; oldest first */
	unsigned int fd_count;
	int offer_fd; /* goes with the next bytes written, then -1: ck_chan_offer_rings */
	struct ck_shm *shm; /* rings offered or in use; NULL */
	char peer[CK_PEER_SIZE];
};

extern const struct ck_transport_ops ck_transport_tcp;
extern const struct ck_transport_ops ck_transport_unix;
extern const struct ck_transport_ops ck_transport_shm;

/* A channel closes: its rings, if it has any, go; their sleepers in the other process wake. */
void ck_shm_close(struct ck_chan *chan);

/*
 * Stream sockets, transport/socket.c.
 */

/* A channel over connected @fd, which it owns from then on; @peer is copied. -ENOMEM. */
int ck_socket_chan_create(const struct ck_transport_ops *ops, int fd, const char *peer,
			  struct ck_chan **chan);

/* The ops of the same names. */
int ck_socket_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd);
long ck_socket_read(struct ck_chan *chan, void *buf, size_t size, size_t least);
int ck_socket_take_fd(struct ck_chan *chan);
size_t ck_socket_pending(struct ck_chan *chan);
void ck_socket_awake(struct ck_chan *chan);
void ck_socket_shutdown(struct ck_chan *chan);
void ck_socket_close(struct ck_chan *chan);

/* recv(2), or -1 and errno; descriptors that come along are kept for take_fd. */
ssize_t ck_socket_receive(struct ck_chan *chan, void *buf, size_t size, int flags);

/* Make @fd blocking or not. -errno of fcntl(2). */
int ck_socket_blocking(int fd, bool blocking);

/* setsockopt(2) of an int; -errno. */
int ck_socket_option(int fd, int level, int name, int value);

/* The moment @timeout_ms from now, in ms of CLOCK_MONOTONIC; -1 (never) for a negative one. */
int64_t ck_deadline(int timeout_ms);

/* Milliseconds until @deadline: 0 when it has passed, -1 when there is none. */
int ck_deadline_left(int64_t deadline);

#endif
