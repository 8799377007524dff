/*
 * rpc/transport/tls.c - a channel that encrypts another one, its connection; see rpc/tls.h.
 *
 * OpenSSL reads and writes memory, and the connection moves the bytes: waiting, time limits and the
 * checks of a silent peer stay where they are. One thread reads and one writes at a time. Both use
 * one SSL object, under a lock that neither holds while it waits.
 *
 * The stream's end without a close_notify counts as its end: it comes when the peer's process is
 * killed. The layers above have a goodbye of their own, so a stream that an attacker cuts short is
 * a lost connection.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <openssl/err.h>

#include "rpc/transport/tls.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("rpc");

#define RECEIVED (64u << 10)	   /* room for received bytes */
#define SMALL (4u << 10)	   /* shorter pieces are put together */
#define REKEY (UINT64_C(64) << 30) /* far below the limit of AES-GCM, RFC 8446 section 5.5 */
#define CLOSE_MS 20

/* --- the connection */

static void pass_timeout(struct ck_tls_chan *t)
{
	if (t->inner->timeout_ms != t->base.timeout_ms)
		t->inner->timeout_ms = t->base.timeout_ms;
}

/* A signal handler that ends the process may have interrupted the thread that holds the lock; its
 * further writes have a time limit. */
static int lock_in_time(struct ck_tls_chan *t)
{
	int ms = t->base.timeout_ms;
	struct timespec until;

	if (ms <= 0)
		return -pthread_mutex_lock(&t->lock);
	until = ck_until((uint64_t)ms * CK_NS_PER_MS);
	return -ck_mutex_lock_until(&t->lock, &until);
}

int ck_tls_fetch(struct ck_tls_chan *t)
{
	struct ck_tls_bytes *in = &t->in;
	long n;
	int ret = lock_in_time(t);

	if (ret < 0)
		return ret;
	if (in->from == in->to) /* else they are read again (tls_cookie.c) */
		in->from = in->to = 0;
	pthread_mutex_unlock(&t->lock);
	pass_timeout(t);
	n = t->inner->ops->read(t->inner, in->data + in->to, in->room - in->to, 1);
	if (n < 0)
		return (int)n;
	ret = lock_in_time(t);
	if (ret < 0)
		return ret;
	in->to += (size_t)n;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

int ck_tls_flush(struct ck_tls_chan *t)
{
	struct ck_tls_bytes empty;
	struct iovec iov;
	int ret = lock_in_time(t);

	if (ret < 0)
		return ret;
	empty = t->sending;
	t->sending = t->out;
	t->out = empty;
	pthread_mutex_unlock(&t->lock);
	iov = (struct iovec){t->sending.data, t->sending.to};
	t->sending.to = 0;
	if (iov.iov_len == 0)
		return 0;
	pass_timeout(t);
	return t->inner->ops->writev(t->inner, &iov, 1, -1);
}

/* --- reading */

/* OpenSSL has refused the bytes that came, or ended. With the lock. */
static int read_failed(struct ck_tls_chan *t, int error)
{
	char why[CK_TLS_WHY];

	if (error == SSL_ERROR_ZERO_RETURN) {
		t->failed = -EPIPE;
	} else if (ERR_GET_REASON(ERR_peek_last_error()) > SSL_AD_REASON_OFFSET) {
		/* a client hears of its certificate after its own end of the handshake */
		ck_tls_reason("", why);
		ck_warn("%s ends TLS, for example because it does not accept this end's "
			"certificate: "
			"%s",
			t->base.peer, why);
		t->failed = -EACCES;
	} else {
		ck_tls_reason("", why);
		ck_warn("%s: the received data was changed in transit, or is not TLS (%s): the "
			"connection "
			"is "
			"closed",
			t->base.peer, why);
		t->failed = -EBADMSG;
	}
	ERR_clear_error();
	return t->failed;
}

/* Decrypt the bytes that have come; their number, or -errno. */
static long decrypt_bytes(struct ck_tls_chan *t, unsigned char *to, size_t size)
{
	size_t done = 0, n;
	int ret = t->failed;

	while (ret == 0 && done < size) {
		if (SSL_read_ex(t->ssl, to + done, size - done, &n) == 1) {
			done += n;
			continue;
		}
		ret = SSL_get_error(t->ssl, 0);
		if (ret == SSL_ERROR_WANT_READ)
			break;
		ret = read_failed(t, ret);
	}
	return ret < 0 && done == 0 ? ret : (long)done;
}

static long tls_read(struct ck_chan *chan, void *buf, size_t size, size_t least)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);
	size_t done = 0;

	while (!atomic_load_explicit(&chan->down, memory_order_relaxed)) {
		long n = lock_in_time(t);

		if (n == 0) {
			n = decrypt_bytes(t, (unsigned char *)buf + done, size - done);
			pthread_mutex_unlock(&t->lock);
		}
		if (n >= 0) {
			done += (size_t)n;
			if (done >= least)
				return (long)done;
			n = ck_tls_fetch(t);
		}
		if (n < 0)
			return done > 0 ? (long)done : n;
	}
	return -EPIPE;
}

