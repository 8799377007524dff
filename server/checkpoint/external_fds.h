/*
 * server/checkpoint/external_fds.h - descriptors that a worker shares with processes outside of the
 * dump.
 *
 * A worker holds two descriptors whose other end belongs to its server: the control socket and the
 * log. CRIU leaves them out of the dump. At the restore,
 * it gets those of the new server.
 */
#ifndef CK_SERVER_CHECKPOINT_EXTERNAL_FDS_H
#define CK_SERVER_CHECKPOINT_EXTERNAL_FDS_H

#include <stddef.h>
#include <sys/types.h>

#include "server/checkpoint/failure_text.h"

#define CK_EXTERNAL_FDS_MAX 8
#define CK_EXTERNAL_FDS_ID 64

enum cks_external_fds_role { CK_EXTERNAL_FDS_CONTROL, CK_EXTERNAL_FDS_LOG, CK_EXTERNAL_FDS_ROLES };

struct cks_external_fds_file {
	enum cks_external_fds_role role;
	char id[CK_EXTERNAL_FDS_ID]; /* CRIU's name of it: "socket:[1]", "pipe:[1]", "file[1:2]",
				   "tty[1:2]" */
};

struct cks_external_fds {
	struct cks_external_fds_file files[CK_EXTERNAL_FDS_MAX];
	size_t count;
};

/*
 * Find them in process @pid: the control socket is its descriptor @control, the log is the file
 * that this process has at descriptor @log. /dev/null as a log counts as none.
 */
int cks_external_fds_find(pid_t pid, int control, int log, struct cks_external_fds *outside,
			  struct cks_why *why);

/* The name of a role in a manifest, and the reverse; -EINVAL: there is none of this name. */
const char *cks_external_fds_role_name(enum cks_external_fds_role role);
int cks_external_fds_role_parse(const char *name, enum cks_external_fds_role *role);

#endif
