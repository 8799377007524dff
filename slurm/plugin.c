/*
 * slurm/plugin.c - the SPANK plugin: options of srun, sbatch and salloc; reservations by the job's
 * prolog and epilog, which slurmd runs as root on each node of the job; the environment of its
 * steps.
 *
 * Nothing here fails a prolog: Slurm would drain the node. A job without its GPUs gets a message in
 * its steps.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC visibility push(default)
#include <slurm/spank.h>

SPANK_PLUGIN(cricket, 1);
#pragma GCC visibility pop

#include "slurm/ledger.h"
#include "slurm/report.h"
#include "slurm/reserve.h"
#include "slurm/settings.h"

/* Without --cricket-type; job_submit.lua has the same. */
#define TYPE "gpu"
#define PRELOAD 4096
#define VARIABLES 5
#define VALUE 1024

static int check_gpus(int val, const char *optarg, int remote)
{
	unsigned int gpus;

	(void)val;
	(void)remote;
	if (ck_slurm_gpus_parse(optarg, &gpus) == 0)
		return 0;
	slurm_error("cricket: --cricket=%s: give a number of GPUs, 1 to %d", optarg ? optarg : "",
		    CK_SLURM_GPUS);
	return -1;
}

static int check_type(int val, const char *optarg, int remote)
{
	char type[CK_SLURM_TYPE];

	(void)val;
	(void)remote;
	if (ck_slurm_type_parse(optarg, type) == 0)
		return 0;
	slurm_error("cricket: --cricket-type=%s: give 1 to %d letters, digits and underscores",
		    optarg ? optarg : "", CK_SLURM_TYPE - 1);
	return -1;
}

/* Slurm takes options without const. */
static struct spank_option gpus_option = {
	.name = "cricket",
	.arginfo = "N",
	.usage = "use N remote GPUs of one Cricket server",
	.has_arg = 1,
	.cb = check_gpus,
};
static struct spank_option type_option = {
	.name = "cricket-type",
	.arginfo = "TYPE",
	.usage = "their type, as the site names it (default: " TYPE ")",
	.has_arg = 1,
	.cb = check_type,
};

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	if (spank_option_register(sp, &gpus_option) != ESPANK_SUCCESS ||
	    spank_option_register(sp, &type_option) != ESPANK_SUCCESS) {
		slurm_error("cricket: cannot register its options");
		return -1;
	}
	return 0;
}

/* What the job asks for: 0, -ENOENT: no remote GPUs, -EINVAL. */
static int find_want(spank_t sp, struct ck_slurm_want *want, struct ck_slurm_why *why)
{
	char *gpus = NULL, *type = NULL;

	memset(want, 0, sizeof(*want));
	if (spank_option_getopt(sp, &gpus_option, &gpus) != ESPANK_SUCCESS)
		return -ENOENT;
	if (spank_get_item(sp, S_JOB_ID, &want->job) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_UID, &want->uid) != ESPANK_SUCCESS)
		return ck_slurm_fail(why, -EINVAL,
				     "Slurm does not report the job's number and user");
	if (spank_option_getopt(sp, &type_option, &type) != ESPANK_SUCCESS)
		type = TYPE;
	if (ck_slurm_gpus_parse(gpus, &want->gpus) < 0 || ck_slurm_type_parse(type, want->type) < 0)
		return ck_slurm_fail(why, -EINVAL, "--cricket or --cricket-type is wrong");
	return 0;
}

int slurm_spank_job_prolog(spank_t sp, int ac, char **av)
{
	struct ck_slurm_settings settings;
	struct ck_slurm_want want;
	struct ck_slurm_why why;
	int ret = find_want(sp, &want, &why);

	if (ret == -ENOENT)
		return 0;
	if (ck_slurm_settings_parse(ac, av, &settings, &why) < 0) {
		slurm_error("cricket: %s", why.text);
		return 0;
	}
	if (ret == 0)
		ret = ck_slurm_reserve(&settings, &want, &why);
	if (ret == 0)
		return 0;
	slurm_error("cricket: job %u: %s", want.job, why.text);
	if (ck_slurm_ledger_refuse(settings.dir, want.job, &why) < 0)
		slurm_error("cricket: job %u: cannot write into %s", want.job, settings.dir);
	return 0;
}

static void log_use(uint32_t job, const struct ck_slurm_record *record)
{
	long long seconds = (long long)(time(NULL) - record->start);
	int gpus = __builtin_popcountll(record->gpus);

	if (record->error[0])
		return;
	slurm_info("cricket: job %u: %s: %d GPUs of type %s at %s for %lld s: %lld GPU seconds",
		   job, record->name, gpus, record->type, record->server, seconds, seconds * gpus);
}

