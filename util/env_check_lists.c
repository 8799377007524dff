/*
 * util/env_check_lists.c - checks the variables that are lists; see env.h.
 */
#define _GNU_SOURCE /* secure_getenv */
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/spelling.h"

typedef void say_function(const char *line);

/* Is each part of @value, of which '+' or ',' separates several, one of @choices? */
static bool all_chosen(const char *choices, const char *value)
{
	while (*value) {
		size_t size = strcspn(value, "+,");
		const char *at = choices;

		while (*at && (strcspn(at, ",") != size || strncmp(at, value, size) != 0)) {
			at += strcspn(at, ",");
			at += strspn(at, ", ");
		}
		if (!*at)
			return false;
		value += size;
		value += *value != '\0';
	}
	return true;
}

/* The form that @value should have and has not, or NULL. Empty is as if it were not there. */
static const char *find_fault(const struct ck_env_word *w, const char *value)
{
	uint64_t ignored;

	if (!*value)
		return NULL;
	if (w->choices)
		return all_chosen(w->choices, value) ? NULL : w->choices;
	if (w->kind == CK_ENV_NUMBER)
		return ck_env_number(value, &ignored) == 0 ? NULL : "a number";
	if (w->kind == CK_ENV_TIME)
		return ck_env_time(value, &ignored) == 0 ? NULL : "a time";
	if (w->kind == CK_ENV_SWITCH)
		return ck_env_number(value, &ignored) == 0 ? NULL : "0 or 1";
	return NULL;
}

static void check_value(const struct ck_env_word *w, const char *value, say_function *say)
{
	const char *wanted = find_fault(w, value);
	char line[256];

	if (!wanted)
		return;
	snprintf(line, sizeof(line), "%s: %s=%.60s is not %s%s%s%s%s", w->list, w->name, value,
		 w->choices ? "one of " : "", wanted, w->fallback ? ": the default, " : "",
		 w->fallback ? w->fallback : "", w->fallback ? " is used" : "");
	say(line);
}

/* The word of @list whose name is @e's, or the nearest one, or NULL. */
static const struct ck_env_word *find_nearest(const char *list, const struct ck_env_entry *e)
{
	size_t least = CK_SPELLING_NEAR + 1;
	const struct ck_env_word *best = NULL;
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)e->size, e->name);
	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		size_t d = strcmp(w->list, list) ? least : ck_spelling_distance(name, w->name);

		if (d < least) {
			least = d;
			best = w;
		}
	}
	return best;
}

static void check_entry(const char *list, const struct ck_env_entry *e, say_function *say)
{
	const struct ck_env_word *w = find_nearest(list, e);
	const char *no = e->off ? "no-" : "";
	char text[256];

	if (w && ck_env_entry_is(e, w)) {
		snprintf(text, sizeof(text), "%.*s", (int)e->value_size, e->value);
		check_value(w, text, say);
		return;
	}
	snprintf(text, sizeof(text), "%s: unknown word %s%.*s%s%s%s%s", list, no,
		 (int)(e->size < 60 ? e->size : 60), e->name, w ? "; did you mean " : "",
		 w ? no : "", w ? w->name : "", w ? "?" : "");
	say(text);
}

static void check_list(const char *name, say_function *say)
{
	const char *list = secure_getenv(name);
	struct ck_env_entry e;

	while (list && *list) {
		list = ck_env_entry_next(list, &e);
		if (e.size > 0)
			check_entry(name, &e, say);
	}
}

static void check_old(const struct ck_env_word *w, say_function *say)
{
	const char *value = secure_getenv(w->old);
	char entry[CK_ENV_ENTRY], line[CK_ENV_ENTRY];

	if (!value)
		return;
	if (ck_env_word_spell(w, value, entry, sizeof(entry)) < 0)
		snprintf(entry, sizeof(entry), "%s=...", w->name);
	snprintf(line, sizeof(line),
		 "%s is an old name, which the next release ignores: set %s=%.200s", w->old,
		 w->list, entry);
	say(line);
	check_value(w, value, say);
}

void ck_env_check_lists(unsigned int sides, say_function *say)
{
	const char *checked = "";

	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		if (!(w->sides & sides))
			continue;
		if (strcmp(checked, w->list) != 0)
			check_list(w->list, say);
		checked = w->list;
		if (w->old)
			check_old(w, say);
	}
}
