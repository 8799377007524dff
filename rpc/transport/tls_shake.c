/*
 * rpc/transport/tls_shake.c - the probe, the handshake, and its result; see rpc/tls.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "rpc/fragments.h"
#include "rpc/record.h"
#include "rpc/transport/tls.h"
#include "util/util.h"

#define STARTTLS "STARTTLS"
#define PROBE_XID 0x544c5331
#define PROBE_BODY 40
#define ANSWER_MAX 512

/* --- the probe: a call of procedure 0 */

static int send_words(struct ck_chan *chan, uint32_t *words, size_t count)
{
	struct iovec iov = {words, count * sizeof(*words)};

	for (size_t i = 0; i < count; i++)
		words[i] = htonl(words[i]);
	return ck_chan_writev(chan, &iov, 1);
}

int ck_tls_probe(struct ck_chan *connection)
{
	uint32_t words[] = {CK_LAST_FRAGMENT | PROBE_BODY,
			    PROBE_XID,
			    CALL,
			    RPC_MSG_VERSION,
			    CK_PROGRAM,
			    CK_VERSION,
			    NULLPROC,
			    CK_AUTH_TLS,
			    0,
			    AUTH_NONE,
			    0};

	return send_words(connection, words, CK_ARRAY_SIZE(words));
}

int ck_tls_parse_answer(const unsigned char *body, size_t size)
{
	uint32_t words[5], low, high, xid;
	size_t results;
	int ret = ck_reply_decode(body, size, &xid, &results, &low, &high);

	if (ret == -EPROTO &&
	    size >= 12) { /* a server may deny a credential that it does not know */
		memcpy(words, body, 12);
		return ntohl(words[1]) == REPLY && ntohl(words[2]) == MSG_DENIED ? -EOPNOTSUPP
										 : ret;
	}
	if (ret < 0)
		return ret == -EPROTO ? ret : -EOPNOTSUPP;
	if (xid != PROBE_XID)
		return -EPROTO;
	memcpy(words, body, sizeof(words));
	if (ntohl(words[4]) != sizeof(STARTTLS) - 1 ||
	    memcmp(body + 20, STARTTLS, sizeof(STARTTLS) - 1) != 0)
		return -EOPNOTSUPP;
	return 0;
}

int ck_tls_probed(struct ck_chan *connection)
{
	struct ck_chan *plain =
		ck_tls_is(connection) ? ck_tls_chan_of(connection)->inner : connection;
	unsigned char body[ANSWER_MAX];
	size_t size;
	int ret = ck_fragments_read(plain, body, sizeof(body), &size);

	return ret < 0 ? ret : ck_tls_parse_answer(body, size);
}

void ck_tls_answer(uint32_t xid, unsigned char answer[CK_TLS_ANSWER])
{
	const uint32_t words[] = {CK_LAST_FRAGMENT | (CK_TLS_ANSWER - 4),
				  xid,
				  REPLY,
				  MSG_ACCEPTED,
				  AUTH_NONE,
				  sizeof(STARTTLS) - 1,
				  0, /* the verifier */
				  0,
				  SUCCESS};

	_Static_assert(sizeof(words) == CK_TLS_ANSWER, "all of it");
	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		uint32_t word = htonl(words[i]);

		memcpy(answer + i * sizeof(word), &word, sizeof(word));
	}
	memcpy(answer + 6 * sizeof(uint32_t), STARTTLS, sizeof(STARTTLS) - 1);
}

/* --- the handshake */

int ck_tls_expect(struct ck_tls_chan *t, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
	unsigned char address[16];
	bool numeric =
		inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
	int ok;

	if (t->tls->pins)
		return 0;
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	ok = numeric ? X509_VERIFY_PARAM_set1_ip_asc(param, host)
		     : X509_VERIFY_PARAM_set1_host(param, host, 0) &&
			       SSL_set_tlsext_host_name(t->ssl, host);
	snprintf(t->host, sizeof(t->host), "%s", host);
	return ok ? 0 : -EINVAL;
}

/* Why the server's certificate was not accepted. */
static void explain_certificate(const struct ck_tls_chan *t, char why[CK_TLS_WHY])
{
	long error = SSL_get_verify_result(t->ssl);

	switch (error) {
	case X509_V_ERR_APPLICATION_VERIFICATION:
		snprintf(why, CK_TLS_WHY,
			 "the server's key is not that of the given pin "
			 "(CRICKET_TLS_PIN, tls-pin): its pin is %s",
			 t->seen);
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(why, CK_TLS_WHY, "the server's certificate %s: it is valid between %s",
			 error == X509_V_ERR_CERT_HAS_EXPIRED ? "has expired" : "is not valid yet",
			 t->dates);
		break;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		snprintf(why, CK_TLS_WHY, "the server's certificate is not for the name \"%s\"",
			 t->host);
		break;
	default:
		snprintf(why, CK_TLS_WHY,
			 "no authority that this client trusts has signed the server's certificate "
			 "(%s): set CRICKET_TLS_CA, or, if its administrator confirms this pin, "
			 "CRICKET_TLS_PIN=%s",
			 X509_verify_cert_error_string(error), t->seen);
	}
}

