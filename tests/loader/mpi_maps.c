/*
 * tests/loader/mpi_maps.c - an MPI program that knows of the loader: where things lie once MPI
 * runs, and whose the signals are.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/find.h"

static int ran;

static void handler(int sig)
{
	ran += sig == SIGSEGV;
}

/* Every mapping is in a half's window, or one of the kernel's own. */
static int strays(const struct lhinfo *info)
{
	static const char *const known[] = {"[stack]",	  "[vvar",	   "[vdso]",
					    "[vsyscall]", "kernel-loader", "[heap]"};
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	int bad = 0;

	while (f && fgets(line, sizeof(line), f)) {
		uint64_t at = strtoull(line, NULL, 16);
		int mine = at >= (uint64_t)info - (1 << 20) && at < (uint64_t)info + (16 << 20);

		for (unsigned int i = 0; i < info->halves; i++)
			mine |= at >= info->half[i].base && at < info->half[i].end;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			mine |= strstr(line, known[i]) != NULL;
		if (!mine) {
			printf("stray: %s", line);
			bad++;
		}
	}
	fclose(f);
	return bad;
}

static int signals(void)
{
	static const int faults[] = {SIGABRT, SIGBUS, SIGFPE};
	struct sigaction now;

	sigaction(SIGSEGV, NULL, &now);
	if (now.sa_handler != handler)
		return 1;
	for (int i = 0; i < 3; i++) {
		sigaction(faults[i], NULL, &now);
		if (now.sa_handler != SIG_DFL)
			return 1;
	}
	raise(SIGSEGV);
	return ran != 1;
}

int main(int argc, char **argv)
{
	int bad = 0, rank;
	struct lhinfo *info;
	char *buffer = malloc(8 << 20);

	signal(SIGSEGV, handler);
	if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
		return 1;
	info = lhinfo_find();
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (argc > 1 && !strcmp(argv[1], "abort"))
		MPI_Abort(MPI_COMM_WORLD, 33);
	/* what the library registers, it registers when a large message comes */
	MPI_Bcast(buffer, 8 << 20, MPI_CHAR, 0, MPI_COMM_WORLD);
	bad = argc > 1 ? signals() : !info || strays(info);
	MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
	if (!rank)
		printf("%s\n", bad ? "failed" : "ok");
	MPI_Finalize();
	return bad;
}
