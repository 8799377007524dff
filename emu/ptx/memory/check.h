/*
 * emu/ptx/memory/check.h - find races and uninitialised reads in shared memory
 * (CRICKET_EMU=check=...).
 *
 * A shadow of a block's shared memory records the threads' accesses to each byte. Two accesses are
 * a race when at least one writes, not both are strong operations of PTX's memory model (volatile,
 * relaxed and the like, atomics), and no synchronisation orders them. A barrier of the whole block
 * begins a new epoch. Within one, vector clocks hold each thread's knowledge of the others: by
 * bar.warp.sync, named barriers, mbarriers, and by fences with strong operations.
 *
 * A block's state belongs to the thread that runs the block. block->check is NULL when it is off.
 */
#ifndef CK_EMU_PTX_MEMORY_CHECK_H
#define CK_EMU_PTX_MEMORY_CHECK_H

#include "emu/ptx/memory/exec.h"

enum {
	CK_PTX_TOUCH_READ = 1,
	CK_PTX_TOUCH_WRITE = 2,
	CK_PTX_TOUCH_STRONG = 4,
	CK_PTX_TOUCH_CHANGE = 7, /* an atomic operation */
	CK_PTX_TOUCH_ASYNC = 8,	 /* cp.async: done when its thread has waited */
	CK_PTX_TOUCH_AGENT = 16, /* bulk copies: done when their mbarrier reports it */
};

#define CK_PTX_FOREIGN UINT16_MAX /* as a stamp's thread: one of another block of the cluster */

/* One access. An epoch before the block's first one: there was none. */
struct ck_ptx_stamp {
	uint32_t epoch, time; /* of its thread; of a copy that is under way its group */
	uint32_t insn;
	uint16_t thread; /* of the block; their number: the one that makes bulk copies */
	uint8_t touch;
};

struct ck_ptx_byte { /* of shared memory */
	struct ck_ptx_stamp write, read[2];
};

/* Times of the threads that are known, in @epoch; in a later one they are known to all. */
struct ck_ptx_clock {
	uint32_t epoch;
	uint32_t *at;
};

struct ck_ptx_pending { /* a cp.async that has not been waited for */
	uint32_t offset, size, group;
};

struct ck_ptx_thread_check {
	struct ck_ptx_clock known;    /* ordered before the thread's next access */
	struct ck_ptx_clock released; /* known at its last fence */
	struct ck_ptx_clock seen;     /* read from others, to be known after the next fence */
	uint32_t time;
	uint32_t group; /* of cp.async, that is open */
	struct ck_ptx_pending *pending;
	uint32_t pending_count, pending_room;
};

struct ck_ptx_mbarrier_check {
	uint32_t offset;
	struct ck_ptx_clock now, done; /* who arrived in this phase; in those that are over */
};

#define CK_PTX_PLACES 256 /* addresses through which threads synchronise; others share */

struct ck_ptx_check {
	struct ck_ptx_block *block;
	unsigned int what;     /* CK_PTX_CHECK_ */
	uint32_t first, epoch; /* of the running block; now */
	uint32_t count;	       /* threads of a block */
	uint32_t agent_time;
	uint64_t instructions;	      /* of each lane, since it was made */
	const struct ck_ptx_insn *in; /* that is being carried out */
	struct ck_ptx_byte *bytes;
	struct ck_ptx_thread_check *threads;
	struct ck_ptx_clock barriers[CK_PTX_BARRIERS], scratch, places[CK_PTX_PLACES];
	struct ck_ptx_mbarrier_check *mbarriers;
	uint32_t mbarrier_count, mbarrier_room;
};

/* NULL when there is no memory for it. A block begins; it ends for good. */
struct ck_ptx_check *ck_ptx_check_create(struct ck_ptx_block *block, unsigned int what);
void ck_ptx_check_start(struct ck_ptx_check *check);
void ck_ptx_check_destroy(struct ck_ptx_check *check);

/* @in is about to be carried out for the lanes of @mask, which are together. */
void ck_ptx_check_insn(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask);
/* Lane @l touches @size bytes at @at, in any space. @touch: CK_PTX_TOUCH_, 0: as the opcode. */
void ck_ptx_check_touch(struct ck_ptx_warp *w, uint32_t l, const uint8_t *at, uint32_t size,
			unsigned int touch);

/* Lanes of @mask leave a bar.warp.sync. */
void ck_ptx_check_warp(struct ck_ptx_warp *w, uint32_t mask);
/*
 * Lane @l passes bar.arrive. Barrier @id releases its waiting threads. A barrier of the cluster
 * does.
 */
void ck_ptx_check_arrive(struct ck_ptx_warp *w, uint32_t l, unsigned int id);
void ck_ptx_check_barrier(struct ck_ptx_block *block, unsigned int id);
void ck_ptx_check_epoch(struct ck_ptx_check *check);
/* Lane @l has carried out mbarrier instruction @op at @word; @result: of a test; the phase @ended.
 */
void ck_ptx_check_mbarrier(struct ck_ptx_warp *w, uint32_t l, const void *word, unsigned int op,
			   bool result, bool ended);

/* Shared by check.c and check_order.c. */
bool ck_ptx_check_before(const struct ck_ptx_check *check, uint32_t thread,
			 const struct ck_ptx_stamp *stamp);
/* A strong access of @thread at @address releases, or acquires, knowledge. */
void ck_ptx_check_strong(struct ck_ptx_check *check, uint32_t thread, uint64_t address,
			 unsigned int touch);
void ck_ptx_check_pend(struct ck_ptx_check *check, uint32_t thread, uint32_t offset, uint32_t size);

/* Lines on stderr, one for each pair of instructions of a module (check_report.c). */
void ck_ptx_report_race(const struct ck_ptx_check *check, uint32_t thread, uint32_t offset,
			unsigned int touch, const struct ck_ptx_stamp *other);
void ck_ptx_report_init(const struct ck_ptx_check *check, const struct ck_ptx_warp *w, uint32_t l,
			uint32_t offset);
void ck_ptx_hazards_free(struct ck_ptx_module *module);

#endif
