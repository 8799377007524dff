/*
 * util/address/unixsock.h - addresses of unix sockets, connecting to one, and listening at one.
 *
 * The socket's file has mode 0600: access to the file is access to the GPU.
 */
#ifndef CK_UTIL_ADDRESS_UNIXSOCK_H
#define CK_UTIL_ADDRESS_UNIXSOCK_H

#include <sys/socket.h>
#include <sys/un.h>

#define CK_UNIX_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)

/*
 * The address of `path`: a file's, or @NAME for an abstract one (unix(7)). Its size, for
 * connect(2) and bind(2), or -EINVAL: empty, or longer than fits into an address.
 */
int ck_unix_address(const char *path, struct sockaddr_un *address);

/* A socket of `type` that is connected to the one at `path`; the caller closes it. -errno. */
int ck_unix_dial(const char *path, int type);

/*
 * A socket of `type` (SOCK_STREAM or SOCK_SEQPACKET; SOCK_NONBLOCK may be added) that listens at
 * `path`, in the place of a socket file that a dead process left. The caller closes it, and
 * unlinks the file. -EADDRINUSE: somebody listens there; -ENOTSOCK: it is another kind of file.
 */
int ck_unix_listen(const char *path, int type);

/* Could this process listen at `path` now? It makes no file. 0, or the error of ck_unix_listen. */
int ck_unix_check(const char *path, int type);

#endif
