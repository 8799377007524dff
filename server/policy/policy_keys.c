/*
 * server/policy/policy_keys.c - the keys of a policy file, and their values.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "server/policy/limits.h"
#include "server/policy/policy.h"
#include "server/policy/policy_part.h"
#include "util/env.h"
#include "util/util.h"

/* A key: where its value goes, and between which values it may be. */
struct key {
	const char *name;
	void (*take)(struct cks_policy_reading *r, const config_setting_t *s, const struct key *key,
		     struct cks_terms *t);
	size_t offset, size; /* of the member */
	int64_t least, most;
	int limit; /* unless negative, they are those of this option (limits.h) */
};

void cks_policy_fail(struct cks_policy_reading *r, const config_setting_t *at, const char *format,
		     ...)
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

const char *cks_policy_text(struct cks_policy_reading *r, const config_setting_t *s)
{
	const char *text = config_setting_get_string(s);

	if (!text)
		cks_policy_fail(r, s, "%s: not a text in quotes", config_setting_name(s));
	return text ? text : "";
}

static void store_value(struct cks_terms *t, const struct key *key, int64_t value)
{
	/* of a little-endian number, the lower bytes */
	memcpy((char *)t + key->offset, &value, key->size);
}

static void bounds_of(const struct key *key, int64_t *least, int64_t *most)
{
	uint64_t lowest, highest;

	*least = key->least;
	*most = key->most;
	if (key->limit < 0)
		return;
	cks_limit_range((enum cks_limit)key->limit, &lowest, &highest);
	*least = (int64_t)lowest;
	*most = (int64_t)highest;
}

static void take_number(struct cks_policy_reading *r, const config_setting_t *s,
			const struct key *key, struct cks_terms *t)
{
	int64_t value = config_setting_get_int64(s), least, most;
	int type = config_setting_type(s);

	bounds_of(key, &least, &most);
	if ((type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64) && value >= least &&
	    value <= most)
		store_value(t, key, value);
	else
		cks_policy_fail(r, s, "%s: not a number from %lld to %lld", key->name,
				(long long)least, (long long)most);
}

/* As in "8G". */
static void take_size(struct cks_policy_reading *r, const config_setting_t *s,
		      const struct key *key, struct cks_terms *t)
{
	const char *text = cks_policy_text(r, s);
	int64_t least, most;
	uint64_t bytes = 0;

	bounds_of(key, &least, &most);
	if (strspn(text, "0123456789") == 0 || ck_env_number(text, &bytes) < 0 || bytes == 0)
		cks_policy_fail(r, s, "%s: not a size as in \"8G\"", key->name);
	else if (bytes < (uint64_t)least || bytes > (uint64_t)most)
		cks_policy_fail(r, s, "%s: not from %lld to %lld bytes", key->name,
				(long long)least, (long long)most);
	else
		store_value(t, key, (int64_t)bytes);
}

/* A size as in "8G", or a part of each GPU as in "25%". */
static void take_memory(struct cks_policy_reading *r, const config_setting_t *s,
			const struct key *key, struct cks_terms *t)
{
	const char *text = cks_policy_text(r, s);
	size_t digits = strspn(text, "0123456789");
	uint64_t bytes = 0;

	t->memory = t->percent = 0;
	if (ck_env_percent(text, &t->percent) == 0)
		return;
	if (digits > 0 && ck_env_number(text, &bytes) == 0 && bytes >= (uint64_t)key->least)
		t->memory = bytes;
	else if (bytes > 0)
		cks_policy_fail(r, s,
				"%s: less than 1M; is a unit missing, as in \"8G\" or \"25%%\"?",
				key->name);
	else
		cks_policy_fail(r, s, "%s: not a size as in \"8G\", nor a part as in \"25%%\"",
				key->name);
}

static void take_time(struct cks_policy_reading *r, const config_setting_t *s,
		      const struct key *key, struct cks_terms *t)
{
	uint64_t seconds = 0;

	if (ck_env_time(cks_policy_text(r, s), &seconds) < 0 || seconds > (uint64_t)key->most)
		cks_policy_fail(
			r, s, "%s: not a time of at most 7 days, as in \"90s\", \"30m\" or \"2h\"",
			key->name);
	else
		store_value(t, key, (int64_t)seconds);
}

/* One of two words; @yes: true. */
static void take_word(struct cks_policy_reading *r, const config_setting_t *s,
		      const struct key *key, struct cks_terms *t, const char *yes, const char *no)
{
	const char *text = cks_policy_text(r, s);
	bool is = strcmp(text, yes) == 0;

	if (!is && strcmp(text, no) != 0)
		cks_policy_fail(r, s, "%s: neither \"%s\" nor \"%s\"", key->name, yes, no);
	store_value(t, key, is);
}

