/*
 * rpc/transport/shm.c - a unix connection that continues in shared memory.
 *
 * The client makes a memory file with a ring for each direction, seals its size, and sends it with
 * the connection's first record. A server that accepts it marks it, and replies over the socket;
 * then both continue in the rings. A server without this feature drops the descriptor and sets no
 * mark, and the connection remains a socket without delay.
 *
 * The socket stays open. It carries descriptors, and it shows when the other process dies: a
 * sleeper checks it twice a second, and before the first sleep.
 *
 * The file's contents are not trusted, because the other end can change them at any time. Sizes are
 * read once and checked; the seals ensure that pages cannot be removed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/pipe.h"
#include "rpc/transport/transport.h"
#include "util/cancel.h"
#include "util/env.h"
#include "util/page.h"
#include "util/util.h"

#define CK_SHM_MAGIC 0x68736b63u /* "ckhs" */
#define CK_SHM_LAYOUT 1		 /* version of the file's layout */
#define CK_SHM_PAGE ((unsigned int)CK_PAGE_MOST)
#define CK_SHM_SMALLEST (CK_SHM_PAGE > 16u << 10 ? CK_SHM_PAGE : 16u << 10)
#define CK_SHM_LARGEST (64u << 20)
#define CK_SHM_FIRST (64u << 10) /* bytes of a ring that have pages from the start */
#define CK_SHM_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define QUIET_NS (2 * CK_STALL_MS * 1000000ull - 1000000)
#define CK_SHM_PART (128u << 10) /* bytes per publication: the reader copies them meanwhile */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; on older kernels pages come when they are used */
#endif

/* The file's first page; the rings' bytes follow it, to the server first. */
struct shm_header {
	uint32_t magic, layout;
	uint32_t size[2];		/* of the rings, powers of two */
	_Atomic uint32_t taken;		/* set by the server: it will use the rings */
	struct ck_pipe_control ring[2]; /* to the server, to the client */
};

struct ck_shm {
	struct shm_header *header;
	int fd; /* until it is sent */
	bool client;
	struct ck_pipe in, out;
};

_Static_assert(sizeof(struct shm_header) <= CK_SHM_PAGE, "the header is one page");

static void unmap_ring(struct ck_pipe *ring)
{
	if (ring->data)
		munmap(ring->data, 2 * ring->size);
}

static void shm_free(struct ck_shm *shm)
{
	if (!shm)
		return;
	unmap_ring(&shm->in);
	unmap_ring(&shm->out);
	if (shm->header)
		munmap(shm->header, CK_SHM_PAGE);
	if (shm->fd >= 0)
		close(shm->fd);
	free(shm);
}

/*
 * Map the @size bytes at @offset of the file twice in a row. The client, which owns the file, gets
 * the pages of the first messages now. Getting all of them would take milliseconds of each start.
 */
static int map_ring(struct ck_shm *shm, off_t offset, size_t size, struct ck_pipe_control *control,
		    struct ck_pipe *ring)
{
	unsigned char *at =
		mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	*ring = (struct ck_pipe){.control = control, .data = at, .size = size};
	for (int i = 0; i < 2; i++) {
		if (mmap(at + (size_t)i * size, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, shm->fd, offset) == MAP_FAILED)
			return -errno;
	}
	if (shm->client)
		madvise(at, ck_min(size, (size_t)CK_SHM_FIRST), MADV_POPULATE_WRITE);
	return 0;
}

/* Map the rings of @shm->fd with sizes @size; the header is mapped already. */
static int map_rings(struct ck_shm *shm, const uint32_t size[2])
{
	struct ck_pipe *to_server = shm->client ? &shm->out : &shm->in;
	struct ck_pipe *to_client = shm->client ? &shm->in : &shm->out;
	int ret = map_ring(shm, CK_SHM_PAGE, size[0], &shm->header->ring[0], to_server);

	return ret < 0 ? ret
		       : map_ring(shm, CK_SHM_PAGE + (off_t)size[0], size[1], &shm->header->ring[1],
				  to_client);
}

