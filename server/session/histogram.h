/*
 * server/session/histogram.h - how often something took how long: counts by time, for Prometheus.
 */
#ifndef CK_SERVER_SESSION_HISTOGRAM_H
#define CK_SERVER_SESSION_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define CK_HISTOGRAM_COUNTS 14

/* The longest times of the counts, in us; the last count is of longer ones. Workers and supervisor
 * may be of different releases, so these stay as they are. */
static const uint64_t cks_histogram_us[CK_HISTOGRAM_COUNTS - 1] = {
	10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 300000, 1000000, 3000000, 10000000};

struct cks_histogram {
	uint64_t counts[CK_HISTOGRAM_COUNTS];
	uint64_t sum_us;
};

/* Which count is that of @us? */
static inline size_t cks_histogram_at(uint64_t us)
{
	size_t at = 0;

	while (at < CK_HISTOGRAM_COUNTS - 1 && us > cks_histogram_us[at])
		at++;
	return at;
}

static inline void cks_histogram_add(struct cks_histogram *histogram, uint64_t us)
{
	histogram->counts[cks_histogram_at(us)]++;
	histogram->sum_us += us;
}

/* From any thread: each number is added atomically, a reader may see one before the other. */
static inline void cks_histogram_add_shared(struct cks_histogram *histogram, uint64_t us)
{
	__atomic_fetch_add(&histogram->counts[cks_histogram_at(us)], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&histogram->sum_us, us, __ATOMIC_RELAXED);
}

static inline void cks_histogram_read_shared(const struct cks_histogram *histogram,
					     struct cks_histogram *out)
{
	for (size_t i = 0; i < CK_HISTOGRAM_COUNTS; i++)
		out->counts[i] = __atomic_load_n(&histogram->counts[i], __ATOMIC_RELAXED);
	out->sum_us = __atomic_load_n(&histogram->sum_us, __ATOMIC_RELAXED);
}

/* Add all of @more. */
static inline void cks_histogram_merge(struct cks_histogram *histogram,
				       const struct cks_histogram *more)
{
	for (size_t i = 0; i < CK_HISTOGRAM_COUNTS; i++)
		histogram->counts[i] += more->counts[i];
	histogram->sum_us += more->sum_us;
}

#endif
