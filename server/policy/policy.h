/*
 * server/policy/policy.h - the policy file: the rights and bounds of each identity, as
 * docs/policy.md describes it.
 */
#ifndef CK_SERVER_POLICY_POLICY_H
#define CK_SERVER_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "server/policy/terms.h"
#include "server/session/identity.h"

struct cks_policy;

/* A command that workers may be started through, such as a profiler. */
#define CK_PREFIX_NAME 32
struct cks_prefix {
	char name[CK_PREFIX_NAME];
	char **command; /* an absolute path and arguments, NULL behind them */
};

#define CK_POLICY_WHY 512

/* Read the file @path, all or nothing. -errno: @why has file, line and reason in words. */
int cks_policy_read(const char *path, struct cks_policy **out, char why[CK_POLICY_WHY]);
/* The same of @text; @path is for messages. */
int cks_policy_parse(const char *text, const char *path, struct cks_policy **out,
		     char why[CK_POLICY_WHY]);
void cks_policy_free(struct cks_policy *policy); /* accepts NULL */

/* The terms of the identity with @key; as long as @policy lives. NULL policy: nothing is set. */
const struct cks_terms *cks_policy_find(const struct cks_policy *policy, const struct ck_hash *key);

/* The command @name, if the identity with @key may use it; as long as @policy lives. NULL: it may
 * not, or there is none. Accepts a NULL policy. */
const struct cks_prefix *cks_policy_prefix(const struct cks_policy *policy,
					   const struct ck_hash *key, const char *name);

/* How many identities have an entry. */
size_t cks_policy_count(const struct cks_policy *policy);

/* Do identities have different weights? */
bool cks_policy_weighted(const struct cks_policy *policy);

/* Do sessions of any identity end after some time? */
bool cks_policy_timed(const struct cks_policy *policy);

struct cks_token;

/* The first entry from *@at on, counted from 0, for a token that @tokens does not have; NULL: there
 * is none. *@at is then behind it, and *@line its line in the file. A secret without a name has
 * none. */
const char *cks_policy_stranger(const struct cks_policy *policy, const struct cks_token *tokens,
				size_t *at, unsigned int *line);

/* Is the file @path right (@option: what names it in a message, as "--policy: ", or ""), and does
 * @token_file have the tokens of its entries? Both may be NULL: there is none. 0 or -errno, printed
 * on stderr. A note there says if this host lacks MPS for it. */
int cks_policy_check(const char *option, const char *path, const char *token_file);

#endif
