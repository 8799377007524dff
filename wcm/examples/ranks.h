/*
 * wcm/examples/ranks.h - how the examples get their ranks: from mpirun, srun or torchrun, as
 * processes that they start themselves (--ranks N), or as threads (--ranks N --threads).
 */
#ifndef WCM_EXAMPLES_RANKS_H
#define WCM_EXAMPLES_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wcm/wcm.h"

/* The arguments of a rank. */
struct rank {
	int rank, size;			/* -1 and 0: as the launcher says */
	char group[WCM_GROUP_NAME_MAX]; /* empty: as the library finds it */
	int (*run)(struct rank *r);	/* 0: it went well */
	int status;
};

static void *rank_thread(void *data)
{
	struct rank *r = (struct rank *)data;

	r->status = r->run(r);
	return NULL;
}

static int run_threads(const struct rank *all)
{
	struct rank ranks[WCM_RANKS_MAX];
	pthread_t threads[WCM_RANKS_MAX];
	int bad = 0;

	for (int i = 0; i < all->size; i++) {
		ranks[i] = *all;
		ranks[i].rank = i;
		if (pthread_create(&threads[i], NULL, rank_thread, &ranks[i]))
			exit(1);
	}
	for (int i = 0; i < all->size; i++) {
		pthread_join(threads[i], NULL);
		bad |= ranks[i].status;
	}
	return bad;
}

/* Nothing of CUDA has been called yet: a fork would have none. */
static int run_processes(const struct rank *all)
{
	int bad = 0, status;
	pid_t pids[WCM_RANKS_MAX];

	for (int i = 0; i < all->size; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			exit(1);
		if (pids[i] == 0) {
			struct rank r = *all;

			r.rank = i;
			exit(r.run(&r));
		}
	}
	for (int i = 0; i < all->size; i++)
		bad |= waitpid(pids[i], &status, 0) != pids[i] || status != 0;
	return bad;
}

/* A whole number above 0, as of ranks; or -1, for which nothing runs. */
static int count_of(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	return end != text && !*end && number > 0 && number <= 1 << 30 ? (int)number : -1;
}

/* All ranks that this process is to start, or the one that it is. 0: all went well. */
static int run_ranks(int count, int threads, int (*run)(struct rank *r))
{
	struct rank r = {-1, 0, "", run, 0};

	if (count == 0) {
		if (getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") ||
		    getenv("SLURM_PROCID") || getenv("RANK"))
			return run(&r);
		count = 1;
	}
	if (count < 1 || count > WCM_RANKS_MAX) {
		fprintf(stderr, "1 to %d ranks\n", WCM_RANKS_MAX);
		return 2;
	}
	r.size = count;
	if (wcm_unique_name(r.group, sizeof(r.group)) != WCM_OK)
		return 1;
	return threads ? run_threads(&r) : run_processes(&r);
}

/* The status of a call, said where it is an error. */
static int report_status(int status, const char *what)
{
	if (status != WCM_OK)
		fprintf(stderr, "%s: %s\n", what, wcm_strerror(status));
	return status;
}

static int join_group(const struct rank *r, int backing, int device, wcm_group **group)
{
	wcm_opts opts;

	memset(&opts, 0, sizeof(opts));
	opts.group = r->group[0] ? r->group : NULL;
	opts.device = device;
	opts.backing = backing;
	return report_status(wcm_init(&opts, r->rank, r->size, group), "wcm_init");
}

/* ipc, vmm or auto; -1: none of them. */
static int backing_of(const char *name)
{
	return strcmp(name, "ipc") == 0	   ? WCM_IPC
	       : strcmp(name, "vmm") == 0  ? WCM_VMM
	       : strcmp(name, "auto") == 0 ? WCM_AUTO
					   : -1;
}

#endif
