/*
 * server/checkpoint/socket_names.h - abstract unix sockets of a worker that is restored.
 *
 * NVIDIA's driver binds one in each process. A worker that moves to another server of its host is
 * restored while the process that it comes from exists: then the name is in use, and CRIU could not
 * bind it.
 */
#ifndef CK_SERVER_CHECKPOINT_SOCKET_NAMES_H
#define CK_SERVER_CHECKPOINT_SOCKET_NAMES_H

#include "server/checkpoint/failure_text.h"

/*
 * Change each name of an abstract socket in CRIU's images in folder @images that is in use in this
 * network namespace: the new one has other digits, and is not in use. 0, or -errno with @why:
 * -EADDRINUSE if a name has no digits.
 */
int cks_socket_names_free(const char *images, struct cks_why *why);

#endif
