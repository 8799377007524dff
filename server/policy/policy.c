/*
 * server/policy/policy.c - see policy.h. libconfig parses the file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <libconfig.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/mps.h"
#include "server/policy/policy.h"
#include "server/policy/policy_part.h"
#include "server/policy/token.h"
#include "util/env.h"
#include "util/util.h"

#define CK_POLICY_MAX 1048576 /* bytes of the file */

struct entry {
	struct ck_hash key;
	char *token; /* NULL: it is for a user or an address */
	unsigned int line;
	struct cks_terms terms;
	uint32_t prefixes; /* a bit for each that it may use */
};

struct cks_policy {
	struct cks_terms usual;
	uint32_t usual_prefixes;
	struct cks_prefixes prefixes; /* that there are */
	bool weighted;		      /* not all have the same weight and priority */
	struct entry *entries;
	size_t count;
};

/* --- groups */

static void report_unknown_key(struct cks_policy_reading *r, const config_setting_t *s)
{
	cks_policy_fail(r, s, "unknown key: %s", config_setting_name(s));
}

/* Take a key of an entry, or of the default; false: there is none of this name. */
static bool take_key(struct cks_policy_reading *r, const config_setting_t *s,
		     const struct cks_policy *policy, struct cks_terms *t, uint32_t *prefixes)
{
	if (strcmp(config_setting_name(s), "prefixes") != 0)
		return cks_policy_take(r, s, t);
	cks_prefixes_grant(r, s, &policy->prefixes, prefixes);
	return true;
}

/* The key sm of @group would have no effect without MPS. */
static void check_sm(struct cks_policy_reading *r, const config_setting_t *group,
		     const struct cks_terms *t)
{
	const config_setting_t *sm = config_setting_get_member(group, "sm");

	if (sm && !t->mps)
		cks_policy_fail(r, sm, "sm: it needs share = \"mps\"");
}

static void take_usual(struct cks_policy_reading *r, const config_setting_t *group,
		       struct cks_policy *policy)
{
	if (!config_setting_is_group(group))
		cks_policy_fail(r, group,
				"default: not a group, as in default = { sessions = 4; };");
	for (int i = 0; !r->failed && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned int)i);

		if (!take_key(r, s, policy, &policy->usual, &policy->usual_prefixes))
			report_unknown_key(r, s);
	}
	if (!r->failed)
		check_sm(r, group, &policy->usual);
}

static void key_of_user(struct cks_policy_reading *r, const config_setting_t *s,
			struct ck_hash *key)
{
	const char *text = cks_policy_text(r, s);
	const struct passwd *user = r->failed ? NULL : getpwnam(text);
	char *end = NULL;
	unsigned long uid = strtoul(text, &end, 10);

	if (user)
		uid = user->pw_uid;
	else if (!*text || strspn(text, "0123456789") != strlen(text) || uid >= UINT_MAX)
		cks_policy_fail(r, s, "user: there is no user %s", text);
	cks_identity_key_of_user((uid_t)uid, key);
}

static void key_of_address(struct cks_policy_reading *r, const config_setting_t *s,
			   struct ck_hash *key)
{
	const char *text = cks_policy_text(r, s);

	if (!cks_identity_key_of_address(text, key))
		cks_policy_fail(r, s,
				"address: not a numeric IPv4 or IPv6 address, which names its "
				"interface if it is link-local (fe80::7%%eth0): %s",
				text);
}

static void key_of_token(struct cks_policy_reading *r, const config_setting_t *s, struct entry *e)
{
	const char *name = cks_policy_text(r, s);

	if (!ck_token_file_is_name(name, strlen(name)))
		cks_policy_fail(r, s, "token: not a name of 1 to %d letters, digits and .-_@: %s",
				CK_HOLDER_NAME - 1, name);
	free(e->token);
	e->token = strdup(name);
	if (!e->token)
		cks_policy_fail(r, s, "out of memory");
	cks_identity_key_of_holder(name, &e->key);
}

/* Take whose entry it is; false: another key. */
static bool take_name(struct cks_policy_reading *r, const config_setting_t *s, struct entry *e)
{
	const char *name = config_setting_name(s);
	struct ck_hash *key = &e->key;

	if (strcmp(name, "user") == 0)
		key_of_user(r, s, key);
	else if (strcmp(name, "address") == 0)
		key_of_address(r, s, key);
	else if (strcmp(name, "token") == 0)
		key_of_token(r, s, e);
	else
		return false;
	return true;
}

static void take_entry(struct cks_policy_reading *r, const config_setting_t *group,
		       struct cks_policy *policy)
{
	struct entry *e = &policy->entries[policy->count];
	int names = 0;

