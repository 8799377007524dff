/*
 * util/env_check.c - checks the variables that are set; see env.h.
 */
#define _GNU_SOURCE /* environ */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"
#include "util/log.h"
#include "util/spelling.h"
#include "util/util.h"

/* Variables of Cricket that are not in the table: kernel-loader's, which is another program, and
 * the tests'. */
static const char *const others[] = {"CRICKET_LOADER_", "CRICKET_TEST_"};

static const struct {
	const char *name;
	enum { NUMBER, TIME, WORD } kind;
	const char *words; /* which are allowed, with commas */
} typed[] = {
	{"CRICKET_LOG_FD", NUMBER, NULL},	    {"CRICKET_CACHE_SIZE", NUMBER, NULL},
	{"CRICKET_MEMORY", NUMBER, NULL},	    {"CRICKET_NEED", NUMBER, NULL},
	{"CRICKET_CONNECTIONS", NUMBER, NULL},	    {"CRICKET_RESUME", TIME, NULL},
	{"CRICKET_TIMEOUT", NUMBER, NULL},	    {"CRICKET_WAIT", TIME, NULL},
	{"CRICKET_NCCL_TIMEOUT", TIME, NULL},	    {"CRICKET_WEIGHTS", WORD, "auto, on, off"},
	{"CRICKET_LOST", WORD, "sigbus, zeros"},    {"CRICKET_POOL", WORD, "all, any"},
	{"CRICKET_LOG_FORMAT", WORD, "text, json"},
};

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* The variable of ours that is most like @name, or NULL. */
static const char *find_nearest_name(const char *name)
{
	const char *best = NULL;
	size_t least = CK_SPELLING_NEAR + 1;

	for (const struct ck_env_row *row = ck_env_table(); row->name; row++) {
		size_t d = starts_with(row->name, "CUDA_") ? CK_SPELLING_NEAR + 1
							   : ck_spelling_distance(name, row->name);

		if (d < least) {
			least = d;
			best = row->name;
		}
	}
	return best;
}

static bool is_old_name(const char *name)
{
	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		if (w->old && strcmp(w->old, name) == 0)
			return true;
	}
	return false;
}

static void check_name(const char *name, void (*say)(const char *line))
{
	const char *meant = find_nearest_name(name);
	char line[256];

	if ((meant && strcmp(meant, name) == 0) || is_old_name(name))
		return;
	for (size_t i = 0; i < CK_ARRAY_SIZE(others); i++) {
		if (starts_with(name, others[i]))
			return;
	}
	if (!meant && !starts_with(name, "CRICKET_"))
		return;
	snprintf(line, sizeof(line), "unknown variable %.100s%s%s%s", name,
		 meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
	say(line);
}

static bool is_among(const char *value, const char *words)
{
	size_t size = strlen(value);

	for (; *words; words += strspn(words, ", ")) {
		size_t length = strcspn(words, ",");

		if (length == size && strncmp(words, value, size) == 0)
			return true;
		words += length;
	}
	return false;
}

/* Does the variable take @value? */
static bool takes(size_t i, const char *value)
{
	uint64_t ignored;

	switch (typed[i].kind) {
	case NUMBER:
		return ck_env_number(value, &ignored) == 0;
	case TIME:
		return ck_env_time(value, &ignored) == 0;
	default:
		return is_among(value, typed[i].words);
	}
}

static void check_value(size_t i, void (*say)(const char *line))
{
	const char *value = secure_getenv(typed[i].name), *fallback = NULL;
	char line[256];

	if (!value || !*value || takes(i, value))
		return;
	for (const struct ck_env_row *row = ck_env_table(); row->name; row++) {
		if (strcmp(row->name, typed[i].name) == 0)
			fallback = row->fallback;
	}
	snprintf(line, sizeof(line), "%s=%.60s is not %s%s: the default%s%s is used", typed[i].name,
		 value, typed[i].kind == WORD ? "one of " : "",
		 typed[i].kind == WORD	 ? typed[i].words
		 : typed[i].kind == TIME ? "a time"
					 : "a number",
		 fallback ? ", " : "", fallback ? fallback : "");
	say(line);
}

/* A log must not stop a program: entries that make no sense are passed over. */
static void check_log(void (*say)(const char *line))
{
	const char *value = secure_getenv("CRICKET_LOG");
	char line[256];

	if (!value || ck_log_check(value) == 0)
		return;
	snprintf(line, sizeof(line),
		 "CRICKET_LOG=%.60s: not a level (none, error, warning, info, debug, trace), nor a "
		 "list of PART:LEVEL",
		 value);
	say(line);
}

void ck_env_check(unsigned int sides, void (*say)(const char *line))
{
	char name[128];

	for (char **entry = environ; entry && *entry; entry++) {
		size_t size = strcspn(*entry, "=");

		if (size >= sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)size, *entry);
		check_name(name, say);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(typed); i++)
		check_value(i, say);
	check_log(say);
	ck_env_check_lists(sides, say);
}
