/*
 * client/stats.c - counts and traces of messages.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/stats.h"
#include "rpc/proc.h"
#include "util/env.h"

bool ck_stats_on, ck_trace_on;

static _Atomic uint64_t entered, bytes_sent, bytes_received;
static _Atomic uint64_t pages_sent, pages_fetched;
static _Atomic uint64_t counts[CK_PROC_END];

static bool enabled(const char *name)
{
	const char *value = ck_env_string(name);

	return value && *value && strcmp(value, "0") != 0;
}

void ck_stats_init(void)
{
	ck_stats_on = enabled("CRICKET_STATS");
	ck_trace_on = enabled("CRICKET_TRACE");
}

void ck_stats_entered(void)
{
	atomic_fetch_add_explicit(&entered, 1, memory_order_relaxed);
}

void ck_stats_message(uint32_t proc, size_t bytes_out, size_t bytes_in)
{
	atomic_fetch_add_explicit(&counts[proc], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&bytes_sent, bytes_out, memory_order_relaxed);
	atomic_fetch_add_explicit(&bytes_received, bytes_in, memory_order_relaxed);
}

void ck_stats_pages(size_t sent, size_t fetched)
{
	atomic_fetch_add_explicit(&pages_sent, sent, memory_order_relaxed);
	atomic_fetch_add_explicit(&pages_fetched, fetched, memory_order_relaxed);
}

static void sum(uint64_t *one_way, uint64_t *waited)
{
	*one_way = *waited = 0;
	for (uint32_t i = 0; i < CK_PROC_END; i++) {
		if (ck_procs[i].name)
			*(ck_procs[i].one_way ? one_way : waited) += counts[i];
	}
}

void ck_stats_print(void)
{
	uint64_t one_way, waited, local;

	sum(&one_way, &waited);
	local = entered > one_way + waited ? entered - one_way - waited : 0;
	fprintf(stderr,
		"cricket: %" PRIu64 " calls answered locally, %" PRIu64 " one-way, %" PRIu64
		" waited; %" PRIu64 " bytes sent, %" PRIu64 " received\n",
		local, one_way, waited, (uint64_t)bytes_sent, (uint64_t)bytes_received);
	if (pages_sent || pages_fetched)
		fprintf(stderr,
			"cricket: managed memory: %" PRIu64 " pages of 4 KiB sent, %" PRIu64
			" fetched\n",
			(uint64_t)pages_sent, (uint64_t)pages_fetched);
	for (uint32_t i = 0; i < CK_PROC_END; i++) {
		if (counts[i])
			fprintf(stderr, "cricket: %10" PRIu64 " %-7s %s\n", (uint64_t)counts[i],
				ck_procs[i].one_way ? "one-way" : "waited", ck_procs[i].name);
	}
}

void ck_trace_message(uint32_t proc, const void *args, const void *res, CUresult err)
{
	const struct ck_proc *p = &ck_procs[proc];
	char line[1024];
	size_t n = (size_t)snprintf(line, sizeof(line), "cricket: -> %s(", p->name);

	n += ck_fields_print(p->in, args, line + n, sizeof(line) - n - 64);
	n += (size_t)snprintf(line + n, sizeof(line) - n, p->one_way ? ")" : ") = %d", (int)err);
	if (res && p->out && n < sizeof(line) - 64) {
		n += (size_t)snprintf(line + n, sizeof(line) - n, ", ");
		n += ck_fields_print(p->out, res, line + n, sizeof(line) - n - 2);
	}
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}
