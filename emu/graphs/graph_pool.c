/*
 * emu/graphs/graph_pool.c - memory that launches of graphs reserve, and a device's attributes of
 * it; see graph_pool.h.
 */
#include <stdlib.h>

#include "emu/graphs/graph.h"
#include "emu/graphs/graph_pool.h"
#include "emu/core/locks.h"
#include "emu/memory/arena.h"

/* Memory that one launch after another may use. */
struct piece {
	struct piece *next;
	uint64_t size;
	struct ck_emu_point last; /* the end of the last launch that uses it */
	const void **execs;	  /* the instances that map it */
	unsigned int exec_count;
};

enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH, COUNTS }; /* as CUgraphMem_attribute */

static struct pool {
	struct piece *pieces;
	uint64_t held;	/* bytes that launches have left allocated */
	uint64_t taken; /* bytes of the device that it has */
	uint64_t count[COUNTS];
} pools[CK_EMU_MAX_DEVICES];

static struct ck_mutex pools_lock = CK_MUTEX(CK_RANK_GRAPH_POOLS);

/* Have as many bytes of the device as are reserved. Lock held in this and all that follow. */
static bool claim_reserved(struct pool *pool)
{
	uint64_t reserved = pool->count[RESERVED];
	int device = (int)(pool - pools);

	if (reserved < pool->taken)
		ck_emu_arena_give(device, pool->taken - reserved);
	else if (reserved > pool->taken && !ck_emu_arena_take(device, reserved - pool->taken))
		return false;
	pool->taken = reserved;
	return true;
}

/* False: the device has too little left. */
static bool recount_pool(struct pool *pool)
{
	uint64_t *count = pool->count;

	count[USED] = count[RESERVED] = pool->held;
	for (struct piece *p = pool->pieces; p; p = p->next) {
		if (ck_emu_point_reached(&p->last))
			ck_emu_point_put(&p->last); /* the stream may go */
		count[USED] += p->exec_count ? p->size : 0;
		count[RESERVED] += p->size;
	}
	if (!claim_reserved(pool))
		return false;
	count[USED_HIGH] = ck_max(count[USED_HIGH], count[USED]);
	count[RESERVED_HIGH] = ck_max(count[RESERVED_HIGH], count[RESERVED]);
	return true;
}

static unsigned int exec_index(const struct piece *p, const void *exec)
{
	unsigned int i = 0;

	while (i < p->exec_count && p->execs[i] != exec)
		i++;
	return i;
}

static void piece_free(struct piece *p)
{
	ck_emu_point_put(&p->last);
	free(p->execs);
	free(p);
}

static struct piece *piece_add(struct pool *pool, uint64_t size)
{
	struct piece *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->size = size;
	p->next = pool->pieces;
	pool->pieces = p;
	return p;
}

static void piece_use(struct piece *p, const void *exec, const struct ck_emu_point *point)
{
	const void **more;

	ck_emu_point_ref(point);
	ck_emu_point_put(&p->last);
	p->last = *point;
	if (exec_index(p, exec) < p->exec_count)
		return;
	more = realloc(p->execs, (p->exec_count + 1) * sizeof(*more));
	if (!more)
		return;
	p->execs = more;
	p->execs[p->exec_count++] = exec;
}

static void pieces_drop_empty(struct pool *pool)
{
	struct piece **link = &pool->pieces, *p;

	while ((p = *link)) {
		if (p->size) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		piece_free(p);
	}
}

static uint64_t round_to_pages(uint64_t bytes)
{
	return CK_ALIGN_UP(bytes, CK_EMU_GRAPH_PAGE);
}

bool ck_emu_graph_pool_take(int device, const void *exec, uint64_t bytes,
			    const struct ck_emu_point *point)
{
	struct pool *pool = &pools[device];
	uint64_t need = round_to_pages(bytes);
	struct piece *p;
	bool taken;

	ck_lock(&pools_lock);
	/* its own reservation, then those of launches that it may follow */
	for (int other = 0; other < 2; other++) {
		for (p = pool->pieces; p && need; p = p->next) {
			bool own = exec_index(p, exec) < p->exec_count;

			if (own == other || (other && p->last.stream != point->stream &&
					     !ck_emu_point_reached(&p->last)))
				continue;
			need -= ck_min(need, p->size);
			piece_use(p, exec, point);
		}
	}
	p = need ? piece_add(pool, need) : NULL;
	if (p)
		piece_use(p, exec, point);
	taken = (p || !need) && recount_pool(pool);
	if (!taken) {
		if (p)
			p->size = 0;
		pieces_drop_empty(pool);
		recount_pool(pool);
	}
	ck_unlock(&pools_lock);
	return taken;
}

void ck_emu_graph_pool_hold(int device, const void *exec, uint64_t bytes)
{
	struct pool *pool = &pools[device];
	uint64_t left = round_to_pages(bytes);

	ck_lock(&pools_lock);
	pool->held += left;
	for (struct piece *p = pool->pieces; p && left; p = p->next) {
		uint64_t part = ck_min(left, p->size);

		if (exec_index(p, exec) == p->exec_count)
			continue;
		p->size -= part;
		left -= part;
	}
	pieces_drop_empty(pool);
	recount_pool(pool);
	ck_unlock(&pools_lock);
}

void ck_emu_graph_pool_give(int device, uint64_t bytes)
{
	struct pool *pool = &pools[device];

	ck_lock(&pools_lock);
	pool->held -= round_to_pages(bytes);
	piece_add(pool, round_to_pages(bytes));
	recount_pool(pool);
	ck_unlock(&pools_lock);
}

void ck_emu_graph_pool_forget(const void *exec)
{
	ck_lock(&pools_lock);
	for (int d = 0; d < CK_EMU_MAX_DEVICES; d++) {
		for (struct piece *p = pools[d].pieces; p; p = p->next) {
			unsigned int i = exec_index(p, exec);

			if (i < p->exec_count)
				p->execs[i] = p->execs[--p->exec_count];
		}
		recount_pool(&pools[d]);
	}
	ck_unlock(&pools_lock);
}

void ck_emu_graph_pool_trim(int device)
{
	ck_lock(&pools_lock);
	for (struct piece *p = pools[device].pieces; p; p = p->next) {
		if (ck_emu_point_reached(&p->last))
			p->size = 0;
	}
	pieces_drop_empty(&pools[device]);
	recount_pool(&pools[device]);
	ck_unlock(&pools_lock);
}

/* --- a device's attributes of it --- */

static CUresult begin_pool_query(CUdevice device)
{
	CUresult result = ck_emu_enter_bare();

	if (result != CUDA_SUCCESS)
		return result;
	return ck_emu_device_at(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult result = begin_pool_query(device);

	if (result != CUDA_SUCCESS)
		return result;
	ck_emu_graph_lock(); /* a launch has memory before it is in its stream */
	ck_emu_graph_pool_trim(device);
	ck_emu_graph_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	CUresult result = begin_pool_query(device);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || (unsigned int)attr >= COUNTS)
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&pools_lock);
	*(cuuint64_t *)value = pools[device].count[attr];
	ck_unlock(&pools_lock);
	return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	CUresult result = begin_pool_query(device);

	if (result != CUDA_SUCCESS)
		return result;
	/* only the high marks can be set, and only back to the present use */
	if (!value || *(const cuuint64_t *)value ||
	    (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
	     attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	ck_lock(&pools_lock);
	pools[device].count[attr] = pools[device].count[attr - 1];
	ck_unlock(&pools_lock);
	return CUDA_SUCCESS;
}
