/*
 * wcm/memory.c - chunked memory: making it together, and giving it up alone.
 *
 * All ranks state their request, make their chunks, offer them, open the others', and agree on how
 * that went: all have the memory then, or none. Which memories a rank has is in one table of the
 * process, so that a freed or unknown memory is an error and no crash.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "util/util.h"
#include "wcm/lib.h"

CK_LOG_DEFINE("wcm");

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static wcm_t table;
static uint64_t last_id;

/* --- the table */

/* Lock held. */
static wcm_t *place_of(wcm_t m)
{
	wcm_t *at = &table;

	while (*at && *at != m)
		at = &(*at)->next;
	return at;
}

static void enter_table(wcm_t m)
{
	pthread_mutex_lock(&table_lock);
	m->id = ++last_id;
	m->refs = 1;
	m->next = table;
	table = m;
	pthread_mutex_unlock(&table_lock);
}

wcm_t ck_wcm_memory_get(wcm_t m)
{
	wcm_t found;

	pthread_mutex_lock(&table_lock);
	found = m ? *place_of(m) : NULL;
	if (found)
		found->refs++;
	pthread_mutex_unlock(&table_lock);
	return found;
}

void ck_wcm_memory_put(wcm_t m)
{
	bool last;

	pthread_mutex_lock(&table_lock);
	last = --m->refs == 0;
	pthread_mutex_unlock(&table_lock);
	if (last)
		ck_wcm_memory_end(m);
}

uint64_t wcm_id(wcm_t m)
{
	uint64_t id = 0;

	pthread_mutex_lock(&table_lock);
	if (m && *place_of(m))
		id = m->id;
	pthread_mutex_unlock(&table_lock);
	return id;
}

wcm_t wcm_from_id(uint64_t id)
{
	wcm_t m;

	pthread_mutex_lock(&table_lock);
	for (m = table; m && m->id != id; m = m->next)
		;
	pthread_mutex_unlock(&table_lock);
	return m;
}

wcm_t wcm_from_handle(const WholeChunkedMemoryHandle *handle)
{
	wcm_t m;

	pthread_mutex_lock(&table_lock);
	for (m = table; m && handle != &m->host &&
			handle != (WholeChunkedMemoryHandle *)(uintptr_t)m->device_handle;
	     m = m->next)
		;
	pthread_mutex_unlock(&table_lock);
	return m;
}

wcm_group *wcm_group_of(wcm_t m)
{
	wcm_group *g = NULL;

	pthread_mutex_lock(&table_lock);
	if (m && *place_of(m))
		g = m->group;
	pthread_mutex_unlock(&table_lock);
	return g;
}

int wcm_free(wcm_t m)
{
	wcm_t *at, found;

	if (!m)
		return WCM_OK;
	pthread_mutex_lock(&table_lock);
	at = place_of(m);
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&table_lock);
	if (!found)
		return WCM_EINVAL;
	ck_wcm_memory_put(found);
	return WCM_OK;
}

void ck_wcm_memory_free_all(wcm_group *g)
{
	wcm_t m;

	do {
		pthread_mutex_lock(&table_lock);
		for (m = table; m && m->group != g; m = m->next)
			;
		pthread_mutex_unlock(&table_lock);
		if (m)
			wcm_free(m);
	} while (m);
}

/* --- making it */

static size_t round_granularity(size_t wanted)
{
	if (wanted == 0 || (wanted < 256 && 256 % wanted == 0))
		return 256;
	while (wanted % 16 != 0)
		wanted *= 2; /* four times at most */
	return wanted;
}

/* Which bit of the mask a chunk's rank is: offers come in the order of the ranks. */
static int place_in(uint32_t mask, int rank)
{
	return __builtin_popcount(mask & ((1u << rank) - 1));
}

static uint32_t mask_of(const struct ck_wcm_wish *wish)
{
	uint32_t mask = 0;

	for (int i = 0; i < wish->count; i++)
		mask |= 1u << wish->ranks[i];
	return mask;
}

/* Exchange the requests, which must be equal. The memory gets its number. */
static int compare_wishes(wcm_t m, const struct ck_wcm_wish *wish)
{
	struct ck_wcm_wish all[WCM_RANKS_MAX];
	int status = ck_wcm_exchange(m->group, m->mask, wish, sizeof(*wish), all, &m->number);

	if (status != WCM_OK)
		return status;
	for (int i = 0; i < wish->count; i++) {
		if (all[i].status != WCM_OK)
			return all[i].status;
	}
	for (int i = 0; i < wish->count; i++) {
		if (memcmp(&all[i], wish, sizeof(*wish)) != 0) {
			ck_err("the ranks request different memory");
			return WCM_EMISMATCH;
		}
	}
	return WCM_OK;
}

