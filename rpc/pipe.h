/*
 * rpc/pipe.h - bytes in one direction through memory that two processes share.
 *
 * One end writes, one end reads, neither trusts the other: an end keeps its own place to itself,
 * reads the other's once a look and checks it (-EPROTO), and copies bytes out before it looks at
 * them. Nothing here makes system calls but sleeping and waking.
 */
#ifndef CK_RPC_PIPE_H
#define CK_RPC_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the shared memory, zero at first. Each end writes lines of its own. */
struct ck_pipe_control {
	_Alignas(64) _Atomic uint64_t written;	/* bytes since the beginning, by the writer */
	_Alignas(64) _Atomic uint64_t taken;	/* by the reader */
	_Alignas(64) _Atomic uint32_t reader_sleeps; /* futexes: 1 while it does, or is about to */
	_Alignas(64) _Atomic uint32_t writer_sleeps;
};

/* One end. */
struct ck_pipe {
	struct ck_pipe_control *control;
	unsigned char *data; /* @size bytes, mapped twice, one behind the other: nothing wraps */
	size_t size;	     /* a power of two */
	uint64_t at;	     /* our place; the control's copy is for the other end alone */
	uint64_t other;	     /* the other end's place when we last looked */
};

/* For the end that reads: bytes that are there, or -EPROTO. */
long ck_pipe_filled(struct ck_pipe *pipe);

/* Copy @size bytes out, which ck_pipe_filled has told of, and give their room back. */
void ck_pipe_take(struct ck_pipe *pipe, void *to, size_t size);

/* For the end that writes: room, or -EPROTO. */
long ck_pipe_room(struct ck_pipe *pipe);

/* Copy @size bytes in, for which ck_pipe_room has told of room; the reader sees them only when
 * they are published, in one go. Publishing says whether it had to wake the reader. */
void ck_pipe_put(struct ck_pipe *pipe, const void *from, size_t size);
bool ck_pipe_publish(struct ck_pipe *pipe);

/* Sleep until the other end may have done something, at most @timeout_ms. 0 or -EPROTO. */
int ck_pipe_sleep_filled(struct ck_pipe *pipe, int timeout_ms);
int ck_pipe_sleep_room(struct ck_pipe *pipe, int timeout_ms);

/* Wake whoever sleeps on @pipe, in either process. */
void ck_pipe_wake(struct ck_pipe *pipe);

#endif
