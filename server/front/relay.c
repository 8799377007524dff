/*
 * server/front/relay.c - see handshakes.h.
 *
 * The main thread passes the client's bytes to the server; another one passes those of the server
 * to the client. The process ends when either has closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/front/handshakes.h"
#include "util/process/fd.h"

#define PIECE (256u << 10)
#define BUFFER (4 << 20) /* requested from the kernel */
#define LINGER_MS 1000	 /* for the client to take the last bytes */

struct relay {
	int plain;
	struct ck_chan *chan;
	atomic_int failed; /* -errno of a write to the client */
	unsigned char up[PIECE], down[PIECE];
};

/* The server's bytes, until it closes its end. */
static void *pass_down(void *closure)
{
	struct relay *r = closure;
	ssize_t n;

	while ((n = read(r->plain, r->down, sizeof(r->down))) != 0) {
		struct iovec iov = {r->down, (size_t)n};
		int ret;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		ret = ck_chan_writev(r->chan, &iov, 1);
		if (ret < 0) {
			atomic_store(&r->failed, ret);
			ck_chan_shutdown(r->chan);
			return NULL;
		}
	}
	ck_tls_end(r->chan);
	usleep(LINGER_MS * 1000); /* the other thread ends the process when the client has closed */
	_exit(0);
}

/* The client's bytes, until it closes its end. When the server has closed, they are dropped. */
static int pass_up(struct relay *r)
{
	bool open = true;
	long n;

	while ((n = ck_chan_read_some(r->chan, r->up, sizeof(r->up))) > 0) {
		if (open)
			open = ck_fd_write_full(r->plain, r->up, (size_t)n) == 0;
	}
	return atomic_load(&r->failed) ? atomic_load(&r->failed) : (int)n;
}

static int start_thread(pthread_t *thread, struct relay *r)
{
	pthread_attr_t attributes;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ret = -pthread_create(thread, &attributes, pass_down, r);
	pthread_attr_destroy(&attributes);
	return ret;
}

void cks_relay_run(struct ck_chan *chan, int plain)
{
	struct relay *r = malloc(sizeof(*r)); /* its buffers take no memory before they are used */
	pthread_t thread;
	int buffer = BUFFER;

	if (!r)
		_exit(1);
	r->plain = plain;
	r->chan = chan;
	atomic_init(&r->failed, 0);
	if (setsockopt(plain, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) < 0)
		setsockopt(plain, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	if (start_thread(&thread, r) < 0)
		_exit(1);
	if (pass_up(r) != -EPIPE)
		ck_relayed_break(plain, LINGER_MS);
	_exit(0);
}
