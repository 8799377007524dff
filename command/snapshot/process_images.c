/*
 * command/snapshot/process_images.c - see process_images.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/install_paths.h"
#include "command/snapshot/process_images.h"
#include "util/process/criu.h"
#include "util/process/fd.h"
#include "util/util.h"

#define PROGRAM "criu"
#define ARGUMENTS 24
#define ARGUMENT (CKX_PATH + 32)

struct command {
	char text[ARGUMENTS][ARGUMENT];
	char *argv[ARGUMENTS + 1];
	size_t count;
};

static void add(struct command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct command *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(c->text[c->count], ARGUMENT, format, args);
	va_end(args);
	c->argv[c->count] = c->text[c->count];
	c->count++;
}

/* Run it, with nothing at descriptors 0 to 2: the exit status, or -errno. */
static int run(const struct command *c)
{
	pid_t child = fork();

	if (child == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (int fd = 0; fd <= 2; fd++) {
			if (null < 0 || dup2(null, fd) < 0)
				_exit(126);
		}
		execvp(c->argv[0], c->argv);
		_exit(127);
	}
	if (child < 0)
		return -errno;
	return ck_criu_wait(child);
}

int ckx_images_check(void)
{
	struct command c = {.count = 0};
	char why[CK_CRIU_WHY];

	if (ck_criu_check(PROGRAM, why) < 0)
		return ckx_error("%s; snapshots need CRIU %d.%d or newer, as of Debian 13 (apt-get "
				 "install criu)",
				 why, CK_CRIU_MAJOR, CK_CRIU_MINOR),
		       -ENOENT;
	if (geteuid() != 0)
		return ckx_error("snapshots need the rights of root on this machine (CAP_SYS_ADMIN "
				 "and "
				 "others, for CRIU)"),
		       -EPERM;
	add(&c, PROGRAM);
	add(&c, "check");
	if (run(&c) == 0)
		return 0;
	ckx_error("CRIU cannot work here, as in a container without its rights: `criu check` says "
		  "why");
	return -EPERM;
}

/* The first error of the log, with what can be done. */
static int report(const struct ckx_images *images, const char *what)
{
	char error[300];

	if (!ck_criu_error(images->log, error, sizeof(error)))
		return ckx_error("%s: CRIU has failed: %s", what, images->log), -EIO;
	if (strstr(error, "1:16 opt"))
		return ckx_error(
			       "%s: it has a network socket, which CRIU before 4.2 cannot write on "
			       "Linux 6.16 or newer",
			       what),
		       -ENOTSUP;
	if (strstr(error, "userfaultfd"))
		return ckx_error(
			       "%s: it uses managed memory (cudaMallocManaged), which CRIU cannot "
			       "write",
			       what),
		       -ENOTSUP;
	if (ck_criu_ids_used(error))
		return ckx_error("%s: process ids of the program are in use: try again", what),
		       -EEXIST;
	ckx_error("%s: CRIU: %s", what, error);
	return -EIO;
}

/* CRIU looks for plugins among the images: that for NVIDIA's driver is not for the client. */
static void add_common(struct command *c, const struct ckx_images *images, const char *action)
{
	add(c, PROGRAM);
	add(c, "%s", action);
	add(c, "--images-dir=%s", images->folder);
	add(c, "--log-file=%s", images->log);
	add(c, "-v2");
	add(c, "--libdir=%s", images->folder);
	add(c, "--manage-cgroups=ignore");
	add(c, "--file-locks");
	add(c, "--tcp-close");
	add(c, "--ghost-limit=%d", 1 << 30);
}

int ckx_images_write(const struct ckx_images *images, pid_t pid)
{
	struct command c = {.count = 0};
	int ret;

	add_common(&c, images, "dump");
	add(&c, "--tree=%d", (int)pid);
	ret = run(&c);
	return ret == 0 ? 0 : report(images, "the program cannot be written");
}

/* Each thread has a file. */
pid_t ckx_images_highest(const struct ckx_images *images)
{
	DIR *dir = opendir(images->folder);
	struct dirent *entry;
	int id, most = 1;

	while (dir && (entry = readdir(dir))) {
		if (sscanf(entry->d_name, "core-%d.img", &id) == 1)
			most = ck_max(most, id);
	}
	if (dir)
		closedir(dir);
	return most;
}

pid_t ckx_images_restore(const struct ckx_images *images, const int pipes[CKX_PIPES])
{
	struct command c = {.count = 0};
	char path[CKX_PATH + 8];
	int pid = 0, ret;
	FILE *f;

	snprintf(path, sizeof(path), "%s.pid", images->log);
	unlink(path); /* CRIU does not overwrite it */
	add_common(&c, images, "restore");
	add(&c, "--restore-detached");
	add(&c, "--restore-sibling");
	add(&c, "--pidfile=%s", path);
	for (int i = 0; i < CKX_PIPES; i++) {
		if (ck_fd_set_cloexec(pipes[i], false) < 0)
			return -errno;
		add(&c, "--inherit-fd=fd[%d]:pipe:[%lu]", pipes[i], images->pipes[i]);
	}
	ret = run(&c);
	if (ret != 0)
		return report(images, "the copy cannot be made");
	f = fopen(path, "re");
	if (!f || fscanf(f, "%d", &pid) != 1)
		ret = report(images, "the copy cannot be made");
	if (f)
		fclose(f);
	unlink(path);
	return ret == 0 ? pid : ret;
}
