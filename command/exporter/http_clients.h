/*
 * command/exporter/http_clients.h - the connections of an HTTP daemon: how many one host has, for
 * how long, and pauses after wrong passwords. Those of a host cannot keep out the ones of others.
 *
 * An IPv4 address is a host, and so is a 64-bit network of IPv6, whose hosts can use any number of
 * addresses.
 */
#ifndef CK_COMMAND_EXPORTER_HTTP_CLIENTS_H
#define CK_COMMAND_EXPORTER_HTTP_CLIENTS_H

#include <stdbool.h>
#include <sys/socket.h>

struct MHD_Connection;

#define CKX_GUESTS 64 /* at a time; when there are more, the oldest request is given up */
#define CKX_HTTP_CLIENTS_MOST 80   /* with those that are about to close */
#define CKX_HTTP_CLIENTS_OF_ONE 16 /* of a host */
#define CKX_GUEST_REQUEST_S 10	   /* for a request and its reply, however slowly they arrive */
#define CKX_GUEST_PAUSE_MS 1000

struct ckx_http_clients;

/* NULL: no memory, or no thread. */
struct ckx_http_clients *ckx_http_clients_create(void);
/* The daemon ends: before that, continue with all connections that pause; none does from then
 * on. */
void ckx_http_clients_resume(struct ckx_http_clients *guests);
void ckx_http_clients_destroy(struct ckx_http_clients *guests);

/* May one more connection come from @address? */
bool ckx_http_clients_admit(struct ckx_http_clients *guests, const struct sockaddr *address,
			    socklen_t size);

/* A connection has begun, has had a reply, and has ended; without effect on others than its own. */
void ckx_http_clients_begin(struct ckx_http_clients *guests, struct MHD_Connection *connection);
void ckx_http_clients_next(struct ckx_http_clients *guests, struct MHD_Connection *connection);
void ckx_http_clients_end(struct ckx_http_clients *guests, struct MHD_Connection *connection);

/* Its password is wrong: continue with it after a pause. False: there is none, because the daemon
 * ends. */
bool ckx_http_clients_pause(struct ckx_http_clients *guests, struct MHD_Connection *connection);

#endif
