/*
 * util/process/fd.h - whole reads and writes, flags of descriptors, and passing them to other
 * processes. Every call returns 0 or -errno unless it says otherwise; none raises SIGPIPE on a
 * socket.
 */
#ifndef CK_UTIL_PROCESS_FD_H
#define CK_UTIL_PROCESS_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Is @fd open, and of the file with this device and inode? */
bool ck_fd_is(int fd, dev_t dev, ino_t ino);

/*
 * Read exactly `size` bytes, waiting for them on a non-blocking descriptor too. -ENODATA: the
 * other end closed before the first byte; -ECONNRESET: it closed in the middle; -ETIMEDOUT: nothing
 * came within the limit of a socket that has one (SO_RCVTIMEO).
 */
int ck_fd_read_full(int fd, void *data, size_t size);

/* Read up to @size bytes, or to the end: a file may come in parts. The count, or -errno (-EAGAIN: a
 * non-blocking descriptor has no more yet). */
ssize_t ck_fd_read_most(int fd, void *data, size_t size);

/* Read exactly @size bytes of a file, from @at. -ENODATA: it ends before. */
int ck_fd_pread_full(int fd, void *data, size_t size, off_t at);

/* Write all of it, waiting for room on a non-blocking descriptor too. */
int ck_fd_write_full(int fd, const void *data, size_t size);

/*
 * Write @size bytes, at most a page, only if a pipe or socket has room for them now; to other
 * files, write as by write(2). The flags of the descriptor, which other processes may share, stay
 * as they are. The count, or -errno (-EAGAIN: no room). For signal handlers too; a pipe that has no
 * reader raises SIGPIPE.
 */
ssize_t ck_fd_write_now(int fd, const void *data, size_t size);

/* As ck_fd_write_full for `count` pieces, any number of them; the array is used up (changed) on the
 * way. */
int ck_fd_writev_full(int fd, struct iovec *iov, size_t count);

/* Can other hosts reach this listening socket? True if it is not known. */
bool ck_fd_exposed(int fd);

/* ftruncate(2) that raises no SIGXFSZ. -EFBIG: beyond the limit of the process (ulimit -f), which
 * holds for files in memory too. */
int ck_fd_resize(int fd, off_t size);

int ck_fd_set_cloexec(int fd, bool on);
int ck_fd_set_nonblock(int fd, bool on);

/* Send `size` (at least 1) bytes over a unix socket, with descriptor `fd` attached to them. */
int ck_fd_send(int sock, int fd, const void *data, size_t size);

/*
 * Receive exactly `size` bytes sent by ck_fd_send. *fd is the descriptor, close-on-exec and the
 * caller's to close, or -1 when none was attached. Errors as in ck_fd_read_full; then no
 * descriptor is left open.
 */
int ck_fd_recv(int sock, void *data, size_t size, int *fd);

#endif
