/*
 * server/rules/accounts.c - see accounts.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/options/options.h"
#include "server/policy/account.h"
#include "server/policy/policy.h"
#include "server/policy/token.h"
#include "server/rules/accounts.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

struct cks_account_row {
	struct cks_account_row *next;
	struct ck_hash identity;
	struct cks_terms terms; /* not those in the account, which workers can write */
	struct cks_account *account;
	int fd;
	unsigned int sessions;
};

struct cks_accounts {
	const struct cks_options *options;
	struct cks_policy *policy;
	struct cks_account_row *rows;
};

/* An entry whose token does not exist applies to no client: its client may have lost the token, or
 * the name is mistyped. */
static void warn_of_strangers(const struct cks_options *o, const struct cks_policy *policy)
{
	static struct cks_token tokens;
	char why[CK_TOKEN_WHY];
	const char *name;
	unsigned int line;
	size_t at = 0;

	if (o->token_file && cks_token_read(o->token_file, &tokens, why) < 0)
		return; /* whoever reads the tokens says so */
	while (o->token_file && (name = cks_policy_stranger(policy, &tokens, &at, &line)) != NULL)
		ck_warn("policy: %s:%u: %s has no token of %s: the entry applies to no one",
			o->policy, line, o->token_file, name);
	explicit_bzero(&tokens, sizeof(tokens));
}

static int read_policy(const struct cks_options *o, struct cks_policy **out,
		       char why[CK_POLICY_WHY])
{
	int ret = cks_policy_read(o->policy, out, why);

	if (ret < 0)
		ck_err("policy: %s", why);
	else
		warn_of_strangers(o, *out);
	return ret;
}

int cks_accounts_create(const struct cks_options *options, struct cks_accounts **out)
{
	struct cks_policy *policy;
	char why[CK_POLICY_WHY];
	int ret = read_policy(options, &policy, why);

	*out = NULL;
	if (ret < 0)
		return ret;
	*out = calloc(1, sizeof(**out));
	if (!*out) {
		cks_policy_free(policy);
		return -ENOMEM;
	}
	(*out)->options = options;
	(*out)->policy = policy;
	return 0;
}

static void drop_row(struct cks_account_row **at)
{
	struct cks_account_row *row = *at;

	*at = row->next;
	cks_account_unmap(row->account);
	close(row->fd);
	free(row);
}

void cks_accounts_destroy(struct cks_accounts *a)
{
	if (!a)
		return;
	while (a->rows)
		drop_row(&a->rows);
	cks_policy_free(a->policy);
	free(a);
}

int cks_accounts_reload(struct cks_accounts *a, char why[CK_POLICY_WHY])
{
	struct cks_policy *policy;
	int ret = read_policy(a->options, &policy, why);

	if (ret < 0)
		return ret;
	cks_policy_free(a->policy);
	a->policy = policy;
	for (struct cks_account_row *row = a->rows; row; row = row->next) {
		row->terms = *cks_policy_find(policy, &row->identity);
		cks_account_change(row->account, &row->terms);
	}
	return 0;
}

bool cks_accounts_weighted(const struct cks_accounts *a)
{
	return a && cks_policy_weighted(a->policy);
}

bool cks_accounts_timed(const struct cks_accounts *a)
{
	return a && cks_policy_timed(a->policy);
}

const struct cks_terms *cks_accounts_terms(const struct cks_accounts *a,
					   const struct ck_hash *identity)
{
	return cks_policy_find(a ? a->policy : NULL, identity);
}

const struct cks_prefix *cks_accounts_prefix(const struct cks_accounts *a,
					     const struct ck_hash *identity, const char *name)
{
	return cks_policy_prefix(a ? a->policy : NULL, identity, name);
}

const struct cks_terms *cks_seat_terms(const struct cks_seat *seat)
{
	return seat->row ? &seat->row->terms : cks_policy_find(NULL, NULL);
}

int cks_seat_file(const struct cks_seat *seat)
{
	return seat->row && (int32_t)seat->number >= 0 ? seat->row->fd : -1;
}

/* A new account; NULL: *@error says why. */
static struct cks_account_row *open_account(struct cks_accounts *a, const struct ck_hash *identity,
					    int *error)
{
	struct cks_account_row *row = calloc(1, sizeof(*row));

	*error = -ENOMEM;
	if (!row)
		return NULL;
	row->identity = *identity;
	row->terms = *cks_policy_find(a->policy, identity);
	row->fd = cks_account_create(&row->terms, a->options->max_sessions, &row->account);
	if (row->fd < 0) {
		*error = row->fd;
		free(row);
		return NULL;
	}
	row->next = a->rows;
	a->rows = row;
	return row;
}

int cks_accounts_seat(struct cks_accounts *a, const struct ck_hash *identity, struct cks_seat *out)
{
	struct cks_account_row *row = a->rows;
	int ret = 0;

	while (row && !ck_hash_equal(&row->identity, identity))
		row = row->next;
	if (!row)
		row = open_account(a, identity, &ret);
	if (!row)
		return ret;
	ret = cks_account_take_seat(row->account);
	row->sessions++;
	*out = (struct cks_seat){row, (uint32_t)ret};
	if (ret >= 0)
		return row->fd;
	cks_accounts_leave(a, out);
	return ret;
}

void cks_accounts_leave(struct cks_accounts *a, struct cks_seat *seat)
{
	struct cks_account_row **at, *row = seat->row;

	if (!a || !row)
		return;
	if ((int32_t)seat->number >= 0)
		cks_account_leave_seat(row->account, seat->number);
	*seat = (struct cks_seat){.row = NULL};
	if (--row->sessions > 0)
		return;
	for (at = &a->rows; *at != row;)
		at = &(*at)->next;
	drop_row(at);
}
