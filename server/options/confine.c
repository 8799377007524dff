/*
 * server/options/confine.c - see confine.h.
 *
 * The kernel's interface is declared here: not all systems have its header, and it grows. A right
 * that the kernel does not know yet is not asked for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/modules/cachedir.h"
#include "server/options/confine.h"
#include "server/options/options.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

/* Numbers that all architectures have in common. */
#define CK_LANDLOCK_CREATE 444
#define CK_LANDLOCK_ADD 445
#define CK_LANDLOCK_RESTRICT 446
#define CK_LANDLOCK_VERSION 1 /* flag: which version is there? */
#define CK_LANDLOCK_BENEATH 1 /* kind of rule */

enum {
	EXECUTE = 1 << 0,
	WRITE = 1 << 1,
	READ = 1 << 2,
	LIST = 1 << 3,
	MAKE = 0x1ff0, /* and remove: files of all kinds, folders */
	REFER = 1 << 13,
	TRUNCATE = 1 << 14,
	IOCTL = 1 << 15, /* of devices */
	LOOK = EXECUTE | READ | LIST,
	USE = READ | LIST | WRITE | TRUNCATE | IOCTL,
	OWN = USE | (MAKE & ~(1 << 6 | 1 << 11)), /* no devices */
};

struct ruleset {
	uint64_t files, net, scoped;
};

struct beneath {
	uint64_t allowed;
	int32_t folder;
} __attribute__((packed));

static int get_landlock_version(void)
{
	long ret = syscall(CK_LANDLOCK_CREATE, NULL, (size_t)0, CK_LANDLOCK_VERSION);

	return ret < 0 ? -errno : (int)ret;
}

/* The rights that the kernel knows. */
static uint64_t get_known_rights(int version)
{
	uint64_t rights = LOOK | WRITE | MAKE;

	rights |= version >= 2 ? REFER : 0;
	rights |= version >= 3 ? TRUNCATE : 0;
	rights |= version >= 5 ? IOCTL : 0;
	return rights;
}

/* Its rules: access that they do not name is not allowed. */
struct rules {
	int fd;
	uint64_t known;
};

static void allow_fd(const struct rules *rules, int fd, uint64_t rights)
{
	struct beneath rule = {.allowed = rights & rules->known, .folder = fd};
	struct stat st;

	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed &= EXECUTE | WRITE | READ | TRUNCATE | IOCTL;
	if (syscall(CK_LANDLOCK_ADD, rules->fd, CK_LANDLOCK_BENEATH, &rule, 0) < 0)
		ck_debug("a rule for files: %m");
}

/* A path that does not exist now stays closed. */
static void allow_path(const struct rules *rules, const char *path, uint64_t rights)
{
	int fd = path && *path == '/' ? open(path, O_PATH | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	allow_fd(rules, fd, rights);
	close(fd);
}

/* Each path of a list with colons. */
static void allow_list(const struct rules *rules, const char *list, uint64_t rights)
{
	char *copy = list ? strdup(list) : NULL, *rest = NULL;

	for (char *path = copy ? strtok_r(copy, ":", &rest) : NULL; path;
	     path = strtok_r(NULL, ":", &rest))
		allow_path(rules, path, rights);
	free(copy);
}

static void allow_folder_of(const struct rules *rules, const char *file)
{
	char path[PATH_MAX];
	ssize_t n = readlink(file, path, sizeof(path) - 1);

	if (n < 0)
		n = snprintf(path, sizeof(path), "%s", file);
	if (n <= 0 || (size_t)n >= sizeof(path) || *path != '/')
		return;
	path[n] = '\0';
	allow_path(rules, dirname(path), LOOK);
}

/* Libraries, the files that they read, and the devices. Of /etc only files without secrets. */
static void allow_driver(const struct rules *rules, const struct cks_options *o)
{
	static const char *const looked_at[] = {
		"/usr",	       "/lib",
		"/lib64",      "/opt",
		"/sys",	       "/etc/ld.so.cache",
		"/etc/nvidia", "/etc/localtime",
		"/etc/passwd", "/etc/nsswitch.conf",
		"/etc/vulkan", "/run/nvidia",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(looked_at); i++)
		allow_path(rules, looked_at[i], LOOK);
	allow_path(rules, "/proc", READ | LIST | WRITE);
	allow_path(rules, "/dev", USE);
	allow_path(rules, "/dev/shm", OWN);
	allow_folder_of(rules, "/proc/self/exe");
	allow_folder_of(rules, o->driver);
	allow_list(rules, getenv("LD_LIBRARY_PATH"), LOOK);
	if (strcmp(o->confine, "none") != 0)
		allow_list(rules, o->confine, LOOK);
}

/* The module cache, the driver's own, and MPS. */
static void allow_folders(const struct rules *rules, const struct cks_options *o)
{
	const char *home = getenv("HOME"), *compute = getenv("CUDA_CACHE_PATH"),
		   *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");
	char path[PATH_MAX];
	int cache = cks_cachedir_open(o->cache_dir);

	if (cache >= 0) {
		allow_fd(rules, cache, OWN | REFER);
		close(cache);
	}
	if (!compute && home && snprintf(path, sizeof(path), "%s/.nv", home) < (int)sizeof(path))
		compute = path;
	if (compute && mkdir(compute, 0700) < 0 && errno != EEXIST)
		ck_debug("%s: %m", compute);
	allow_path(rules, compute, OWN | REFER);
	allow_path(rules, mps ? mps : "/tmp/nvidia-mps", USE);
}

int cks_confine(const struct cks_options *o)
{
	int v = get_landlock_version();
	struct ruleset all = {.files = get_known_rights(v),
			      .scoped = v >= 6 ? 1 << 1 : 0}; /* signals */
	struct rules rules = {.known = get_known_rights(v)};
	size_t size = v >= 6 ? sizeof(all) : offsetof(struct ruleset, net);
	int ret = 0;

	if (!o->confine)
		return 0;
	rules.fd = v < 0 ? -1 : (int)syscall(CK_LANDLOCK_CREATE, &all, size, 0);
	if (rules.fd < 0) {
		ck_err("no Landlock on this kernel (--confine)");
		return -ENOSYS;
	}
	allow_driver(&rules, o);
	allow_folders(&rules, o);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(CK_LANDLOCK_RESTRICT, rules.fd, 0) < 0) {
		ret = -errno;
		ck_err("Landlock: %s (--confine)", strerror(-ret));
	}
	close(rules.fd);
	return ret;
}

int cks_confine_check(const char *folders)
{
	const char *wrong = NULL;

	for (const char *at = folders; at && !wrong && strcmp(folders, "none") != 0;) {
		if (*at != '/')
			wrong = at;
		at = strchr(at, ':');
		at = at ? at + 1 : NULL;
	}
	if (!wrong && get_landlock_version() >= 1)
		return 0;
	return wrong ? -EINVAL : -ENOSYS;
}