	*e = (struct entry){.terms = policy->usual,
			    .prefixes = policy->usual_prefixes,
			    .line = config_setting_source_line(group)};
	policy->count++;
	if (!config_setting_is_group(group))
		cks_policy_fail(r, group, "identities: not a group, as in { token = \"alice\"; }");
	for (int i = 0; !r->failed && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned int)i);

		if (take_name(r, s, e))
			names++;
		else if (!take_key(r, s, policy, &e->terms, &e->prefixes))
			report_unknown_key(r, s);
	}
	if (!r->failed)
		check_sm(r, group, &e->terms);
	if (names != 1)
		cks_policy_fail(r, group, "an entry has one of token, user and address");
	for (size_t i = 0; i + 1 < policy->count; i++) {
		if (ck_hash_equal(&policy->entries[i].key, &e->key))
			cks_policy_fail(r, group, "the identity has an entry already");
	}
	policy->weighted |= e->terms.weight != policy->usual.weight ||
			    e->terms.priority != policy->usual.priority;
}

static void take_entries(struct cks_policy_reading *r, const config_setting_t *list,
			 struct cks_policy *policy)
{
	int count = config_setting_length(list);

	if (!config_setting_is_list(list))
		cks_policy_fail(r, list,
				"identities: not a list, as in ( { token = \"alice\"; } );");
	policy->entries = calloc((size_t)count + 1, sizeof(*policy->entries));
	if (!policy->entries)
		cks_policy_fail(r, list, "out of memory");
	for (int i = 0; !r->failed && i < count; i++)
		take_entry(r, config_setting_get_elem(list, (unsigned int)i), policy);
}

static void take_file(struct cks_policy_reading *r, const config_setting_t *root,
		      struct cks_policy *policy)
{
	const config_setting_t *usual = config_setting_get_member(root, "default"),
			       *list = config_setting_get_member(root, "identities"),
			       *prefixes = config_setting_get_member(root, "prefixes");

	for (int i = 0; i < config_setting_length(root); i++) {
		const config_setting_t *s = config_setting_get_elem(root, (unsigned int)i);

		if (s != usual && s != list && s != prefixes)
			report_unknown_key(r, s);
	}
	if (prefixes)
		cks_prefixes_take(r, prefixes, &policy->prefixes);
	if (usual && !r->failed)
		take_usual(r, usual, policy); /* entries begin with it */
	if (list && !r->failed)
		take_entries(r, list, policy);
}

int cks_policy_parse(const char *text, const char *path, struct cks_policy **out,
		     char why[CK_POLICY_WHY])
{
	struct cks_policy_reading r = {.path = path, .why = why};
	struct cks_policy *policy = calloc(1, sizeof(*policy));
	config_t config;

	*out = NULL;
	snprintf(why, CK_POLICY_WHY, "%.200s: out of memory", path);
	if (!policy)
		return -ENOMEM;
	policy->usual = cks_terms_none();
	config_init(&config);
	if (config_read_string(&config, text) == CONFIG_TRUE) {
		take_file(&r, config_root_setting(&config), policy);
	} else {
		r.failed = true;
		snprintf(why, CK_POLICY_WHY, "%.200s:%d: %s", path, config_error_line(&config),
			 config_error_text(&config));
	}
	config_destroy(&config);
	if (r.failed) {
		cks_policy_free(policy);
		return -EINVAL;
	}
	*out = policy;
	return 0;
}

/* The content of @path, to be freed; -errno. */
static int read_text(const char *path, char **out)
{
	char *text = malloc(CK_POLICY_MAX + 1);
	FILE *f = text ? fopen(path, "re") : NULL;
	int ret = text && !f ? -errno : -ENOMEM;
	size_t n = 0;

	if (f) {
		n = fread(text, 1, CK_POLICY_MAX + 1, f);
		ret = ferror(f) ? -errno : n > CK_POLICY_MAX ? -EFBIG : 0;
		if (ret == 0)
			text[n] = '\0';
		if (ret == 0 && strlen(text) != n)
			ret = -EILSEQ; /* a NUL would end it */
		fclose(f);
	}
	if (ret < 0)
		free(text);
	else
		*out = text;
	return ret;
}

int cks_policy_read(const char *path, struct cks_policy **out, char why[CK_POLICY_WHY])
{
	char *text;
	int ret = read_text(path, &text);

	*out = NULL;
	if (ret < 0) {
		snprintf(why, CK_POLICY_WHY, "%.200s: %s", path, strerror(-ret));
		return ret;
	}
	ret = cks_policy_parse(text, path, out, why);
	free(text);
	return ret;
}

