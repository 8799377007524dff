/*
 * server/supervisor/start_check.c - the values of options that the start of a server would refuse,
 * for --show-config. It makes no file and no folder, so it can run beside a server with the same
 * options: addresses that that server uses are not errors.
 *
 * Tokens and policy are checked where they are shown (options_show.c), all else in
 * cks_supervisor_start's order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/tls.h"
#include "server/door/listeners.h"
#include "server/options/options.h"
#include "server/policy/users.h"
#include "server/rules/audit.h"
#include "server/supervisor/host.h"
#include "server/worker/orphan_reconnect.h"

/* Could this process make @path? -errno. */
static int check_parent(const char *path)
{
	char text[PATH_MAX];
	const char *parent;
	struct stat st;

	if (strlen(path) >= sizeof(text))
		return -ENAMETOOLONG;
	strcpy(text, path);
	parent = dirname(text);
	if (stat(parent, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* A file that the server writes: there, or to be made. */
static int check_file(const char *option, const char *path, FILE *out)
{
	int fd, ret = 0;

	if (!path || cks_options_service_makes(out, option, path))
		return 0;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		ret = errno == ENOENT ? check_parent(path) : -errno;
	else
		close(fd);
	return ret < 0 ? cks_options_wrong(out, option, "%s: %s", path, cks_audit_reason(ret)) : 0;
}

/* A folder that is the server's alone: there, or to be made. Root may look at the options of a
 * server that is to be another user's. */
static int check_folder(const char *option, const char *path, FILE *out)
{
	const char *wrong;
	struct stat st;
	int ret;

	if (!path || cks_options_service_makes(out, option, path))
		return 0;
	if (stat(path, &st) < 0) {
		ret = errno == ENOENT ? check_parent(path) : -errno;
		return ret < 0 ? cks_options_wrong(out, option, "%s: %s", path, strerror(-ret)) : 0;
	}
	wrong = cks_orphan_folder_check(path, geteuid() == 0 ? st.st_uid : geteuid());
	if (wrong)
		return cks_options_wrong(out, option, "%s: %s", path, wrong);
	if (st.st_uid != geteuid())
		fprintf(out, "# %s: %s is for a server of the user with number %u\n", option, path,
			(unsigned int)st.st_uid);
	return 0;
}

static int check_tls(const struct cks_options *o, FILE *out)
{
	const struct ck_tls_files files = {.cert = o->tls_cert, .key = o->tls_key, .ca = o->tls_ca};
	char why[CK_TLS_WHY];
	struct ck_tls *tls;

	if (!o->tls_cert)
		return 0;
	if (ck_tls_create_server(&files, &tls, why) < 0)
		return cks_options_wrong(out, "tls-cert, tls-key", "%s", why);
	ck_tls_destroy(tls);
	return 0;
}

static int check_driver(const struct cks_options *o, FILE *out)
{
	char why[CK_DRIVER_WHY];

	if (cks_driver_check(o->driver, why))
		return 0;
	return cks_options_wrong(out, "driver", "%s: %s", o->driver, why);
}

static int check_users(const struct cks_options *o, FILE *out)
{
	const char *wrong = cks_users_check(&o->worker_users);

	return wrong ? cks_options_wrong(out, "worker-users", "%s", wrong) : 0;
}

static int check_files(const struct cks_options *o, FILE *out)
{
	int pid = check_file("pid-file", o->pid_file, out);
	int state = check_folder("state-dir", o->state_dir, out);
	int kept = check_folder("checkpoint-dir", o->checkpoint_dir, out);
	int audit = check_file("audit", o->audit, out);

	return pid < 0 || state < 0 || kept < 0 || audit < 0 ? -EINVAL : 0;
}

int cks_start_check(const struct cks_options *options, FILE *out)
{
	static int (*const checks[])(const struct cks_options *o, FILE *out) = {
		check_users,	     check_files, cks_options_check_paths,
		cks_listeners_check, check_tls,	  check_driver,
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (checks[i](options, out) < 0)
			ret = -EINVAL;
	}
	return ret;
}
