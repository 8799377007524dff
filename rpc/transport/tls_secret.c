/*
 * rpc/transport/tls_secret.c - handshakes with the secret of a session in place of a certificate;
 * see rpc/tls.h.
 *
 * The secret is an external pre-shared key of TLS 1.3 (RFC 8446, section 4.2.11), only with an
 * ephemeral key exchange: by default, OpenSSL allows no other. Its identity has the
 * session's id and a number. The number rises, and the server takes each only once, so that a
 * recorded ClientHello costs no key exchange and no wait.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/crypto.h>

#include "rpc/transport/tls.h"
#include "util/hash.h"
#include "util/util.h"

#define MAGIC "cricket1"
#define NUMBER_SIZE 8
#define REMEMBERED 1024 /* numbers: more than connections that are opened at a time */

_Static_assert(sizeof(MAGIC) - 1 + 2 * (CK_TLS_SESSION + NUMBER_SIZE) == CK_TLS_IDENTITY, "all");

/* A pre-shared key belongs to a hash. A server that chose a cipher of another one would ignore
 * it. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

static const unsigned char cipher[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

struct ck_tls_secret {
	unsigned char session[CK_TLS_SESSION], bytes[CK_TLS_SECRET];
	pthread_mutex_t lock; /* of all below */
	uint64_t seen[REMEMBERED];
	size_t count;
	uint64_t floor; /* this number and all below are taken */
};

/* --- identities: MAGIC, the session's id and the number, in hexadecimal digits, so that programs
 * that take text can write them */

static void write_identity(const unsigned char session[CK_TLS_SESSION], uint64_t number,
			   char identity[CK_TLS_IDENTITY + 1])
{
	char *at = identity + snprintf(identity, sizeof(MAGIC), MAGIC);

	for (size_t i = 0; i < CK_TLS_SESSION; i++)
		at += snprintf(at, 3, "%02x", session[i]);
	snprintf(at, 2 * NUMBER_SIZE + 1, "%016" PRIx64, number);
}

static int digit_of(unsigned char letter)
{
	return letter >= '0' && letter <= '9'	? letter - '0'
	       : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
						: -1;
}

static bool read_bytes(const unsigned char *digits, unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int high = digit_of(digits[2 * i]), low = digit_of(digits[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

bool ck_tls_identity_parse(const unsigned char *identity, size_t size,
			   unsigned char session[CK_TLS_SESSION], uint64_t *number)
{
	unsigned char bytes[CK_TLS_SESSION + NUMBER_SIZE];
	uint64_t n = 0;

	if (size != CK_TLS_IDENTITY || memcmp(identity, MAGIC, sizeof(MAGIC) - 1) != 0 ||
	    !read_bytes(identity + sizeof(MAGIC) - 1, bytes, sizeof(bytes)))
		return false;
	memcpy(session, bytes, CK_TLS_SESSION);
	for (size_t i = CK_TLS_SESSION; i < sizeof(bytes); i++)
		n = n << 8 | bytes[i];
	if (number)
		*number = n;
	return true;
}

/* --- both ends */

/* The secret as OpenSSL takes it. NULL: no memory. */
static SSL_SESSION *make_key(SSL *ssl, const unsigned char secret[CK_TLS_SECRET])
{
	SSL_SESSION *key = SSL_SESSION_new();
	const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, cipher);

	if (key && suite && SSL_SESSION_set1_master_key(key, secret, CK_TLS_SECRET) == 1 &&
	    SSL_SESSION_set_cipher(key, suite) == 1 &&
	    SSL_SESSION_set_protocol_version(key, TLS1_3_VERSION) == 1)
		return key;
	SSL_SESSION_free(key);
	return NULL;
}

bool ck_tls_by_secret(struct ck_chan *chan)
{
	SSL *ssl = ck_tls_is(chan) ? ck_tls_chan_of(chan)->ssl : NULL;

	return ssl && SSL_is_init_finished(ssl) && SSL_session_reused(ssl);
}

/* --- the client's */

static int offer_secret(SSL *ssl, const EVP_MD *hash, const unsigned char **identity, size_t *size,
			SSL_SESSION **key)
{
	struct ck_tls_chan *t = SSL_get_app_data(ssl);

	*key = NULL;
	*identity = NULL;
	*size = 0;
	/* after a retry, the server has chosen a hash: without the secret if it is another one */
	if (!t->offers || (hash && !EVP_MD_is_a(hash, "SHA256")))
		return 1;
	*key = make_key(ssl, t->secret);
	*identity = (const unsigned char *)t->identity;
	*size = CK_TLS_IDENTITY;
	return *key != NULL;
}

void ck_tls_secret_client(SSL_CTX *context)
{
	SSL_CTX_set_psk_use_session_callback(context, offer_secret);
}

void ck_tls_offer(struct ck_chan *chan, const unsigned char session[CK_TLS_SESSION],
		  const unsigned char secret[CK_TLS_SECRET], uint64_t number)
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);

	write_identity(session, number, t->identity);
	memcpy(t->secret, secret, CK_TLS_SECRET);
	t->offers = true;
	SSL_clear_options(t->ssl, SSL_OP_CLEANSE_PLAINTEXT); /* none comes here */
}