static int map_header(struct ck_shm *shm)
{
	void *at = mmap(NULL, CK_SHM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	shm->header = at;
	return 0;
}

static bool size_allowed(uint32_t size)
{
	return size >= CK_SHM_SMALLEST && size <= CK_SHM_LARGEST && (size & (size - 1)) == 0;
}

static struct ck_shm *shm_new(bool client, int fd)
{
	struct ck_shm *shm = calloc(1, sizeof(*shm));

	if (shm) {
		shm->client = client;
		shm->fd = fd;
	}
	return shm;
}

static int make_file(const uint32_t size[2])
{
	int fd = memfd_create("cricket-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, CK_SHM_PAGE + (off_t)size[0] + size[1]) == 0 &&
	    fcntl(fd, F_ADD_SEALS, CK_SHM_SEALS) == 0)
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

int ck_chan_offer_rings(struct ck_chan *chan, size_t to_server, size_t to_client)
{
	const uint32_t size[2] = {(uint32_t)to_server, (uint32_t)to_client};
	struct ck_shm *shm;
	int ret, fd;

	if (chan->ops != &ck_transport_unix || ck_env_long("CRICKET_SHM") == 0)
		return -EOPNOTSUPP;
	if (chan->shm || !size_allowed(size[0]) || !size_allowed(size[1]))
		return -EINVAL;
	fd = make_file(size);
	if (fd < 0)
		return fd;
	shm = shm_new(true, fd);
	if (!shm) {
		close(fd);
		return -ENOMEM;
	}
	ret = map_header(shm);
	if (ret == 0)
		ret = map_rings(shm, size);
	if (ret < 0) {
		shm_free(shm);
		return ret;
	}
	shm->header->magic = CK_SHM_MAGIC;
	shm->header->layout = CK_SHM_LAYOUT;
	memcpy(shm->header->size, size, sizeof(size));
	chan->shm = shm;
	chan->offer_fd = fd; /* sent with the next bytes */
	return 0;
}

/* Check that the file has the size it claims, and that the size is sealed. */
static int check_file(struct ck_shm *shm, uint32_t size[2])
{
	struct stat st;
	int seals = fcntl(shm->fd, F_GET_SEALS);
	int ret;

	if (seals < 0 || (seals & CK_SHM_SEALS) != CK_SHM_SEALS)
		return -EPROTO;
	if (fstat(shm->fd, &st) < 0 || st.st_size < (off_t)CK_SHM_PAGE)
		return -EPROTO;
	ret = map_header(shm);
	if (ret < 0)
		return ret;
	memcpy(size, shm->header->size, 2 * sizeof(size[0]));
	if (shm->header->magic != CK_SHM_MAGIC || shm->header->layout != CK_SHM_LAYOUT ||
	    !size_allowed(size[0]) || !size_allowed(size[1]) ||
	    st.st_size != (off_t)CK_SHM_PAGE + size[0] + size[1])
		return -EPROTO;
	return 0;
}

int ck_chan_take_rings(struct ck_chan *chan)
{
	uint32_t size[2];
	struct ck_shm *shm = NULL;
	int fd = chan->ops == &ck_transport_unix ? ck_chan_take_fd(chan) : -EOPNOTSUPP;
	int ret = ck_env_long("CRICKET_SHM") == 0 ? -EOPNOTSUPP : -ENOMEM;

	if (fd < 0)
		return fd;
	if (ret != -EOPNOTSUPP && !chan->shm)
		shm = shm_new(false, fd);
	if (!shm) {
		close(fd);
		return ret;
	}
	ret = check_file(shm, size);
	if (ret == 0)
		ret = map_rings(shm, size);
	if (ret < 0) {
		shm_free(shm);
		return ret;
	}
	atomic_store(&shm->header->taken, 1);
	close(shm->fd);
	shm->fd = -1;
	chan->shm = shm;
	return 0;
}

bool ck_chan_enter_rings(struct ck_chan *chan)
{
	struct ck_shm *shm = chan->shm;

	if (!shm)
		return false;
	if (shm->client && atomic_load(&shm->header->taken) != 1) {
		shm_free(shm);
		chan->shm = NULL;
		return false;
	}
	if (shm->fd >= 0)
		close(shm->fd);
	shm->fd = -1;
	chan->ops = &ck_transport_shm;
	memcpy(chan->peer, "shm ", 4); /* one character shorter than "unix" before it */
	memmove(chan->peer + 4, chan->peer + 5, strlen(chan->peer + 5) + 1);
	return true;
}

bool ck_chan_in_rings(const struct ck_chan *chan)
{
	return chan->ops == &ck_transport_shm;
}

struct ck_pipe *ck_chan_ring(struct ck_chan *chan)
{
	return ck_chan_in_rings(chan) ? &chan->shm->in : NULL;
}

typedef long (*look_fn)(struct ck_pipe *ring);
typedef int (*sleep_fn)(struct ck_pipe *ring, int timeout_ms);

/* Sleep until @look returns nonzero, the peer is gone, or the channel's timeout expires. */
static long sleep_until(struct ck_chan *chan, struct ck_pipe *ring, look_fn look, sleep_fn sleep)
{
	int64_t deadline = ck_deadline(chan->timeout_ms > 0 ? chan->timeout_ms : -1);
	uint64_t next = ck_now_ns() + QUIET_NS;
	long n = 0;

	for (;;) {
		bool gone = atomic_load(&chan->down) || ck_chan_peer_gone(chan);
		int left = ck_deadline_left(deadline);

		n = look(ring); /* after the check for the end: bytes written before it count */
		if (n != 0)
			return n;
		if (gone)
			return -EPIPE;
		if (left == 0)
			return -ETIMEDOUT;
		n = sleep(ring, left > 0 ? ck_min(left, CK_STALL_MS) : CK_STALL_MS);
		if (n < 0)
			return n;
		if (chan->quiet && ck_now_ns() >= next) {
			chan->quiet(chan->quiet_closure);
			next = ck_now_ns() + QUIET_NS;
		}
	}
}

/* Wait for bytes or room in @ring; returns their number, or -errno. */
static long await(struct ck_chan *chan, struct ck_pipe *ring, look_fn look, sleep_fn sleep)
{
	struct ck_spin_turn turn;
	long n;

	if (unlikely(atomic_load_explicit(&chan->down, memory_order_relaxed)))
		return -EPIPE;
	n = look(ring);
	if (likely(n != 0))
		return n;
	turn = ck_spin_begin(&chan->spin);
	do {
		n = look(ring);
	} while (n == 0 && ck_spin_again(&turn));
	if (n == 0)
		n = sleep_until(chan, ring, look, sleep);
	ck_spin_end(&turn);
	return n;
}

static long shm_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	long n = await(chan, &chan->shm->in, ck_pipe_filled, ck_pipe_sleep_filled);

	(void)least; /* the caller reads the rest with another call */
	if (n < 0)
		return n;
	size = ck_min(size, (size_t)n);
	ck_pipe_take(&chan->shm->in, buf, size);
	return (long)size;
}

/* Send one dummy byte with @fd. */
static int send_fd(struct ck_chan *chan, int fd)
{
	struct iovec iov = {(char *)(uintptr_t) "", 1};

	return ck_socket_writev(chan, &iov, 1, fd);
}

static int put_all(struct ck_chan *chan, const unsigned char *from, size_t size)
{
	struct ck_pipe *out = &chan->shm->out;

	while (size > 0) {
		size_t part;
		long n = ck_pipe_room(out);

		if (n == 0) {
			ck_pipe_publish(out); /* only then can the reader make room */
			n = await(chan, out, ck_pipe_room, ck_pipe_sleep_room);
		}
		if (n < 0)
			return (int)n;
		part = ck_min(size, (size_t)n);
		part = ck_min(part, ck_min(out->size / 4, (size_t)CK_SHM_PART));
		ck_pipe_put(out, from, part);
		from += part;
		size -= part;
		if (size > 0)
			ck_pipe_publish(out);
	}
	return 0;
}

static int shm_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	int ret = fd >= 0 ? send_fd(chan, fd) : 0;

	if (unlikely(atomic_load_explicit(&chan->down, memory_order_relaxed)))
		return -EPIPE;
	for (int i = 0; ret == 0 && i < count; i++)
		ret = put_all(chan, iov[i].iov_base, iov[i].iov_len);
	/* the sleeper may be dead: a sender that never waits finds out here */
	if (ret == 0 && ck_pipe_publish(&chan->shm->out) && ck_chan_peer_gone(chan))
		ret = -EPIPE;
	return ret;
}

