/*
 * bench/m3.c - how long M3 takes: making a region, opening and mapping one that is there. Median
 * and best of RUNS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "m3/m3.h"

#define RUNS_MAX 1000
#define GiB (1ull << 30)

static int runs = 20;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(int status, const char *what)
{
	if (status == M3_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, m3_strerror(status));
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const char *what, double *ms)
{
	qsort(ms, (size_t)runs, sizeof(*ms), compare);
	printf("%-36s median %8.3f ms, best %8.3f ms\n", what, ms[runs / 2], ms[0]);
}

static void bench_alloc(m3_client *c, uint64_t bytes, int map, const char *what)
{
	m3_alloc_req req = {.bytes = bytes, .flags = map ? 0 : M3_NO_MAP};
	double ms[RUNS_MAX], began;
	m3_region *r;

	for (int i = -1; i < runs; i++) { /* the first one starts the copier */
		began = now_ms();
		check(m3_alloc(c, &req, &r), what);
		ms[i < 0 ? 0 : i] = now_ms() - began;
		check(m3_release(r), "release");
	}
	report(what, ms);
}

static void bench_open(m3_client *owner, m3_client *c, uint64_t bytes, const char *what)
{
	m3_alloc_req req = {.mem_id = "bench", .bytes = bytes, .flags = M3_NO_MAP};
	double ms[RUNS_MAX], began;
	m3_region *region, *r;

	check(m3_alloc(owner, &req, &region), "alloc");
	for (int i = 0; i < runs; i++) {
		began = now_ms();
		check(m3_open(c, "bench", M3_READWRITE, &r), "open");
		check(m3_map(r, M3_ANY_DEVICE, M3_READWRITE, 0, NULL), "map");
		ms[i] = now_ms() - began;
		check(m3_release(r), "release");
	}
	check(m3_release(region), "release");
	report(what, ms);
}

int main(int argc, char **argv)
{
	m3_client *owner, *c;

	if (argc > 1)
		runs = atoi(argv[1]);
	if (runs < 1 || runs > RUNS_MAX)
		return 2;
	check(m3_connect(NULL, &owner), "connect");
	check(m3_connect(NULL, &c), "connect");
	bench_alloc(c, 2ull << 20, 0, "alloc of 2 MiB");
	bench_alloc(c, GiB, 0, "alloc of 1 GiB");
	bench_alloc(c, GiB, 1, "alloc of 1 GiB, mapped");
	bench_open(owner, c, 64ull << 20, "open and map of 64 MiB");
	bench_open(owner, c, GiB, "open and map of 1 GiB");
	m3_disconnect(c);
	m3_disconnect(owner);
	return 0;
}
