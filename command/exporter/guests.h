/*
 * command/exporter/guests.h - the connections of an HTTP daemon: how many one host has, for how
 * long, and pauses after wrong passwords. Those of a host cannot keep out the ones of others.
 *
 * An IPv4 address is a host, and so is a 64-bit network of IPv6, whose hosts can use any number of
 * addresses.
 */
#ifndef CK_COMMAND_EXPORTER_GUESTS_H
#define CK_COMMAND_EXPORTER_GUESTS_H

#include <stdbool.h>
#include <sys/socket.h>

struct MHD_Connection;

#define CKX_GUESTS 64	       /* at a time; when there are more, the oldest request is given up */
#define CKX_GUESTS_MOST 80     /* with those that are about to close */
#define CKX_GUESTS_OF_ONE 16   /* of a host */
#define CKX_GUEST_REQUEST_S 10 /* for a request and its reply, however slowly they arrive */
#define CKX_GUEST_PAUSE_MS 1000

struct ckx_guests;

/* NULL: no memory, or no thread. */
struct ckx_guests *ckx_guests_create(void);
/* The daemon ends: before that, continue with all connections that pause; none does from then
 * on. */
void ckx_guests_resume(struct ckx_guests *guests);
void ckx_guests_destroy(struct ckx_guests *guests);

/* May one more connection come from @address? */
bool ckx_guests_admit(struct ckx_guests *guests, const struct sockaddr *address, socklen_t size);

/* A connection has begun, has had a reply, and has ended; without effect on others than its own. */
void ckx_guests_begin(struct ckx_guests *guests, struct MHD_Connection *connection);
void ckx_guests_next(struct ckx_guests *guests, struct MHD_Connection *connection);
void ckx_guests_end(struct ckx_guests *guests, struct MHD_Connection *connection);

/* Its password is wrong: continue with it after a pause. False: there is none, because the daemon
 * ends. */
bool ckx_guests_pause(struct ckx_guests *guests, struct MHD_Connection *connection);

#endif
