/*
 * server/helpers/client_list.c - which files an installed client has; see client_files.h.
 *
 * All files are open before their names are sent: an upgrade of the package in between changes
 * none.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "server/helpers/client_files.h"
#include "server/session/version.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* The first two make a client; an older installation may lack some of the others. */
static const char *const programs[] = {"cricket",      "cricket-client.so", "libnvidia-ml.so.1",
				       "libcuda.so",   "libcupti.so.12",    "libcupti.so.13",
				       "libnccl.so.2", "libcricket-ptx.so", "libcuda-emu.so"};
#define NEEDED 2
/* Folders of links, for LD_LIBRARY_PATH. */
static const char *const folders[] = {"lib", "emu"};

static int add_file(struct cks_client_files *f, const char *name, const char *target, int fd)
{
	u_int i = f->res.files.files_len;

	if (i == CK_FILES_MAX || strlen(name) > CK_FILE_NAME_MAX ||
	    strlen(target) > CK_FILE_NAME_MAX)
		return -ENAMETOOLONG;
	f->list[i] = (ck_file){.name = strdup(name), .target = strdup(target)};
	f->fds[i] = fd;
	f->res.files.files_len++;
	return f->list[i].name && f->list[i].target ? 0 : -ENOMEM;
}

static int hash_file(int fd, ck_file *file)
{
	struct stat st;
	struct ck_hash hash;
	void *bytes;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return -EINVAL;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	ck_hash(bytes, (size_t)st.st_size, &hash);
	munmap(bytes, (size_t)st.st_size);
	file->size = (uint64_t)st.st_size;
	memcpy(file->hash, hash.bytes, sizeof(file->hash));
	return 0;
}

/* -ENOENT: it is not there. */
static int add_program(struct cks_client_files *f, int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC), ret;
	u_int i = f->res.files.files_len;

	if (fd < 0)
		return -errno;
	ret = add_file(f, name, "", fd);
	if (ret == 0)
		ret = hash_file(fd, &f->list[i]);
	if (ret == 0)
		f->bytes += f->list[i].size;
	return ret;
}

static int add_link(struct cks_client_files *f, int folder, const char *below, const char *name)
{
	char path[2 * CK_FILE_NAME_MAX], target[CK_FILE_NAME_MAX + 1];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%.*s", below, CK_FILE_NAME_MAX, name);
	n = readlinkat(folder, path, target, sizeof(target));
	if (n <= 0 || n == (ssize_t)sizeof(target))
		return 0; /* not one of ours */
	target[n] = '\0';
	return add_file(f, path, target, -1);
}

static int is_link(const struct dirent *entry)
{
	return entry->d_type == DT_LNK;
}

/* In the order of their names, so that the same files give the same list. */
static int add_links(struct cks_client_files *f, int folder, const char *below)
{
	struct dirent **found;
	int count = scandirat(folder, below, &found, is_link, alphasort), ret = 0;

	for (int i = 0; i < count; i++) {
		if (ret == 0)
			ret = add_link(f, folder, below, found[i]->d_name);
		free(found[i]);
	}
	if (count >= 0)
		free(found);
	return ret;
}

static int add_all(struct cks_client_files *f, int folder)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < CK_ARRAY_SIZE(programs); i++) {
		ret = add_program(f, folder, programs[i]);
		if (ret == -ENOENT && i >= NEEDED)
			ret = 0;
	}
	for (size_t i = 0; ret == 0 && i < CK_ARRAY_SIZE(folders); i++)
		ret = add_links(f, folder, folders[i]);
	return ret;
}

static void set_status(struct cks_client_files *f, ck_files_status status, const char *text)
{
	f->res.status = status;
	f->res.message = strdup(text);
	f->res.release = strdup(CK_RELEASE);
}

int cks_client_files_open(const char *folder, const char *machine, struct cks_client_files *f)
{
	struct utsname own;
	char text[256];
	int fd, ret;

	memset(f, 0, sizeof(*f));
	f->res.files.files_val = f->list;
	if (uname(&own) == 0 && strcmp(own.machine, machine) != 0) {
		snprintf(text, sizeof(text), "the server has the client for %.60s only",
			 own.machine);
		set_status(f, CK_FILES_NONE, text);
		return f->res.message ? 0 : -ENOMEM;
	}
	fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ret = fd < 0 ? -errno : add_all(f, fd);
	if (fd >= 0)
		close(fd);
	if (ret == 0) {
		set_status(f, CK_FILES_OK, "");
	} else {
		ck_warn("the client in %s cannot be sent: %s", folder, strerror(-ret));
		cks_client_files_close(f);
		set_status(f, CK_FILES_NONE,
			   "the server has no client beside it; its host needs one, or its option "
			   "--client-files");
	}
	return f->res.message && f->res.release ? 0 : -ENOMEM;
}

void cks_client_files_close(struct cks_client_files *f)
{
	for (u_int i = 0; i < f->res.files.files_len; i++) {
		free(f->list[i].name);
		free(f->list[i].target);
		if (f->fds[i] >= 0)
			close(f->fds[i]);
	}
	free(f->res.message);
	free(f->res.release);
	memset(f, 0, sizeof(*f));
	f->res.files.files_val = f->list;
}
