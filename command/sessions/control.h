/*
 * command/sessions/control.h - the status socket of a server on this host (docs/status.md).
 */
#ifndef CK_COMMAND_SESSIONS_CONTROL_H
#define CK_COMMAND_SESSIONS_CONTROL_H

#include <jansson.h>

struct ckx_local;

/* Connect to the socket of the server that the option @server, or else the usual order, names: to
 * no other one. The descriptor, or -errno, printed: -EREMOTE if it is not on this host. */
int ckx_control_open(const char *server);

/* The same, with the place of the socket. 0 or -errno, printed. */
int ckx_control_find(const char *server, struct ckx_local *local);

/* The same, printing nothing about the server. */
int ckx_control_reopen(const char *server);

/* Send @request, which it takes, and return the reply; NULL: there is none. */
json_t *ckx_control_try(int fd, json_t *request);

/* The same; NULL: there is none, or it is an error, printed. */
json_t *ckx_control_ask(int fd, json_t *request);

/* The same for a command that may take long: a terminal shows @what and @folder meanwhile, as
 * ckx_wait_show(). */
json_t *ckx_control_ask_long(int fd, json_t *request, const char *what, const char *folder);

#endif
