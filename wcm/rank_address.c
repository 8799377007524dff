/*
 * wcm/rank_address.c - the name under which ranks meet, and which rank this process is, as whoever
 * started it says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "util/env.h"
#include "util/hash.h"
#include "util/util.h"
#include "wcm/lib.h"

/*
 * The variables that identify a job: PMIx and Open MPI, Slurm, torchrun. MPICH has no name for a
 * job; on one host its ranks have the same parent process.
 */
static const struct {
	const char *first, *second;
} jobs[] = {
	{"PMIX_NAMESPACE", NULL},	   {"OMPI_MCA_ess_base_jobid", NULL},
	{"SLURM_JOB_ID", "SLURM_STEP_ID"}, {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
	{"MASTER_ADDR", "MASTER_PORT"},
};

static const struct {
	const char *rank, *size;
} launchers[] = {
	{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"PMI_RANK", "PMI_SIZE"},
	{"SLURM_PROCID", "SLURM_NTASKS"},
	{"RANK", "WORLD_SIZE"},
};

static int copy_name(const char *from, char name[WCM_GROUP_NAME_MAX])
{
	size_t length = strlen(from);

	if (length == 0 || length >= WCM_GROUP_NAME_MAX)
		return WCM_EINVAL;
	memcpy(name, from, length + 1);
	return WCM_OK;
}

/*
 * A name that is too long is replaced by its hash: jobs may differ in their last character alone.
 */
static void name_job(const char *first, const char *second, char name[WCM_GROUP_NAME_MAX])
{
	int length = snprintf(name, WCM_GROUP_NAME_MAX, "job-%s-%s", first, second);
	struct ck_hash parts[2], all;
	char text[CK_HASH_TEXT];

	if (length >= 0 && length < WCM_GROUP_NAME_MAX)
		return;
	ck_hash(first, strlen(first), &parts[0]);
	ck_hash(second, strlen(second), &parts[1]);
	ck_hash(parts, sizeof(parts), &all);
	ck_hash_print(&all, text);
	snprintf(name, WCM_GROUP_NAME_MAX, "job-%s", text);
}

int ck_wcm_rank_address(const char *given, char name[WCM_GROUP_NAME_MAX])
{
	const char *set, *second;
	int ret;

	if (given)
		return copy_name(given, name);
	ret = ck_env_word("CRICKET_WCM", "group", name, WCM_GROUP_NAME_MAX);
	if (ret != -ENOENT)
		return ret == 0 && *name ? WCM_OK : WCM_EINVAL;
	for (size_t i = 0; i < CK_ARRAY_SIZE(jobs); i++) {
		set = getenv(jobs[i].first);
		if (!set || !*set)
			continue;
		second = jobs[i].second ? getenv(jobs[i].second) : NULL;
		name_job(set, second ? second : "", name);
		return WCM_OK;
	}
	snprintf(name, WCM_GROUP_NAME_MAX, "parent-%d", (int)getppid());
	return WCM_OK;
}

int ck_wcm_rank_address_rank(int *rank, int *size)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(launchers); i++) {
		const char *r = getenv(launchers[i].rank), *s = getenv(launchers[i].size);
		uint64_t rank_number, size_number;

		if (!r || !s)
			continue;
		if (ck_env_number(r, &rank_number) || ck_env_number(s, &size_number) ||
		    size_number > WCM_RANKS_MAX || rank_number >= size_number)
			return WCM_EINVAL;
		*rank = (int)rank_number;
		*size = (int)size_number;
		return WCM_OK;
	}
	return WCM_EINVAL;
}

int wcm_unique_name(char *name, size_t room)
{
	unsigned char bytes[16];

	if (!name || room < 2 * sizeof(bytes) + 1)
		return WCM_EINVAL;
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return WCM_EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(name + 2 * i, 3, "%02x", bytes[i]);
	return WCM_OK;
}
