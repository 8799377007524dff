/*
 * server/checkpoint/outside.h - descriptors that a worker shares with processes outside of the
 * dump.
 *
 * A worker holds two descriptors whose other end belongs to its server: the control socket and the
 * log. CRIU leaves them out of the dump. At the restore,
 * it gets those of the new server.
 */
#ifndef CK_SERVER_CHECKPOINT_OUTSIDE_H
#define CK_SERVER_CHECKPOINT_OUTSIDE_H

#include <stddef.h>
#include <sys/types.h>

#include "server/checkpoint/why.h"

#define CK_OUTSIDE_MAX 8
#define CK_OUTSIDE_ID 64

enum cks_outside_role { CK_OUTSIDE_CONTROL, CK_OUTSIDE_LOG, CK_OUTSIDE_ROLES };

struct cks_outside_file {
	enum cks_outside_role role;
	char id[CK_OUTSIDE_ID]; /* CRIU's name of it: "socket:[1]", "pipe:[1]", "file[1:2]",
				   "tty[1:2]" */
};

struct cks_outside {
	struct cks_outside_file files[CK_OUTSIDE_MAX];
	size_t count;
};

/*
 * Find them in process @pid: the control socket is its descriptor @control, the log is what this
 * process has at descriptor @log. /dev/null as a log counts as none.
 */
int cks_outside_find(pid_t pid, int control, int log, struct cks_outside *outside,
		     struct cks_why *why);

/* The name of a role in a manifest, and the reverse; -EINVAL: there is none of this name. */
const char *cks_outside_role_name(enum cks_outside_role role);
int cks_outside_role_parse(const char *name, enum cks_outside_role *role);

#endif
