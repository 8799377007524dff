/*
 * server/processes/policy.c - see policy.h. libconfig parses the file.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libconfig.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/policy.h"
#include "util/env.h"
#include "util/util.h"

#define CK_POLICY_MAX 1048576 /* bytes of the file */
#define CK_POLICY_SESSIONS 100000
#define CK_POLICY_PRIORITY 1000
#define CK_POLICY_TIME (7 * 86400)

struct entry {
	struct ck_hash key;
	struct cks_terms terms;
};

struct cks_policy {
	struct cks_terms usual;
	struct entry *entries;
	size_t count;
};

/* A file that is being read; the first error counts. */
struct reading {
	const char *path;
	char *why;
	bool failed;
};

static void fail(struct reading *r, const config_setting_t *at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct reading *r, const config_setting_t *at, const char *format, ...)
{
	va_list args;
	int n;

	if (r->failed)
		return;
	r->failed = true;
	n = snprintf(r->why, CK_POLICY_WHY, "%.200s:%u: ", r->path, config_setting_source_line(at));
	va_start(args, format);
	vsnprintf(r->why + n, (size_t)(CK_POLICY_WHY - n), format, args);
	va_end(args);
}

/* --- values */

static const char *text_of(struct reading *r, const config_setting_t *s)
{
	const char *text = config_setting_get_string(s);

	if (!text)
		fail(r, s, "%s: not a text in quotes", config_setting_name(s));
	return text ? text : "";
}

static int64_t number_of(struct reading *r, const config_setting_t *s, int64_t least, int64_t most)
{
	int64_t value = config_setting_get_int64(s);
	int type = config_setting_type(s);

	if ((type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64) && value >= least &&
	    value <= most)
		return value;
	fail(r, s, "%s: not a number from %lld to %lld", config_setting_name(s), (long long)least,
	     (long long)most);
	return least;
}

static void set_sessions(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->sessions = (uint32_t)number_of(r, s, 1, CK_POLICY_SESSIONS);
}

static void set_priority(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->priority = (int32_t)number_of(r, s, -CK_POLICY_PRIORITY, CK_POLICY_PRIORITY);
}

/* A size as in "8G", or a part of each GPU as in "25%". */
static void set_memory(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	const char *text = text_of(r, s);
	size_t digits = strspn(text, "0123456789");
	uint64_t bytes = 0;
	long percent = digits > 0 && digits < 4 ? strtol(text, NULL, 10) : 0;

	t->memory = t->percent = 0;
	if (strcmp(text + digits, "%") == 0 && percent >= 1 && percent <= 100)
		t->percent = (uint32_t)percent;
	else if (digits > 0 && ck_env_number(text, &bytes) == 0 && bytes > 0)
		t->memory = bytes;
	else
		fail(r, s, "memory: not a size as in \"8G\", nor a part as in \"25%%\"");
}

static int64_t time_of(struct reading *r, const config_setting_t *s)
{
	uint64_t seconds = 0;

	if (ck_env_time(text_of(r, s), &seconds) < 0 || seconds > CK_POLICY_TIME)
		fail(r, s, "%s: not a time of at most 7 days, as in \"90s\", \"30m\" or \"2h\"",
		     config_setting_name(s));
	return (int64_t)seconds;
}

static void set_resume(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->resume = time_of(r, s);
}

static void set_idle(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->idle = time_of(r, s);
}

/* Numbers or UUIDs: the driver knows which there are. */
static void set_gpus(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	static const char allowed[] =
		"0123456789,-/ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	const char *text = text_of(r, s);

	if (!*text || strlen(text) >= sizeof(t->gpus) || strspn(text, allowed) != strlen(text))
		fail(r, s, "gpus: not a list as in \"0,1\"");
	else
		snprintf(t->gpus, sizeof(t->gpus), "%s", text);
}

static void set_features(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	int type = config_setting_type(s), count = config_setting_length(s);

	if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
		fail(r, s, "features: not a list as in [\"m3\", \"checkpoint\"]");
	t->features = 0;
	for (int i = 0; !r->failed && i < count; i++) {
		const char *word = text_of(r, config_setting_get_elem(s, (unsigned int)i));

		if (strcmp(word, "m3") == 0)
			t->features |= CK_FEATURE_M3;
		else if (strcmp(word, "checkpoint") == 0)
			t->features |= CK_FEATURE_CHECKPOINT;
		else
			fail(r, s, "features: unknown: %s; there are m3 and checkpoint", word);
	}
}

/* --- groups */

static const struct {
	const char *key;
	void (*set)(struct reading *r, const config_setting_t *s, struct cks_terms *t);
} keys[] = {
	{"sessions", set_sessions}, {"memory", set_memory}, {"gpus", set_gpus},
	{"priority", set_priority}, {"resume", set_resume}, {"suspend_idle", set_idle},
	{"features", set_features},
};

/* Take one setting of a group; false: no key has this name. */
static bool take_key(struct reading *r, const config_setting_t *s, struct cks_terms *t)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(keys); i++) {
		if (strcmp(config_setting_name(s), keys[i].key) == 0) {
			keys[i].set(r, s, t);
			return true;
		}
	}
	return false;
}

static void unknown(struct reading *r, const config_setting_t *s)
{
	fail(r, s, "unknown key: %s", config_setting_name(s));
}