/* --- writing */

/* Encrypt @size bytes, and send them. */
static int encrypt_and_send(struct ck_tls_chan *t, const unsigned char *data, size_t size)
{
	size_t n;
	int ret = lock_in_time(t);

	if (ret < 0)
		return ret;
	t->sent += size;
	if (t->sent >= t->rekey && SSL_key_update(t->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		t->sent = 0;
	ret = t->failed == -EBADMSG || t->failed == -EACCES ? t->failed : 0;
	if (ret == 0 && (SSL_write_ex(t->ssl, data, size, &n) != 1 || n != size)) {
		ERR_clear_error();
		ret = t->failed = -EBADMSG; /* no memory: the stream has a gap now */
	}
	pthread_mutex_unlock(&t->lock);
	return ret < 0 ? ret : ck_tls_flush(t);
}

/* Take up to @size bytes from the front of @iov, at @i. */
static size_t gather_iov(const struct iovec *iov, int count, int *i, size_t *at, unsigned char *to,
			 size_t size)
{
	size_t done = 0;

	while (*i < count && done < size) {
		size_t n = ck_min(iov[*i].iov_len - *at, size - done);

		if (n > 0)
			memcpy(to + done, (const unsigned char *)iov[*i].iov_base + *at, n);
		done += n;
		*at += n;
		if (*at == iov[*i].iov_len) {
			(*i)++;
			*at = 0;
		}
	}
	return done;
}

/* A head and the data behind it make one record. Long pieces are not copied. */
static int tls_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);
	size_t at = 0;
	int ret = 0;

	(void)fd; /* there is never one: the channel has no take_fd */
	for (int i = 0; i < count && ret == 0;) {
		size_t n = iov[i].iov_len - at;

		if (atomic_load_explicit(&chan->down, memory_order_relaxed))
			return -EPIPE;
		if (n < SMALL) {
			n = gather_iov(iov, count, &i, &at, t->small, CK_TLS_RECORD);
			if (n > 0)
				ret = encrypt_and_send(t, t->small, n);
			continue;
		}
		n = ck_min(n, (size_t)CK_TLS_PIECE);
		ret = encrypt_and_send(t, (const unsigned char *)iov[i].iov_base + at, n);
		at += n;
		if (at == iov[i].iov_len) {
			i++;
			at = 0;
		}
	}
	return ret;
}

/* --- the rest */

static size_t tls_pending(struct ck_chan *chan)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);
	size_t n = 0;

	if (pthread_mutex_trylock(&t->lock) ==
	    0) { /* else a thread reads or writes: lock_in_time */
		n = (size_t)SSL_pending(t->ssl) + t->in.to - t->in.from;
		pthread_mutex_unlock(&t->lock);
	}
	return n + ck_chan_pending(t->inner);
}

static void relay_quiet(void *closure)
{
	struct ck_tls_chan *t = closure;

	if (t->base.quiet)
		t->base.quiet(t->base.quiet_closure);
}

static void tls_awake(struct ck_chan *chan)
{
	ck_chan_on_quiet(ck_tls_chan_of(chan)->inner, relay_quiet, chan);
}

