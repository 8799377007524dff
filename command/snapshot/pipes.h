/*
 * command/snapshot/pipes.h - pipes at descriptors 0 to 2 of a program and of its copies, and this
 * process, which passes on all bytes: CRIU opens them again by their paths in /proc, which would
 * set a file to its beginning, and is not possible for a socket.
 */
#ifndef CK_COMMAND_SNAPSHOT_PIPES_H
#define CK_COMMAND_SNAPSHOT_PIPES_H

#include <poll.h>
#include <stdbool.h>

#define CKX_PIPES 3

struct ckx_pipes {
	int ends[CKX_PIPES];   /* of this process; -1: closed */
	int others[CKX_PIPES]; /* of the program */
	bool takes;	       /* the program gets this process's input */
	bool full;	       /* it does not read: input waits */
};

/* -errno. */
int ckx_pipes_make(struct ckx_pipes *pipes, bool takes);
void ckx_pipes_close_others(struct ckx_pipes *pipes);
/* In a child that only passes the program's ends on: the program is to see the end of its input. */
void ckx_pipes_close_ends(struct ckx_pipes *pipes);

/* The descriptors to wait for; and the work after that. Never waits for the program. */
void ckx_pipes_poll(const struct ckx_pipes *pipes, struct pollfd fds[CKX_PIPES]);
void ckx_pipes_pass(struct ckx_pipes *pipes, const struct pollfd fds[CKX_PIPES]);

/* All processes of the program have ended: pass on the rest. */
void ckx_pipes_end(struct ckx_pipes *pipes);

#endif
