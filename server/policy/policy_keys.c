/*
 * server/policy/policy_keys.c - the keys of a policy file, and their values.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cricket.h"
#include "server/policy/limits.h"
#include "server/policy/policy.h"
#include "server/policy/policy_part.h"
#include "util/env.h"
#include "util/util.h"

#define CK_POLICY_SESSIONS 100000
#define CK_POLICY_PRIORITY 1000
#define CK_POLICY_WEIGHT 1000
#define CK_POLICY_TIME (7 * 86400)
#define CK_POLICY_BANDWIDTH 65536

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

static int64_t number_of(struct cks_policy_reading *r, const config_setting_t *s, int64_t least,
			 int64_t most)
{
	int64_t value = config_setting_get_int64(s);
	int type = config_setting_type(s);

	if ((type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64) && value >= least &&
	    value <= most)
		return value;
	cks_policy_fail(r, s, "%s: not a number from %lld to %lld", config_setting_name(s),
			(long long)least, (long long)most);
	return least;
}

static void set_sessions(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_terms *t)
{
	t->sessions = (uint32_t)number_of(r, s, 1, CK_POLICY_SESSIONS);
}

static void set_priority(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_terms *t)
{
	t->priority = (int32_t)number_of(r, s, -CK_POLICY_PRIORITY, CK_POLICY_PRIORITY);
}

static void set_weight(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->weight = (uint32_t)number_of(r, s, 1, CK_POLICY_WEIGHT);
}

static void set_contexts(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_terms *t)
{
	t->contexts = (uint32_t)number_of(r, s, 1, CK_POLICY_SESSIONS);
}

/* A size as in "8G". */
static uint64_t size_of(struct cks_policy_reading *r, const config_setting_t *s)
{
	const char *text = cks_policy_text(r, s);
	uint64_t bytes = 0;

	if (strspn(text, "0123456789") == 0 || ck_env_number(text, &bytes) < 0 || bytes == 0)
		cks_policy_fail(r, s, "%s: not a size as in \"8G\"", config_setting_name(s));
	return bytes;
}

static void set_m3_memory(struct cks_policy_reading *r, const config_setting_t *s,
			  struct cks_terms *t)
{
	t->m3_memory = size_of(r, s);
}

static void set_memory_total(struct cks_policy_reading *r, const config_setting_t *s,
			     struct cks_terms *t)
{
	t->memory_total = size_of(r, s);
}

/* Bounds that options of the server set too: the same values are right. */
static void check_limit(struct cks_policy_reading *r, const config_setting_t *s,
			enum cks_limit limit, uint64_t value)
{
	uint64_t least, most;

	cks_limit_range(limit, &least, &most);
	if (value < least || value > most)
		cks_policy_fail(r, s, "%s: not from %llu to %llu", config_setting_name(s),
				(unsigned long long)least, (unsigned long long)most);
}

static void set_lanes(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	uint64_t least, most;

	cks_limit_range(CK_LIMIT_LANES, &least, &most);
	t->lanes = (uint64_t)number_of(r, s, (int64_t)least, (int64_t)most);
}

static void set_host_memory(struct cks_policy_reading *r, const config_setting_t *s,
			    struct cks_terms *t)
{
	t->host_memory = size_of(r, s);
	check_limit(r, s, CK_LIMIT_PINNED, t->host_memory);
}

static void set_output(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->output = size_of(r, s);
	check_limit(r, s, CK_LIMIT_OUTPUT, t->output);
}

static void set_cache(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->cache = size_of(r, s);
	check_limit(r, s, CK_LIMIT_CACHE, t->cache);
}

/* Less would keep a single message waiting for longer than a minute. */
static void set_bandwidth(struct cks_policy_reading *r, const config_setting_t *s,
			  struct cks_terms *t)
{
	t->bandwidth = size_of(r, s);
	if (t->bandwidth < CK_POLICY_BANDWIDTH)
		cks_policy_fail(r, s, "bandwidth: less than 64K");
}

/* A size as in "8G", or a part of each GPU as in "25%". */
static void set_memory(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	const char *text = cks_policy_text(r, s);
	size_t digits = strspn(text, "0123456789");
	uint64_t bytes = 0;
	long percent = digits > 0 && digits < 4 ? strtol(text, NULL, 10) : 0;

	t->memory = t->percent = 0;
	if (strcmp(text + digits, "%") == 0 && percent >= 1 && percent <= 100)
		t->percent = (uint32_t)percent;
	else if (digits > 0 && ck_env_number(text, &bytes) == 0 && bytes > 0)
		t->memory = bytes;
	else
		cks_policy_fail(r, s, "memory: not a size as in \"8G\", nor a part as in \"25%%\"");
}

static int64_t time_of(struct cks_policy_reading *r, const config_setting_t *s)
{
	uint64_t seconds = 0;

	if (ck_env_time(cks_policy_text(r, s), &seconds) < 0 || seconds > CK_POLICY_TIME)
		cks_policy_fail(
			r, s, "%s: not a time of at most 7 days, as in \"90s\", \"30m\" or \"2h\"",
			config_setting_name(s));
	return (int64_t)seconds;
}

static void set_resume(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->resume = time_of(r, s);
}

static void set_idle(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->idle = time_of(r, s);
}

/* "0" takes back what the default sets. */
static void set_time(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->time = (uint64_t)time_of(r, s);
}

static void set_idle_end(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_terms *t)
{
	t->idle_end = (uint64_t)time_of(r, s);
}

/* "own" or "all"; true: own. */
static bool own_of(struct cks_policy_reading *r, const config_setting_t *s)
{
	const char *text = cks_policy_text(r, s);
	bool own = strcmp(text, "own") == 0;

	if (!own && strcmp(text, "all") != 0)
		cks_policy_fail(r, s, "%s: neither \"own\" nor \"all\"", config_setting_name(s));
	return own;
}

static void set_nvml(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	t->nvml_own = own_of(r, s);
}

static void set_m3_names(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_terms *t)
{
	t->m3_own = own_of(r, s);
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

/* The driver knows which devices there are. With an entry that can be none of them, or that comes twice, it would show
 * a session fewer, or none. */
static void set_gpus(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	const char *text = cks_policy_text(r, s), *entry = text;
	size_t size = strlen(text);
	bool right = size < sizeof(t->gpus);

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

static void set_features(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_terms *t)
{
	int type = config_setting_type(s), count = config_setting_length(s);

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

static const struct {
	const char *key;
	void (*set)(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t);
} keys[] = {
	{"sessions", set_sessions},
	{"memory", set_memory},
	{"gpus", set_gpus},
	{"priority", set_priority},
	{"resume", set_resume},
	{"suspend_idle", set_idle},
	{"features", set_features},
	{"weight", set_weight},
	{"contexts", set_contexts},
	{"m3_memory", set_m3_memory},
	{"memory_total", set_memory_total},
	{"lanes", set_lanes},
	{"host_memory", set_host_memory},
	{"output", set_output},
	{"cache", set_cache},
	{"bandwidth", set_bandwidth},
	{"time", set_time},
	{"idle", set_idle_end},
	{"nvml_processes", set_nvml},
	{"m3_names", set_m3_names},
};

bool cks_policy_take(struct cks_policy_reading *r, const config_setting_t *s, struct cks_terms *t)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(keys); i++) {
		if (strcmp(config_setting_name(s), keys[i].key) == 0) {
			keys[i].set(r, s, t);
			return true;
		}
	}
	return false;
}
