/*
 * command/login/trust.h - the key that a server must have: the one that the user names, that is
 * configured, or that the user confirms.
 */
#ifndef CK_COMMAND_LOGIN_TRUST_H
#define CK_COMMAND_LOGIN_TRUST_H

#include <stdbool.h>

#include "command/config/server.h"

/*
 * Let @server's settings of TLS say whom to trust. @pins: a list from the command line; empty: what
 * is configured; if that is nothing, the key that the server shows, if an authority of the system
 * has signed its certificate, or else if the user confirms it on the terminal. *@changed: the
 * settings are other ones than before. @text: the server, for messages. -EKEYREJECTED and others,
 * printed.
 */
int ckx_trust(struct ckx_server *server, const char *pins, const char *text, bool *changed);

#endif
