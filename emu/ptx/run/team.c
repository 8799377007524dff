/*
 * emu/ptx/run/team.c - the threads that share a grid, and which of its blocks are resident.
 *
 * Blocks are started in the order of their numbers; the caller's thread begins, and when there is
 * more to do than starting a thread costs, the host's other processors help. A block that takes
 * very long may be waiting for a later one: then the next block is started beside it. All blocks of
 * a cooperative grid are resident from the start. Where clusters were asked for they take the
 * blocks' place in all this.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "emu/ptx/run/team.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("emu");

#define PATIENCE 64	/* time slices of a block before another is started beside it */
#define ALONE_NS 200000 /* after which a thread that has more blocks to run asks for help */

/* Clusters of @run that have memory; those with live threads are running. */
struct residents {
	struct ck_ptx_cluster **clusters;
	uint32_t count, room;
};

static int residents_add(struct residents *r, struct ck_ptx_run *run)
{
	struct ck_ptx_cluster *cluster;

	if (ck_ptx_room(&r->clusters, &r->room, r->count, sizeof(struct ck_ptx_cluster *)) < 0)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	cluster = malloc(sizeof(*cluster));
	if (!cluster)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	r->clusters[r->count++] = cluster;
	return ck_ptx_cluster_init(cluster, run);
}

/* The first error is the grid's; the others stop at the end of their block's time slice. */
static void team_fail(struct ck_ptx_team *team, int err)
{
	int none = 0;

	atomic_compare_exchange_strong(&team->result, &none, err);
}

static void *run_helper(void *opaque);

static void team_start(struct ck_ptx_team *team)
{
	while (team->helper_count < team->helpers_wanted &&
	       pthread_create(&team->helpers[team->helper_count], NULL, run_helper, team) == 0)
		team->helper_count++;
	team->helpers_wanted = 0;
}

/* The thread that was there first looks whether it should have help. */
static void team_help(struct ck_ptx_team *team)
{
	if (pthread_equal(team->caller, pthread_self()) && team->helpers_wanted &&
	    ck_now_ns() - team->began > ALONE_NS)
		team_start(team);
}

/* The number of the next cluster to start: false when there is none left. */
static bool take_cluster(struct ck_ptx_team *team, uint64_t *number)
{
	*number = atomic_fetch_add(&team->next, 1);
	return *number < team->clusters;
}

/*
 * The share of one thread: blocks until there are none left. @slots: how many of them are
 * resident from the start; a thread by itself may ask for help.
 */
static int share_run(struct residents *r, struct ck_ptx_run *run, uint64_t slots)
{
	uint64_t limit = slots, number, running = 0;
	bool more = true;
	int err = 0;

	while (!err && (more || running > 0)) {
		bool slow = r->count > 0;

		while (!err && r->count < limit)
			err = residents_add(r, run);
		for (uint32_t i = 0; !err && i < r->count; i++) {
			struct ck_ptx_cluster *cluster = r->clusters[i];

			if (ck_ptx_cluster_live(cluster) == 0) {
				slow = false;
				more = more && take_cluster(run->team, &number);
				if (!more)
					continue;
				ck_ptx_cluster_start(cluster, number);
				running++;
			}
			err = ck_ptx_cluster_turn(cluster);
			running -= ck_ptx_cluster_live(cluster) == 0;
			slow &= ck_ptx_cluster_live(cluster) > 0 && cluster->turns > PATIENCE;
		}
		if (slow && more && limit < CK_PTX_MAX_RESIDENT)
			limit = r->count + 1;
		if (!err)
			err = atomic_load(&run->team->result);
		if (!err && more)
			team_help(run->team);
	}
	return err;
}

/* A thread's work for a grid, with a run and with residents of its own. */
static int thread_run(const struct ck_ptx_run *model, uint64_t slots)
{
	struct ck_ptx_run run = *model;
	struct residents r = {0};
	int err = share_run(&r, &run, slots);

	if (err)
		team_fail(run.team, err);
	for (uint32_t i = 0; i < r.count; i++) {
		ck_ptx_cluster_fini(r.clusters[i]);
		free(r.clusters[i]);
	}
	free(r.clusters);
	return err;
}

static void *run_helper(void *opaque)
{
	const struct ck_ptx_team *team = opaque;

	thread_run(team->model, team->slots);
	return NULL;
}

int ck_ptx_team_run(const struct ck_ptx_run *model, uint64_t clusters, bool cooperative)
{
	unsigned int helpers = ck_min(model->host->threads, (unsigned int)CK_PTX_MAX_HELPERS);
	struct ck_ptx_team team = {.clusters = clusters, .slots = 1, .caller = pthread_self()};
	struct ck_ptx_run run = *model;

	run.team = &team;
	team.model = &run;
	team.helpers_wanted = (unsigned int)ck_min((uint64_t)helpers, clusters - 1);
	team.began = ck_now_ns();
	if (cooperative) {
		team.slots = clusters / (team.helpers_wanted + 1) + 1;
		team_start(&team);
	}
	/* helpers that could not be started leave their share to the caller */
	thread_run(&run, cooperative && team.helper_count < helpers ? clusters : team.slots);
	for (unsigned int i = 0; i < team.helper_count; i++)
		pthread_join(team.helpers[i], NULL);
	if (run.host->check & CK_PTX_CHECK_COUNT)
		ck_warn("kernel %s: %llu instructions of lanes", run.kernel->info.name,
			(unsigned long long)atomic_load(&team.instructions));
	return atomic_load(&team.result);
}
