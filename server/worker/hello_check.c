/*
 * server/worker/hello_check.c - see hello_check.h.
 */
#include <stdio.h>
#include <sys/socket.h>

#include "rpc/relayed.h"
#include "server/options/options.h"
#include "server/session/version.h"
#include "server/worker/hello_check.h"

/* How a client has come. */
enum way { LOCAL, PLAIN, ENCRYPTED };

static enum way way_of(int fd, struct ck_relayed *who)
{
	struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
	socklen_t size = sizeof(own);

	who->name[0] = '\0';
	if (ck_relayed_get(fd, who))
		return ENCRYPTED;
	return getsockname(fd, (struct sockaddr *)&own, &size) == 0 && own.ss_family == AF_UNIX
		       ? LOCAL
		       : PLAIN;
}

bool cks_hello_check_wants_tls(const struct cks_options *options, int fd)
{
	struct ck_relayed who;

	return options->tls_required && way_of(fd, &who) == PLAIN;
}

/* By certificate or token, as the server has them. */
static enum cks_refusal check_credentials(const struct cks_options *options,
					  struct cks_token *token, int fd,
					  const ck_hello_args *args, char why[CK_WHY_SIZE])
{
	struct ck_relayed who;
	enum way way = way_of(fd, &who);

	token->holder[0] = '\0';
	if (who.name[0])
		return CK_REFUSALS;
	if (options->tls_ca && !cks_token_wanted(options->token_file)) {
		snprintf(why, CK_WHY_SIZE,
			 "the server admits only clients with a certificate; set CRICKET_TLS_CERT "
			 "and CRICKET_TLS_KEY");
		return way == LOCAL ? CK_REFUSALS : CK_REFUSED_CERTIFICATE;
	}
	if (args->token.token_len > 0)
		snprintf(why, CK_WHY_SIZE,
			 "the token is not one of the server's tokens (revoked, expired or "
			 "mistyped?); to store another one, run: cricket login SERVER");
	else
		snprintf(why, CK_WHY_SIZE,
			 "the server admits only clients with its token%s; run cricket login "
			 "SERVER, or set CRICKET_TOKEN",
			 options->tls_ca ? ", or with a certificate" : "");
	return cks_token_admits(token, options->token_file, args->token.token_val,
				args->token.token_len)
		       ? CK_REFUSALS
		       : CK_REFUSED_TOKEN;
}

enum cks_refusal cks_hello_check(const struct cks_options *options, struct cks_token *token, int fd,
				 const ck_hello_args *args, char why[CK_WHY_SIZE])
{
	if (args->protocol != CK_PROTOCOL) {
		snprintf(why, CK_WHY_SIZE,
			 "client %.64s speaks protocol %u, server %s speaks %d; install the same "
			 "release on "
			 "both sides",
			 args->release, args->protocol, CK_RELEASE, CK_PROTOCOL);
		return CK_REFUSED_PROTOCOL;
	}
	if (cks_hello_check_wants_tls(options, fd)) {
		snprintf(why, CK_WHY_SIZE,
			 "the server admits only clients that use TLS; run cricket login SERVER, "
			 "or set CRICKET_TLS_PIN or CRICKET_TLS_CA");
		return CK_REFUSED_TLS;
	}
	return check_credentials(options, token, fd, args, why);
}

ck_hello_status cks_hello_check_status(enum cks_refusal kind)
{
	if (kind == CK_REFUSALS)
		return CK_HELLO_OK;
	return kind == CK_REFUSED_PROTOCOL ? CK_HELLO_PROTOCOL : CK_HELLO_DENIED;
}

/* The token identifies the client only if the server requires one: otherwise it may be made up. */
void cks_hello_check_identity(const struct cks_options *options, const struct cks_token *token,
			      const ck_hello_args *args, int fd, struct cks_identity *identity)
{
	const void *secret = cks_token_wanted(options->token_file) ? args->token.token_val : NULL;

	struct ck_relayed who;

	if (ck_relayed_get(fd, &who) && who.name[0])
		cks_identity_of_certificate(who.name, identity);
	else if (token->holder[0])
		cks_identity_of_holder(fd, token->holder, identity);
	else
		cks_identity_of(fd, secret, args->token.token_len, identity);
}
