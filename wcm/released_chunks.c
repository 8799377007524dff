/*
 * wcm/released_chunks.c - chunks that this rank has released and that other ranks may still use;
 * and the meeting place's reports about them, in the link's thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "util/log.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"
#include "wcm/lib.h"

CK_LOG_DEFINE("wcm");

static struct ck_wcm_kept *take_kept(wcm_group *g, uint64_t number)
{
	struct ck_wcm_kept **at = &g->kept, *k;

	pthread_mutex_lock(&g->lock);
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	k = *at;
	if (k) {
		*at = k->next;
		g->busy++;
	}
	pthread_mutex_unlock(&g->lock);
	return k;
}

static void give_back(wcm_group *g, struct ck_wcm_kept *k)
{
	if (ck_wcm_enter(g) == WCM_OK) {
		ck_wcm_chunk_close(g, &k->piece);
		ck_wcm_leave(g);
	}
	free(k);
	pthread_mutex_lock(&g->lock);
	g->busy--;
	ck_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static void on_released(void *data, uint64_t number, uint32_t lost)
{
	struct ck_wcm_kept *k = take_kept(data, number);

	if (lost)
		ck_info("memory is freed that ranks 0x%x had not released: they have ended", lost);
	if (k)
		give_back(data, k);
}

static void on_lost(void *data, uint32_t ranks)
{
	wcm_group *g = data;

	pthread_mutex_lock(&g->lock);
	if (ranks >> g->rank & 1)
		g->over = true;
	g->lost |= ranks & ~(1u << g->rank);
	ck_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

const struct ck_wcm_link_ops ck_wcm_released_ops = {on_released, on_lost};

void ck_wcm_give_up(wcm_group *g, uint64_t number, uint32_t mask, struct ck_wcm_chunk *piece)
{
	struct ck_wcm_kept *k = calloc(1, sizeof(*k));

	if (k) { /* else the piece is never given back, which harms no other rank */
		k->number = number;
		k->piece = *piece;
		pthread_mutex_lock(&g->lock);
		k->next = g->kept;
		g->kept = k;
		pthread_mutex_unlock(&g->lock);
	}
	piece->how = CK_WCM_NONE;
	ck_wcm_link_done(g->link, number, mask);
}

void ck_wcm_released_wait(wcm_group *g)
{
	const struct timespec until =
		ck_until((uint64_t)(g->timeout_ms / 1000 + 1) * 1000 * CK_NS_PER_MS);

	pthread_mutex_lock(&g->lock);
	while (g->busy || (g->kept && !g->over)) {
		if (ck_cond_timedwait_with(&g->changed, &g->lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&g->lock);
}

void ck_wcm_released_end(wcm_group *g)
{
	struct ck_wcm_kept *k;
	bool inside = g->kept && ck_wcm_enter(g) == WCM_OK;

	while ((k = g->kept) != NULL) {
		g->kept = k->next;
		if (!g->over)
			ck_warn("a chunk is left allocated: other ranks have not freed it");
		else if (inside)
			ck_wcm_chunk_close(g, &k->piece);
		free(k);
	}
	if (inside)
		ck_wcm_leave(g);
}
