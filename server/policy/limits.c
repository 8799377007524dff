/*
 * server/policy/limits.c - see limits.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/policy/limits.h"
#include "server/policy/terms.h"
#include "util/env.h"
#include "util/util.h"

#define CK_SIZE_MOST ((uint64_t)1 << 62)
#define CK_SESSIONS_LEAST 64u /* minimum of the default limits */

static const struct row {
	struct cks_limit_texts texts;
	uint64_t fallback, least, most;
} table[CK_LIMITS] = {
	[CK_LIMIT_LANES] =
		{{"max-lanes", "N",
		  "maximum number of threads of a program that wait for the GPU at a time", "1024"},
		 1024,
		 1,
		 65536},
	[CK_LIMIT_OUTPUT] = {{"kernel-output", "BYTES",
			      "maximum kernel output that a program leaves unfetched", "16M"},
			     16u << 20,
			     4096,
			     CK_SIZE_MOST},
	[CK_LIMIT_PINNED] = {{"pinned-memory", "BYTES",
			      "maximum pinned host memory of a program on this host",
			      "half of the host's memory"},
			     0,
			     4096,
			     CK_SIZE_MOST},
	[CK_LIMIT_CACHE] = {{"cache-per-identity", "BYTES",
			     "maximum size in the module cache for one identity", "1G"},
			    1u << 30,
			    4096,
			    CK_SIZE_MOST},
	[CK_LIMIT_ADDRESS] =
		{{"sessions-per-address", "N",
		  "maximum number of programs of one address, or user of the unix socket",
		  "half of --max-sessions, at least 64"},
		 0,
		 1,
		 100000},
	[CK_LIMIT_IDENTITY] = {{"sessions-per-identity", "N",
				"maximum number of programs of one identity",
				"three quarters of --max-sessions, at least 64"},
			       0,
			       1,
			       100000},
	[CK_LIMIT_COMMANDS] = {{"command-wait", "TIME",
				"time after which a session without a command connection ends",
				"10"},
			       10,
			       1,
			       86400},
	[CK_LIMIT_DRAIN] = {{"drain", "TIME",
			     "time for running programs to end after SIGTERM, as in 10m", "0"},
			    0,
			    0,
			    7 * 86400},
	[CK_LIMIT_PARK] = {{"suspend-wait", "TIME",
			    "time for running work to end before a session is suspended", "10"},
			   10,
			   1,
			   86400},
	[CK_LIMIT_KEEP] = {{"keep", "TIME",
			    "time for which a session outlives its connections over TCP or ssh, or "
			    "with --state-dir its server; 0: it ends with them",
			    "60s"},
			   60,
			   0,
			   7 * 86400},
	[CK_LIMIT_KEPT] = {{"max-kept", "N",
			    "maximum number of sessions that wait for cut connections; if there "
			    "are more, the one that has waited longest ends",
			    "no limit but --max-sessions"},
			   100000,
			   0,
			   100000},
	[CK_LIMIT_IDLE] = {{"suspend-idle", "TIME",
			    "time without use after which a session is suspended; 0: never", "0"},
			   0,
			   0,
			   7 * 86400},
	[CK_LIMIT_SUSPENDED] = {{"suspend-memory", "BYTES",
				 "maximum host memory of suspended sessions",
				 "half of the host's memory"},
				0,
				0,
				CK_SIZE_MOST},
	[CK_LIMIT_PARKED] =
		{{"park-memory", "BYTES",
		  "maximum host memory that the server keeps for fast suspends; 0: none",
		  "half of the host's memory"},
		 0,
		 0,
		 CK_SIZE_MOST},
	[CK_LIMIT_QUANTUM] =
		{{"quantum", "TIME",
		  "shortest turn of all sessions if the GPU has too little memory; 0: no turns",
		  "0"},
		 0,
		 0,
		 86400},
	[CK_LIMIT_SAVE] =
		{{"checkpoint-every", "TIME",
		  "time between two checkpoints of a session into --checkpoint-dir; 0: none", "0"},
		 0,
		 0,
		 7 * 86400},
	[CK_LIMIT_LEASE] = {{"lease", "BYTES",
			     "device memory that a program gets in advance; 0: none", "256M"},
			    256u << 20,
			    0,
			    CK_SIZE_MOST},
	[CK_LIMIT_STORE] =
		{{"store-size", "BYTES",
		  "maximum size of the uploads of one identity that are kept on disk; 0: none",
		  "32G"},
		 (uint64_t)32 << 30,
		 0,
		 CK_SIZE_MOST},
};

struct cks_limit_texts cks_limit_texts(enum cks_limit limit)
{
	return table[limit].texts;
}

void cks_limit_range(enum cks_limit limit, uint64_t *least, uint64_t *most)
{
	*least = table[limit].least;
	*most = table[limit].most;
}

static uint64_t half_of_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages / 2 * (uint64_t)size : CK_SIZE_MOST;
}

void cks_limits_init(struct cks_limits *limits)
{
	*limits = (struct cks_limits){.given = {NULL}};
	for (int i = 0; i < CK_LIMITS; i++)
		limits->value[i] = table[i].fallback;
	limits->value[CK_LIMIT_PINNED] = half_of_memory();
	limits->value[CK_LIMIT_SUSPENDED] = half_of_memory();
	limits->value[CK_LIMIT_PARKED] = half_of_memory();
}

void cks_limits_set_defaults(struct cks_limits *limits, unsigned int max_sessions)
{
	if (!limits->given[CK_LIMIT_ADDRESS])
		limits->value[CK_LIMIT_ADDRESS] = ck_max(max_sessions / 2, CK_SESSIONS_LEAST);
	if (!limits->given[CK_LIMIT_IDENTITY])
		limits->value[CK_LIMIT_IDENTITY] =
			ck_max(max_sessions - max_sessions / 4, CK_SESSIONS_LEAST);
}

static void apply_limit(struct cks_limits *limits, enum cks_limit limit, uint64_t value)
{
	if (value > 0)
		limits->value[limit] = value;
}

void cks_limits_apply(struct cks_limits *limits, const struct cks_terms *terms)
{
	apply_limit(limits, CK_LIMIT_LANES, terms->lanes);
	apply_limit(limits, CK_LIMIT_PINNED, terms->host_memory);
	apply_limit(limits, CK_LIMIT_OUTPUT, terms->output);
	apply_limit(limits, CK_LIMIT_CACHE, terms->cache);
	apply_limit(limits, CK_LIMIT_STORE, terms->store);
}

static int parse_value(const struct row *row, const char *text, uint64_t *value)
{
	if (strspn(text, "0123456789") == 0)
		return -EINVAL;
	return strcmp(row->texts.argument, "TIME") == 0 ? ck_env_time(text, value)
							: ck_env_number(text, value);
}

int cks_limits_set(struct cks_limits *limits, enum cks_limit limit, const char *text,
		   char why[CK_LIMIT_WHY])
{
	const struct row *row = &table[limit];
	uint64_t value;

	if (parse_value(row, text, &value) < 0 || value < row->least || value > row->most)
		return snprintf(why, CK_LIMIT_WHY, "not a %s from %llu to %llu",
				strcmp(row->texts.argument, "TIME") == 0 ? "time, as in 30s or 10m,"
									 : "number",
				(unsigned long long)row->least, (unsigned long long)row->most),
		       -EINVAL;
	limits->value[limit] = value;
	limits->given[limit] = text;
	return 0;
}