/* The descriptor was sent before the record was written, so it is in the socket by now. */
static int shm_take_fd(struct ck_chan *chan)
{
	char byte;
	int fd = ck_socket_take_fd(chan);

	if (fd != -ENOENT)
		return fd;
	if (ck_socket_receive(chan, &byte, 1, MSG_DONTWAIT) <= 0)
		return -ENOENT;
	return ck_socket_take_fd(chan);
}

static size_t shm_pending(struct ck_chan *chan)
{
	struct ck_pipe_control *control = chan->shm->in.control;

	return (size_t)(atomic_load(&control->written) - atomic_load(&control->taken));
}

/* Sleepers at the other end wake and find the socket closed. */
static void shm_shutdown(struct ck_chan *chan)
{
	ck_socket_shutdown(chan);
	ck_pipe_wake(&chan->shm->in);
	ck_pipe_wake(&chan->shm->out);
}

void ck_shm_close(struct ck_chan *chan)
{
	if (chan->ops == &ck_transport_shm) {
		ck_pipe_wake(&chan->shm->in);
		ck_pipe_wake(&chan->shm->out);
	}
	shm_free(chan->shm);
}

static int shm_dial(const char *where, int timeout_ms, struct ck_chan **chans, unsigned int count)
{
	return ck_transport_unix.dial(where, timeout_ms, chans, count);
}

static int shm_listen(const char *where)
{
	(void)where;
	return -EINVAL; /* the unix socket's listener accepts these connections */
}

const struct ck_transport_ops ck_transport_shm = {
	.name = "shm",
	.dial = shm_dial,
	.listen = shm_listen,
	.writev = shm_writev,
	.read = shm_read,
	.take_fd = shm_take_fd,
	.pending = shm_pending,
	.shutdown = shm_shutdown,
	.close = ck_socket_close,
};
