/*
 * server/processes/option_values.c - see server/processes/option_values.h.
 */
#include <errno.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/option_values.h"
#include "server/processes/options.h"
#include "server/processes/sandbox.h"
#include "util/env.h"
#include "util/log.h"
#include "util/log_format.h"

int cks_option_refuse(const char *what, const char *value)
{
	fprintf(stderr, "cricket-rpc-server: %s: %s\n", what, value);
	return -EINVAL;
}

int cks_option_text(const char *value, void *out)
{
	*(const char **)out = value;
	return 0;
}

int cks_option_path(const char *value, void *out)
{
	*(const char **)out = value;
	return *value == '/' ? 0 : cks_option_refuse("not an absolute path", value);
}

int cks_option_flag(const char *value, void *out)
{
	(void)value;
	*(bool *)out = true;
	return 0;
}

int cks_option_mode(const char *value, void *out)
{
	unsigned int mode = (unsigned int)strtoul(value, NULL, 8);

	*(unsigned int *)out = mode;
	return *value && strspn(value, "01234567") == strlen(value) && (mode & ~0777u) == 0 &&
			       (mode & 0600) == 0600
		       ? 0
		       : cks_option_refuse("not a mode from 0600 to 0777", value);
}

int cks_option_group(const char *value, void *out)
{
	const struct group *group = getgrnam(value);

	if (!group)
		return cks_option_refuse("no such group", value);
	*(long *)out = (long)group->gr_gid;
	return 0;
}

/* Allow digits and commas; only the process with the driver knows whether the devices exist. */
int cks_option_devices(const char *value, void *out)
{
	*(const char **)out = value;
	if (strcmp(value, "none") == 0)
		return 0;
	return *value && strspn(value, "0123456789,") == strlen(value)
		       ? 0
		       : cks_option_refuse("not a list of devices", value);
}

/* Check it now: a worker that cannot parse it would refuse every client. */
int cks_option_cache_size(const char *value, void *out)
{
	*(const char **)out = value;
	if (setenv("CRICKET_CACHE_SIZE", value, 1) < 0)
		return -errno;
	return strspn(value, "0123456789") > 0 && ck_env_long("CRICKET_CACHE_SIZE") > 0
		       ? 0
		       : cks_option_refuse("not a size", value);
}

static int parse_number(const char *text, long least, long most, long *out)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		fprintf(stderr, "cricket-rpc-server: not a number from %ld to %ld: %s\n", least,
			most, text);
		return -EINVAL;
	}
	*out = value;
	return 0;
}

int cks_option_sessions(const char *value, void *out)
{
	long number = 0;
	int ret = parse_number(value, 1, 100000, &number);

	*(unsigned int *)out = (unsigned int)number;
	return ret;
}

int cks_option_spares(const char *value, void *out)
{
	long number = 0;
	int ret = parse_number(value, 0, CK_WARM_MAX, &number);

	*(int *)out = (int)number;
	return ret;
}

static int put_into_environment(const char *name, const char *value)
{
	return setenv(name, value, 1) < 0 ? -errno : 0;
}

int cks_option_no_shm(const char *value, void *out)
{
	(void)value;
	(void)out;
	return put_into_environment("CRICKET_SHM", "0");
}

int cks_option_sandbox(const char *value, void *out)
{
	(void)out;
	if (cks_sandbox_check(value) < 0)
		return cks_option_refuse("--sandbox, CRICKET_SANDBOX: not auto, on, log or off",
					 value);
	return put_into_environment("CRICKET_SANDBOX", value);
}

int cks_option_nccl(const char *value, void *out)
{
	(void)out;
	if (*value != '/' && strcmp(value, "off") != 0)
		return cks_option_refuse("--nccl: neither an absolute path nor off", value);
	return put_into_environment("CRICKET_NCCL_LIBRARY", value);
}

int cks_option_log(const char *value, void *out)
{
	(void)out;
	if (ck_log_check(value) < 0)
		return cks_option_refuse("not a level, or a list of part:level", value);
	return put_into_environment("CRICKET_LOG", value);
}

int cks_option_log_format(const char *value, void *out)
{
	(void)out;
	if (!ck_log_format_known(value))
		return cks_option_refuse("not a format of log lines: text or json", value);
	return put_into_environment("CRICKET_LOG_FORMAT", value);
}
