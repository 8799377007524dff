/*
 * rpc/transport/tls_context.c - the certificates that one end of TLS shows and trusts; see
 * rpc/tls.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "rpc/transport/tls.h"
#include "util/util.h"

#define ALPN "\6sunrpc" /* its length and its name, RFC 9289 section 5.1 */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

void ck_tls_reason(const char *what, char why[CK_TLS_WHY])
{
	unsigned long error = ERR_peek_last_error();
	const char *text = ERR_reason_error_string(error);

	if (!text && ERR_GET_LIB(error) == ERR_LIB_SYS)
		text = strerror(ERR_GET_REASON(error));
	snprintf(why, CK_TLS_WHY, "%s%s%s", what, *what ? ": " : "",
		 text ? text : "unknown reason");
}

/* Names are shown in logs and lists, and compared: no blanks, nothing that looks like another
 * letter. */
static bool is_name(const char *text, size_t size)
{
	if (size == 0 || size >= CK_TLS_NAME)
		return false;
	for (size_t i = 0; i < size; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("._@+-", text[i]))
			return false;
		if (!text[i])
			return false;
	}
	return true;
}

/* The common name of the subject, else the first name or mail address for which it was made. */
static const ASN1_STRING *owner_of(X509 *certificate, GENERAL_NAMES *others)
{
	X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	if (at >= 0)
		return X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
	for (int i = 0; i < sk_GENERAL_NAME_num(others); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(others, i);

		if (name->type == GEN_DNS || name->type == GEN_EMAIL)
			return name->d.ia5;
	}
	return NULL;
}

bool ck_tls_name_of(X509 *certificate, char name[CK_TLS_NAME])
{
	GENERAL_NAMES *others = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	const ASN1_STRING *text = owner_of(certificate, others);
	bool ok = text && is_name((const char *)ASN1_STRING_get0_data(text),
				  (size_t)ASN1_STRING_length(text));

	name[0] = '\0';
	if (ok)
		snprintf(name, CK_TLS_NAME, "%.*s", ASN1_STRING_length(text),
			 (const char *)ASN1_STRING_get0_data(text));
	GENERAL_NAMES_free(others);
	return ok;
}

static void print_day(const ASN1_TIME *time, char text[32])
{
	struct tm tm = {0};

	ASN1_TIME_to_tm(time, &tm);
	strftime(text, 32, "%Y-%m-%d %H:%M UTC", &tm);
}

/* For messages about it: a certificate that is not accepted cannot be had later. */
static void record_certificate(struct ck_tls_chan *t, X509 *certificate)
{
	char from[32] = "?", to[32] = "?";

	ck_tls_pin_of(certificate, t->seen);
	print_day(X509_get0_notBefore(certificate), from);
	print_day(X509_get0_notAfter(certificate), to);
	snprintf(t->dates, sizeof(t->dates), "%s and %s", from, to);
}

/* A client's check of the server's certificate, and a server's of a client's. */
static int verify_certificate(X509_STORE_CTX *store, void *closure)
{
	const struct ck_tls *tls = closure;
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct ck_tls_chan *t = SSL_get_app_data(ssl);
	char name[CK_TLS_NAME];

	record_certificate(t, X509_STORE_CTX_get0_cert(store));
	if (!tls->pins) {
		int ret = X509_verify_cert(store);

		if (ret <= 0 || !tls->server ||
		    ck_tls_name_of(X509_STORE_CTX_get0_cert(store), name))
			return ret;
	} else if (ck_tls_has_pin(tls->pins, t->seen)) {
		return 1;
	}
	X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size,
			   const unsigned char *in, unsigned int in_size, void *closure)
{
	(void)ssl;
	(void)closure;
	return SSL_select_next_proto((unsigned char **)(uintptr_t)out, size,
				     (const unsigned char *)ALPN, sizeof(ALPN) - 1, in,
				     in_size) == OPENSSL_NPN_NEGOTIATED
		       ? SSL_TLSEXT_ERR_OK
		       : SSL_TLSEXT_ERR_ALERT_FATAL;
}

int ck_tls_check_key(const char *path, char why[CK_TLS_WHY])
{
	struct stat st;

	if (stat(path, &st) < 0) {
		int ret = -errno;

		snprintf(why, CK_TLS_WHY, "%s: %s", path, strerror(-ret));
		return ret;
	}
	if (!(st.st_mode & 027))
		return 0;
	snprintf(why, CK_TLS_WHY,
		 "%s: other users can read this private key, or its group can change it: chmod 600 "
		 "%s",
		 path, path);
	return -EPERM;
}

static int refuse_file(const char *what, const char *path, char why[CK_TLS_WHY])
{
	char reason[CK_TLS_WHY - 200];
	unsigned long error = ERR_peek_last_error();
	const char *text = ERR_reason_error_string(error);

	snprintf(reason, sizeof(reason), "%s",
		 access(path, R_OK) < 0 ? strerror(errno)
		 : !text || ERR_GET_LIB(error) == ERR_LIB_PEM ||
				 ERR_GET_REASON(error) == ERR_R_PEM_LIB
			 ? "not in PEM form, or damaged"
			 : text);
	snprintf(why, CK_TLS_WHY, "%s %.120s: %s", what, path, reason);
	return -EINVAL;
}

