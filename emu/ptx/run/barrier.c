/*
 * emu/ptx/run/barrier.c - barriers of a block.
 *
 * Threads arrive one by one: since compute capability 7.0 the lanes of a warp may come to a
 * barrier at different times and places. A barrier with a count counts whole warps.
 */
#include "emu/ptx/memory/check.h"
#include "emu/ptx/run/grid.h"

static uint32_t lanes_at(const struct ck_ptx_warp *w, unsigned int id)
{
	uint32_t lanes = 0;

	EACH_LANE(w->waiting, l, lanes |= (uint32_t)(w->at_barrier[l] == id) << l;);
	return lanes;
}

static bool is_complete(const struct ck_ptx_block *block, unsigned int id)
{
	const struct ck_ptx_barrier *b = &block->barriers[id];
	uint32_t threads = b->arrived;

	if (!b->expected)
		return b->waiting == block->live;
	for (uint32_t i = 0; i < block->run->warps; i++) {
		const struct ck_ptx_warp *w = &block->warps[i];
		uint32_t lanes = lanes_at(w, id);

		if (lanes && lanes == w->live)
			threads += CK_PTX_LANES;
		else
			threads += (uint32_t)__builtin_popcount(lanes);
	}
	return threads >= b->expected;
}

static uint32_t compute_vote_result(const struct ck_ptx_barrier *b, const struct ck_ptx_insn *in)
{
	switch (in->mod[CK_PTX_MOD_AOP]) {
	case CK_PTX_POPC:
		return b->yes;
	case CK_PTX_AND:
		return b->yes == b->votes;
	default:
		return b->yes != 0;
	}
}

static void release_barrier(struct ck_ptx_block *block, unsigned int id)
{
	struct ck_ptx_barrier *b = &block->barriers[id];

	if (unlikely(block->check != NULL))
		ck_ptx_check_barrier(block, id);
	for (uint32_t i = 0; i < block->run->warps; i++) {
		struct ck_ptx_warp *w = &block->warps[i];
		uint32_t lanes = lanes_at(w, id);

		EACH_LANE(lanes, l, {
			const struct ck_ptx_insn *in = &block->run->module->code[w->pc[l]];

			if (in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_RED)
				w->rows[((size_t)w->fp[l] + (size_t)in->d[0]) * CK_PTX_LANES + l] =
					compute_vote_result(b, in);
			w->pc[l]++;
		});
		w->waiting &= ~lanes;
	}
	memset(b, 0, sizeof(*b));
}

/*
 * The cluster's barrier: arriving and waiting are two instructions, and a thread that has waited
 * may arrive again before others have. A phase ends when all threads have arrived in it.
 */
static void cluster_check(struct ck_ptx_cluster *cluster)
{
	if (cluster->arrived == 0 || cluster->arrived < ck_ptx_cluster_live(cluster))
		return;
	cluster->arrived = 0;
	cluster->phase++;
	for (uint32_t b = 0; b < cluster->run->cluster_size; b++) {
		struct ck_ptx_block *block = &cluster->blocks[b];

		if (unlikely(block->check != NULL))
			ck_ptx_check_epoch(block->check);
		for (uint32_t i = 0; i < block->run->warps; i++) {
			struct ck_ptx_warp *w = &block->warps[i];
			uint32_t lanes = lanes_at(w, CK_PTX_BARRIERS);

			EACH_LANE(lanes, l, w->pc[l]++;);
			w->waiting &= ~lanes;
		}
	}
}

static void cluster_arrive(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	struct ck_ptx_cluster *cluster = w->block->cluster;

	EACH_LANE(mask, l, {
		if (in->op == CK_PTX_OP_CLUSTER_ARRIVE) {
			w->cluster_phase[l] = cluster->phase;
			cluster->arrived++;
		} else if (w->cluster_phase[l] == cluster->phase ||
			   w->cluster_phase[l] == CK_PTX_NONE) {
			w->waiting |= 1u << l;
			w->at_barrier[l] = CK_PTX_BARRIERS;
			w->pc[l] = w->group_pc;
		}
	});
	cluster_check(cluster);
}

void ck_ptx_barrier_check(struct ck_ptx_block *block)
{
	cluster_check(block->cluster);
	for (unsigned int id = 0; id < CK_PTX_BARRIERS; id++) {
		const struct ck_ptx_barrier *b = &block->barriers[id];

		/* it ends, and can be used again, also when all that came have gone on */
		if ((b->waiting || b->arrived) && is_complete(block, id))
			release_barrier(block, id);
	}
}

/* One lane is there: note it, and its vote. */
static void arrive_at_barrier(struct ck_ptx_warp *w, const struct ck_ptx_insn *in,
			      struct ck_ptx_barrier *b, unsigned int id, uint32_t l)
{
	if (in->vec)
		b->expected = (uint32_t)S(1)[l];
	if (in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_ARRIVE) {
		b->arrived++;
		if (unlikely(w->block->check != NULL))
			ck_ptx_check_arrive(w, l, id);
		return;
	}
	if (in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_RED) {
		b->votes++;
		b->yes += (uint32_t)(S(2)[l] & 1);
	}
	b->waiting++;
	w->waiting |= 1u << l;
	w->at_barrier[l] = (uint8_t)id;
	w->pc[l] = w->group_pc;
}

int ck_ptx_barrier_arrive(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const uint64_t *ids = S(0);
	struct ck_ptx_barrier *b = NULL;

	if (in->op == CK_PTX_OP_CLUSTER_ARRIVE || in->op == CK_PTX_OP_CLUSTER_WAIT) {
		cluster_arrive(w, in, mask);
		return 0;
	}

	EACH_LANE(mask, l, {
		uint32_t id = (uint32_t)ids[l];

		if (id >= CK_PTX_BARRIERS)
			return CUDA_ERROR_ILLEGAL_INSTRUCTION;
		b = &w->block->barriers[id];
		arrive_at_barrier(w, in, b, id, l);
	});
	/* The missing lanes of a warp that is not full count too. */
	if (b && in->mod[CK_PTX_MOD_SYNC] == CK_PTX_BAR_ARRIVE && mask == w->live)
		b->arrived += CK_PTX_LANES - (uint32_t)__builtin_popcount(mask);
	ck_ptx_barrier_check(w->block);
	return 0;
}
