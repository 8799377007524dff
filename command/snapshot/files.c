/*
 * command/snapshot/files.c - see files.h.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/snapshot/files.h"
#include "util/process/home.h"
#include "util/process/replace.h"

#define ABOUT "snapshot.json"
#define NAME_MAX_BYTES 64
#define DEPTH 16 /* descriptors for the removal of a tree */

static bool is_name(const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			return false;
	}
	return length > 0 && length <= NAME_MAX_BYTES && name[0] != '.' && name[0] != '-';
}

int ckx_snapshot_find(const char *name, struct ckx_snapshot *s)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = ck_home();
	int n;

	*s = (struct ckx_snapshot){.name = name, .lock = -1};
	if (!is_name(name))
		return ckx_error("%s: a name of a snapshot has letters, digits, and . _ - behind "
				 "them",
				 name),
		       -EINVAL;
	if (data && *data == '/')
		n = snprintf(s->folder, sizeof(s->folder), "%s/cricket/snapshots/%s", data, name);
	else if (home)
		n = snprintf(s->folder, sizeof(s->folder), "%s/.local/share/cricket/snapshots/%s",
			     home, name);
	else
		return ckx_error("%s", CK_HOME_NONE), -ENOENT;
	return n < (int)sizeof(s->folder)
		       ? 0
		       : (ckx_error("%s: the path is too long", name), -ENAMETOOLONG);
}

const char *ckx_snapshot_path(const struct ckx_snapshot *s, const char *file, char out[CKX_PATH])
{
	snprintf(out, CKX_PATH, "%s/%.500s", s->folder, file);
	return out;
}

static int report_file(const char *path, int ret)
{
	ckx_error("%s: %s", path, strerror(-ret));
	return ret;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

int ckx_snapshot_remove(struct ckx_snapshot *s)
{
	char about[CKX_PATH];

	unlink(ckx_snapshot_path(s, ABOUT, about)); /* it is no snapshot from here on */
	if (nftw(s->folder, remove_one, DEPTH, FTW_DEPTH | FTW_PHYS) < 0)
		return report_file(s->folder, -errno);
	if (s->lock >= 0)
		close(s->lock);
	s->lock = -1;
	return 0;
}

/* Remove the leftovers of a killed `cricket snapshot`; the lock tells that none is at work. */
static int make_folder(struct ckx_snapshot *s)
{
	int ret = ckx_install_path_make(s->folder, 0700);

	if (ret < 0)
		return report_file(s->folder, ret);
	s->lock = open(s->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->lock < 0 || flock(s->lock, LOCK_EX | LOCK_NB) < 0)
		return report_file(s->folder, -errno);
	return 0;
}

int ckx_snapshot_create(const char *name, struct ckx_snapshot *s)
{
	char about[CKX_PATH];
	int ret = ckx_snapshot_find(name, s);

	if (ret < 0)
		return ret;
	if (access(ckx_snapshot_path(s, ABOUT, about), F_OK) == 0)
		return ckx_error("there is a snapshot %s: cricket snapshots rm %s", name, name),
		       -EEXIST;
	ret = make_folder(s);
	if (ret == 0)
		ret = ckx_snapshot_remove(s);
	return ret == 0 ? make_folder(s) : ret;
}

/* --- the list of files */

/* Add the files of @folder, of the snapshot, to @files. */
static int add_files(const struct ckx_snapshot *s, const char *folder, json_t *files,
		     uint64_t *bytes)
{
	char path[CKX_PATH], file[CKX_PATH], hash[CKX_SNAPSHOT_HASH];
	DIR *dir = opendir(ckx_snapshot_path(s, folder, path));
	struct dirent *entry;
	uint64_t size;
	int ret = dir ? 0 : report_file(path, -errno);

	while (ret == 0 && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length < 4 || strcmp(entry->d_name + length - 4, ".img") != 0)
			continue;
		if (snprintf(file, sizeof(file), "%s/%s", path, entry->d_name) >= CKX_PATH)
			ret = -ENAMETOOLONG;
		else
			ret = ckx_snapshot_hash(file, &size, hash);
		if (ret < 0)
			ret = report_file(entry->d_name, ret);
		else
			json_object_set_new(
				files, entry->d_name,
				json_pack("{s:I, s:s}", "size", (json_int_t)size, "hash", hash));
		*bytes += ret == 0 ? size : 0;
	}
	if (dir)
		closedir(dir);
	return ret;
}

