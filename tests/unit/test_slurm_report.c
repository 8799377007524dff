/*
 * tests/unit/test_slurm_report.c - the command that reports the end of a job's programs.
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

#include "slurm/report.h"

static const struct ck_slurm_record record = {.server = "gpu1:9909", .token = "secret"};

static void write_command(const struct ck_slurm_settings *settings, const char *text)
{
	FILE *f = fopen(settings->command, "w");

	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n%s\n", text);
	fclose(f);
	assert_int_equal(chmod(settings->command, 0700), 0);
}

static void the_command_has_server_token_and_the_job_s_variables(void **state)
{
	char folder[] = "/tmp/cricket-report.XXXXXX", text[1024], pin[] = "CRICKET_TLS_PIN=abc";
	char *variables[] = {pin, NULL};
	struct ck_slurm_settings settings = {.wait = 0};
	struct ck_slurm_why why;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(settings.command, sizeof(settings.command), "%s/cricket", folder);
	snprintf(text, sizeof(text),
		 "echo $1 $REMOTE_GPU_ADDRESS $CRICKET_TOKEN $CRICKET_TLS_PIN $LD_PRELOAD. > "
		 "%s/said",
		 folder);
	write_command(&settings, text);
	assert_int_equal(ck_slurm_report(&settings, &record, getuid(), variables, &why), 0);
	snprintf(text, sizeof(text), "%s/said", folder);
	f = fopen(text, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	assert_string_equal(text, "reap gpu1:9909 secret abc .\n");
	fclose(f);
	write_command(&settings, "exit 1");
	assert_int_equal(ck_slurm_report(&settings, &record, getuid(), variables, &why), -EIO);
	assert_non_null(strstr(why.text, "reap has failed"));
	snprintf(text, sizeof(text), "rm -r %s", folder);
	assert_int_equal(system(text), 0);
	assert_int_equal(ck_slurm_report(&settings, &record, getuid(), variables, &why), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_command_has_server_token_and_the_job_s_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