static void take_own(struct cks_policy_reading *r, const config_setting_t *s, const struct key *key,
		     struct cks_terms *t)
{
	take_word(r, s, key, t, "own", "all");
}

static void take_share(struct cks_policy_reading *r, const config_setting_t *s,
		       const struct key *key, struct cks_terms *t)
{
	take_word(r, s, key, t, "mps", "time");
}

static void take_yes(struct cks_policy_reading *r, const config_setting_t *s, const struct key *key,
		     struct cks_terms *t)
{
	if (config_setting_type(s) == CONFIG_TYPE_BOOL)
		store_value(t, key, config_setting_get_bool(s));
	else
		cks_policy_fail(r, s, "%s: neither true nor false", key->name);
}

static void take_percent(struct cks_policy_reading *r, const config_setting_t *s,
			 const struct key *key, struct cks_terms *t)
{
	unsigned int percent = 0;

	if (ck_env_percent(cks_policy_text(r, s), &percent) < 0)
		cks_policy_fail(r, s, "%s: not a part as in \"25%%\"", key->name);
	else
		store_value(t, key, percent);
}

/* Can an entry of @size bytes name a device: a number, or the beginning of a UUID? */
static bool may_be_gpu(const char *text, size_t size)
{
	static const char uuid[] = "0123456789abcdefABCDEF-";
	bool gpu = size > 4 && memcmp(text, "GPU-", 4) == 0,
	     mig = size > 4 && memcmp(text, "MIG-", 4) == 0;

	if (gpu)
		return strspn(text + 4, uuid) >= size - 4;
	if (mig) /* MIG-GPU-UUID/1/0 too, as earlier drivers write it */
		return strspn(text + 4, "0123456789abcdefABCDEFGPU-/") >= size - 4;
	return size > 0 && size < 4 && strspn(text, "0123456789") >= size &&
	       strtoul(text, NULL, 10) < CK_MAX_DEVICES;
}

/* The driver knows which devices there are. With an entry that can be none of them, or that comes
 * twice, it would show a session fewer, or none. */
static void take_gpus(struct cks_policy_reading *r, const config_setting_t *s,
		      const struct key *key, struct cks_terms *t)
{
	const char *text = cks_policy_text(r, s), *entry = text;
	size_t size = strlen(text);
	bool right = size < sizeof(t->gpus);

	(void)key;
	for (bool more = true; right && more; entry += size + 1) {
		size = strcspn(entry, ",");
		more = entry[size] == ',';
		right = may_be_gpu(entry, size);
		for (const char *at = text; right && at < entry; at += strcspn(at, ",") + 1)
			right = strcspn(at, ",") != size || memcmp(at, entry, size) != 0;
	}
	if (right)
		snprintf(t->gpus, sizeof(t->gpus), "%s", text);
	else
		cks_policy_fail(r, s,
				"gpus: not a list of numbers or UUIDs, each once, as in \"0,1\" or "
				"\"GPU-5d1f\": \"%s\"",
				text);
}

static void take_features(struct cks_policy_reading *r, const config_setting_t *s,
			  const struct key *key, struct cks_terms *t)
{
	int type = config_setting_type(s), count = config_setting_length(s);

	(void)key;
	if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
		cks_policy_fail(r, s, "features: not a list as in [\"m3\", \"checkpoint\"]");
	t->features = 0;
	for (int i = 0; !r->failed && i < count; i++) {
		const char *word = cks_policy_text(r, config_setting_get_elem(s, (unsigned int)i));

		if (strcmp(word, "m3") == 0)
			t->features |= CK_FEATURE_M3;
		else if (strcmp(word, "checkpoint") == 0)
			t->features |= CK_FEATURE_CHECKPOINT;
		else
			cks_policy_fail(r, s, "features: unknown: %s; there are m3 and checkpoint",
					word);
	}
}

/* --- the table */

#define BOUNDS(from, to) .least = (from), .most = (to), .limit = -1
#define LIMIT(option) .limit = (option)
#define MEMBER(name)                                                                               \
	.offset = offsetof(struct cks_terms, name), .size = sizeof(((struct cks_terms *)0)->name)

static const struct key keys[] = {
#define CK_TERM(key, kind, type, member, unset, bounds, applies, meaning, usual)                   \
	{.name = (key), .take = take_##kind, MEMBER(member), bounds},
#define CK_TERM_PART(type, member, unset)
#define CK_TERM_TEXT(key, kind, member, size, applies, meaning, usual)                             \
	{.name = (key), .take = take_##kind, MEMBER(member)},
#include "server/policy/terms.def"
#undef CK_TERM
#undef CK_TERM_PART
#undef CK_TERM_TEXT
};

bool cks_policy_take(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(keys); i++) {
		if (strcmp(config_setting_name(s), keys[i].name) == 0) {
			keys[i].take(r, s, &keys[i], t);
			return true;
		}
	}
	return false;
}