static void set_sizes(wcm_t m, const struct ck_wcm_wish *wish)
{
	m->info.size = wish->size;
	m->info.granularity = wish->granularity;
	m->info.chunk_count = wish->count;
	m->info.backing = wish->backing;
	m->info.device = m->group->device;
	for (int i = 0; i < WCM_RANKS_MAX; i++) {
		m->info.ranks[i] = i < wish->count ? wish->ranks[i] : -1;
		if (i < wish->count && wish->ranks[i] == m->group->rank)
			m->info.chunk = i;
	}
}

/* False: it is more than there is. */
static bool round_size(wcm_t m, const struct ck_wcm_wish *wish)
{
	uint64_t step, total;

	if (ck_mul_overflow(wish->granularity, (uint64_t)wish->count, &step) ||
	    ck_add_overflow(ck_max(wish->size, (uint64_t)1), step - 1, &total) ||
	    total > (uint64_t)1 << 62)
		return false;
	m->info.total_size = total - total % step;
	m->info.chunk_size = m->info.total_size / (uint64_t)wish->count;
	return true;
}

/* This rank's chunk, unless there is a problem, and the offers of all: the same for all of them. */
static int exchange_offers(wcm_t m, int problem, struct ck_wcm_offer offers[WCM_RANKS_MAX],
			   int fds[WCM_RANKS_MAX])
{
	struct ck_wcm_chunk *own = &m->pieces[m->info.chunk];
	struct ck_wcm_offer mine = {.status = problem};
	struct ck_wcm_exchange x = {
		.mask = m->mask, .give = &mine, .size = sizeof(mine), .give_fd = -1, .all = offers};
	int status;

	if (problem == WCM_OK)
		ck_wcm_chunk_make(m->group, m->info.backing, m->info.chunk_size, own, &mine,
				  &x.give_fd);
	for (int i = 0; i < WCM_RANKS_MAX; i++)
		x.fds[i] = -1;
	status = ck_wcm_link_exchange(m->group->link, &x);
	if (x.give_fd >= 0)
		close(x.give_fd);
	memcpy(fds, x.fds, sizeof(x.fds));
	for (int i = 0; i < m->info.chunk_count && status == WCM_OK; i++)
		status = offers[i].status;
	return status;
}

static int open_offers(wcm_t m, const struct ck_wcm_offer offers[WCM_RANKS_MAX],
		       const int fds[WCM_RANKS_MAX])
{
	int status = WCM_OK;

	for (int i = 0; i < m->info.chunk_count && status == WCM_OK; i++) {
		if (i != m->info.chunk)
			status = ck_wcm_chunk_open(m->group,
						   &offers[place_in(m->mask, m->info.ranks[i])],
						   fds[m->info.ranks[i]], &m->pieces[i]);
	}
	return status;
}

static int make_handle(wcm_t m)
{
	const struct ck_wcm_driver *d = m->group->driver;
	WholeChunkedMemoryHandle *h = &m->host;
	int status;

	for (int i = 0; i < m->info.chunk_count; i++)
		h->chunked_ptrs[i] = (void *)(uintptr_t)m->pieces[i].address;
	h->chunk_size = m->info.chunk_size;
	h->chunk_count = m->info.chunk_count;
	if ((h->chunk_size & (h->chunk_size - 1)) == 0)
		h->chunk_shift = __builtin_ctzl(h->chunk_size);
	status = ck_wcm_status_of(d->cuMemAlloc_v2(&m->device_handle, CK_WCM_HANDLE_ROOM),
				  "cuMemAlloc");
	if (status == WCM_OK)
		status = ck_wcm_status_of(d->cuMemsetD8_v2(m->device_handle, 0, CK_WCM_HANDLE_ROOM),
					  "cuMemsetD8");
	if (status == WCM_OK)
		status = ck_wcm_status_of(d->cuMemcpyHtoD_v2(m->device_handle, h, sizeof(*h)),
					  "cuMemcpyHtoD");
	if (status == WCM_OK) /* it must be complete for every stream */
		status = ck_wcm_status_of(d->cuCtxSynchronize(), "cuCtxSynchronize");
	return status;
}

