/*
 * server/policy/policy_part.h - the parts of reading a policy file, for policy.c and policy_keys.c
 * alone.
 */
#ifndef CK_SERVER_POLICY_POLICY_PART_H
#define CK_SERVER_POLICY_POLICY_PART_H

#include <libconfig.h>
#include <stdbool.h>

#include "server/policy/policy.h"
#include "server/policy/terms.h"

/* A file that is being read; the first error counts. */
struct cks_policy_reading {
	const char *path;
	char *why;
	bool failed;
};

/* Something is wrong at @at. */
void cks_policy_fail(struct cks_policy_reading *reading, const config_setting_t *at,
		     const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The text of @setting; never NULL. */
const char *cks_policy_text(struct cks_policy_reading *reading, const config_setting_t *setting);

/* Take one key of a group; false: no key has this name. */
bool cks_policy_take(struct cks_policy_reading *reading, const config_setting_t *setting,
		     struct cks_terms *terms);

/* --- policy_prefix.c: commands that workers may be started through */

#define CK_PREFIXES 32

struct cks_prefixes {
	struct cks_prefix list[CK_PREFIXES];
	size_t count;
};

/* Take the list of those that there are. */
void cks_prefixes_take(struct cks_policy_reading *reading, const config_setting_t *list,
		       struct cks_prefixes *prefixes);
/* Take a list of names, as a bit for each that is in it. */
void cks_prefixes_grant(struct cks_policy_reading *reading, const config_setting_t *names,
			const struct cks_prefixes *prefixes, uint32_t *granted);
void cks_prefixes_free(struct cks_prefixes *prefixes);

#endif
