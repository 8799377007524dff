/*
 * server/rules/uids.h - with --worker-users: which user of the host the workers of an identity are.
 *
 * An identity keeps its user as long as it has sessions, and mostly afterwards: the first choice
 * depends on nothing but the identity.
 */
#ifndef CK_SERVER_RULES_UIDS_H
#define CK_SERVER_RULES_UIDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "server/policy/users.h"
#include "util/hash.h"

struct cks_uids;

/* NULL: out of memory. */
struct cks_uids *cks_uids_create(const struct cks_user_range *range);
void cks_uids_destroy(struct cks_uids *uids); /* accepts NULL */

/* A session of @identity begins: its user. -EUSERS: other identities have all. */
int cks_uids_take(struct cks_uids *uids, const struct ck_hash *identity, uid_t *user);
/* A session of @identity is here again, as @user. -EEXIST: that is another identity's now. One that
 * is not of the range is not kept. */
int cks_uids_claim(struct cks_uids *uids, const struct ck_hash *identity, uid_t user);
/* A session of @user has ended. Ignores others; accepts NULL. */
void cks_uids_leave(struct cks_uids *uids, uid_t user);

/*
 * The folder of the module cache of @identity as @user, in @cache_dir (cks_cachedir_open): a
 * descriptor, or -errno. Any process may use the folder that has it; its path leads through one
 * that is the server's alone.
 */
int cks_uids_cache(const char *cache_dir, const struct ck_hash *identity, uid_t user);
/* Has @identity ever had @user here? A process that claims it may be another identity's. */
bool cks_uids_had(const char *cache_dir, const struct ck_hash *identity, uid_t user);

#endif
