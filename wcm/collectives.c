/*
 * wcm/collectives.c - collective calls of ranks, all made of exchanges.
 */
#include <stdlib.h>
#include <string.h>

#include "util/util.h"
#include "wcm/lib.h"
#include "wcm/message.h"

int ck_wcm_exchange(wcm_group *g, uint32_t mask, const void *give, size_t size, void *all,
		    uint64_t *number)
{
	struct ck_wcm_exchange x = {
		.mask = mask, .give = give, .size = size, .give_fd = -1, .all = all};
	int status = ck_wcm_link_exchange(g->link, &x);

	if (status == WCM_OK && number)
		*number = x.number;
	return status;
}

int ck_wcm_agree(wcm_group *g, uint32_t mask, int status)
{
	int32_t mine = status, all[WCM_RANKS_MAX];
	int lost;

	status = ck_wcm_exchange(g, mask, &mine, sizeof(mine), all, NULL);
	if (status != WCM_OK)
		return status;
	for (int i = 0; status == WCM_OK && i < __builtin_popcount(mask); i++)
		status = all[i];
	if (status == WCM_OK)
		return WCM_OK;
	/* A rank that said that all is well and was killed then may be why others have failed. All
	 * that are left are here, and hear of it together. */
	lost = ck_wcm_exchange(g, mask, &mine, sizeof(mine), all, NULL);
	return lost == WCM_EPEERLOST ? lost : status;
}

uint32_t ck_wcm_all_ranks(const wcm_group *g)
{
	return (1u << g->size) - 1;
}

int wcm_barrier(wcm_group *g)
{
	char none = 0, all[WCM_RANKS_MAX];

	if (!ck_wcm_group_ok(g))
		return WCM_EINVAL;
	return ck_wcm_exchange(g, ck_wcm_all_ranks(g), &none, 1, all, NULL);
}

int wcm_all_gather(wcm_group *g, const void *mine, size_t size, void *all)
{
	unsigned char part[WCM_RANKS_MAX * CK_WCM_PART_MAX];
	int status = WCM_OK;
	size_t n;

	if (!ck_wcm_group_ok(g) || !mine || !all || size == 0)
		return WCM_EINVAL;
	for (size_t at = 0; at < size && status == WCM_OK; at += n) {
		n = ck_min(size - at, (size_t)CK_WCM_PART_MAX);
		status = ck_wcm_exchange(g, ck_wcm_all_ranks(g), (const char *)mine + at, n, part,
					 NULL);
		for (size_t i = 0; i < (size_t)g->size && status == WCM_OK; i++)
			memcpy((char *)all + i * size + at, part + i * n, n);
	}
	return status;
}

int wcm_all_to_all(wcm_group *g, const void *send, size_t size, void *receive)
{
	size_t row, total;
	char *all;
	int status;

	if (!ck_wcm_group_ok(g) || !send || !receive || size == 0 ||
	    ck_mul_overflow(size, (size_t)g->size, &row) ||
	    ck_mul_overflow(row, (size_t)g->size, &total))
		return WCM_EINVAL;
	all = malloc(total);
	if (!all)
		return WCM_ENOMEM;
	status = wcm_all_gather(g, send, row, all);
	for (size_t i = 0; i < (size_t)g->size && status == WCM_OK; i++)
		memcpy((char *)receive + i * size, all + i * row + (size_t)g->rank * size, size);
	free(all);
	return status;
}

int wcm_aggregate(wcm_group *g, uint64_t value, uint64_t *sum, uint64_t *before)
{
	uint64_t all[WCM_RANKS_MAX], total = 0;
	int status = wcm_all_gather(g, &value, sizeof(value), all);

	if (status != WCM_OK)
		return status;
	for (int i = 0; i < g->size; i++) {
		if (i == g->rank && before)
			*before = total;
		total += all[i];
	}
	if (sum)
		*sum = total;
	return WCM_OK;
}
