/*
 * server/rules/accounts.h - the policy file in force, and an account (server/policy/account.h) for
 * each identity that has sessions.
 */
#ifndef CK_SERVER_RULES_ACCOUNTS_H
#define CK_SERVER_RULES_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/policy/policy.h"
#include "server/policy/terms.h"
#include "util/hash.h"

struct cks_account_row;
struct cks_prefix;
struct cks_accounts;

/* A session's place in the account of its identity; all 0: it has none. */
struct cks_seat {
	struct cks_account_row *row;
	uint32_t number;
};

/* The policy file, which is read now; @options live as long as the accounts. -errno, logged. */
struct cks_options;
int cks_accounts_create(const struct cks_options *options, struct cks_accounts **out);
void cks_accounts_destroy(struct cks_accounts *accounts); /* accepts NULL */

/* Read the file again. -errno, logged: then the policy stays as it was, and @why is the reason. */
int cks_accounts_reload(struct cks_accounts *accounts, char why[CK_POLICY_WHY]);

/* Do identities have different weights? Accepts NULL. */
bool cks_accounts_weighted(const struct cks_accounts *accounts);

/* Do sessions of any identity end after some time? Accepts NULL. */
bool cks_accounts_timed(const struct cks_accounts *accounts);

/* The terms of an identity, for an admission now. NULL accounts: nothing is set. */
const struct cks_terms *cks_accounts_terms(const struct cks_accounts *accounts,
					   const struct ck_hash *identity);
/* The same of a session; without a seat nothing is set. */
const struct cks_terms *cks_seat_terms(const struct cks_seat *seat);

/* The file of its account, which stays the account's; -1: it has no seat. */
int cks_seat_file(const struct cks_seat *seat);

/* The command @name to start a worker through; NULL: @identity may not use it. Valid until the next
 * reload. */
const struct cks_prefix *cks_accounts_prefix(const struct cks_accounts *accounts,
					     const struct ck_hash *identity, const char *name);

/* A seat for a session of @identity. The descriptor of the account, which stays the account's; or
 * -errno. */
int cks_accounts_seat(struct cks_accounts *accounts, const struct ck_hash *identity,
		      struct cks_seat *out);
/* The session has ended. Does nothing without a seat; accepts NULL accounts. */
void cks_accounts_leave(struct cks_accounts *accounts, struct cks_seat *seat);

#endif
