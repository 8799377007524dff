/*
 * command/login/install.c - see login.h.
 *
 * The files come into a folder of another name, which gets its own when all of them are there and
 * its command has run: an installation that ends in the middle changes nothing. The folder is named
 * after its content, so the same client is there once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/login/fetch.h"
#include "command/login/login.h"
#include "util/process/fd.h"
#include "util/hash.h"
#include "util/process/home.h"

extern char **environ;

struct place {
	char lib[CKX_PATH], bin[CKX_PATH]; /* folders below the prefix */
	char fresh[CKX_PATH + 64];	   /* of files that arrive; empty: none */
	char final[CKX_PATH + 192];	   /* its later name */
};

static int report_error(const char *what, const char *path)
{
	int ret = -errno;

	ckx_error("%s %s: %s", what, path, strerror(-ret));
	return ret;
}

static int make_folder(const char *path)
{
	int ret = ckx_install_path_make(path, 0755);

	if (ret < 0)
		ckx_error("making %s: %s", path, strerror(-ret));
	return ret;
}

static int find_place(const char *prefix, struct place *p)
{
	const char *home = ck_home();
	char own[CKX_PATH - 64];
	int n;

	memset(p, 0, sizeof(*p));
	if (!prefix && !home)
		return ckx_error(CK_HOME_NONE), -ENOENT;
	if (prefix)
		n = snprintf(own, sizeof(own), "%s", prefix);
	else
		n = snprintf(own, sizeof(own), "%s/.local", home);
	if (own[0] != '/' || n >= (int)sizeof(own)) {
		ckx_error("%s: not an absolute path", own);
		return -EINVAL;
	}
	snprintf(p->lib, sizeof(p->lib), "%s/lib", own);
	snprintf(p->bin, sizeof(p->bin), "%s/bin", own);
	n = make_folder(p->lib);
	return n == 0 ? make_folder(p->bin) : n;
}

/* Only a link is replaced: a folder or a program of that name is somebody else's. */
static int check_link(const char *folder, const char *name)
{
	char path[CKX_PATH + 64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode))
		return 0;
	ckx_error("%s was installed in another way: remove it, or name another place, "
		  "--install=PREFIX",
		  path);
	return -EEXIST;
}

