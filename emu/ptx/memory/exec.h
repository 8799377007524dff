/*
 * emu/ptx/memory/exec.h - a running grid: blocks, warps, lanes; shared by the executors' files.
 *
 * Lanes have pcs and frames of their own. A warp runs the group of lanes that share frame and pc,
 * deepest frame first and then lowest pc, so lanes that diverge meet again. Lanes that wait (at a
 * barrier, or for the members of a mask) are left out.
 */
#ifndef CK_EMU_PTX_MEMORY_EXEC_H
#define CK_EMU_PTX_MEMORY_EXEC_H

#include <string.h>

#include "emu/ptx/language/opcodes.h"
#include "util/util.h"

#define CK_PTX_BARRIERS 16
#define CK_PTX_SLICE 16384 /* instructions of a warp before another one runs */
#define CK_PTX_SPIN 256	   /* instructions that a failed attempt to take a lock counts for */
#define CK_PTX_RANGES 16

struct ck_ptx_team;  /* the threads that share the blocks: team.h */
struct ck_ptx_check; /* accesses of a block's threads to shared memory: check.h */

struct ck_ptx_run { /* one launch, as one thread has it */
	struct ck_ptx_team *team;
	const struct ck_ptx_module *module;
	const struct ck_ptx_kernel *kernel;
	const struct ck_ptx_grid *grid;
	const struct ck_ptx_host *host;
	const uint8_t *params;
	uint32_t shared_bytes, warps;	   /* of a block; static, dynamic and reserved */
	uint32_t user_shared;		   /* without the reserved part, which follows it */
	uint32_t cluster[3], cluster_size; /* blocks; 1 where none was asked for */
	uint64_t *workspace; /* of the grid-wide barrier; its address is in %envreg1, 2 */
	struct ck_ptx_span ranges[CK_PTX_RANGES];
	unsigned int range_count, range_next, range_last;
	/* the last texture [0] and surface [1] object asked for */
	uint64_t object[2];
	const struct ck_ptx_texture *texture[2];
};

/* Where the system's part of a block's shared memory begins, in the modules that use it. */
static inline uint32_t ck_ptx_reserved_begin(const struct ck_ptx_run *run)
{
	return CK_ALIGN_UP(run->user_shared, 16u);
}

struct ck_ptx_barrier {
	uint32_t expected;   /* threads; 0: all of the block */
	uint32_t waiting;    /* threads */
	uint32_t arrived;    /* threads that came by bar.arrive and went on */
	uint32_t votes, yes; /* of bar.red */
};

struct ck_ptx_block {
	struct ck_ptx_run *run;
	uint32_t id[3];
	uint8_t *shared;
	struct ck_ptx_warp *warps;
	uint32_t live; /* threads that have not exited */
	struct ck_ptx_cluster *cluster;
	uint32_t rank; /* in it */
	struct ck_ptx_barrier barriers[CK_PTX_BARRIERS];
	struct ck_ptx_check *check; /* NULL: nothing is looked for */
};

/* Blocks that run at the same time, on one thread, and reach each other's shared memory. */
struct ck_ptx_cluster {
	struct ck_ptx_run *run;
	struct ck_ptx_block *blocks; /* run->cluster_size, by rank */
	uint32_t id[3];
	uint32_t turns;		 /* slices since its start */
	uint32_t arrived, phase; /* of the cluster's barrier */
};

struct ck_ptx_warp {
	struct ck_ptx_block *block;
	uint64_t *rows;	 /* all frames */
	uint64_t *frame; /* of the running group */
	const uint64_t *pool;
	size_t room;	/* rows */
	uint8_t *local; /* CK_PTX_LANES pieces of local_bytes */
	uint32_t local_bytes;
	uint32_t index;			 /* in the block */
	uint32_t live, waiting, syncing; /* lanes: not exited; at a barrier; for a mask */
	uint32_t stale;			 /* lanes whose group used up its slice: others first */
	uint32_t pc[CK_PTX_LANES], fp[CK_PTX_LANES];
	uint32_t want[CK_PTX_LANES];	  /* member masks of the syncing */
	uint8_t at_barrier[CK_PTX_LANES]; /* CK_PTX_BARRIERS: the cluster's */
	uint32_t cluster_phase
		[CK_PTX_LANES]; /* in which the lane has arrived; CK_PTX_NONE: in none */
	/* the running group */
	uint32_t group, group_pc, group_fp;
	uint32_t budget;
	/* the last access that was refused: lane and address; CK_PTX_NONE: none yet */
	uint32_t fault_lane;
	uint64_t fault_address;
};

