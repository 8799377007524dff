/*
 * util/env.h - the environment variables that Cricket reads, all in one table.
 */
#ifndef CK_UTIL_ENV_H
#define CK_UTIL_ENV_H

#include <stdbool.h>
#include <stddef.h>
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

/* The value of a word. A switch is NAME or no-NAME. */
enum ck_env_kind { CK_ENV_TEXT, CK_ENV_NUMBER, CK_ENV_TIME, CK_ENV_SWITCH };

/* Who reads a word. */
enum { CK_ENV_CLIENT = 1, CK_ENV_SERVER = 2, CK_ENV_EMU = 4, CK_ENV_WCM = 8 };

/*
 * One word of a variable that is a list, NAME=VALUE,NAME,no-NAME; the last one of a name counts.
 * NAME is NAME=1 and no-NAME is NAME=0. A value contains no comma.
 */
struct ck_env_word {
	const char *list; /* the variable */
	const char *name;
	const char *old;      /* the variable of release 0.2 that had its value, or NULL */
	const char *fallback; /* the value without the word, or NULL */
	enum ck_env_kind kind;
	unsigned int sides;
	const char *choices; /* words that the value may be, several with '+'; NULL: any */
	const char *help;
};

/* The table of words, by list, ended by a row whose list is NULL. */
const struct ck_env_word *ck_env_words(void);

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

/* The same of any text: 0, or -EINVAL for text that is no number or is negative. */
int ck_env_number(const char *text, uint64_t *number);

/* The part in @text, from 1% to 100%, as in "25%": 0 or -EINVAL. */
int ck_env_percent(const char *text, unsigned int *percent);

/* Seconds in @text: a decimal number, optionally with s, m or h. -EINVAL. */
int ck_env_time(const char *text, uint64_t *seconds);

/* The value as such a time: malformed or unset: the default. */
uint64_t ck_env_seconds(const char *name);

/* env_list.c: copy the value of the word @name of the list @list, or its default, into @into of
 * @room bytes. -ENOENT: it has neither; -ENAMETOOLONG. */
int ck_env_word(const char *list, const char *name, char *into, size_t room);

/* Its value as a number; malformed or unset: the default. */
long ck_env_word_number(const char *list, const char *name);

/* The path of program @name, a name without a slash, by PATH, in @out of @size bytes. False: there
 * is none. */
bool ck_env_find_program(const char *name, char *out, size_t size);

/* Add @entry at the end of the list, so that it counts. Of this process's environment: not beside
 * threads that read it. 0 or -errno. */
int ck_env_list_add(const char *list, const char *entry);

/* Replace the old variables that are set by words, for processes that this one starts. */
void ck_env_replace_old(void);

/* One entry of a list, in the list's own text. */
struct ck_env_entry {
	const char *name, *value;
	size_t size, value_size;
	bool off; /* written no-NAME */
};

/* Read the first entry of @list, which is not empty; returns the rest. */
const char *ck_env_entry_next(const char *list, struct ck_env_entry *e);

bool ck_env_entry_is(const struct ck_env_entry *e, const struct ck_env_word *w);

#define CK_ENV_ENTRY 512

/* The entry that gives @w the value that its old variable has. -EINVAL: a comma in it;
 * -ENAMETOOLONG. */
int ck_env_word_spell(const struct ck_env_word *w, const char *value, char *into, size_t room);

/* env_check.c: @say a line about each variable that looks like one of ours and is none, and about
 * each value that is no number or time where one is wanted; about lists as below. */
void ck_env_check(unsigned int sides, void (*say)(const char *line));

/* env_check_lists.c: of the lists that @sides read: unknown words, wrong values, old variables. */
void ck_env_check_lists(unsigned int sides, void (*say)(const char *line));

#endif
