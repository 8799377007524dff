/*
 * client/memory/arena.h - device memory that the client lays out by itself.
 *
 * Each device has a heap in addresses that are reserved on both sides. The server leases memory to
 * the session in advance; allocations are cut from it without a message. Only an allocation beyond
 * the lease waits. So out-of-memory is reported by the call that meets it, as natively.
 *
 * Freed memory stays leased. Before it is used again, the work that used it must be over: the
 * client knows that from a synchronise, or has the server wait in the command stream.
 */
#ifndef CK_CLIENT_MEMORY_ARENA_H
#define CK_CLIENT_MEMORY_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "client/memory/heap.h"
#include "client/memory/state.h"
#include "client/link/client.h"

/*
 * Allocate @size bytes of @device for @user. OUT_OF_MEMORY; NOT_SUPPORTED: the arena is off or
 * full, so the server is to be asked for memory of the driver's choice.
 */
CUresult ckc_arena_take(CUdevice device, size_t size, const struct ckc_user *user, uint64_t *at);

/* Free it after the last use by @user; @a is no longer in the table of known memory. */
void ckc_arena_give(const struct ckc_allocation *a, const struct ckc_user *user);

/* Return free memory of @device to the server, also memory that is on its way in advance. @wait:
 * also if work that uses it ends soon. */
void ckc_arena_shed(CUdevice device, uint64_t ctx, bool wait);

/* Bytes of the server's device @ordinal that session @c has and the program has not taken. Waits
 * for memory that is being asked for in advance: the server counts it already. */
size_t ckc_arena_idle(struct ckc_client *c, unsigned int ordinal);

/* --- for arena.c and arena_lease.c; call with the lock held */

/* For work that uses freed memory. */
#define CKC_QUIET_NS ((uint64_t)1000000000)
/* Could work wait for a command that follows? Copies and fills do not. */
bool ckc_arena_may_be_held(void);
/* For how long an allocation waits for running work, if it would otherwise fail. */
uint64_t ckc_arena_patience(void);
/*
 * Does the server find that the work in @stream, or all work, is over, or that it ends within
 * @time? Work that waits for what the program submits next does not, so the wait has pieces,
 * between which other threads' commands are carried out. @context: any, for all work.
 */
bool ckc_arena_await_quiet(struct ckc_arena_device *device, uint64_t context, uint64_t stream,
			   bool all, uint64_t time);
/* Return runs of free chunks, and free blocks, as long as more than @keep bytes are free; those
 * that work may still use if it ends within @time. False: there are none. */
bool ckc_arena_return(struct ckc_arena_device *device, size_t keep, uint64_t time);
/* Return one such run or block: @over: whose use is over. Else the server waits for all work before
 * it unmaps. False: there is none. */
bool ckc_arena_return_one(struct ckc_heap *heap, bool over);
/* Return all free memory of the session; the server's offer stays with it. */
bool ckc_arena_return_all(struct ckc_client *c);
/* End the uses of freed memory that a synchronise has covered. */
void ckc_arena_end_uses(struct ckc_heap *heap);
void ckc_arena_end_all_uses(struct ckc_heap *heap);
/*
 * A lease that is on its way is nowhere free: not in the heap, and no longer on the server. Wait
 * until none is that has more than its thread takes, or until @until if it is not NULL. True: one
 * was; also one that was refused has held memory for a moment.
 */
bool ckc_arena_await(struct ckc_arena *arena, const struct ckc_arena_device *device,
		     const struct timespec *until);
/* Soon have the server tell this session when another one needs memory. */
void ckc_arena_watch(struct ckc_client *c);
/* After an allocation: ask for more memory in advance, if little is left. */
void ckc_arena_request_more(struct ckc_client *c, CUdevice device);

/* --- the same, without the lock */

/* Do other sessions return @size bytes, or some of them? */
bool ckc_arena_press(uint64_t ctx, size_t size);

#endif
