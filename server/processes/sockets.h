/*
 * server/processes/sockets.h - the sockets at which the server listens.
 */
#ifndef CK_SERVER_PROCESSES_SOCKETS_H
#define CK_SERVER_PROCESSES_SOCKETS_H

#include <stddef.h>
#include <sys/stat.h>

#include "server/processes/options.h"

#define CK_LISTENERS (CK_LISTEN_MAX + 1) /* and the unix socket */

struct cks_socket {
	int fd;
	char path[108];	  /* of a unix socket, for removal; else empty */
	struct stat file; /* remove only this file */
};

struct cks_listeners {
	struct cks_socket list[CK_LISTENERS];
	size_t count;
};

#endif
