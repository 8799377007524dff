/*
 * server/control/control_part.h - shared by control.c and control_sockets.c.
 */
#ifndef CK_SERVER_CONTROL_CONTROL_PART_H
#define CK_SERVER_CONTROL_CONTROL_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server/control/control.h"
#include "server/processes/sockets.h"

#define CK_REQUEST_MAX 4096

struct cks_connection {
	int fd; /* -1: free */
	unsigned int serial;
	bool waiting; /* its command will be answered later */
	bool limited; /* to the commands for users */
	uid_t user;   /* whose it is */
	int passed;   /* a descriptor that came with a command; -1: none */
	char in[CK_REQUEST_MAX];
	size_t in_size;
	char *out; /* the reply; NULL: sent */
	size_t out_size, out_at;
};

struct cks_control {
	struct cks_socket socket, status; /* status.fd < 0: none */
	unsigned int serial;
	struct cks_connection connections[CK_CONTROL_MAX];
};

/* Close the connection, which frees its place. */
void cks_control_drop(struct cks_connection *connection);

#endif
