/*
 * tests/unit/test_slurm_ledger.c - the reservations of jobs in Slurm, in a folder.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "slurm/ledger.h"
#include "slurm/pool.h"
#include "slurm/reserve.h"
#include "slurm/settings.h"
#include "slurm/tokens.h"

#define OWN "# of the site\nown:0000000000000000000000000000000000000000000000000000000000000000"

struct site {
	char dir[64];
	struct ck_slurm_why why;
};

static void put(const struct site *site, const char *name, const char *text)
{
	char path[CK_SLURM_PATH];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", site->dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static char *get(const struct site *site, const char *name)
{
	char path[CK_SLURM_PATH], *text;
	int ret;

	snprintf(path, sizeof(path), "%s/%s", site->dir, name);
	text = ck_slurm_read(path, &ret);
	return text;
}

static int set_up(void **state)
{
	struct site *site = calloc(1, sizeof(*site));
	char path[CK_SLURM_PATH];

	strcpy(site->dir, "/tmp/cricket-ledger.XXXXXX");
	assert_non_null(mkdtemp(site->dir));
	snprintf(path, sizeof(path), "%s/jobs", site->dir);
	assert_int_equal(mkdir(path, 0700), 0);
	put(site, "servers", "# all\n\na:1 h200 2\nb:1 h200 4\nc:1 gpu 1\n");
	put(site, "a:1.tokens", OWN);
	put(site, "b:1.tokens", OWN "\n");
	put(site, "c:1.tokens", OWN "\n");
	*state = site;
	return 0;
}

static int tear_down(void **state)
{
	struct site *site = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", site->dir);
	assert_int_equal(system(command), 0);
	free(site);
	return 0;
}

static int take(struct site *site, uint32_t job, const char *type, unsigned int gpus)
{
	struct ck_slurm_want want = {.job = job, .gpus = gpus};

	snprintf(want.type, sizeof(want.type), "%s", type);
	return ck_slurm_ledger_take(site->dir, &want, &site->why);
}

static uint64_t gpus_of(struct site *site, uint32_t job, const char *server)
{
	struct ck_slurm_record record;

	assert_int_equal(ck_slurm_ledger_find(site->dir, job, &record, &site->why), 0);
	assert_string_equal(record.server, server);
	return record.gpus;
}

static void jobs_get_different_gpus_of_one_server(void **state)
{
	struct site *site = *state;

	assert_int_equal(take(site, 1, "h200", 1), 0);
	assert_int_equal(take(site, 2, "h200", 2), 0);
	assert_int_equal(take(site, 3, "h200", 1), 0);
	assert_int_equal(gpus_of(site, 1, "a:1"), 1);
	assert_int_equal(gpus_of(site, 2, "b:1"), 3);
	assert_int_equal(gpus_of(site, 3, "a:1"), 2);
	assert_int_equal(take(site, 4, "h200", 3), -EBUSY);
	assert_int_equal(take(site, 4, "h200", 5), -ENODEV);
	assert_int_equal(take(site, 4, "other", 1), -ENODEV);
}

static void a_second_node_of_a_job_finds_its_reservation(void **state)
{
	struct site *site = *state;

	assert_int_equal(take(site, 1, "gpu", 1), 0);
	assert_int_equal(take(site, 1, "gpu", 1), 0);
	assert_int_equal(take(site, 2, "gpu", 1), -EBUSY);
}

static void the_token_is_in_the_list_until_the_end_of_the_job(void **state)
{
	struct site *site = *state;
	struct ck_slurm_record record;
	char *during, *after;

	assert_int_equal(take(site, 1, "h200", 2), 0);
	during = get(site, "a:1.tokens");
	assert_memory_equal(during, OWN "\n", strlen(OWN "\n"));
	assert_non_null(strstr(during, "@slurm:"));
	assert_int_equal(ck_slurm_ledger_release(site->dir, 1, &record, &site->why), 0);
	assert_null(strstr(during, record.token));
	after = get(site, "a:1.tokens");
	assert_string_equal(after, OWN "\n");
	assert_int_equal(ck_slurm_ledger_release(site->dir, 1, &record, &site->why), -ENOENT);
	assert_int_equal(take(site, 2, "h200", 2), 0);
	assert_int_equal(gpus_of(site, 2, "a:1"), 3);
	free(during);
	free(after);
}

static void a_list_of_jobs_alone_does_not_become_empty(void **state)
{
	struct site *site = *state;
	struct ck_slurm_record record;
	char *text;

	put(site, "c:1.tokens", "");
	assert_int_equal(take(site, 1, "gpu", 1), 0);
	assert_int_equal(ck_slurm_ledger_release(site->dir, 1, &record, &site->why), 0);
	text = get(site, "c:1.tokens");
	assert_int_equal(text[0], '#');
	free(text);
}

static void without_the_token_file_there_is_no_reservation(void **state)
{
	struct site *site = *state;
	char path[CK_SLURM_PATH];
	struct ck_slurm_record record;

	snprintf(path, sizeof(path), "%s/c:1.tokens", site->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(take(site, 1, "gpu", 1), -ENOENT);
	assert_non_null(strstr(site->why.text, "c:1.tokens"));
	assert_int_equal(ck_slurm_ledger_find(site->dir, 1, &record, &site->why), -ENOENT);
}

static void the_reason_of_a_refusal_reaches_the_steps(void **state)
{
	struct site *site = *state;
	struct ck_slurm_why reason = {"no server"};
	struct ck_slurm_record record;

	assert_int_equal(ck_slurm_ledger_refuse(site->dir, 1, &reason), 0);
	assert_int_equal(ck_slurm_ledger_find(site->dir, 1, &record, &site->why), 0);
	assert_string_equal(record.error, "no server");
	assert_int_equal(take(site, 2, "gpu", 1), 0);
	assert_int_equal(ck_slurm_ledger_release(site->dir, 1, &record, &site->why), 0);
}

static void a_damaged_record_stops_new_reservations(void **state)
{
	struct site *site = *state;

	put(site, "jobs/7", "server=a:1\ngpus=zz\n");
	assert_int_equal(take(site, 1, "h200", 1), -EINVAL);
	assert_non_null(strstr(site->why.text, "jobs/7"));
}

static void use_squeue(const struct site *site, const char *script)
{
	char path[CK_SLURM_PATH];

	put(site, "squeue", script);
	snprintf(path, sizeof(path), "%s/squeue", site->dir);
	assert_int_equal(chmod(path, 0700), 0);
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", site->dir);
	assert_int_equal(setenv("PATH", path, 1), 0);
}

static void only_jobs_that_squeue_does_not_list_lose_their_gpus(void **state)
{
	struct site *site = *state;
	struct ck_slurm_record record;

	assert_int_equal(take(site, 1, "h200", 1), 0);
	assert_int_equal(take(site, 12, "h200", 1), 0);
	use_squeue(site, "#!/bin/sh\necho 12\necho 77\n");
	assert_int_equal(ck_slurm_reap(site->dir, &site->why), 0);
	assert_int_equal(ck_slurm_ledger_find(site->dir, 1, &record, &site->why), -ENOENT);
	assert_int_equal(gpus_of(site, 12, "a:1"), 2);
}

static void a_failed_squeue_ends_no_reservation(void **state)
{
	struct site *site = *state;

	assert_int_equal(take(site, 1, "h200", 1), 0);
	use_squeue(site, "#!/bin/sh\nexit 1\n");
	assert_int_equal(ck_slurm_reap(site->dir, &site->why), -EIO);
	use_squeue(site, "#!/bin/sh\necho oops\n");
	assert_int_equal(ck_slurm_reap(site->dir, &site->why), -EIO);
	assert_int_equal(gpus_of(site, 1, "a:1"), 1);
}

static void a_wrong_line_of_the_servers_is_named(void **state)
{
	static const char *const wrong[] = {
		"a:1 h200",  "a:1 h200 0", "a:1 h200 65",  "a:1 h-200 1", "../a h200 1",
		".a h200 1", "a/b h200 1", "a:1 h200 1 1", "a:1 h200 1x", "x\na:1 h200 1",
	};
	struct site *site = *state;
	struct ck_slurm_pool pool;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(ck_slurm_pool_parse(wrong[i], &pool, &site->why), -EINVAL);
		assert_non_null(strstr(site->why.text, "line 1 "));
	}
	assert_int_equal(ck_slurm_pool_parse("a h 1\na h 1\n", &pool, &site->why), -EINVAL);
	assert_non_null(strstr(site->why.text, "line 2 "));
}

static void a_wrong_argument_of_the_plugin_is_named(void **state)
{
	static char *wrong[] = {"dir=cricket", "client=x", "wait=-1", "wait=1x", "folder=/x"};
	struct site *site = *state;
	struct ck_slurm_settings settings;
	char *right[] = {"dir=/x", "wait=5"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(ck_slurm_settings_parse(1, &wrong[i], &settings, &site->why),
				 -EINVAL);
		assert_non_null(strstr(site->why.text, wrong[i]));
	}
	assert_int_equal(ck_slurm_settings_parse(0, NULL, &settings, &site->why), -EINVAL);
	assert_int_equal(ck_slurm_settings_parse(2, right, &settings, &site->why), 0);
	assert_string_equal(settings.dir, "/x");
	assert_int_equal(settings.wait, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(jobs_get_different_gpus_of_one_server),
		TEST(a_second_node_of_a_job_finds_its_reservation),
		TEST(the_token_is_in_the_list_until_the_end_of_the_job),
		TEST(a_list_of_jobs_alone_does_not_become_empty),
		TEST(without_the_token_file_there_is_no_reservation),
		TEST(the_reason_of_a_refusal_reaches_the_steps),
		TEST(a_damaged_record_stops_new_reservations),
		TEST(only_jobs_that_squeue_does_not_list_lose_their_gpus),
		TEST(a_failed_squeue_ends_no_reservation),
		TEST(a_wrong_line_of_the_servers_is_named),
		TEST(a_wrong_argument_of_the_plugin_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
