/*
 * emu/graphs/graph_pool.h - the physical memory that launches of graphs reserve on a device: it
 * counts as used. Where the bytes lie is up to the allocation nodes, which have addresses from
 * their beginning.
 *
 * A launch needs as much as its graph has allocated at one time. It takes the reservation of an
 * earlier launch of its stream, or of one that is done, and reserves the rest. Its instance keeps
 * that memory mapped until it ends, and reserved until it is trimmed.
 */
#ifndef CK_EMU_GRAPHS_GRAPH_POOL_H
#define CK_EMU_GRAPHS_GRAPH_POOL_H

#include "emu/core/emu.h"

/* Sizes are counted in pages of this size. */
#define CK_EMU_GRAPH_PAGE ((uint64_t)2 << 20)

/* The instance @exec has @bytes from now on, for a launch that ends at @point. False: the device
 * has too little left. */
bool ck_emu_graph_pool_take(int device, const void *exec, uint64_t bytes,
			    const struct ck_emu_point *point);
/* Memory that a launch has left allocated is no longer @exec's; or it is free for all again. */
void ck_emu_graph_pool_hold(int device, const void *exec, uint64_t bytes);
void ck_emu_graph_pool_give(int device, uint64_t bytes);
/* The instance has ended. */
void ck_emu_graph_pool_forget(const void *exec);
/* Release the reservations of a device that no queued or running launch uses. */
void ck_emu_graph_pool_trim(int device);

#endif
