/*
 * util/process/replace.c - see replace.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process/replace.h"

/* A file that is a symbolic link stays one. */
static int find_path(struct ck_replace *r, const char *path)
{
	if (realpath(path, r->path))
		return 0;
	if (errno != ENOENT)
		return -errno;
	if (strlen(path) >= sizeof(r->path))
		return -ENAMETOOLONG;
	strcpy(r->path, path);
	return 0;
}

/* Give the new file the mode and the owner of the old one. */
static int copy_mode(int fd, const char *path, mode_t mode)
{
	struct stat old;

	if (stat(path, &old) < 0)
		return fchmod(fd, mode) < 0 ? -errno : 0;
	if (fchown(fd, old.st_uid, old.st_gid) < 0 && fchown(fd, (uid_t)-1, old.st_gid) < 0)
		old.st_mode &= ~(mode_t)077; /* no other group may read it */
	return fchmod(fd, old.st_mode & 07777) < 0 ? -errno : 0;
}

/* A device or a pipe, as /dev/stdout may be, is not replaced. */
static bool is_stream(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static int open_stream(struct ck_replace *r, const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY), ret;

	r->fresh[0] = '\0';
	r->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (r->out)
		return 0;
	ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

int ck_replace_begin(struct ck_replace *r, const char *path, mode_t mode)
{
	int fd, ret;

	r->out = NULL;
	if (is_stream(path))
		return open_stream(r, path);
	ret = find_path(r, path);
	if (ret < 0)
		return ret;
	strcpy(r->fresh, r->path);
	strcat(r->fresh, ".XXXXXX");
	fd = mkostemp(r->fresh, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = copy_mode(fd, r->path, mode);
	r->out = ret == 0 ? fdopen(fd, "w") : NULL;
	if (r->out)
		return 0;
	ret = ret < 0 ? ret : -errno;
	close(fd);
	unlink(r->fresh);
	return ret;
}

int ck_replace_end(struct ck_replace *r, bool ok)
{
	bool stream = !r->fresh[0];
	int ret = 0;

	if (ok && (fflush(r->out) < 0 || (!stream && fsync(fileno(r->out)) < 0)))
		ret = -errno;
	if (ok && ret == 0 && ferror(r->out))
		ret = -EIO; /* of a write before, which is not repeated */
	if (fclose(r->out) < 0 && ret == 0)
		ret = -errno;
	r->out = NULL;
	if (stream)
		return ok ? ret : 0;
	if (ok && ret == 0 && rename(r->fresh, r->path) < 0)
		ret = -errno;
	if (!ok || ret < 0)
		unlink(r->fresh);
	return ok ? ret : 0;
}
