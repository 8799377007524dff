/*
 * command/config/client_library.h - the client library in this process, for a command that does
 * what a program does.
 */
#ifndef CK_COMMAND_CONFIG_CLIENT_LIBRARY_H
#define CK_COMMAND_CONFIG_CLIENT_LIBRARY_H

#include <stddef.h>

#include "command/config/server.h"

/*
 * Load the library, which will connect to @server, and write pointers to its functions @names to
 * @functions, a structure of @count pointers. -ENOENT: there is no library, or it lacks one of
 * them; printed.
 */
int ckx_client_library_load(const struct ckx_server *server, const char *const names[],
			    size_t count, void *functions);

#endif