void cks_policy_free(struct cks_policy *policy)
{
	if (!policy)
		return;
	cks_prefixes_free(&policy->prefixes);
	for (size_t i = 0; i < policy->count; i++)
		free(policy->entries[i].token);
	free(policy->entries);
	free(policy);
}

/* NULL: it has none. */
static const struct entry *find_entry(const struct cks_policy *policy, const struct ck_hash *key)
{
	for (size_t i = 0; i < policy->count; i++) {
		if (ck_hash_equal(&policy->entries[i].key, key))
			return &policy->entries[i];
	}
	return NULL;
}

const struct cks_terms *cks_policy_find(const struct cks_policy *policy, const struct ck_hash *key)
{
	static const struct cks_terms none = {
		.resume = -1, .idle = -1, .weight = 1, .features = CK_FEATURES_ALL};
	const struct entry *e = policy ? find_entry(policy, key) : NULL;

	if (!policy)
		return &none;
	return e ? &e->terms : &policy->usual;
}

const struct cks_prefix *cks_policy_prefix(const struct cks_policy *policy,
					   const struct ck_hash *key, const char *name)
{
	const struct entry *e = policy ? find_entry(policy, key) : NULL;
	uint32_t granted = e ? e->prefixes : policy ? policy->usual_prefixes : 0;

	for (size_t i = 0; policy && i < policy->prefixes.count; i++) {
		const struct cks_prefix *p = &policy->prefixes.list[i];

		if (strcmp(p->name, name) == 0)
			return granted >> i & 1 ? p : NULL;
	}
	return NULL;
}

size_t cks_policy_count(const struct cks_policy *policy)
{
	return policy->count;
}

bool cks_policy_weighted(const struct cks_policy *policy)
{
	return policy->weighted;
}

static bool has_time_limit(const struct cks_terms *t)
{
	return t->time > 0 || t->idle_end > 0;
}

bool cks_policy_timed(const struct cks_policy *policy)
{
	bool any = has_time_limit(&policy->usual);

	for (size_t i = 0; !any && i < policy->count; i++)
		any = has_time_limit(&policy->entries[i].terms);
	return any;
}

const char *cks_policy_stranger(const struct cks_policy *policy, const struct cks_token *tokens,
				size_t *at, unsigned int *line)
{
	while (*at < policy->count) {
		const struct entry *e = &policy->entries[(*at)++];

		*line = e->line;
		if (e->token && !(tokens->named && ck_token_file_has(tokens->text, e->token)))
			return e->token;
	}
	return NULL;
}

/* Has @token_file the tokens of all entries? -errno, printed. */
static int check_tokens(const struct cks_policy *policy, const char *path, const char *token_file)
{
	static struct cks_token tokens;
	char why[CK_TOKEN_WHY];
	int ret = cks_token_read(token_file, &tokens, why);
	const char *stranger;
	unsigned int line;
	size_t at = 0;

	if (ret < 0)
		fprintf(stderr, "cricket-rpc-server: %s\n", why);

	else if ((stranger = cks_policy_stranger(policy, &tokens, &at, &line)) != NULL)
		fprintf(stderr, "cricket-rpc-server: %s:%u: token: %s has no token of %s\n", path,
			line, token_file, stranger),
			ret = -ENOENT;
	explicit_bzero(&tokens, sizeof(tokens));
	return ret;
}

static bool uses_mps(const struct cks_policy *policy)
{
	bool any = policy->usual.mps;

	for (size_t i = 0; !any && i < policy->count; i++)
		any = policy->entries[i].terms.mps;
	return any;
}

/* Does the policy need a program that is not there? */
static void check_mps(const struct cks_policy *policy, const char *path)
{
	char control[PATH_MAX];

	if (uses_mps(policy) && !ck_env_find_program(CK_MPS_CONTROL, control, sizeof(control)))
		fprintf(stderr,
			"cricket-rpc-server: %s: share = \"mps\": " CK_MPS_CONTROL
			" is not on PATH here: without it such sessions are refused\n",
			path);
}

int cks_policy_check(const char *option, const char *path, const char *token_file)
{
	struct cks_policy *policy = NULL;
	char why[CK_POLICY_WHY];
	int ret = path ? cks_policy_read(path, &policy, why) : 0;

	if (ret < 0)
		fprintf(stderr, "cricket-rpc-server: %s%s\n", option, why);
	else if (policy && token_file)
		ret = check_tokens(policy, path, token_file);
	if (ret == 0 && policy)
		check_mps(policy, path);
	cks_policy_free(policy);
	return ret;
}
