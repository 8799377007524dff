/*
 * util/process/private_fds.h - descriptors that a library keeps in a program that does not know
 * them.
 *
 * Programs close descriptors that they did not open (daemons, closefrom(3)), and the next files
 * that they open get the same numbers. So a kept descriptor has a high number, which such files
 * seldom get, and its file is known by device and inode. Those are compared before the number is
 * used again: a number that is another file's by now is never written to, read, shut down or
 * closed.
 *
 * Between the call that makes a file and its move to the high number, another thread may close and
 * open descriptors. So a file must not stay at a low number while the client waits for anything.
 *
 * A check is a system call. ck_private_fd_recent saves it where the last one is only microseconds
 * old, which is less than a program takes to close and open descriptors.
 */
#ifndef CK_UTIL_PROCESS_PRIVATE_FDS_H
#define CK_UTIL_PROCESS_PRIVATE_FDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum ck_private_fd_mode {
	CK_KEPT_NONE,	 /* zero bytes are an object without a descriptor */
	CK_KEPT_PLAIN,	 /* never checked: the process knows all its descriptors */
	CK_KEPT_WATCHED, /* checked before use */
};

/* Threads may use an object at the same time, but not while it is closed. */
struct ck_private_fd {
	_Atomic(enum ck_private_fd_mode) mode;
	atomic_int fd;
	atomic_int
		spare; /* a second descriptor of the file, used when the first is gone; -1: none */
	_Atomic dev_t dev;
	_Atomic ino_t ino;
	_Atomic pid_t pid; /* the process, and when the kernel made it */
	_Atomic unsigned long long start;
	_Atomic uint64_t checked_ns;
};

/* Hold @fd as it is, without checks. */
void ck_private_fd_plain(struct ck_private_fd *k, int fd);

/* Hold @fd at its number, and check it. For a short time: it may be a low number. */
void ck_private_fd_note(struct ck_private_fd *k, int fd);

/*
 * Own @fd: move it to a high number if one is free, and check it from then on. @twice: keep a spare
 * too, unless descriptors are few, so that the file stays open when a program closes one number.
 * Files of eventfd(2), epoll(7) and the like all have one inode: do not keep them.
 */
void ck_private_fd_take(struct ck_private_fd *k, int fd, bool twice);

/* Make a memory file of @size bytes, seal its size, and own it as by ck_private_fd_take. -errno: @k
 * has none. */
int ck_private_fd_memory(struct ck_private_fd *k, const char *name, size_t size, bool twice);

/* The same file for another object, which closes it only in a forked child. */
void ck_private_fd_share(struct ck_private_fd *k, const struct ck_private_fd *of);

/* The descriptor, or -1: there is none, or the program has closed it. errno is kept. */
int ck_private_fd_number(struct ck_private_fd *k);

/* The same without a check, if the last one was within the last 20 us. */
int ck_private_fd_recent(struct ck_private_fd *k);

/* Has the program closed it? False if there is none. */
bool ck_private_fd_gone(struct ck_private_fd *k);

/* Close the descriptors that are still of this file. */
void ck_private_fd_close(struct ck_private_fd *k);

#endif
