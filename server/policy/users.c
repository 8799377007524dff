/*
 * server/policy/users.c - see users.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/policy/users.h"

#define CK_USER_MOST (UINT32_MAX - 1) /* (uid_t)-1 is none */

static struct {
	bool other;
	uid_t server;
} before;

static bool take_number(const char **text, uid_t *out)
{
	char *end;
	unsigned long long value = strtoull(*text, &end, 10);

	if (**text < '0' || **text > '9' || value == 0 || value >= CK_USER_MOST)
		return false;
	*text = end;
	*out = (uid_t)value;
	return true;
}

int cks_users_parse(const char *text, struct cks_user_range *out)
{
	struct cks_user_range range;

	if (!take_number(&text, &range.first) || *text++ != '-' ||
	    !take_number(&text, &range.last) || *text || range.last < range.first)
		return -EINVAL;
	*out = range;
	return 0;
}

bool cks_users_has(const struct cks_user_range *range, uid_t user)
{
	return range->first && user >= range->first && user <= range->last;
}

/* The capabilities in force, as a bit each; -errno. */
static int64_t get_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	return (int64_t)((uint64_t)data[1].effective << 32 | data[0].effective);
}

const char *cks_users_check(const struct cks_user_range *range)
{
	const int64_t needed = 1 << CAP_SETUID | 1 << CAP_SETGID | 1 << CAP_KILL | 1 << CAP_CHOWN;
	int64_t have = get_capabilities();

	if (!range->first || (geteuid() == 0 && have >= 0 && (have & needed) == needed))
		return NULL;
	return "the server is not root, or lacks one of CAP_SETUID, CAP_SETGID, CAP_KILL and "
	       "CAP_CHOWN";
}

int cks_users_admit(const struct cks_user_range *range, const char *path)
{
	struct stat st;

	if (!range->first || *path != '/') /* abstract addresses have no mode */
		return 0;
	if (stat(path, &st) < 0 || chown(path, (uid_t)-1, (gid_t)range->first) < 0 ||
	    chmod(path, (st.st_mode & 0777) | (S_ISDIR(st.st_mode) ? 0010 : 0060)) < 0)
		return -errno;
	return 0;
}

/* Nothing must be left of the superuser: earlier failures are not known. */
static bool has_rights(uid_t user)
{
	uid_t ids[3];

	return getresuid(&ids[0], &ids[1], &ids[2]) < 0 || ids[0] != user || ids[1] != user ||
	       ids[2] != user || get_capabilities() != 0 || setresuid(0, 0, 0) == 0;
}

/* The C library has all threads do it. The kernel takes the capabilities away with the user. It
 * also takes the process's files in /proc away from it: processes of the same user, which is the
 * same identity, may have them as ever (the emulated driver passes memory so). */
int cks_users_become(const struct cks_user_range *range, uid_t user)
{
	uid_t server = geteuid();
	gid_t group = (gid_t)range->first;

	if (!cks_users_has(range, user))
		return -EINVAL;
	if (setgroups(0, NULL) < 0 || setresgid(group, group, group) < 0 ||
	    setresuid(user, user, user) < 0)
		return -errno;
	if (has_rights(user) || prctl(PR_SET_DUMPABLE, 1) < 0)
		return -EPERM;
	before.server = server;
	before.other = true;
	return 0;
}

uid_t cks_users_server(void)
{
	return before.other ? before.server : geteuid();
}