int ckx_snapshot_complete(const struct ckx_snapshot *s, json_t *about, uint64_t *bytes)
{
	json_t *files = json_object();
	char path[CKX_PATH];
	struct ck_replace r;
	int ret;

	*bytes = 0;
	ret = add_files(s, "program", files, bytes);
	json_object_set_new(about, "files", files);
	json_object_set_new(about, "memory", json_integer((json_int_t)*bytes));
	ckx_snapshot_path(s, ABOUT, path);
	if (ret == 0 && (ret = ck_replace_begin(&r, path, 0600)) < 0)
		report_file(path, ret);
	if (ret == 0) {
		ret = ck_replace_end(&r, json_dumpf(about, r.out, JSON_INDENT(1)) == 0);
		if (ret < 0)
			report_file(path, ret);
	}
	json_decref(about);
	return ret;
}

/* --- reading */

static int check_owner(const struct ckx_snapshot *s)
{
	struct stat st;

	if (lstat(s->folder, &st) < 0) {
		int ret = -errno;

		if (ret == -ENOENT)
			ckx_error("there is no snapshot %s; `cricket snapshots` lists them",
				  s->name);
		else
			report_file(s->folder, ret);
		return ret;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return ckx_error("%s belongs to another user: only its owner can start copies",
				 s->folder),
		       -EPERM;
	if (st.st_mode & 077)
		return ckx_error("%s: other users can access it (its mode must be 0700)",
				 s->folder),
		       -EPERM;
	return 0;
}

json_t *ckx_snapshot_read(const struct ckx_snapshot *s)
{
	const char *release = NULL;
	char path[CKX_PATH];
	json_t *about;

	if (check_owner(s) < 0)
		return NULL;
	about = json_load_file(ckx_snapshot_path(s, ABOUT, path), JSON_REJECT_DUPLICATES, NULL);
	if (!about && access(path, F_OK) < 0)
		ckx_error("snapshot %s is not complete", s->name);
	else if (json_unpack(about, "{s:s}", "release", &release) < 0)
		ckx_error("%s: it is damaged", path);
	else if (strcmp(release, CK_RELEASE) != 0)
		ckx_error("snapshot %s is of release %.40s, this is %s: make it again", s->name,
			  release, CK_RELEASE);
	else
		return about;
	json_decref(about);
	return NULL;
}

int ckx_snapshot_verify(const struct ckx_snapshot *s, const json_t *about)
{
	char file[CKX_PATH], path[CKX_PATH], hash[CKX_SNAPSHOT_HASH];
	json_t *files = json_object_get(about, "files"), *value;
	const char *name, *expected;
	uint64_t size;
	int ret = json_object_size(files) > 0 ? 0 : -EBADMSG;

	json_object_foreach(files, name, value)
	{
		if (strchr(name, '/') || json_unpack(value, "{s:s}", "hash", &expected) < 0 ||
		    snprintf(file, sizeof(file), "program/%s", name) >= NAME_MAX)
			ret = -EBADMSG;
		if (ret < 0)
			break;
		ret = ckx_snapshot_hash(ckx_snapshot_path(s, file, path), &size, hash);
		if (ret < 0)
			return report_file(path, ret);
		if (strcmp(hash, expected) != 0)
			return ckx_error("%s has changed: make the snapshot %s again", path,
					 s->name),
			       -EBADMSG;
	}
	if (ret < 0)
		ckx_error("%s/" ABOUT ": it is damaged", s->folder);
	return ret;
}
