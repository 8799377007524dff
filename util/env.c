/*
 * util/env.c - the values of environment variables; see env.h.
 */
#define _GNU_SOURCE /* secure_getenv */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/env.h"
#include "util/util.h"

static const struct ck_env_row *row_find(const char *name)
{
	for (const struct ck_env_row *row = ck_env_table(); row->name; row++) {
		if (strcmp(row->name, name) == 0)
			return row;
	}
	return NULL;
}

/* Each line of @text after @margin. */
static void print_text(FILE *out, const char *margin, const char *text)
{
	fputs(margin, out);
	for (const char *c = text; *c; c++) {
		fputc(*c, out);
		if (*c == '\n')
			fputs(margin, out);
	}
	fputc('\n', out);
}

/* As it is written to change the default; without one, both ways. */
static void print_switch(FILE *out, const struct ck_env_word *w)
{
	if (!w->fallback)
		fprintf(out, "      %s, no-%s\n", w->name, w->name);
	else
		fprintf(out, "      %s%s\n", strcmp(w->fallback, "1") == 0 ? "no-" : "", w->name);
}

/* The words of the list @name. */
static void print_words(FILE *out, const char *name)
{
	for (const struct ck_env_word *w = ck_env_words(); w->list; w++) {
		if (strcmp(w->list, name) != 0)
			continue;
		if (w->kind == CK_ENV_SWITCH)
			print_switch(out, w);
		else if (w->fallback)
			fprintf(out, "      %s= (default %s)\n", w->name, w->fallback);
		else
			fprintf(out, "      %s=\n", w->name);
		print_text(out, "          ", w->help);
	}
}

void ck_env_help(FILE *out)
{
	for (const struct ck_env_row *row = ck_env_table(); row->name; row++) {
		fprintf(out, "%s", row->name);
		if (row->fallback)
			fprintf(out, " (default %s)", row->fallback);
		fputc('\n', out);
		print_text(out, "    ", row->help);
		print_words(out, row->name);
	}
}

const char *ck_env_string(const char *name)
{
	const struct ck_env_row *row = row_find(name);
	const char *value;

	if (!row)
		return NULL;
	value = secure_getenv(name);
	return value ? value : row->fallback;
}

static bool number_parse(const char *text, long *out)
{
	static const char suffixes[] = "KMGT";
	int saved_errno = errno;
	const char *suffix;
	char *end, upper;
	long value;
	bool ok;

	errno = 0;
	value = strtol(text, &end, 0);
	ok = errno == 0 && end != text;
	errno = saved_errno;
	if (!ok)
		return false;
	if (*end) {
		upper = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
		suffix = strchr(suffixes, upper);
		if (!suffix || end[1])
			return false;
		if (ck_mul_overflow(value, 1L << (10 * (suffix - suffixes + 1)), &value))
			return false;
	}
	*out = value;
	return true;
}

long ck_env_long(const char *name)
{
	const struct ck_env_row *row = row_find(name);
	const char *value = row ? secure_getenv(name) : NULL;
	long number;

	if (value && number_parse(value, &number))
		return number;
	if (row && row->fallback && number_parse(row->fallback, &number))
		return number;
	return 0;
}

int ck_env_number(const char *text, uint64_t *number)
{
	long value;

	if (!number_parse(text, &value) || value < 0)
		return -EINVAL;
	*number = (uint64_t)value;
	return 0;
}

int ck_env_percent(const char *text, unsigned int *percent)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long number = digits > 0 && digits < 4 ? strtoul(text, NULL, 10) : 0;

	if (strcmp(text + digits, "%") != 0 || number < 1 || number > 100)
		return -EINVAL;
	*percent = (unsigned int)number;
	return 0;
}

int ck_env_time(const char *text, uint64_t *seconds)
{
	static const struct {
		char unit;
		unsigned int seconds;
	} units[] = {{'\0', 1}, {'s', 1}, {'m', 60}, {'h', 3600}};
	char *end;
	unsigned long long number;

	if (strspn(text, "0123456789") == 0)
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	for (size_t i = 0; !errno && i < CK_ARRAY_SIZE(units); i++) {
		if (*end == units[i].unit && (*end == '\0' || end[1] == '\0'))
			return ck_mul_overflow(number, units[i].seconds, seconds) ? -EINVAL : 0;
	}
	return -EINVAL;
}

uint64_t ck_env_seconds(const char *name)
{
	const struct ck_env_row *row = row_find(name);
	const char *value = row ? secure_getenv(name) : NULL;
	uint64_t seconds = 0;

	if ((!value || ck_env_time(value, &seconds) < 0) && row && row->fallback)
		ck_env_time(row->fallback, &seconds);
	return seconds;
}

bool ck_env_find_program(const char *name, char *out, size_t size)
{
	const char *at = getenv("PATH");
	bool found = false;

	while (at && *at && !found) {
		size_t length = strcspn(at, ":");

		found = length > 0 &&
			snprintf(out, size, "%.*s/%s", (int)length, at, name) < (int)size &&
			access(out, X_OK) == 0;
		at += length + (at[length] == ':');
	}
	return found;
}
