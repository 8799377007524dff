/*
 * command/snapshot/named_server.h - the file that names the server to a program, and to each of its
 * copies (client/link/repair.h).
 */
#ifndef CK_COMMAND_SNAPSHOT_NAMED_SERVER_H
#define CK_COMMAND_SNAPSHOT_NAMED_SERVER_H

#include "command/config/config.h"

/* The TCP address and port of the server that the option @server, or else the usual order, means.
 * -errno, printed. */
int ckx_named_server_find(const char *server, char address[CKX_TEXT], int *port);

/* Write the file @path: @address and @words. -errno, printed. */
int ckx_named_server_write(const char *path, const char *address, const char *words);

#endif
