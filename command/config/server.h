/*
 * command/config/server.h - the server that a command is about.
 *
 * Its address is, in this order: that of the option; REMOTE_GPU_ADDRESS; the default of the
 * configuration files; none, which means the server of this host. The option, and the default, may
 * be a name of a configuration file.
 */
#ifndef CK_COMMAND_CONFIG_SERVER_H
#define CK_COMMAND_CONFIG_SERVER_H

#include <stdbool.h>

#include "command/config/config.h"
#include "command/config/token_store.h"

struct ckx_server {
	char name[CKX_TEXT];	/* in a configuration file; else empty */
	char address[CKX_TEXT]; /* empty: the server of this host */
	char others[CKX_TEXT];	/* addresses if this one has no session; see servers.h, CHOICES */
	char devices[CKX_TEXT]; /* empty: the file has none */
	/* empty: none. That of the variables, the file's, or the one of `cricket login` */
	char token[CKX_TOKEN];
	struct ckx_tls tls; /* of a configuration file */
	const char *origin; /* where the address is from, in words */
	const char *option; /* the same as a user writes it, before the address */
};

/* The name of the emulated GPU, which `cricket run` starts; a section of this name, or an address
 * with a port, is another server. */
#define CKX_EMULATED "emu"

/* Does @option (NULL: none) mean the emulated GPU? Neither 0 nor 1: -errno, printed. */
int ckx_server_is_emulated(const char *option);

/* @option: NULL, or the option's value. Errors are printed: -EINVAL and others. */
int ckx_server_find(const char *option, struct ckx_server *server);
/* The same without the token. */
int ckx_server_name(const char *option, struct ckx_server *server, char token_file[CKX_TEXT]);

/* Make the next one of the other addresses @server's. False: there is none. */
bool ckx_server_next(struct ckx_server *server);

/* For messages: name and address, or "this host". */
const char *ckx_server_text(const struct ckx_server *server, char out[2 * CKX_TEXT + 8]);

/* Print that no host has the name @host, which @server's address has: it may be a section's that is
 * misspelled. */
void ckx_server_unknown(const struct ckx_server *server, const char *host);

/* Is the address of @server one, or a list of them; and, with @look_up, is each host, DNS name or
 * file that it names known? -ENXIO, printed: no. */
int ckx_server_check(const struct ckx_server *server, bool look_up);

/* The same with @look_up, for a command that takes one server: its address loses devices. -E2BIG,
 * printed: there are several. */
int ckx_server_one(struct ckx_server *server);

#endif
