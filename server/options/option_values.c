/*
 * server/options/option_values.c - see server/options/option_values.h.
 */
#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options/option_values.h"
#include "server/options/options.h"
#include "server/processes/sandbox.h"
#include "util/env.h"
#include "util/log.h"
#include "util/log_format.h"

int cks_option_wrong(char why[CK_OPTION_WHY], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, CK_OPTION_WHY, format, args);
	va_end(args);
	return -EINVAL;
}

int cks_option_text(const char *value, void *out, char why[CK_OPTION_WHY])
{
	*(const char **)out = value;
	return *value ? 0 : cks_option_wrong(why, "it is empty");
}

int cks_option_path(const char *value, void *out, char why[CK_OPTION_WHY])
{
	*(const char **)out = value;
	return *value == '/' ? 0 : cks_option_wrong(why, "not an absolute path");
}

int cks_option_flag(const char *value, void *out, char why[CK_OPTION_WHY])
{
	(void)why;
	(void)value;
	*(bool *)out = true;
	return 0;
}

int cks_option_mode(const char *value, void *out, char why[CK_OPTION_WHY])
{
	unsigned int mode = (unsigned int)strtoul(value, NULL, 8);

	*(unsigned int *)out = mode;
	return *value && strspn(value, "01234567") == strlen(value) && (mode & ~0777u) == 0 &&
			       (mode & 0600) == 0600
		       ? 0
		       : cks_option_wrong(why, "not a mode from 0600 to 0777");
}

int cks_option_group(const char *value, void *out, char why[CK_OPTION_WHY])
{
	const struct group *group = getgrnam(value);

	if (!group)
		return cks_option_wrong(why, "no such group");
	*(long *)out = (long)group->gr_gid;
	return 0;
}

/* Allow digits and commas; only the process with the driver knows whether the devices exist. */
int cks_option_devices(const char *value, void *out, char why[CK_OPTION_WHY])
{
	*(const char **)out = value;
	if (strcmp(value, "none") == 0)
		return 0;
	for (const char *at = value;; at++) {
		size_t digits = strspn(at, "0123456789");

		at += digits;
		if (digits == 0 || (*at && *at != ','))
			return cks_option_wrong(why, "not a list of devices");
		if (!*at)
			return 0;
	}
}

/* Check it now: a worker that cannot parse it would refuse every client. */
int cks_option_cache_size(const char *value, void *out, char why[CK_OPTION_WHY])
{
	uint64_t size;

	*(const char **)out = value;
	if (ck_env_number(value, &size) < 0 || size == 0)
		return cks_option_wrong(why, "not a size");
	return setenv("CRICKET_CACHE_SIZE", value, 1) < 0 ? -errno : 0;
}

static int parse_number(const char *text, long least, long most, long *out, char why[CK_OPTION_WHY])
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most)
		return cks_option_wrong(why, "not a number from %ld to %ld", least, most);
	*out = value;
	return 0;
}

int cks_option_sessions(const char *value, void *out, char why[CK_OPTION_WHY])
{
	long number = 0;
	int ret = parse_number(value, 1, 100000, &number, why);

	*(unsigned int *)out = (unsigned int)number;
	return ret;
}

int cks_option_spares(const char *value, void *out, char why[CK_OPTION_WHY])
{
	long number = 0;
	int ret = parse_number(value, 0, CK_WARM_MAX, &number, why);

	*(int *)out = (int)number;
	return ret;
}

static int put_into_environment(const char *name, const char *value)
{
	return setenv(name, value, 1) < 0 ? -errno : 0;
}

int cks_option_no_shm(const char *value, void *out, char why[CK_OPTION_WHY])
{
	(void)why;
	(void)value;
	(void)out;
	return ck_env_list_add("CRICKET_DEBUG", "no-shm");
}

int cks_option_sandbox(const char *value, void *out, char why[CK_OPTION_WHY])
{
	(void)out;
	if (cks_sandbox_check(value) < 0)
		return cks_option_wrong(why, "not auto, on, log or off");
	return put_into_environment("CRICKET_SANDBOX", value);
}

int cks_option_nccl(const char *value, void *out, char why[CK_OPTION_WHY])
{
	(void)out;
	if (*value != '/' && strcmp(value, "off") != 0)
		return cks_option_wrong(why, "neither an absolute path nor off");
	return put_into_environment("CRICKET_NCCL_LIBRARY", value);
}

int cks_option_log(const char *value, void *out, char why[CK_OPTION_WHY])
{
	(void)out;
	if (!*value || ck_log_check(value) < 0)
		return cks_option_wrong(why, "not a level, or a list of part:level");
	return put_into_environment("CRICKET_LOG", value);
}

int cks_option_log_format(const char *value, void *out, char why[CK_OPTION_WHY])
{
	(void)out;
	if (!ck_log_format_known(value))
		return cks_option_wrong(why, "not a format of log lines: text or json");
	return put_into_environment("CRICKET_LOG_FORMAT", value);
}
