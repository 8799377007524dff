/*
 * emu/ptx/run/cluster.c - a cluster: the starts and the scheduling of its blocks. Most have one
 * block.
 */
#include <stdlib.h>

#include "emu/ptx/run/grid.h"
#include "util/log.h"

CK_LOG_DEFINE("emu");

int ck_ptx_cluster_init(struct ck_ptx_cluster *cluster, struct ck_ptx_run *run)
{
	int err = 0;

	memset(cluster, 0, sizeof(*cluster));
	cluster->run = run;
	cluster->blocks = calloc(run->cluster_size, sizeof(*cluster->blocks));
	if (!cluster->blocks)
		return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	for (uint32_t i = 0; !err && i < run->cluster_size; i++)
		err = ck_ptx_block_init(&cluster->blocks[i], run);
	return err;
}

void ck_ptx_cluster_fini(struct ck_ptx_cluster *cluster)
{
	for (uint32_t i = 0; cluster->blocks && i < cluster->run->cluster_size; i++)
		ck_ptx_block_fini(&cluster->blocks[i]);
	free(cluster->blocks);
}

void ck_ptx_cluster_start(struct ck_ptx_cluster *cluster, uint64_t number)
{
	const struct ck_ptx_run *run = cluster->run;
	uint32_t wide = run->grid->grid[0] / run->cluster[0];
	uint32_t high = run->grid->grid[1] / run->cluster[1];

	cluster->id[0] = (uint32_t)(number % wide);
	cluster->id[1] = (uint32_t)(number / wide % high);
	cluster->id[2] = (uint32_t)(number / wide / high);
	cluster->turns = cluster->arrived = cluster->phase = 0;
	for (uint32_t i = 0; i < run->cluster_size; i++)
		ck_ptx_block_start(&cluster->blocks[i], cluster, i);
}

int ck_ptx_cluster_turn(struct ck_ptx_cluster *cluster)
{
	const struct ck_ptx_run *run = cluster->run;
	const uint32_t *id = cluster->blocks[0].id;
	bool ran = false;
	uint32_t live;

	for (uint32_t i = 0; i < run->cluster_size; i++) {
		int err = ck_ptx_block_turn(&cluster->blocks[i], &ran);

		if (err)
			return err;
	}
	cluster->turns++;
	live = ck_ptx_cluster_live(cluster);
	if (!ran && live > 0) {
		ck_err("kernel %s: all %u threads of %sblock %u,%u,%u wait for each other",
		       run->kernel->info.name, live,
		       run->cluster_size > 1 ? "the cluster that begins with " : "", id[0], id[1],
		       id[2]);
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	}
	return 0;
}