/* At once: at any time either the old or the new one is there. */
static int set_link(const char *folder, const char *name, const char *target)
{
	char path[CKX_PATH + 64], next[CKX_PATH + 96];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(next, sizeof(next), "%s.new-%d", path, (int)getpid());
	if (symlink(target, next) < 0)
		return report_error("making", next);
	if (rename(next, path) == 0)
		return 0;
	unlink(next);
	return report_error("replacing", path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static void remove_fresh(struct place *p)
{
	if (p->fresh[0])
		nftw(p->fresh, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	p->fresh[0] = '\0';
}

/* Of a name that files.c has checked; its folder is made if it has one. */
static int path_of(const struct place *p, const char *name, char out[2 * CKX_PATH])
{
	char *slash;
	int ret = 0;

	snprintf(out, 2 * CKX_PATH, "%s/%s", p->fresh, name);
	slash = strchr(name, '/') ? strrchr(out, '/') : NULL;
	if (slash) {
		*slash = '\0';
		if (mkdir(out, 0755) < 0 && errno != EEXIST)
			ret = report_error("making", out);
		*slash = '/';
	}
	return ret;
}

static int write_file(void *data, const ck_file *file, const void *bytes)
{
	char path[2 * CKX_PATH];
	int ret = path_of(data, file->name, path), fd;

	if (ret < 0)
		return ret;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0)
		return report_error("writing", path);
	ret = ck_fd_write_full(fd, bytes, file->size);
	if (ret == 0 && fsync(fd) < 0)
		ret = -errno;
	close(fd);
	if (ret < 0)
		ckx_error("writing %s: %s", path, strerror(-ret));
	return ret;
}

static int make_links(struct place *p, const ck_files_res *res)
{
	char path[2 * CKX_PATH];
	int ret = 0;

	for (u_int i = 0; ret == 0 && i < res->files.files_len; i++) {
		const ck_file *file = &res->files.files_val[i];

		if (!file->target[0])
			continue;
		ret = path_of(p, file->name, path);
		if (ret == 0 && symlink(file->target, path) < 0)
			ret = report_error("making", path);
	}
	return ret;
}

/* Does it run here? Its `--version` goes nowhere. */
static int try_command(const struct place *p)
{
	char path[2 * CKX_PATH];
	char *const args[] = {path, (char *)"--version", NULL};
	posix_spawn_file_actions_t actions;
	int status = -1, ret;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/cricket", p->fresh);
	posix_spawn_file_actions_init(&actions);
	for (int fd = 0; fd <= 2; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	ret = posix_spawn(&pid, path, &actions, NULL, args, environ);
	posix_spawn_file_actions_destroy(&actions);
	while (ret == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (ret == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	ckx_error("the server's client does not run on this system, and is not installed; its host "
		  "can offer one for glibc 2.17 (--client-files)");
	return -ENOEXEC;
}

/* A folder named after release and content. */
static void name_final(struct place *p, const ck_files_res *res)
{
	struct ck_hash all = {{0}};
	char text[CK_HASH_TEXT];
	unsigned char both[2 * CK_HASH_SIZE];

	for (u_int i = 0; i < res->files.files_len; i++) {
		memcpy(both, all.bytes, CK_HASH_SIZE);
		memcpy(both + CK_HASH_SIZE, res->files.files_val[i].hash, CK_HASH_SIZE);
		ck_hash(both, sizeof(both), &all);
	}
	ck_hash_print(&all, text);
	snprintf(p->final, sizeof(p->final), "%s/cricket-%s-%.12s", p->lib, res->release, text);
}

/* Fetch into a folder of another name, and give it its own. */
static int fill_place(struct ckx_fetch *f, struct place *p)
{
	int ret;

	snprintf(p->fresh, sizeof(p->fresh), "%s/cricket-new.XXXXXX", p->lib);
	if (!mkdtemp(p->fresh)) {
		p->fresh[0] = '\0';
		return report_error("making a folder in", p->lib);
	}
	if (chmod(p->fresh, 0755) < 0)
		return report_error("making", p->fresh);
	ret = ckx_fetch_bytes(f, write_file, p);
	if (ret == 0)
		ret = make_links(p, &f->res);
	if (ret == 0)
		ret = try_command(p);
	if (ret < 0)
		return ret;
	if (rename(p->fresh, p->final) == 0)
		p->fresh[0] = '\0';
	else if (errno != EEXIST && errno != ENOTEMPTY) /* as it is if another one was faster */
		return report_error("naming", p->final);
	return 0;
}

static bool in_path(const char *folder)
{
	const char *path = getenv("PATH");
	size_t length = strlen(folder);

	while (path && (strncmp(path, folder, length) != 0 ||
			(path[length] != ':' && path[length] != '\0'))) {
		path = strchr(path, ':');
		path += path != NULL;
	}
	return path != NULL;
}

static int switch_over(const struct place *p, const char *release, bool there)
{
	int ret = set_link(p->lib, "cricket", strrchr(p->final, '/') + 1);

	if (ret == 0)
		ret = set_link(p->bin, "cricket", "../lib/cricket/cricket");
	if (ret < 0)
		return ret;
	printf("Client %s is %s in %s.\n", release, there ? "already" : "installed", p->final);
	if (!in_path(p->bin))
		printf("Its command is %s/cricket; that folder is not in PATH.\n", p->bin);
	return 0;
}

int ckx_install(const struct ckx_server *server, const char *prefix)
{
	struct ckx_fetch fetch;
	struct place p;
	bool there;
	int ret = find_place(prefix, &p);

	if (ret == 0)
		ret = check_link(p.lib, "cricket");
	if (ret == 0)
		ret = check_link(p.bin, "cricket");
	if (ret < 0)
		return ret == -EACCES ? -EIO : ret;
	ret = ckx_fetch_open(server, &fetch);
	if (ret < 0)
		return ret;
	name_final(&p, &fetch.res);
	there = access(p.final, F_OK) == 0;
	if (!there)
		ret = fill_place(&fetch, &p);
	if (ret == 0)
		ret = switch_over(&p, fetch.res.release, there);
	remove_fresh(&p);
	ckx_fetch_close(&fetch);
	return ret == -EACCES ? -EIO : ret;
}
