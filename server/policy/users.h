/*
 * server/policy/users.h - users of the host that workers become (`--worker-users FIRST-LAST`): each
 * identity another.
 *
 * All of them have one group, the number FIRST: that is how they reach the sockets of the memory
 * broker and of --state-dir, and nothing else.
 */
#ifndef CK_SERVER_POLICY_USERS_H
#define CK_SERVER_POLICY_USERS_H

#include <stdbool.h>
#include <sys/types.h>

struct cks_user_range {
	uid_t first, last; /* 0: workers keep theirs */
};

/* "FIRST-LAST". -EINVAL: @text is not, or has the superuser in it. */
int cks_users_parse(const char *text, struct cks_user_range *out);
bool cks_users_has(const struct cks_user_range *range, uid_t user);

/* May this process become such a user? NULL, or why not. */
const char *cks_users_check(const struct cks_user_range *range);

/* Open @path, a socket, to the group of @range. 0 or -errno; nothing is done without a range. */
int cks_users_admit(const struct cks_user_range *range, const char *path);

/* Become @user, in all threads, for good: no other group, no capability. -errno. */
int cks_users_become(const struct cks_user_range *range, uid_t user);

/* The user that this process was before; its own, if it has not become another. */
uid_t cks_users_server(void);

#endif
