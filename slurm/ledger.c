/*
 * slurm/ledger.c - see ledger.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "slurm/ledger.h"
#include "slurm/pool.h"
#include "slurm/tokens.h"

static int report_failure(struct ck_slurm_why *why, int ret, const char *dir, const char *name)
{
	return ck_slurm_fail(why, ret, "%s/%s: %s", dir, name, strerror(-ret));
}

static void job_path(const char *dir, uint32_t job, char path[CK_SLURM_PATH])
{
	snprintf(path, CK_SLURM_PATH, "%s/jobs/%u", dir, job);
}

static void tokens_path(const char *dir, const char *address, char path[CK_SLURM_PATH])
{
	snprintf(path, CK_SLURM_PATH, "%s/%s.tokens", dir, address);
}

/* The locked descriptor, which close(2) unlocks, or -errno. */
static int lock_ledger(const char *dir, struct ck_slurm_why *why)
{
	char path[CK_SLURM_PATH];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/lock", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return report_failure(why, -errno, dir, "lock");
	do {
		ret = flock(fd, LOCK_EX) < 0 ? -errno : 0;
	} while (ret == -EINTR);
	if (ret == 0)
		return fd;
	close(fd);
	return report_failure(why, ret, dir, "lock");
}

int ck_slurm_ledger_find(const char *dir, uint32_t job, struct ck_slurm_record *record,
			 struct ck_slurm_why *why)
{
	char path[CK_SLURM_PATH], name[32], *text;
	int ret;

	job_path(dir, job, path);
	snprintf(name, sizeof(name), "jobs/%u", job);
	text = ck_slurm_read(path, &ret);
	if (!text)
		return report_failure(why, ret, dir, name);
	ret = ck_slurm_record_parse(text, record);
	free(text);
	return ret < 0 ? ck_slurm_fail(why, ret, "%s is not a reservation", path) : 0;
}

static int add_job(uint32_t **jobs, size_t *count, uint32_t job)
{
	uint32_t *more = realloc(*jobs, (*count + 1) * sizeof(**jobs));

	if (!more)
		return -ENOMEM;
	more[(*count)++] = job;
	*jobs = more;
	return 0;
}

int ck_slurm_ledger_jobs(const char *dir, uint32_t **jobs, size_t *count, struct ck_slurm_why *why)
{
	char path[CK_SLURM_PATH], *end;
	struct dirent *entry;
	unsigned long job;
	DIR *folder;
	int ret = 0;

	*jobs = NULL;
	*count = 0;
	snprintf(path, sizeof(path), "%s/jobs", dir);
	folder = opendir(path);
	if (!folder)
		return report_failure(why, -errno, dir, "jobs");
	while (ret == 0 && (entry = readdir(folder))) {
		job = strtoul(entry->d_name, &end, 10);
		if (isdigit((unsigned char)entry->d_name[0]) && !*end && job < UINT32_MAX)
			ret = add_job(jobs, count, (uint32_t)job);
	}
	closedir(folder);
	if (ret == 0)
		return 0;
	free(*jobs);
	*jobs = NULL;
	return report_failure(why, ret, dir, "jobs");
}

/* The GPUs of each server that jobs have. A record that cannot be read stops us: its GPUs may be in
 * use. */
static int find_used(const char *dir, const struct ck_slurm_pool *pool, uint64_t *used,
		     struct ck_slurm_why *why)
{
	struct ck_slurm_record record;
	uint32_t *jobs;
	size_t count;
	int ret = ck_slurm_ledger_jobs(dir, &jobs, &count, why);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		ret = ck_slurm_ledger_find(dir, jobs[i], &record, why);
		for (unsigned int s = 0; ret == 0 && s < pool->count; s++)
			if (strcmp(pool->servers[s].address, record.server) == 0)
				used[s] |= record.gpus;
	}
	free(jobs);
	return ret;
}

/* The first @count GPUs of @server that are not in @used, or 0 if there are not so many. */
static uint64_t pick_gpus(const struct ck_slurm_server *server, uint64_t used, unsigned int count)
{
	uint64_t gpus = 0;

	for (unsigned int i = 0; i < server->gpus && count > 0; i++)
		if (!(used >> i & 1)) {
			gpus |= UINT64_C(1) << i;
			count--;
		}
	return count == 0 ? gpus : 0;
}

static int choose_server(const char *dir, const struct ck_slurm_pool *pool,
			 const struct ck_slurm_want *want, struct ck_slurm_record *record,
			 struct ck_slurm_why *why)
{
	uint64_t used[CK_SLURM_SERVERS] = {0};
	bool exists = false;
	int ret = find_used(dir, pool, used, why);

