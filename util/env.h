/*
 * util/env.h - the environment variables that Cricket reads, all in one table.
 */
#ifndef CK_UTIL_ENV_H
#define CK_UTIL_ENV_H

#include <stdint.h>
#include <stdio.h>

/* One variable. `fallback` is its value when unset, NULL for none. */
struct ck_env_row {
	const char *name;
	const char *fallback;
	const char *help;
};

/* The table, ended by a row whose name is NULL. */
const struct ck_env_row *ck_env_table(void);

/* Print every variable with its default and its meaning; for --help-env. */
void ck_env_help(FILE *out);

/*
 * The value of a variable of the table, or its default, or NULL when it has neither. Set but
 * empty is "". The string belongs to the environment. A name not on the table gives NULL.
 */
const char *ck_env_string(const char *name);

/*
 * The value as a number: decimal, 0x or 0 prefix as in C, with an optional K, M, G or T for
 * powers of 1024. Unset, empty, malformed or too large: the default; no default: 0.
 */
long ck_env_long(const char *name);

/* The same of any text: 0, or -EINVAL for what is no number or is negative. */
int ck_env_number(const char *text, uint64_t *number);

/* Seconds in @text: a decimal number, optionally with s, m or h. -EINVAL. */
int ck_env_time(const char *text, uint64_t *seconds);

/* The value as such a time: malformed or unset: the default. */
uint64_t ck_env_seconds(const char *name);

/* env_check.c: @say a line about each variable that looks like one of ours and is none, and about
 * each value that is no number or time where one is wanted. */
void ck_env_check(void (*say)(const char *line));

#endif
