/*
 * cuda/client_store.h - functions that cricket-client.so exports for the command `cricket`: about
 * the store of uploads that a server keeps for this user. They connect as a program does.
 */
#ifndef CK_CUDA_CLIENT_STORE_H
#define CK_CUDA_CLIENT_STORE_H

#include <stdbool.h>
#include <stdint.h>

/* What was done with a file; in bytes. */
struct ck_store_report {
	uint64_t size;
	uint64_t stored; /* of them, the server had already */
	bool too_small;	 /* nothing was stored: programs' uploads of so few bytes are not */
};

struct ck_store_state {
	uint64_t count; /* of chunks */
	uint64_t bytes; /* that they occupy on the server's disk */
	uint64_t limit; /* of bytes; 0: the server keeps nothing */
};

/* Each returns 0 or -errno. -ENOTCONN: there is no session, and the client's log says why;
 * -EOPNOTSUPP: the server's release has no such store. */

/* Have the server keep the content of the file @path, and note its hashes for programs that upload
 * it. -EFBIG: it, or a chunk of it, is too large for the store; -ENOSPC: the server's disk is full;
 * -EAGAIN: the file was changed meanwhile; -EINVAL: it is no regular file. */
int cricket_store_put(const char *path, struct ck_store_report *report);
int cricket_store_read(struct ck_store_state *state);
int cricket_store_empty(void);

#endif
