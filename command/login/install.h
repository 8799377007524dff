/*
 * command/login/install.h - the client of a server's release, fetched from the server and installed
 * for one user.
 */
#ifndef CK_COMMAND_LOGIN_INSTALL_H
#define CK_COMMAND_LOGIN_INSTALL_H

#include "command/config/server.h"

/*
 * Install it below @prefix, NULL: ~/.local: a folder of its own in lib/, to which lib/cricket leads
 * once all is there, and bin/cricket. Programs that run keep the client that they have. Errors are
 * printed: -EACCES: the server wants another token (not printed); other -errno.
 */
int ckx_install(const struct ckx_server *server, const char *prefix);

#endif
