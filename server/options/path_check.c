/*
 * server/options/path_check.c - paths of options that the server itself does not open at its start;
 * see options.h.
 *
 * Without this check, a wrong one is noticed by the first program that needs it. A path that may
 * appear later, as a program that is to be installed, or a folder that is to be mounted, gets a
 * warning only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/options/option_table.h"
#include "server/options/options.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

/* Each returns 0 or -errno; *@path: what is wrong, a part of the value. */
typedef int check_fn(const char *value, char path[PATH_MAX]);

static int check_type(const char *path, mode_t type)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if ((st.st_mode & S_IFMT) == type)
		return 0;
	return S_ISDIR(st.st_mode) ? -EISDIR : type == S_IFDIR ? -ENOTDIR : -EINVAL;
}

static int check_folder(const char *value, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s", value);
	return check_type(path, S_IFDIR);
}

static int check_library(const char *value, char path[PATH_MAX])
{
	int ret;

	snprintf(path, PATH_MAX, "%s", value);
	if (value[0] != '/')
		return 0; /* none */
	ret = check_type(path, S_IFREG);
	return ret == 0 && access(path, R_OK) < 0 ? -errno : ret;
}

/* One that is not there is made. */
static int check_cache(const char *value, char path[PATH_MAX])
{
	int ret = check_folder(value, path);

	return ret == -ENOENT ? 0 : ret;
}

/* Files may be among them. */
static int check_list(const char *value, char path[PATH_MAX])
{
	int ret = 0;

	if (strcmp(value, "none") == 0)
		return 0;
	for (const char *at = value; ret == 0 && *at;) {
		size_t n = strcspn(at, ":");

		snprintf(path, PATH_MAX, "%.*s", (int)n, at);
		ret = access(path, F_OK) < 0 ? -errno : 0;
		at += n + (at[n] == ':');
	}
	return ret;
}

/* As execvp finds it. */
static int check_program(const char *value, char path[PATH_MAX])
{
	const char *folders = getenv("PATH");
	int ret = -ENOENT;

	snprintf(path, PATH_MAX, "%s", value);
	if (strchr(value, '/')) {
		ret = check_type(value, S_IFREG);
		return ret == 0 && access(value, X_OK) < 0 ? -errno : ret;
	}
	for (const char *at = folders; at && *at && ret < 0;) {
		size_t n = strcspn(at, ":");

		snprintf(path, PATH_MAX, "%.*s/%s", (int)n, at, value);
		ret = access(path, X_OK) < 0 ? -ENOENT : 0;
		at += n + (at[n] == ':');
	}
	snprintf(path, PATH_MAX, "%s", value);
	return ret;
}

static const struct {
	const char *option;
	check_fn *check;
	const char *without; /* what the server does without it; NULL: it does not start */
} checks[] = {
	{"client-files", check_folder, NULL},
	{"nccl", check_library, NULL},
	{"cache-dir", check_cache, "the server keeps no modules"},
	{"confine", check_list, "workers that start before it is there cannot open it"},
	{"criu", check_program, "checkpoints fail until it is there"},
};

/* -EINVAL: the server does not start. */
static int check_one(size_t i, const char *value, FILE *out)
{
	const char *option = checks[i].option, *without = checks[i].without;
	char path[PATH_MAX];
	int ret = checks[i].check(value, path);
	const char *why = strerror(-ret);

	if (ret == 0)
		return 0;
	if (!without && out)
		return cks_options_wrong(out, option, "%s: %s", path, why);
	if (!without)
		fprintf(stderr, "cricket-rpc-server: --%s %s: %s\n", option, path, why);
	else if (out)
		fprintf(out, "# %s: %s: %s: %s\n", option, path, why, without);
	else
		ck_warn("--%s %s: %s: %s", option, path, why, without);
	return without ? 0 : -EINVAL;
}

int cks_options_check_paths(const struct cks_options *o, FILE *out)
{
	int ret = 0;

	for (size_t g = 0; g < o->given_count; g++) {
		for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
			const char *name = cks_option_at(o->given[g].index).name;

			if (strcmp(name, checks[i].option) == 0 && o->given[g].value &&
			    check_one(i, o->given[g].value, out) < 0)
				ret = -EINVAL;
		}
	}
	return ret;
}
