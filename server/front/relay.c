/*
 * server/front/relay.c - see relay.h.
 *
 * The main thread makes the handshake and passes bytes to the server; another one passes those of the server to the client.
 * It waits from the start, so that the process ends when the supervisor gives the connection up. The time for the handshake
 * is limited as a whole: a peer may send it byte by byte.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "rpc/relayed.h"
#include "rpc/tls.h"
#include "server/front/relay.h"
#include "util/fd.h"
#include "util/sockaddr.h"
#include "util/util.h"

#define HANDSHAKE_S 10
#define PIECE (256u << 10)
#define BUFFER (4 << 20) /* requested from the kernel */
#define LINGER_MS 1000	 /* for the client to take the last bytes */

struct relay {
	int wire, plain, report;
	_Atomic(struct ck_chan *) chan; /* NULL: before the handshake */
	atomic_int failed;		/* -errno of a write to the client */
	unsigned char up[PIECE], down[PIECE];
};

/* The server's bytes, until it closes its end. */
static void *pass_down(void *closure)
{
	struct relay *r = closure;
	struct ck_chan *chan;
	ssize_t n;

	while ((n = read(r->plain, r->down, sizeof(r->down))) != 0) {
		struct iovec iov = {r->down, (size_t)n};
		int ret;

		if (n < 0 && errno == EINTR)
			continue;
		chan = atomic_load(&r->chan);
		if (n < 0 || !chan)
			break;
		ret = ck_chan_writev(chan, &iov, 1);
		if (ret < 0) {
			atomic_store(&r->failed, ret);
			ck_chan_shutdown(chan);
			return NULL;
		}
	}
	chan = atomic_load(&r->chan);
	if (!chan)
		_exit(0);
	ck_tls_end(chan);
	usleep(LINGER_MS * 1000); /* the other thread ends the process when the client has closed */
	_exit(0);
}

/* The client's bytes, until it closes its end. When the server has closed, they are dropped. */
static int pass_up(struct relay *r, struct ck_chan *chan)
{
	bool open = true;
	long n;

	while ((n = ck_chan_read_some(chan, r->up, sizeof(r->up))) > 0) {
		if (open)
			open = ck_fd_write_full(r->plain, r->up, (size_t)n) == 0;
	}
	return atomic_load(&r->failed) ? atomic_load(&r->failed) : (int)n;
}

static void tell(const struct relay *r, const char *peer, const char *why)
{
	char line[CK_TLS_WHY + 128];
	int n = snprintf(line, sizeof(line), "%s: %s", peer, why);

	send(r->report, line, (size_t)ck_min(n, (int)sizeof(line) - 1),
	     MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int start(pthread_t *thread, struct relay *r)
{
	pthread_attr_t attributes;
	int ret;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ret = -pthread_create(thread, &attributes, pass_down, r);
	pthread_attr_destroy(&attributes);
	return ret;
}

/* Over @wire, which it owns. @why: of a client that is refused. */
static int shake(struct relay *r, struct ck_tls *tls, struct ck_chan *wire, struct ck_chan **out,
		 char why[CK_TLS_WHY])
{
	unsigned char first;
	int ret = recv(r->wire, &first, 1, MSG_PEEK) == 1 ? 0 : -EPIPE;

	if (ret == 0 && first != CK_TLS_FIRST_BYTE)
		ret = ck_tls_take_probe(wire);
	if (ret < 0) {
		ck_chan_close(wire);
		return ret;
	}
	ret = ck_tls_open(tls, NULL, wire, out);
	if (ret < 0)
		return ret;
	ret = ck_tls_finish(*out, why);
	if (ret < 0)
		ck_chan_close(*out);
	return ret;
}

/* Say who the client is; the server must not hear from it before. */
static int name_client(struct relay *r, struct ck_chan *chan, char why[CK_TLS_WHY])
{
	struct ck_relayed who = {.peer.ss_family = AF_UNSPEC};
	int ret = ck_tls_peer_name(chan, who.name);

	if (ret < 0) {
		snprintf(why, CK_TLS_WHY,
			 "its certificate has no name that can be an identity (letters, digits and "
			 "._@+-, at most %d)",
			 CK_TLS_NAME - 1);
		return -EACCES;
	}
	ret = ck_sockaddr_peer(r->wire, &who.peer);
	if (ret < 0)
		return ret;
	return ck_relayed_set(r->plain, &who);
}

/* This process has the key in its memory. */
static void guard(void)
{
	const struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGALRM, SIG_DFL);
	alarm(HANDSHAKE_S);
}

void cks_relay_run(struct ck_tls *tls, int wire, int plain, int report)
{
	struct relay *r = malloc(sizeof(*r)); /* its buffers take no memory before they are used */
	char why[CK_TLS_WHY] = "", peer[160] = "?";
	struct ck_chan *connection, *chan;
	pthread_t thread;
	int buffer = BUFFER, ret;

	guard();
	if (!r || ck_chan_adopt(wire, &connection) < 0)
		_exit(1);
	r->wire = wire;
	r->plain = plain;
	r->report = report;
	atomic_init(&r->chan, NULL);
	atomic_init(&r->failed, 0);
	if (setsockopt(plain, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) < 0)
		setsockopt(plain, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	snprintf(peer, sizeof(peer), "%s", ck_chan_peer(connection));
	if (start(&thread, r) < 0)
		_exit(1);
	ret = shake(r, tls, connection, &chan, why);
	if (ret == 0)
		ret = name_client(r, chan, why);
	if (ret == -EACCES)
		tell(r, peer, why);
	if (ret < 0)
		_exit(0);
	alarm(0);
	atomic_store(&r->chan, chan);
	if (pass_up(r, chan) != -EPIPE)
		ck_relayed_break(plain, LINGER_MS);
	_exit(0);
}
