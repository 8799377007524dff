/*
 * command/exporter/serve.h - the HTTP side: metrics, the web page and its data.
 */
#ifndef CK_COMMAND_EXPORTER_SERVE_H
#define CK_COMMAND_EXPORTER_SERVE_H

#include <stdbool.h>

#include "command/exporter/access.h"
#include "command/exporter/pem.h"

struct ckx_watch;
struct ckx_serve;

struct ckx_serve_options {
	bool identities; /* metrics of each identity too */
	bool loopback;	 /* @fd is reached from this host only: names in requests must be its own */
	struct ckx_access access;
	const char *log_file; /* of the server, to show its end; NULL: none */
};

/*
 * Answer requests at the listening socket @fd, which it takes, in a thread of its own; with @pem
 * over TLS. @options and @watch stay the caller's, and live longer. NULL, printed: it cannot.
 */
struct ckx_serve *ckx_serve_begin(int fd, const struct ckx_serve_options *options,
				  struct ckx_watch *watch, const struct ckx_pem *pem);
/* Go on with another certificate. Connections end. -EINVAL, printed: it cannot be used, and the old
 * one stays. */
int ckx_serve_renew(struct ckx_serve *serve, const struct ckx_pem *pem);
void ckx_serve_end(struct ckx_serve *serve);

#endif
