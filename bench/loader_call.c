/*
 * bench/loader_call.c - what a call into a lower half costs; see bench/loader.sh.
 *
 * Prints the median of the rounds in nanoseconds a call, with and without FSGSBASE as the loader
 * says, and of an ordinary call of a shared library beside it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/loader/toy.h"

#define ROUNDS 21
#define CALLS 1000000

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* volatile: labs() is called each time, through the program's own table of addresses */
static long (*volatile ordinary)(long) = labs;

int main(void)
{
	double half[ROUNDS], plain[ROUNDS];
	long sum = 0;

	for (int r = 0; r < ROUNDS; r++) {
		double at = now();

		for (long i = 0; i < CALLS; i++)
			sum += toy_add(i, 1);
		half[r] = (now() - at) / CALLS;
		at = now();
		for (long i = 0; i < CALLS; i++)
			sum += ordinary(i);
		plain[r] = (now() - at) / CALLS;
	}
	qsort(half, ROUNDS, sizeof(double), order);
	qsort(plain, ROUNDS, sizeof(double), order);
	printf("call into a half %.1f ns (%.1f to %.1f), into a library %.1f ns%s\n",
	       half[ROUNDS / 2], half[ROUNDS / 10], half[ROUNDS - 1 - ROUNDS / 10],
	       plain[ROUNDS / 2], sum ? "" : "!");
	return 0;
}