void ck_tls_secret_done(struct ck_tls_chan *t)
{
	OPENSSL_cleanse(t->secret, sizeof(t->secret));
	t->offers = false;
}

/* --- the server's */

/* Is @number new? @takes: it is not any more. With the lock. */
static bool is_new(struct ck_tls_secret *s, uint64_t number, bool takes)
{
	size_t lowest = 0;

	if (number <= s->floor)
		return false;
	for (size_t i = 0; i < s->count; i++) {
		if (s->seen[i] == number)
			return false;
		if (s->seen[i] < s->seen[lowest])
			lowest = i;
	}
	if (!takes)
		return true;
	if (s->count < REMEMBERED) {
		s->seen[s->count++] = number;
		return true;
	}
	s->floor = ck_min(s->seen[lowest], number);
	s->seen[lowest] = ck_max(s->seen[lowest], number);
	return true;
}

static bool check_number(struct ck_tls_secret *s, uint64_t number, bool takes)
{
	bool ok;

	pthread_mutex_lock(&s->lock);
	ok = is_new(s, number, takes);
	pthread_mutex_unlock(&s->lock);
	return ok;
}

static int find_secret(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **key)
{
	struct ck_tls_chan *t = SSL_get_app_data(ssl);
	struct ck_tls_secret *s = t->tls->secret;
	unsigned char session[CK_TLS_SESSION];
	uint64_t number;

	*key = NULL;
	if (!ck_tls_identity_parse(identity, size, session, &number) ||
	    !ck_secret_equal(session, s->session, sizeof(session)))
		return 1; /* without a certificate, the handshake fails */
	/* a client that is asked to retry says it twice */
	if (t->taken ? number != t->number : !check_number(s, number, false))
		return 1;
	t->number = number;
	*key = make_key(ssl, s->bytes);
	return *key != NULL;
}

int ck_tls_secret_taken(struct ck_tls_chan *t)
{
	struct ck_tls_secret *s = t->tls->secret;

	if (!s || t->taken || !SSL_session_reused(t->ssl))
		return 0;
	t->taken = true;
	return check_number(s, t->number, true) ? 0 : -EACCES;
}

int ck_tls_create_session(const unsigned char session[CK_TLS_SESSION],
			  const unsigned char secret[CK_TLS_SECRET], struct ck_tls **tls,
			  char why[CK_TLS_WHY])
{
	struct ck_tls_secret *s = calloc(1, sizeof(*s));
	int ret = -ENOMEM;

	if (!s)
		return ret;
	memcpy(s->session, session, sizeof(s->session));
	memcpy(s->bytes, secret, sizeof(s->bytes));
	pthread_mutex_init(&s->lock, NULL);
	ret = ck_tls_create_bare(tls, why);
	if (ret < 0) {
		ck_tls_secret_free(s);
		return ret;
	}
	(*tls)->secret = s;
	SSL_CTX_set_psk_find_session_callback((*tls)->context, find_secret);
	if (SSL_CTX_set_ciphersuites((*tls)->context, CIPHERS) == 1)
		return 0;
	ck_tls_destroy(*tls);
	*tls = NULL;
	return -ENOMEM;
}

void ck_tls_secret_free(struct ck_tls_secret *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	OPENSSL_cleanse(s, sizeof(*s));
	free(s);
}