/* Everything after the wishes; ends in the same way for all ranks that are there. */
static int build_memory(wcm_t m)
{
	struct ck_wcm_offer offers[WCM_RANKS_MAX];
	int fds[WCM_RANKS_MAX], problem = ck_wcm_enter(m->group), status;

	status = exchange_offers(m, problem, offers, fds);
	if (status == WCM_OK) {
		status = open_offers(m, offers, fds);
		if (status == WCM_OK)
			status = make_handle(m);
		/* the chunk of a rank that has just gone cannot be opened: it is the loss that
		 * counts */
		status = ck_wcm_agree(m->group, m->mask, status);
	}
	for (int i = 0; i < WCM_RANKS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	if (problem == WCM_OK)
		ck_wcm_leave(m->group);
	return status;
}

int ck_wcm_memory_make(wcm_group *g, const struct ck_wcm_wish *given, wcm_t *memory)
{
	struct ck_wcm_wish wish = *given;
	wcm_t m = calloc(1, sizeof(*m));
	int status;

	if (!m)
		return WCM_ENOMEM;
	m->group = g;
	m->mask = mask_of(&wish);
	if (wish.status == WCM_OK && !round_size(m, &wish))
		wish.status = WCM_EINVAL;
	set_sizes(m, &wish);
	status = compare_wishes(m, &wish);
	if (status != WCM_OK) {
		free(m);
		return status;
	}
	status = build_memory(m);
	if (status != WCM_OK) {
		ck_wcm_memory_end(m);
		return status;
	}
	*memory = m;
	return WCM_OK;
}

/* The ranks of a call into a wish. */
static int take_ranks(const wcm_group *g, const int *ranks, int count, struct ck_wcm_wish *wish)
{
	uint32_t mask = 0;

	if ((ranks == NULL) != (count == 0) || count < 0 || count > g->size)
		return WCM_EINVAL;
	wish->count = ranks ? count : g->size;
	for (int i = 0; i < wish->count; i++) {
		int rank = ranks ? ranks[i] : i;

		if (rank < 0 || rank >= g->size || (mask >> rank & 1))
			return WCM_EINVAL;
		mask |= 1u << rank;
		wish->ranks[i] = rank;
	}
	return mask >> g->rank & 1 ? WCM_OK : WCM_EINVAL;
}

static int malloc_as(wcm_group *g, size_t size, size_t granularity, int problem, const int *ranks,
		     int count, wcm_t *memory)
{
	struct ck_wcm_wish wish = {.status = problem, .size = size, .granularity = granularity};
	int status;
	wcm_t m;

	if (!ck_wcm_group_ok(g) || take_ranks(g, ranks, count, &wish) != WCM_OK)
		return WCM_EINVAL;
	if (!memory)
		wish.status = WCM_EINVAL; /* the others learn it */
	wish.backing = g->backing;
	status = ck_wcm_memory_make(g, &wish, &m);
	if (status != WCM_OK)
		return status;
	enter_table(m);
	*memory = m;
	return WCM_OK;
}

int wcm_malloc(wcm_group *g, size_t size, size_t granularity, const int *ranks, int count,
	       wcm_t *memory)
{
	int problem = granularity > (size_t)1 << 58 ? WCM_EINVAL : WCM_OK;

	return malloc_as(g, size, problem ? 256 : round_granularity(granularity), problem, ranks,
			 count, memory);
}

int wcm_malloc_exact(wcm_group *g, size_t size, size_t granularity, const int *ranks, int count,
		     wcm_t *memory)
{
	return malloc_as(g, size, granularity ? granularity : 1, granularity ? WCM_OK : WCM_EINVAL,
			 ranks, count, memory);
}

/*
 * Release the parts that exist. The device must be done with them: unmapping under a running kernel
 * is an error.
 */
void ck_wcm_memory_end(wcm_t m)
{
	const struct ck_wcm_driver *d = m->group->driver;
	struct ck_wcm_chunk *own = &m->pieces[m->info.chunk];

	if (ck_wcm_enter(m->group) == WCM_OK) {
		d->cuCtxSynchronize();
		for (int i = 0; i < m->info.chunk_count; i++) {
			if (i != m->info.chunk)
				ck_wcm_chunk_close(m->group, &m->pieces[i]);
		}
		if (m->device_handle)
			d->cuMemFree_v2(m->device_handle);
		ck_wcm_leave(m->group);
	}
	ck_wcm_give_up(m->group, m->number, m->mask, own);
	free(m);
}