static int load_own(SSL_CTX *context, const struct ck_tls_files *f, char why[CK_TLS_WHY])
{
	int ret;

	if (!f->cert && !f->key)
		return 0;
	if (!f->cert || !f->key) {
		snprintf(why, CK_TLS_WHY,
			 "a certificate and its key belong together: only the %s is given",
			 f->cert ? "certificate" : "key");
		return -EINVAL;
	}
	ret = ck_tls_check_key(f->key, why);
	if (ret < 0)
		return ret;
	if (SSL_CTX_use_certificate_chain_file(context, f->cert) != 1)
		return refuse_file("certificate", f->cert, why);
	if (SSL_CTX_use_PrivateKey_file(context, f->key, SSL_FILETYPE_PEM) != 1)
		return refuse_file("key", f->key, why);
	return 0;
}

/* The system's authorities: where OpenSSL was built to look, and where others keep them. */
static void trust_system(SSL_CTX *context)
{
	static const char *const usual[] = {"/etc/ssl/certs/ca-certificates.crt",
					    "/etc/pki/tls/certs/ca-bundle.crt"};

	SSL_CTX_set_default_verify_paths(context);
	for (size_t i = 0; i < CK_ARRAY_SIZE(usual); i++) {
		if (access(usual[i], R_OK) == 0 && SSL_CTX_load_verify_file(context, usual[i]) == 1)
			break;
	}
	ERR_clear_error();
}

static int load_authorities(struct ck_tls *tls, const struct ck_tls_files *f, char why[CK_TLS_WHY])
{
	if (!f->ca && !tls->server && !tls->pins)
		trust_system(tls->context);
	if (!f->ca)
		return 0;
	if (SSL_CTX_load_verify_file(tls->context, f->ca) != 1)
		return refuse_file("authorities", f->ca, why);
	if (tls->server) /* so that a client knows which of its certificates to show */
		SSL_CTX_set_client_CA_list(tls->context, SSL_load_client_CA_file(f->ca));
	return 0;
}

static int configure_context(struct ck_tls *tls, const struct ck_tls_files *f)
{
	SSL_CTX *c = tls->context;

	if (SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_ciphersuites(c, CIPHERS) != 1 || SSL_CTX_set_num_tickets(c, 0) != 1)
		return -ENOMEM;
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(c, SSL_OP_NO_TICKET);
	SSL_CTX_set_cert_verify_callback(c, verify_certificate, tls);
	if (!tls->server || f->ca)
		SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
	if (tls->server) {
		SSL_CTX_set_alpn_select_cb(c, choose_protocol, NULL);
		ck_tls_cookie_server(c);
	} else {
		ck_tls_secret_client(c);
	}
	if (!tls->server &&
	    SSL_CTX_set_alpn_protos(c, (const unsigned char *)ALPN, sizeof(ALPN) - 1) != 0)
		return -ENOMEM;
	return 0;
}

static int create_context(const struct ck_tls_files *f, bool server, struct ck_tls **out,
			  char why[CK_TLS_WHY])
{
	const uint64_t quiet = OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG;
	struct ck_tls *tls = calloc(1, sizeof(*tls));
	int ret = -ENOMEM;

	snprintf(why, CK_TLS_WHY, "out of memory");
	if (!tls || OPENSSL_init_ssl(quiet, NULL) != 1)
		goto out;
	tls->server = server;
	tls->pins = f->pin ? strdup(f->pin) : NULL;
	tls->method = ck_tls_method();
	tls->library = OSSL_LIB_CTX_new();
	if (tls->library)
		tls->context = SSL_CTX_new_ex(tls->library, NULL,
					      server ? TLS_server_method() : TLS_client_method());
	if (!tls->method || !tls->context || (f->pin && !tls->pins))
		goto out;
	ret = configure_context(tls, f);
	if (ret == 0)
		ret = load_own(tls->context, f, why);
	if (ret == 0)
		ret = load_authorities(tls, f, why);
out:
	ERR_clear_error();
	if (ret < 0)
		ck_tls_destroy(tls);
	else
		*out = tls;
	if (ret == 0)
		why[0] = '\0';
	return ret;
}

int ck_tls_create_client(const struct ck_tls_files *files, struct ck_tls **tls,
			 char why[CK_TLS_WHY])
{
	if (files->pin && !ck_tls_are_pins(files->pin)) {
		snprintf(
			why, CK_TLS_WHY,
			"CRICKET_TLS_PIN is not a pin (sha256: and 64 digits), or pins and commas: "
			"%.100s",
			files->pin);
		return -EINVAL;
	}
	return create_context(files, false, tls, why);
}

int ck_tls_create_bare(struct ck_tls **tls, char why[CK_TLS_WHY])
{
	const struct ck_tls_files none = {.cert = NULL};

	return create_context(&none, true, tls, why);
}

int ck_tls_create_server(const struct ck_tls_files *files, struct ck_tls **tls,
			 char why[CK_TLS_WHY])
{
	if (!files->cert || !files->key) {
		snprintf(why, CK_TLS_WHY, "a server needs a certificate and its key");
		return -EINVAL;
	}
	return create_context(files, true, tls, why);
}

void ck_tls_destroy(struct ck_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	OSSL_LIB_CTX_free(tls->library);
	BIO_meth_free(tls->method);
	ck_tls_secret_free(tls->secret);
	free(tls->pins);
	free(tls);
}

bool ck_tls_own_pin(const struct ck_tls *tls, char pin[CK_TLS_PIN])
{
	X509 *own = SSL_CTX_get0_certificate(tls->context);

	return own && ck_tls_pin_of(own, pin);
}

bool ck_tls_peer_pin(struct ck_chan *chan, char pin[CK_TLS_PIN])
{
	if (!ck_tls_is(chan))
		return false;
	memcpy(pin, ck_tls_chan_of(chan)->seen, CK_TLS_PIN);
	return pin[0] != '\0';
}