static void take_usual(struct reading *r, const config_setting_t *group, struct cks_terms *t)
{
	if (!config_setting_is_group(group))
		fail(r, group, "default: not a group, as in default = { sessions = 4; };");
	for (int i = 0; !r->failed && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned int)i);

		if (!take_key(r, s, t))
			unknown(r, s);
	}
}

static void key_of_user(struct reading *r, const config_setting_t *s, struct ck_hash *key)
{
	const char *text = text_of(r, s);
	const struct passwd *user = r->failed ? NULL : getpwnam(text);
	char *end = NULL;
	unsigned long uid = strtoul(text, &end, 10);

	if (user)
		uid = user->pw_uid;
	else if (!*text || strspn(text, "0123456789") != strlen(text) || uid >= UINT_MAX)
		fail(r, s, "user: there is no user %s", text);
	cks_identity_key_of_user((uid_t)uid, key);
}

static void key_of_address(struct reading *r, const config_setting_t *s, struct ck_hash *key)
{
	const char *text = text_of(r, s);
	char plain[INET6_ADDRSTRLEN] = "";
	unsigned char bytes[16];
	int family = strchr(text, ':') ? AF_INET6 : AF_INET;

	if (inet_pton(family, text, bytes) != 1 || !inet_ntop(family, bytes, plain, sizeof(plain)))
		fail(r, s, "address: not an IPv4 or IPv6 address: %s", text);
	cks_identity_key_of_address(plain, key);
}

/* Take whose entry it is; false: another key. */
static bool take_name(struct reading *r, const config_setting_t *s, struct ck_hash *key)
{
	const char *name = config_setting_name(s);

	if (strcmp(name, "user") == 0)
		key_of_user(r, s, key);
	else if (strcmp(name, "address") == 0)
		key_of_address(r, s, key);
	else if (strcmp(name, "token") == 0)
		cks_identity_key_of_holder(text_of(r, s), key);
	else
		return false;
	return true;
}

static void take_entry(struct reading *r, const config_setting_t *group, struct cks_policy *policy)
{
	struct entry *e = &policy->entries[policy->count];
	int names = 0;

	*e = (struct entry){.terms = policy->usual};
	if (!config_setting_is_group(group))
		fail(r, group, "identities: not a group, as in { token = \"alice\"; }");
	for (int i = 0; !r->failed && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned int)i);

		if (take_name(r, s, &e->key))
			names++;
		else if (!take_key(r, s, &e->terms))
			unknown(r, s);
	}
	if (names != 1)
		fail(r, group, "an entry has one of token, user and address");
	for (size_t i = 0; i < policy->count; i++) {
		if (ck_hash_equal(&policy->entries[i].key, &e->key))
			fail(r, group, "the identity has an entry already");
	}
	policy->count++;
}

static void take_entries(struct reading *r, const config_setting_t *list, struct cks_policy *policy)
{
	int count = config_setting_length(list);

	if (!config_setting_is_list(list))
		fail(r, list, "identities: not a list, as in ( { token = \"alice\"; } );");
	policy->entries = calloc((size_t)count + 1, sizeof(*policy->entries));
	if (!policy->entries)
		fail(r, list, "out of memory");
	for (int i = 0; !r->failed && i < count; i++)
		take_entry(r, config_setting_get_elem(list, (unsigned int)i), policy);
}

static void take_file(struct reading *r, const config_setting_t *root, struct cks_policy *policy)
{
	const config_setting_t *usual = config_setting_get_member(root, "default"),
			       *list = config_setting_get_member(root, "identities");

	for (int i = 0; i < config_setting_length(root); i++) {
		const config_setting_t *s = config_setting_get_elem(root, (unsigned int)i);

		if (s != usual && s != list)
			unknown(r, s);
	}
	if (usual)
		take_usual(r, usual, &policy->usual); /* entries begin with it */
	if (list && !r->failed)
		take_entries(r, list, policy);
}

int cks_policy_parse(const char *text, const char *path, struct cks_policy **out,
		     char why[CK_POLICY_WHY])
{
	struct reading r = {.path = path, .why = why};
	struct cks_policy *policy = calloc(1, sizeof(*policy));
	config_t config;

	*out = NULL;
	snprintf(why, CK_POLICY_WHY, "%.200s: out of memory", path);
	if (!policy)
		return -ENOMEM;
	policy->usual = CK_TERMS_NONE;
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
		ret = ferror(f) ? -EIO : n > CK_POLICY_MAX ? -EFBIG : 0;
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
	free(policy->entries);
	free(policy);
}

const struct cks_terms *cks_policy_find(const struct cks_policy *policy, const struct ck_hash *key)
{
	static const struct cks_terms none = {
		.resume = -1, .idle = -1, .features = CK_FEATURES_ALL};

	if (!policy)
		return &none;
	for (size_t i = 0; i < policy->count; i++) {
		if (ck_hash_equal(&policy->entries[i].key, key))
			return &policy->entries[i].terms;
	}
	return &policy->usual;
}

int cks_policy_check(const char *path)
{
	struct cks_policy *policy = NULL;
	char why[CK_POLICY_WHY];
	int ret = path ? cks_policy_read(path, &policy, why) : 0;

	if (ret < 0)
		fprintf(stderr, "cricket-rpc-server: %s\n", why);
	cks_policy_free(policy);
	return ret;
}
