/*
 * command/login/login.h - the steps of `cricket login`.
 */
#ifndef CK_COMMAND_LOGIN_LOGIN_H
#define CK_COMMAND_LOGIN_LOGIN_H

#include <stdbool.h>

#include "command/config/server.h"

/* --- the key that a server must have (trust.c) */

/*
 * Let @server's settings of TLS say whom to trust. @pins: a list from the command line; empty: the
 * configured ones; if there are none, the key that the server shows, if an authority of the system
 * has signed its certificate, or else if the user confirms it on the terminal. *@changed: the
 * settings are other ones than before. @text: the server, for messages.
 * -EKEYREJECTED and others, printed.
 */
int ckx_trust(struct ckx_server *server, const char *pins, const char *text, bool *changed);

/* --- the client of a server's release, for one user (install.c) */

/*
 * Install it below @prefix, NULL: ~/.local: a folder of its own in lib/, to which lib/cricket leads
 * once all is there, and bin/cricket. Programs that run keep the client that they have. Errors are
 * printed: -EACCES: the server wants another token (not printed); other -errno.
 */
int ckx_install(const struct ckx_server *server, const char *prefix);

#endif
