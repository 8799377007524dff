/*
 * util/env_list.c - variables that are lists of words; see env.h.
 */
#define _GNU_SOURCE /* secure_getenv */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"

const char *ck_env_entry_next(const char *list, struct ck_env_entry *e)
{
	size_t size = strcspn(list, ","), name;

	*e = (struct ck_env_entry){.name = list, .size = size, .value = "1", .value_size = 1};
	name = strcspn(list, "=,");
	if (name < size) {
		e->value = list + name + 1;
		e->value_size = size - name - 1;
		e->size = name;
	} else if (size > 3 && strncmp(list, "no-", 3) == 0) {
		e->name += 3;
		e->size -= 3;
		e->value = "0";
		e->off = true;
	}
	return list + size + (list[size] == ',');
}

bool ck_env_entry_is(const struct ck_env_entry *e, const struct ck_env_word *w)
{
	return strlen(w->name) == e->size && memcmp(w->name, e->name, e->size) == 0;
}

static const struct ck_env_word *word_find(const char *list, const char *name)
{
	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		if (strcmp(w->list, list) == 0 && strcmp(w->name, name) == 0)
			return w;
	}
	return NULL;
}

/* The value of the last entry for @w in @list, which may be NULL, or NULL. */
static const char *find_last(const char *list, const struct ck_env_word *w, size_t *size)
{
	const char *found = NULL;
	struct ck_env_entry e;

	while (list && *list) {
		list = ck_env_entry_next(list, &e);
		if (ck_env_entry_is(&e, w)) {
			found = e.value;
			*size = e.value_size;
		}
	}
	return found;
}

/* The value in the list, or that of the variable of an earlier release. Copies it; -ENOENT,
 * -ENAMETOOLONG. */
static int find_value(const struct ck_env_word *w, char *into, size_t room)
{
	const char *old = w->old ? secure_getenv(w->old) : NULL, *found;
	size_t size = 0;

	found = find_last(secure_getenv(w->list), w, &size);
	if (!found && old) {
		found = old;
		size = strlen(old);
	}
	if (!found)
		return -ENOENT;
	if (size >= room)
		return -ENAMETOOLONG;
	memcpy(into, found, size);
	into[size] = '\0';
	return 0;
}

int ck_env_word(const char *list, const char *name, char *into, size_t room)
{
	const struct ck_env_word *w = word_find(list, name);
	int ret = w ? find_value(w, into, room) : -ENOENT;

	if (ret == -ENOENT && w && w->fallback) {
		snprintf(into, room, "%s", w->fallback);
		return 0;
	}
	return ret;
}

long ck_env_word_number(const char *list, const char *name)
{
	const struct ck_env_word *w = word_find(list, name);
	uint64_t number = 0;
	char text[32];

	if (w && find_value(w, text, sizeof(text)) == 0 && ck_env_number(text, &number) == 0)
		return (long)number;
	if (w && w->fallback)
		ck_env_number(w->fallback, &number);
	return (long)number;
}

int ck_env_list_add(const char *list, const char *entry)
{
	const char *now = getenv(list);
	char *all;
	int ret;

	if (!now || !*now)
		return setenv(list, entry, 1) < 0 ? -errno : 0;
	if (asprintf(&all, "%s,%s", now, entry) < 0)
		return -ENOMEM;
	ret = setenv(list, all, 1) < 0 ? -errno : 0;
	free(all);
	return ret;
}

int ck_env_word_spell(const struct ck_env_word *w, const char *value, char *into, size_t room)
{
	size_t before = strlen(w->name) + 1, size;
	uint64_t number;

	if (w->kind == CK_ENV_SWITCH && ck_env_number(value, &number) == 0) {
		size = (size_t)snprintf(into, room, "%s%s", number ? "" : "no-", w->name);
		return size < room ? 0 : -ENAMETOOLONG;
	}
	size = (size_t)snprintf(into, room, "%s=%s", w->name, value);
	if (size >= room)
		return -ENAMETOOLONG;
	for (char *c = into + before; *c; c++) {
		if (*c == ',' && !w->choices)
			return -EINVAL;
		if (*c == ',')
			*c = '+';
	}
	return 0;
}

/* One old variable becomes an entry before those that are there, which therefore win. */
static int replace_old(const struct ck_env_word *w, const char *value)
{
	const char *now = getenv(w->list);
	char entry[CK_ENV_ENTRY], *all;
	int ret = ck_env_word_spell(w, value, entry, sizeof(entry));

	if (ret < 0)
		return ret;
	if (asprintf(&all, "%s%s%s", entry, now ? "," : "", now ? now : "") < 0)
		return -ENOMEM;
	ret = setenv(w->list, all, 1) < 0 ? -errno : 0;
	free(all);
	return ret;
}

void ck_env_replace_old(void)
{
	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		const char *value = w->old ? getenv(w->old) : NULL;

		if (value && replace_old(w, value) == 0)
			unsetenv(w->old);
	}
}