static int shake_failed(struct ck_tls_chan *t)
{
	unsigned long error = ERR_peek_last_error();

	if (t->seen[0] && SSL_get_verify_result(t->ssl) != X509_V_OK && !t->tls->server)
		explain_certificate(t, t->why);
	else if (ERR_GET_REASON(error) == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED)
		snprintf(t->why, sizeof(t->why),
			 "the server admits only clients with a certificate: set CRICKET_TLS_CERT "
			 "and CRICKET_TLS_KEY");
	else if (SSL_get_verify_result(t->ssl) == X509_V_ERR_APPLICATION_VERIFICATION)
		snprintf(t->why, sizeof(t->why),
			 "the client's certificate has no name that can be an identity (letters, "
			 "digits and ._@+-, at most %d)",
			 CK_TLS_NAME - 1);
	else if (t->seen[0] && SSL_get_verify_result(t->ssl) != X509_V_OK)
		snprintf(t->why, sizeof(t->why), "the client's certificate: %s",
			 X509_verify_cert_error_string(SSL_get_verify_result(t->ssl)));
	else
		ck_tls_reason("the handshake", t->why);
	ERR_clear_error();
	ck_tls_flush(t); /* the alert says why */
	return -EACCES;
}

/* One step: 0: done; -EAGAIN: the peer's turn; else -errno. */
static int step_handshake(struct ck_tls_chan *t)
{
	int n = SSL_do_handshake(t->ssl), ret;

	if (n != 1 && SSL_get_error(t->ssl, n) != SSL_ERROR_WANT_READ)
		return shake_failed(t);
	ret = ck_tls_secret_taken(t);
	if (ret < 0) {
		snprintf(t->why, sizeof(t->why), "this ClientHello was used before");
		return ret;
	}
	ret = ck_tls_flush(t);
	if (n == 1)
		ck_tls_secret_done(t);
	return ret < 0 ? ret : n == 1 ? 0 : -EAGAIN;
}

/* Explain the result of a step. */
static int explain_result(const struct ck_tls_chan *t, int ret, char why[CK_TLS_WHY])
{
	snprintf(why, CK_TLS_WHY, "%s", ret == -EACCES ? t->why : ret < 0 ? strerror(-ret) : "");
	return ret;
}

int ck_tls_begin(struct ck_chan *chan, char why[CK_TLS_WHY])
{
	int ret = step_handshake(ck_tls_chan_of(chan));

	return explain_result(ck_tls_chan_of(chan), ret == -EAGAIN ? 0 : ret, why);
}

/* A peer that speaks another protocol on the same key must not be talked into this one. */
static int check_protocol(struct ck_tls_chan *t)
{
	const unsigned char *name;
	unsigned int size;

	SSL_get0_alpn_selected(t->ssl, &name, &size);
	if (size == 6 && memcmp(name, "sunrpc", 6) == 0)
		return 0;
	snprintf(t->why, sizeof(t->why), "the peer speaks TLS, but not for this protocol (ALPN)");
	return -EACCES;
}

/* 0: the client may go on. */
static int check_proof(struct ck_tls_chan *t)
{
	int ret = ck_tls_asks(&t->base) ? ck_tls_cookie_step(t) : 0, sent;

	if (ret == -EPROTO)
		return shake_failed(t);
	sent = ret == -EAGAIN ? ck_tls_flush(t) : 0;
	return sent < 0 ? sent : ret;
}

int ck_tls_step(struct ck_chan *chan, char why[CK_TLS_WHY])
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);
	int ret = ck_tls_fetch(t);

	if (ret == 0)
		ret = check_proof(t);
	if (ret == 0)
		ret = step_handshake(t);
	if (ret == 0)
		ret = check_protocol(t);
	return explain_result(t, ret, why);
}

int ck_tls_finish(struct ck_chan *chan, char why[CK_TLS_WHY])
{
	struct ck_tls_chan *t = ck_tls_chan_of(chan);
	int ret = step_handshake(t);

	while (ret == -EAGAIN) {
		ret = ck_tls_fetch(t);
		if (ret == 0)
			ret = step_handshake(t);
	}
	if (ret == 0)
		ret = check_protocol(t);
	return explain_result(t, ret, why);
}

/* --- afterwards */

bool ck_tls_distrusts(struct ck_chan *chan)
{
	return SSL_get_verify_result(ck_tls_chan_of(chan)->ssl) != X509_V_OK;
}

int ck_tls_peer_name(struct ck_chan *chan, char name[CK_TLS_NAME])
{
	X509 *certificate = SSL_get0_peer_certificate(ck_tls_chan_of(chan)->ssl);

	name[0] = '\0';
	return !certificate || ck_tls_name_of(certificate, name) ? 0 : -EINVAL;
}

bool ck_tls_describe(struct ck_chan *chan, char *text, size_t size)
{
	const SSL *ssl;

	if (!ck_tls_is(chan))
		return false;
	ssl = ck_tls_chan_of(chan)->ssl;
	snprintf(text, size, "%s, %s", SSL_get_version(ssl), SSL_get_cipher_name(ssl));
	return true;
}