/* What the job's programs know of the server's certificate, into @variables. */
static void find_variables(spank_t sp, char values[][VALUE], char *variables[])
{
	static const char *const names[] = {"CRICKET_TLS", "CRICKET_TLS_CA", "CRICKET_TLS_PIN",
					    "CRICKET_TLS_CERT", "CRICKET_TLS_KEY"};
	size_t count = 0;

	_Static_assert(sizeof(names) / sizeof(names[0]) == VARIABLES, "each has room");
	for (size_t i = 0; i < VARIABLES; i++) {
		int n = snprintf(values[count], VALUE, "%s=", names[i]);

		if (spank_getenv(sp, names[i], values[count] + n, VALUE - n) != ESPANK_SUCCESS)
			continue;
		variables[count] = values[count];
		count++;
	}
	variables[count] = NULL;
}

/* Which of the job's programs on this node have ended? Else the server would keep the sessions of
 * those that were killed. */
static void report_ended(spank_t sp, const struct ck_slurm_settings *settings, uint32_t job)
{
	char values[VARIABLES][VALUE], *variables[VARIABLES + 1];
	struct ck_slurm_record record;
	struct ck_slurm_why why;
	uid_t uid;
	int ret = ck_slurm_ledger_find(settings->dir, job, &record, &why);

	if (ret < 0 || record.error[0] || spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS)
		return;
	find_variables(sp, values, variables);
	if (ck_slurm_report(settings, &record, uid, variables, &why) < 0)
		slurm_info("cricket: job %u: %s: sessions of killed programs stay for the time of "
			   "--keep",
			   job, why.text);
}

/* In slurmstepd, as root, after the tasks: they may start again in the next step. */
int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	struct ck_slurm_settings settings;
	struct ck_slurm_why why;
	uint32_t job;

	if (spank_remote(sp) == 1 && spank_get_item(sp, S_JOB_ID, &job) == ESPANK_SUCCESS &&
	    ck_slurm_settings_parse(ac, av, &settings, &why) == 0)
		report_ended(sp, &settings, job);
	return 0;
}

int slurm_spank_job_epilog(spank_t sp, int ac, char **av)
{
	struct ck_slurm_settings settings;
	struct ck_slurm_record record;
	struct ck_slurm_why why;
	uint32_t job;
	int ret;

	if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
		return 0;
	ret = ck_slurm_settings_parse(ac, av, &settings, &why);
	if (ret == 0) {
		report_ended(sp, &settings, job); /* while the token is valid */
		ret = ck_slurm_ledger_release(settings.dir, job, &record, &why);
	}
	if (ret == 0)
		log_use(job, &record);
	else if (ret != -ENOENT)
		slurm_error("cricket: job %u: %s", job, why.text);
	return 0;
}

/* The client before what the program preloads by itself. */
static spank_err_t set_preload(spank_t sp, const char *client)
{
	char had[PRELOAD / 2] = "", all[PRELOAD];

	if (spank_getenv(sp, "LD_PRELOAD", had, sizeof(had)) == ESPANK_NOSPACE)
		return ESPANK_NOSPACE;
	if (strstr(had, client))
		return ESPANK_SUCCESS;
	snprintf(all, sizeof(all), "%s%s%s", client, had[0] ? ":" : "", had);
	return spank_setenv(sp, "LD_PRELOAD", all, 1);
}

static int set_environment(spank_t sp, const struct ck_slurm_settings *settings,
			   const struct ck_slurm_record *record)
{
	char list[CK_SLURM_LIST];

	ck_slurm_gpus_print(record->gpus, list);
	if (set_preload(sp, settings->client) == ESPANK_SUCCESS &&
	    spank_setenv(sp, "REMOTE_GPU_ADDRESS", record->server, 1) == ESPANK_SUCCESS &&
	    spank_setenv(sp, "CRICKET_TOKEN", record->token, 1) == ESPANK_SUCCESS &&
	    spank_setenv(sp, "CUDA_VISIBLE_DEVICES", list, 1) == ESPANK_SUCCESS)
		return 0;
	slurm_error("cricket: the step's environment has no room for the variables of the GPUs");
	return -1;
}

/* In slurmstepd, as root, before the tasks: each step of the job gets the job's GPUs. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	struct ck_slurm_settings settings;
	struct ck_slurm_record record;
	struct ck_slurm_why why;
	char *gpus = NULL;
	uint32_t job;
	int ret;

	if (!spank_remote(sp) || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
		return 0;
	ret = ck_slurm_settings_parse(ac, av, &settings, &why);
	if (ret == 0)
		ret = ck_slurm_ledger_find(settings.dir, job, &record, &why);
	if (ret == 0 && !record.error[0])
		return set_environment(sp, &settings, &record);
	if (ret == 0)
		slurm_error("cricket: %s", record.error);
	else if (ret != -ENOENT)
		slurm_error("cricket: %s", why.text);
	else if (spank_option_getopt(sp, &gpus_option, &gpus) == ESPANK_SUCCESS)
		slurm_error("cricket: this job has no remote GPUs: give --cricket to the command "
			    "that starts the job");
	else
		return 0;
	return -1;
}
