/*
 * emu/graphs/graph_pool.h - a model of the physical memory that launches of graphs reserve on a
 * device, for the device's counters. The bytes themselves are those of the allocation nodes.
 *
 * A launch needs as much as its graph has allocated at one time. It takes the reservation of an
 * earlier launch of its stream, or of one that is done, and reserves the rest. Its instance keeps
 * that memory mapped until it ends, and reserved until it is trimmed.
 */
#ifndef CK_EMU_GRAPHS_GRAPH_POOL_H
#define CK_EMU_GRAPHS_GRAPH_POOL_H

#include "emu/emu.h"

/* Sizes are counted in pages of this size. */
#define CK_EMU_GRAPH_PAGE ((uint64_t)2 << 20)

/* The instance @exec has @bytes from now on, for a launch that ends at @point. */
void ck_emu_graph_pool_take(int device, const void *exec, uint64_t bytes,
			    const struct ck_emu_point *point);
/* Memory that a launch has left allocated is no longer @exec's; or it is free for all again. */
void ck_emu_graph_pool_hold(int device, const void *exec, uint64_t bytes);
void ck_emu_graph_pool_give(int device, uint64_t bytes);
/* The instance has ended. */
void ck_emu_graph_pool_forget(const void *exec);

#endif