/* Rows of operands; only valid until frames move (a call). */
static inline uint64_t *ck_ptx_row(const struct ck_ptx_warp *w, int32_t row)
{
	if (likely(row >= 0))
		return w->frame + (size_t)row * CK_PTX_LANES;
	return (uint64_t *)(uintptr_t)(w->pool + (size_t)~row * CK_PTX_LANES);
}

/* The lanes that lane @l at the converging instruction @in waits for, itself among them. */
static inline uint32_t ck_ptx_members(const struct ck_ptx_warp *w, const struct ck_ptx_insn *in,
				      uint32_t l)
{
	if (in->mask_at == CK_PTX_WHOLE_WARP)
		return UINT32_MAX;
	return (uint32_t)ck_ptx_row(w, in->s[in->mask_at])[l] | 1u << l;
}

#define D(i) ck_ptx_row(w, in->d[i])
#define S(i) ((const uint64_t *)ck_ptx_row(w, in->s[i]))

/* A lane that polls memory should let those run that will change it. */
static inline void ck_ptx_spins(struct ck_ptx_warp *w)
{
	w->budget -= ck_min(w->budget, (uint32_t)CK_PTX_SPIN);
}

/* The statements once for each lane of @mask; a whole warp is a plain loop for the compiler. */
#define EACH_LANE(mask, l, ...)                                                                    \
	do {                                                                                       \
		if ((mask) == UINT32_MAX) {                                                        \
			for (uint32_t l = 0; l < CK_PTX_LANES; l++) {                              \
				__VA_ARGS__                                                        \
			}                                                                          \
		} else {                                                                           \
			for (uint32_t rest_ = (mask); rest_; rest_ &= rest_ - 1) {                 \
				const uint32_t l = (uint32_t)__builtin_ctz(rest_);                 \
				__VA_ARGS__                                                        \
			}                                                                          \
		}                                                                                  \
	} while (0)

#define EXECUTOR(name)                                                                             \
	static int name(struct ck_ptx_warp *w __attribute__((unused)),                             \
			const struct ck_ptx_insn *in __attribute__((unused)),                      \
			uint32_t mask __attribute__((unused)))

/* Values of a lane as floats. */
static inline float ck_ptx_f32(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float value;

	memcpy(&value, &low, sizeof(value));
	return value;
}

static inline uint64_t ck_ptx_u32(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double ck_ptx_f64(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline uint64_t ck_ptx_u64(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* Sign-, zero- or not extended to 64 bits, as a value of @type is when it is read. */
int64_t ck_ptx_signed(uint64_t bits, unsigned int type);
uint64_t ck_ptx_unsigned(uint64_t bits, unsigned int type);

/*
 * The memory of @size bytes at @address of @space for lane @l of @w, in *@at. CUDA_SUCCESS,
 * MISALIGNED_ADDRESS, ILLEGAL_ADDRESS. @size is a power of two and the alignment (mem.c).
 */
int ck_ptx_translate(struct ck_ptx_warp *w, uint32_t l, unsigned int space, uint64_t address,
		     uint32_t size, uint8_t **at);
/* The same, for an access of another kind than the opcode says: CK_PTX_TOUCH_ (check.h). */
int ck_ptx_translate_as(struct ck_ptx_warp *w, uint32_t l, unsigned int space, uint64_t address,
			uint32_t size, unsigned int touch, uint8_t **at);

/* Forget the host's answers: an allocation has gone. */
void ck_ptx_forget_ranges(struct ck_ptx_run *run);

#endif
