/*
 * rpc/pipe.h - a byte pipe in one direction, in memory shared by two processes.
 *
 * One end writes, the other reads, and neither trusts the other. An end keeps a private copy of its
 * position, reads the other's position once per check and validates it (-EPROTO), and copies bytes
 * out before using them. Only sleeping and waking make system calls.
 */
#ifndef CK_RPC_PIPE_H
#define CK_RPC_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In shared memory, initially zero. Each end writes its own cache lines. */
struct ck_pipe_control {
	_Alignas(64) _Atomic uint64_t written; /* total bytes, updated by the writer */
	_Alignas(64) _Atomic uint64_t taken;   /* total bytes, updated by the reader */
	_Alignas(64) _Atomic uint32_t
		reader_sleeps; /* futexes: odd while it sleeps or is about to */
	_Alignas(64) _Atomic uint32_t writer_sleeps;
};

/* One end. */
struct ck_pipe {
	struct ck_pipe_control *control;
	unsigned char *data; /* @size bytes, mapped twice in a row, so that no access wraps */
	size_t size;	     /* a power of two */
	uint64_t at;	     /* this end's position; the copy in control is for the other end */
	uint64_t other;	     /* last known position of the other end */
};

/* For the reader: the bytes available, or -EPROTO. */
long ck_pipe_filled(struct ck_pipe *pipe);

/* Copy @size bytes out, at most the number from ck_pipe_filled, and free their room. */
void ck_pipe_take(struct ck_pipe *pipe, void *to, size_t size);

/* For the writer: the room available, or -EPROTO. */
long ck_pipe_room(struct ck_pipe *pipe);

/* Copy @size bytes in, at most the number from ck_pipe_room. The reader sees bytes only after
 * ck_pipe_publish, all at once. Publishing returns whether it woke the reader. */
void ck_pipe_put(struct ck_pipe *pipe, const void *from, size_t size);
bool ck_pipe_publish(struct ck_pipe *pipe);

/* Sleep until the other end may have acted, at most @timeout_ms. 0 or -EPROTO. */
int ck_pipe_sleep_filled(struct ck_pipe *pipe, int timeout_ms);
int ck_pipe_sleep_room(struct ck_pipe *pipe, int timeout_ms);

/* Wake all sleepers on @pipe, in both processes. */
void ck_pipe_wake(struct ck_pipe *pipe);

/*
 * For a reader of several threads, of which one sleeps while others look for bytes now and then.
 * ck_pipe_holds may be called by any of them: are there bytes? Arming asks the writer to wake the
 * sleeper with its next bytes; disarming, no longer to do so: somebody looks. Both take effect on a
 * sleeper too. To sleep: get the mark, check that nothing has come, and sleep with it. Any change
 * since the mark, or a wake-up, ends that.
 */
bool ck_pipe_holds(const struct ck_pipe *pipe);
void ck_pipe_arm(struct ck_pipe *pipe);
void ck_pipe_disarm(struct ck_pipe *pipe);
uint32_t ck_pipe_mark(const struct ck_pipe *pipe);
void ck_pipe_sleep_until(struct ck_pipe *pipe, uint32_t mark, int timeout_ms);

#endif
