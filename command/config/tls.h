/*
 * command/config/tls.h - a configuration file's settings of TLS with a server: the client's
 * variables, by shorter names.
 *
 *     tls = require                # CRICKET_TLS
 *     tls-pin = sha256:...         # CRICKET_TLS_PIN; several are separated by commas
 *     tls-ca = /etc/cricket/ca.pem
 *     tls-cert = /home/alice/alice.pem
 *     tls-key = /home/alice/alice.key
 */
#ifndef CK_COMMAND_CONFIG_TLS_H
#define CK_COMMAND_CONFIG_TLS_H

#include <stdbool.h>

#define CKX_TLS_TEXT 512 /* several pins */

enum ckx_tls_setting {
	CKX_TLS_MODE,
	CKX_TLS_PIN,
	CKX_TLS_CA,
	CKX_TLS_CERT,
	CKX_TLS_KEY,
	CKX_TLS_SETTINGS,
};

struct ckx_tls {
	char value[CKX_TLS_SETTINGS][CKX_TLS_TEXT]; /* empty: the file says nothing */
};

/* The place of the setting that a file calls @key, NULL: there is none. */
char *ckx_tls_find(struct ckx_tls *tls, const char *key);

/* The name of a setting in a file. */
const char *ckx_tls_key(enum ckx_tls_setting setting);

/* The variable of a setting, and its value; NULL: the file says nothing, or the variable is set,
 * which comes first. */
const char *ckx_tls_variable(enum ckx_tls_setting setting);
const char *ckx_tls_value(const struct ckx_tls *tls, enum ckx_tls_setting setting);

/* Does a file or a variable say whom to trust? */
bool ckx_tls_configured(const struct ckx_tls *tls);

/* Set the variables of this process. */
void ckx_tls_apply(const struct ckx_tls *tls);

#endif
