/*
 * rpc/chan.c - operations that all channels have, with any transport; see chan.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>

#include "rpc/chan.h"
#include "rpc/transport/transport.h"
#include "util/cancel.h"

#define MIN_RTT_AT 37 /* tcpi_min_rtt, in words of 4 bytes */

int ck_chan_writev(struct ck_chan *chan, struct iovec *iov, int count)
{
	int fd = chan->offer ? ck_private_fd_number(chan->offer) : -1;

	chan->offer = NULL;
	return chan->ops->writev(chan, iov, count, fd);
}

int ck_chan_lend(struct ck_chan *chan, struct iovec *iov, int count, int lent)
{
	return chan->ops->lend ? chan->ops->lend(chan, iov, count, lent, NULL)
			       : ck_chan_writev(chan, iov, count);
}

int ck_chan_lend_until(struct ck_chan *chan, struct iovec *iov, int count, int lent,
		       uint64_t *until)
{
	*until = 0;
	return chan->ops->lend ? chan->ops->lend(chan, iov, count, lent, until)
			       : ck_chan_writev(chan, iov, count);
}

void ck_chan_lend_pages(struct ck_chan *chan)
{
	chan->pages = true;
}

void ck_chan_reclaim(struct ck_chan *chan)
{
	if (chan->ops->reclaim)
		chan->ops->reclaim(chan, UINT64_MAX);
}

void ck_chan_reclaim_until(struct ck_chan *chan, uint64_t until)
{
	if (until > 0 && chan->ops->reclaim)
		chan->ops->reclaim(chan, until);
}

bool ck_chan_passes_fds(const struct ck_chan *chan)
{
	return chan->ops->take_fd;
}

int ck_chan_writev_fd(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	return chan->ops->take_fd ? chan->ops->writev(chan, iov, count, fd) : -EOPNOTSUPP;
}

int ck_chan_take_fd(struct ck_chan *chan)
{
	return chan->ops->take_fd ? chan->ops->take_fd(chan) : -EOPNOTSUPP;
}

int ck_chan_read(struct ck_chan *chan, void *buf, size_t size)
{
	unsigned char *next = buf;

	while (size > 0) {
		long n = chan->ops->read(chan, next, size, size);

		if (n < 0)
			return (int)n;
		next += n;
		size -= (size_t)n;
	}
	return 0;
}

long ck_chan_read_some(struct ck_chan *chan, void *buf, size_t size)
{
	return size == 0 ? -EINVAL : chan->ops->read(chan, buf, size, 1);
}

void ck_chan_spin(struct ck_chan *chan, unsigned int us)
{
	ck_spin_init(&chan->spin, us);
	if (chan->ops->spin)
		chan->ops->spin(chan, us);
}

size_t ck_chan_pending(struct ck_chan *chan)
{
	return chan->ops->pending ? chan->ops->pending(chan) : 0;
}

void ck_chan_on_quiet(struct ck_chan *chan, void (*quiet)(void *closure), void *closure)
{
	chan->quiet = quiet;
	chan->quiet_closure = closure;
	if (quiet && chan->ops->awake)
		chan->ops->awake(chan);
}

void ck_chan_timeout(struct ck_chan *chan, int ms)
{
	chan->timeout_ms = ms;
}

void ck_chan_shutdown(struct ck_chan *chan)
{
	/* set the flag before the wake-up, so that a woken thread sees it */
	atomic_store(&chan->down, true);
	chan->ops->shutdown(chan);
}

void ck_chan_close(struct ck_chan *chan)
{
	if (chan)
		chan->ops->close(chan);
}

int ck_chan_fd(struct ck_chan *chan)
{
	return ck_private_fd_number(&chan->kept);
}

bool ck_chan_fd_gone(struct ck_chan *chan)
{
	return ck_private_fd_gone(&chan->kept);
}

void ck_chan_forked(struct ck_chan *chan)
{
	ck_private_fd_close(&chan->kept);
}

bool ck_chan_peer_gone(struct ck_chan *chan)
{
	struct pollfd pfd = {.events = POLLRDHUP};
	int cancel;
	bool told;

	if (chan->ops->gone) /* its descriptor may change at any time */
		return chan->ops->gone(chan);
	pfd.fd = ck_private_fd_number(&chan->kept);
	if (pfd.fd < 0)
		return true;
	cancel = ck_cancel_disable();
	told = poll(&pfd, 1, 0) > 0;
	ck_cancel_restore(cancel);
	return told && (pfd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

uint32_t ck_chan_round_trip_us(struct ck_chan *chan)
{
	/* struct tcp_info with the fields of Linux 4.9 that the C library may lack */
	uint32_t words[MIN_RTT_AT + 1] = {0};
	socklen_t size = sizeof(words);

	if (getsockopt(ck_chan_fd(chan), IPPROTO_TCP, TCP_INFO, words, &size) < 0 ||
	    size < sizeof(words) || words[MIN_RTT_AT] == UINT32_MAX)
		return 0;
	return words[MIN_RTT_AT];
}

const char *ck_chan_peer(const struct ck_chan *chan)
{
	return chan->peer;
}
