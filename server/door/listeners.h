/*
 * server/door/listeners.h - the sockets at which clients connect.
 */
#ifndef CK_SERVER_DOOR_LISTENERS_H
#define CK_SERVER_DOOR_LISTENERS_H

#include <stdio.h>

#include "server/processes/sockets.h"

struct cks_options;

/* Open those that @options name. -errno, logged. */
int cks_listeners_open(struct cks_listeners *listeners, const struct cks_options *options);
/* May clients of other hosts connect to a server with @options? NULL: yes; else why not. */
const char *cks_listeners_exposure(const struct cks_options *options);
/* listeners_check.c: print into @out the addresses that cannot be opened, as wrong; those in use
 * are right. No file is made. 0 or -EINVAL. */
int cks_listeners_check(const struct cks_options *options, FILE *out);
/* Log at which addresses clients can connect. */
void cks_listeners_announce(const struct cks_listeners *listeners);
/* Those of @listeners were opened by a supervisor before this one: fill in the rest. */
void cks_listeners_resume(struct cks_listeners *listeners);
/* Close them, and remove the files of unix sockets. */
void cks_listeners_close(struct cks_listeners *listeners);
/* The path of the server's own unix socket; NULL: none. */
const char *cks_listeners_unix(const struct cks_listeners *listeners);

/* The address of @socket as text: HOST:PORT with numbers, the kernel's for port 0, or
 * unix:/PATH. */
#define CK_LISTENER_TEXT 128
void cks_listeners_address(const struct cks_socket *socket, char *text, size_t size);

/* --- why the server cannot listen at an address (address_in_use.c) */

#define CK_LISTEN_WHY 256

/* The reason of @error (-errno of ck_chan_listen) for @address. If a program listens there, it is
 * named as far as this process may see it. Returns @why. */
const char *cks_listen_error(const char *address, int error, char why[CK_LISTEN_WHY]);

#endif
