/*
 * rpc/transport/transport.h - interface between rpc/chan.c and the transports.
 *
 * A transport is one file and one table. tcp.c and unix.c share the transfer code of socket.c. A
 * channel of shm.c begins as one of unix.c and changes its table when both ends have agreed.
 *
 * Ops return 0 or -errno and set outputs only on 0, like the functions of rpc/chan.h.
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
#include "util/process/private_fds.h"
#include "util/spin.h"

#define CK_PEER_SIZE 160	   /* for a unix path or a numeric address, with its kind */
#define CK_STALL_MS 500		   /* interval of checks during a wait without progress */
#define CK_FDS_WAITING 8	   /* descriptors received and not yet taken */
#define CK_SOCKET_BUFFER (4 << 20) /* bytes requested from the kernel for each direction */

struct ck_transport_ops {
	const char *name;

	/* Opens @count channels to one server, at the same time; all or none. */
	int (*dial)(const struct ck_address *where, int timeout_ms, struct ck_chan **chans,
		    unsigned int count);
	int (*listen)(const struct ck_address
			      *where); /* the descriptor or -errno; NULL: no server does */

	/* @fd is connected, blocking and close-on-exec; on error, the caller still owns it. */
	int (*adopt)(int fd, struct ck_chan **chan);

	/* Send @fd with the first byte; -1: none, as always if take_fd is NULL. */
	int (*writev)(struct ck_chan *chan, struct iovec *iov, int count, int fd);

	bool sends_pages; /* its socket can send bytes from where they are: splice.h */

	/* Read at least @least (1 to @size) and at most @size bytes; fewer only after a short wait,
	 * never none. Returns the count, or -errno; the end of the stream is -EPIPE. */
	long (*read)(struct ck_chan *chan, void *buf, size_t size, size_t least);

	/* The oldest descriptor that came with bytes already read, or -ENOENT. NULL: the transport
	 * passes none. */
	int (*take_fd)(struct ck_chan *chan);
	bool collects_fds; /* although it has no take_fd: for its own use */

	/* Bytes received and not read; 0 if unknown. */
	size_t (*pending)(struct ck_chan *chan);

	/* Called when a blocked channel makes no progress for a while: 0 to keep waiting, -errno to
	 * give up. NULL: wait without limit; the kernel reports the death of such a peer. */
	int (*check)(struct ck_chan *chan);

	/* Make waits in the kernel return periodically, for ck_chan_on_quiet. NULL: they do so
	 * anyway. */
	void (*awake)(struct ck_chan *chan);

	/* The rest is for a channel that uses another one; NULL in transports. */

	/* writev, but entry @lent stays where it is until reclaim. @until: NULL, or the number for
	 * reclaim. */
	int (*lend)(struct ck_chan *chan, struct iovec *iov, int count, int lent, uint64_t *until);
	void (*reclaim)(struct ck_chan *chan, uint64_t until); /* UINT64_MAX: all */

	/* Has it ended for good? Else the socket tells. */
	bool (*gone)(struct ck_chan *chan);

	/* Pass on chan.spin. */
	void (*spin)(struct ck_chan *chan, unsigned int us);

	void (*shutdown)(struct ck_chan *chan);
	void (*close)(struct ck_chan *chan); /* frees @chan */
};

struct ck_chan {
	/* changes once, when a connection goes on in shared memory */
	const struct ck_transport_ops *_Atomic ops;
	struct ck_private_fd kept; /* the socket; in a channel that uses another one, that one's */
	struct ck_spin spin;	   /* reads spin before they sleep */
	atomic_int
		timeout_ms; /* limit of a wait for the next bytes; 0: none. Any thread may set it */
	void (*quiet)(void *closure); /* ck_chan_on_quiet; or NULL */
	void *quiet_closure;
	bool pages;		 /* ck_chan_lend_pages */
	bool more;		 /* the next writev follows at once */
	atomic_bool down;	 /* ck_chan_shutdown was called: do not read queued bytes */
	int fds[CK_FDS_WAITING]; /* received with bytes already read; oldest first */
	unsigned int fd_count;
	struct ck_private_fd *offer; /* sent with the next bytes, then NULL: ck_chan_offer_rings */
	struct ck_shm *shm;	     /* rings offered or in use; NULL */
	void (*release)(
		struct ck_chan *chan); /* called when it closes; NULL: it has nothing else */
	char peer[CK_PEER_SIZE];
};

extern const struct ck_transport_ops ck_transport_tcp;
extern const struct ck_transport_ops ck_transport_unix;
extern const struct ck_transport_ops ck_transport_shm;
extern const struct ck_transport_ops ck_transport_companion; /* unix.c, to a program of our own */
extern const struct ck_transport_ops ck_transport_relayed;   /* adopted by unix.c */

/* "tcp 10.0.0.7:4711" or "tcp [::1]:4711"; "tcp ?" if @peer has another family. */
struct sockaddr_storage;
void ck_tcp_peer_name(const struct sockaddr_storage *peer, char *name, size_t size);

/*
 * Stream sockets, transport/socket.c.
 */

/* The descriptor of @chan; -1: the program has closed it. Checked unless that was done microseconds
 * ago. */
static inline int ck_socket_fd(struct ck_chan *chan)
{
	return ck_private_fd_recent(&chan->kept);
}

/* Make a channel over the connected @fd, which it owns from then on; copies @peer. -ENOMEM. */
int ck_socket_chan_create(const struct ck_transport_ops *ops, int fd, const char *peer,
			  struct ck_chan **chan);

/* Implementations of the ops with the same names. */
int ck_socket_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd);
long ck_socket_read(struct ck_chan *chan, void *buf, size_t size, size_t least);
int ck_socket_take_fd(struct ck_chan *chan);
size_t ck_socket_pending(struct ck_chan *chan);
void ck_socket_awake(struct ck_chan *chan);
void ck_socket_shutdown(struct ck_chan *chan);
void ck_socket_close(struct ck_chan *chan);

/* recv(2): returns -1 and sets errno on error; keeps received descriptors for take_fd. */
ssize_t ck_socket_receive(struct ck_chan *chan, void *buf, size_t size, int flags);

/*
 * A system call on @chan failed with @error: returns 0 to retry, or -errno. May wait until one of
 * @events is there.
 */
int ck_socket_retry(struct ck_chan *chan, int error, short events);

/* Make @fd blocking. -errno of fcntl(2). */
int ck_socket_blocking(int fd);

/* setsockopt(2) of an int; -errno. */
int ck_socket_option(int fd, int level, int name, int value);

/* The time @timeout_ms from now, in ms of CLOCK_MONOTONIC; -1 (never) if negative. */
int64_t ck_deadline(int timeout_ms);

/* Milliseconds until @deadline: 0 if it has passed, -1 if there is none. */
int ck_deadline_left(int64_t deadline);

#endif
