/*
 * emu/ptx/memory/mem.c - addresses of a kernel to memory of this process, checked.
 */
#include "emu/ptx/memory/check.h"

void ck_ptx_forget_ranges(struct ck_ptx_run *run)
{
	run->range_count = run->range_next = run->range_last = 0;
	/* the last one is checked for any count */
	run->ranges[0] = (struct ck_ptx_span){0};
}

static void range_keep(struct ck_ptx_run *run, uint64_t lo, uint64_t hi)
{
	run->range_last = run->range_next;
	run->ranges[run->range_next] = (struct ck_ptx_span){lo, hi};
	run->range_next = (run->range_next + 1) % CK_PTX_RANGES;
	if (run->range_count < CK_PTX_RANGES)
		run->range_count++;
}

/* The module's variable that holds @address. */
static const struct ck_ptx_span *span_find(const struct ck_ptx_module *m, uint64_t address)
{
	uint32_t lo = 0, hi = m->span_count;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (address >= m->spans[mid].hi)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->span_count && address >= m->spans[lo].lo ? &m->spans[lo] : NULL;
}

static bool in_range(const struct ck_ptx_span *span, uint64_t address, uint32_t size)
{
	return address >= span->lo && ck_ptx_fits(address - span->lo, size, span->hi - span->lo);
}

static bool global_slow(struct ck_ptx_run *run, uint64_t address, uint32_t size)
{
	const struct ck_ptx_span *span;
	uint64_t lo, hi, workspace = (uint64_t)(uintptr_t)run->workspace;

	for (unsigned int i = 0; i < run->range_count; i++) {
		if (in_range(&run->ranges[i], address, size)) {
			run->range_last = i;
			return true;
		}
	}
	if (run->host->range && run->host->range(run->host->opaque, address, &lo, &hi) == 0 &&
	    ck_ptx_fits(address - lo, size, hi - lo)) {
		range_keep(run, lo, hi);
		return true;
	}
	span = span_find(run->module, address);
	if (span && in_range(span, address, size)) {
		range_keep(run, span->lo, span->hi);
		return true;
	}
	return address >= workspace && ck_ptx_fits(address - workspace, size, 16);
}

static int translate_global(struct ck_ptx_run *run, uint64_t address, uint32_t size, uint8_t **at)
{
	if (unlikely(!in_range(&run->ranges[run->range_last], address, size)) &&
	    !global_slow(run, address, size))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	*at = (uint8_t *)(uintptr_t)address;
	return 0;
}

/* The block whose shared memory an offset lies in. */
static int block_of(const struct ck_ptx_block *block, uint64_t offset,
		    const struct ck_ptx_block **of)
{
	uint64_t rank = offset >> CK_PTX_RANK_SHIFT;

	*of = block;
	if (likely(rank == 0))
		return 0;
	/* a block by itself has no number: beyond 16 MB there is nothing */
	if (rank > block->run->cluster_size || block->run->cluster_size == 1)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	*of = &block->cluster->blocks[rank - 1];
	/* the memory of a block that has ended is somebody else's */
	return (*of)->live ? 0 : CUDA_ERROR_LAUNCH_FAILED;
}

static int translate_window(struct ck_ptx_warp *w, uint32_t l, unsigned int space, uint64_t offset,
			    uint32_t size, uint8_t **at)
{
	struct ck_ptx_run *run = w->block->run;

	if (space == CK_PTX_SHARED) {
		const struct ck_ptx_block *block;
		int err = block_of(w->block, offset, &block);

		if (err)
			return err;
		offset &= (1u << CK_PTX_RANK_SHIFT) - 1;
		if (!ck_ptx_fits(offset, size, run->shared_bytes))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		*at = block->shared + offset;
	} else {
		if (!ck_ptx_fits(offset, size, w->local_bytes))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		*at = w->local + (size_t)l * w->local_bytes + offset;
	}
	return 0;
}

static int translate_address(struct ck_ptx_warp *w, uint32_t l, unsigned int space,
			     uint64_t address, uint32_t size, uint8_t **at)
{
	if (unlikely(address & (size - 1)))
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	/* A 32-bit register may hold an offset of these two; the upper bits are no part of it. */
	if (space == CK_PTX_SHARED || space == CK_PTX_LOCAL)
		return translate_window(w, l, space, address & UINT32_MAX, size, at);
	switch (address >> CK_PTX_WINDOW_SHIFT) {
	case 0:
		return translate_global(w->block->run, address, size, at);
	case CK_PTX_SHARED_WINDOW >> CK_PTX_WINDOW_SHIFT:
		return translate_window(w, l, CK_PTX_SHARED, address & CK_PTX_OFFSET_MASK, size,
					at);
	case CK_PTX_LOCAL_WINDOW >> CK_PTX_WINDOW_SHIFT:
		return translate_window(w, l, CK_PTX_LOCAL, address & CK_PTX_OFFSET_MASK, size, at);
	case CK_PTX_PARAM_WINDOW >> CK_PTX_WINDOW_SHIFT:
		if (!ck_ptx_fits(address & CK_PTX_OFFSET_MASK, size,
				 w->block->run->kernel->info.param_bytes))
			return CUDA_ERROR_ILLEGAL_ADDRESS;
		*at = (uint8_t *)(uintptr_t)(w->block->run->params +
					     (address & CK_PTX_OFFSET_MASK));
		return 0;
	default:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	}
}

int ck_ptx_translate_as(struct ck_ptx_warp *w, uint32_t l, unsigned int space, uint64_t address,
			uint32_t size, unsigned int touch, uint8_t **at)
{
	int err = translate_address(w, l, space, address, size, at);

	if (unlikely(err)) {
		w->fault_lane = l;
		w->fault_address = address;
	} else if (unlikely(w->block->check != NULL)) {
		ck_ptx_check_touch(w, l, *at, size, touch);
	}
	return err;
}

int ck_ptx_translate(struct ck_ptx_warp *w, uint32_t l, unsigned int space, uint64_t address,
		     uint32_t size, uint8_t **at)
{
	return ck_ptx_translate_as(w, l, space, address, size, 0, at);
}
