/*
 * rpc/transport/tls_cookie.c - a server that is short of time has a client prove that it receives
 * what is sent to it; see ck_tls_ask in rpc/tls.h.
 *
 * The first answer is a HelloRetryRequest (RFC 8446, section 4.1.4) with a cookie, which costs this
 * end a small part of a handshake. A client that does not send it back has no more work done for
 * it. OpenSSL keeps nothing between the two, but the connection does: the cookie is of this
 * connection alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "rpc/transport/tls.h"
#include "util/hash.h"

static int make_cookie(SSL *ssl, unsigned char *cookie, size_t *size)
{
	const struct ck_tls_chan *t = SSL_get_app_data(ssl);

	memcpy(cookie, t->cookie, sizeof(t->cookie));
	*size = sizeof(t->cookie);
	return 1;
}

static int check_cookie(SSL *ssl, const unsigned char *cookie, size_t size)
{
	const struct ck_tls_chan *t = SSL_get_app_data(ssl);

	return size == sizeof(t->cookie) && ck_secret_equal(cookie, t->cookie, size);
}

void ck_tls_cookie_server(SSL_CTX *context)
{
	SSL_CTX_set_stateless_cookie_generate_cb(context, make_cookie);
	SSL_CTX_set_stateless_cookie_verify_cb(context, check_cookie);
}

int ck_tls_ask(struct ck_chan *chan)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);

	if (getrandom(t->cookie, sizeof(t->cookie), 0) != sizeof(t->cookie))
		return -EIO;
	t->proof = CK_TLS_PROOF_WANTED;
	return 0;
}

bool ck_tls_asks(struct ck_chan *chan)
{
	enum ck_tls_proof proof = ck_tls_chan_of(chan)->proof;

	return proof != CK_TLS_PROOF_NONE && proof != CK_TLS_PROOF_GIVEN;
}

/* A client may send this record before it answers, to look like TLS 1.2 (RFC 8446, section D.4).
 * OpenSSL makes it an error here. */
static void skip_cipher_change(struct ck_tls_chan *t)
{
	static const unsigned char change[] = {20, 3, 3, 0, 1, 1};

	if (t->proof != CK_TLS_PROOF_ASKED || t->in.to - t->in.from < sizeof(change) ||
	    memcmp(t->in.data + t->in.from, change, sizeof(change)) != 0)
		return;
	t->in.from += sizeof(change);
	t->proof = CK_TLS_PROOF_AWAITED;
}

/* OpenSSL begins anew with each call, so the first part of a message is read again with its
 * rest. */
int ck_tls_cookie_step(struct ck_tls_chan *t)
{
	size_t from;
	int n;

	skip_cipher_change(t);
	from = t->in.from;
	n = SSL_stateless(t->ssl);
	if (n == 1) {
		t->proof = CK_TLS_PROOF_GIVEN;
		return 0;
	}
	if (n == 0 && t->proof == CK_TLS_PROOF_WANTED) {
		t->proof = CK_TLS_PROOF_ASKED;
		return -EAGAIN;
	}
	if (n < 0 && SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_READ) {
		t->in.from = from;
		return t->in.to < t->in.room ? -EAGAIN : -EMSGSIZE;
	}
	return -EPROTO;
}
