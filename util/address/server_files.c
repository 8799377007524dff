/*
 * util/address/server_files.c - see server_files.h.
 */
#define _GNU_SOURCE /* secure_getenv */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/address/server_files.h"
#include "util/util.h"
#include "util/process/home.h"

#define SERVICE_USER "cricket"

static bool has_unit(void)
{
	static const char *const folders[] = {"/etc/systemd/system", "/lib/systemd/system",
					      "/usr/lib/systemd/system",
					      "/usr/local/lib/systemd/system"};
	char path[128];

	for (size_t i = 0; i < CK_ARRAY_SIZE(folders); i++) {
		snprintf(path, sizeof(path), "%s/" CK_SERVICE ".service", folders[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

static int find_own(char *out, size_t size)
{
	const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = ck_home();
	int n;

	if (config && *config == '/') {
		n = snprintf(out, size, "%s/cricket/server", config);
		return n < (int)size ? 0 : -ENAMETOOLONG;
	}
	if (!home)
		return -ENOENT;
	n = snprintf(out, size, "%s/.config/cricket/server", home);
	return n < (int)size ? 0 : -ENAMETOOLONG;
}

int ck_server_files_find(struct ck_server_files *f)
{
	const struct passwd *user = geteuid() == 0 && has_unit() ? getpwnam(SERVICE_USER) : NULL;
	int ret = 0;

	f->service = user != NULL;
	f->group = user ? user->pw_gid : (gid_t)-1;
	if (f->service)
		snprintf(f->folder, sizeof(f->folder), "/etc/cricket");
	else
		ret = find_own(f->folder, sizeof(f->folder));
	if (ret < 0)
		return ret;
	snprintf(f->tls, sizeof(f->tls), "%s/tls", f->folder);
	snprintf(f->tokens, sizeof(f->tokens), "%s/tokens", f->folder);
	return 0;
}

/* Make all folders down to @path, which others than the group may not open. */
static int make_folders(const struct ck_server_files *f, const char *path)
{
	char part[CK_SERVER_FILES_PATH];
	char *end = part;

	snprintf(part, sizeof(part), "%s", path);
	while ((end = strchr(end + 1, '/')) != NULL) {
		*end = '\0';
		if (mkdir(part, f->service ? 0755 : 0700) < 0 && errno != EEXIST)
			return -errno;
		*end = '/';
	}
	if (mkdir(part, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	if (f->service && (chown(part, (uid_t)-1, f->group) < 0 || chmod(part, 0750) < 0))
		return -errno;
	return 0;
}

int ck_server_files_make(const struct ck_server_files *f)
{
	return make_folders(f, f->tls);
}

int ck_server_files_share(const struct ck_server_files *f, const char *path)
{
	if (!f->service)
		return 0;
	return chown(path, (uid_t)-1, f->group) < 0 || chmod(path, 0640) < 0 ? -errno : 0;
}