	for (unsigned int s = 0; ret == 0 && s < pool->count && !record->gpus; s++) {
		const struct ck_slurm_server *server = &pool->servers[s];

		if (strcmp(server->type, want->type) || server->gpus < want->gpus)
			continue;
		exists = true;
		record->gpus = pick_gpus(server, used[s], want->gpus);
		memcpy(record->server, server->address, sizeof(record->server));
	}
	if (ret < 0 || record->gpus)
		return ret;
	memset(record->server, 0, sizeof(record->server));
	if (!exists)
		return ck_slurm_fail(why, -ENODEV, "no server in %s/servers has %u GPUs of type %s",
				     dir, want->gpus, want->type);
	return ck_slurm_fail(why, -EBUSY, "no server has %u free GPUs of type %s", want->gpus,
			     want->type);
}

static int read_pool(const char *dir, struct ck_slurm_pool *pool, struct ck_slurm_why *why)
{
	char path[CK_SLURM_PATH], *text;
	int ret;

	snprintf(path, sizeof(path), "%s/servers", dir);
	text = ck_slurm_read(path, &ret);
	if (!text)
		return report_failure(why, ret, dir, "servers");
	ret = ck_slurm_pool_parse(text, pool, why);
	free(text);
	return ret;
}

/* The record comes first: after a crash between the two, it names the reservation. */
static int record_job(const char *dir, uint32_t job, const struct ck_slurm_record *record,
		      struct ck_slurm_why *why)
{
	char path[CK_SLURM_PATH], tokens[CK_SLURM_PATH], text[CK_SLURM_RECORD_TEXT];
	size_t size = ck_slurm_record_print(record, text);
	int ret;

	job_path(dir, job, path);
	ret = ck_slurm_write(path, text, size);
	if (ret < 0)
		return report_failure(why, ret, dir, "jobs");
	if (record->error[0])
		return 0;
	tokens_path(dir, record->server, tokens);
	ret = ck_slurm_token_add(tokens, record->name, record->token);
	if (ret == 0)
		return 0;
	unlink(path);
	return ck_slurm_fail(why, ret, "%s: %s", tokens, strerror(-ret));
}

static int take_locked(const char *dir, const struct ck_slurm_want *want, struct ck_slurm_why *why)
{
	struct ck_slurm_record record = {.start = time(NULL)};
	struct ck_slurm_pool pool;
	struct ck_slurm_record had;
	int ret = ck_slurm_ledger_find(dir, want->job, &had, why);

	if (ret != -ENOENT)
		return ret;
	ret = read_pool(dir, &pool, why);
	if (ret == 0)
		ret = choose_server(dir, &pool, want, &record, why);
	if (ret < 0)
		return ret;
	memcpy(record.type, want->type, sizeof(record.type));
	ck_slurm_token_name(want->uid, record.name);
	ret = ck_slurm_token_new(record.token);
	if (ret < 0)
		return ck_slurm_fail(why, ret, "no random bytes for a token");
	return record_job(dir, want->job, &record, why);
}

int ck_slurm_ledger_take(const char *dir, const struct ck_slurm_want *want,
			 struct ck_slurm_why *why)
{
	int ret, fd = lock_ledger(dir, why);

	if (fd < 0)
		return fd;
	ret = take_locked(dir, want, why);
	close(fd);
	return ret;
}

int ck_slurm_ledger_refuse(const char *dir, uint32_t job, const struct ck_slurm_why *reason)
{
	struct ck_slurm_record record = {.server = ""}, had;
	struct ck_slurm_why why;
	int ret = 0, fd = lock_ledger(dir, &why);

	if (fd < 0)
		return fd;
	snprintf(record.error, sizeof(record.error), "%s", reason->text);
	if (ck_slurm_ledger_find(dir, job, &had, &why) == -ENOENT)
		ret = record_job(dir, job, &record, &why);
	close(fd);
	return ret;
}

/* The token goes first, so that no token stays without a record. */
static int release_locked(const char *dir, uint32_t job, struct ck_slurm_record *record,
			  struct ck_slurm_why *why)
{
	char path[CK_SLURM_PATH];
	int ret = ck_slurm_ledger_find(dir, job, record, why);

	if (ret < 0)
		return ret;
	if (!record->error[0]) {
		tokens_path(dir, record->server, path);
		ret = ck_slurm_token_remove(path, record->name, record->token);
		/* Without the file there is no token in it. */
		if (ret < 0 && ret != -ENOENT)
			return ck_slurm_fail(why, ret, "%s: %s", path, strerror(-ret));
	}
	job_path(dir, job, path);
	return unlink(path) < 0 ? report_failure(why, -errno, dir, "jobs") : 0;
}

int ck_slurm_ledger_release(const char *dir, uint32_t job, struct ck_slurm_record *record,
			    struct ck_slurm_why *why)
{
	int ret, fd = lock_ledger(dir, why);

	if (fd < 0)
		return fd;
	ret = release_locked(dir, job, record, why);
	close(fd);
	return ret;
}