static void tls_spin(struct ck_chan *chan, unsigned int us)
{
	ck_chan_spin(ck_tls_chan_of(chan)->inner, us);
}

static void tls_shutdown(struct ck_chan *chan)
{
	ck_chan_shutdown(ck_tls_chan_of(chan)->inner);
}

static void say_goodbye(struct ck_tls_chan *t)
{
	if (t->failed || atomic_load(&t->base.down) || !SSL_is_init_finished(t->ssl) ||
	    ck_chan_peer_gone(t->inner))
		return;
	t->base.timeout_ms = CLOSE_MS;
	SSL_shutdown(t->ssl);
	ck_tls_flush(t);
	ERR_clear_error();
}

/* In a forked child the other process's threads may have held OpenSSL's locks: its object is left
 * alone. */
static void tls_close(struct ck_chan *chan)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);

	if (t->process == getpid()) {
		say_goodbye(t);
		SSL_free(t->ssl);
		pthread_mutex_destroy(&t->lock);
	}
	ck_chan_close(t->inner);
	free(t->in.data);
	free(t->out.data);
	free(t->sending.data);
	free(t->small);
	ck_tls_secret_done(t);
	free(t);
}

static const struct ck_transport_ops tls_ops = {
	.name = "tls",
	.writev = tls_writev,
	.read = tls_read,
	.pending = tls_pending,
	.awake = tls_awake,
	.spin = tls_spin,
	.shutdown = tls_shutdown,
	.close = tls_close,
};

bool ck_tls_is(const struct ck_chan *chan)
{
	return chan->ops == &tls_ops;
}

static int attach_ssl(struct ck_tls_chan *t)
{
	BIO *bio;

	t->in.data = malloc(RECEIVED);
	t->in.room = RECEIVED;
	t->small = malloc(CK_TLS_RECORD);
	t->ssl = SSL_new(t->tls->context);
	bio = BIO_new(t->tls->method);
	if (!t->in.data || !t->small || !t->ssl || !bio) {
		BIO_free(bio);
		return -ENOMEM;
	}
	BIO_set_data(bio, t);
	SSL_set_bio(t->ssl, bio, bio); /* it owns the BIO */
	SSL_set_app_data(t->ssl, t);
	if (t->tls->server)
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	if (!t->tls->server) /* the secret of a session may arrive */
		SSL_set_options(t->ssl, SSL_OP_CLEANSE_PLAINTEXT);
	return 0;
}

int ck_tls_open(struct ck_tls *tls, const char *host, struct ck_chan *connection,
		struct ck_chan **chan)
{
	struct ck_tls_chan *t = calloc(1, sizeof(*t));
	int ret;

	if (!t) {
		ck_chan_close(connection);
		return -ENOMEM;
	}
	t->base.ops = &tls_ops;
	ck_private_fd_share(&t->base.kept, &connection->kept);
	t->base.timeout_ms = connection->timeout_ms;
	atomic_init(&t->base.down, false);
	snprintf(t->base.peer, sizeof(t->base.peer), "%s", ck_chan_peer(connection));
	t->inner = connection;
	t->tls = tls;
	t->rekey = REKEY;
	t->process = getpid();
	pthread_mutex_init(&t->lock, NULL);
	ret = attach_ssl(t);
	if (ret == 0 && host)
		ret = ck_tls_expect(t, host);
	if (ret < 0)
		tls_close(&t->base);
	else
		*chan = &t->base;
	return ret;
}

void ck_tls_leave(struct ck_chan *chan)
{
	ck_tls_chan_of(chan)->failed = -EPIPE; /* so that it says no goodbye */
	ck_chan_close(chan);
}

void ck_tls_end(struct ck_chan *chan)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);

	if (lock_in_time(t) == 0) {
		SSL_shutdown(t->ssl);
		ERR_clear_error();
		pthread_mutex_unlock(&t->lock);
	}
	ck_tls_flush(t);
	shutdown(ck_chan_fd(t->inner), SHUT_WR);
}

void ck_tls_rekey_after(struct ck_chan *chan, uint64_t bytes)
{
	ck_tls_chan_of(chan)->rekey = bytes;
}
