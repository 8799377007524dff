/*
 * util/holders.c - see holders.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/hash.h"
#include "util/holders.h"

#define CK_DAY 86400
#define CK_NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_@"

struct holder {
	char name[CK_HOLDER_NAME];
	struct ck_hash hash;
	time_t end; /* 0: it does not expire */
};

bool ck_holders_is_name(const char *text, size_t size)
{
	return size > 0 && size < CK_HOLDER_NAME && strspn(text, CK_NAME_CHARACTERS) >= size;
}

static bool parse_date(const char *text, time_t *end)
{
	struct tm day = {.tm_isdst = 0};
	const char *rest = strptime(text, "%Y-%m-%d", &day);

	if (!rest || *rest)
		return false;
	*end = timegm(&day) + CK_DAY;
	return true;
}

/* Parse a line without its end. */
static bool parse_line(const char *line, struct holder *out)
{
	size_t name = strcspn(line, ":");
	char hex[CK_HASH_TEXT] = "";
	const char *rest = line + name + 1;

	*out = (struct holder){.end = 0};
	if (line[name] != ':' || !ck_holders_is_name(line, name) || strlen(rest) < CK_HASH_TEXT - 1)
		return false;
	memcpy(out->name, line, name);
	memcpy(hex, rest, CK_HASH_TEXT - 1);
	rest += CK_HASH_TEXT - 1;
	if (ck_hash_parse(hex, &out->hash) < 0)
		return false;
	return *rest == '\0' || (*rest == ':' && parse_date(rest + 1, &out->end));
}

/* Copy the line at *@text without white space at its end, and go on to the next; false: the end. */
static bool next_line(const char **text, char out[256], bool *whole)
{
	size_t size = strcspn(*text, "\n");

	if (!**text)
		return false;
	*whole = size < 256;
	snprintf(out, 256, "%.*s", (int)size, *text);
	for (size_t n = strlen(out); n > 0 && strchr(" \t\r", out[n - 1]); n--)
		out[n - 1] = '\0';
	*text += size + ((*text)[size] == '\n');
	return true;
}

int ck_holders_check(const char *text, unsigned int *line)
{
	struct holder holder;
	char one[256];
	bool whole, any = false;

	for (*line = 1; next_line(&text, one, &whole); ++*line) {
		if (one[0] && one[0] != '#' && (!whole || !parse_line(one, &holder)))
			return any ? -EINVAL : -ENOENT;
		any |= one[0] != '\0';
	}
	return any ? 0 : -ENOENT;
}

bool ck_holders_find(const char *text, const void *bytes, size_t size, time_t now,
		     char name[CK_HOLDER_NAME])
{
	struct ck_hash hash;
	struct holder holder;
	char one[256];
	bool whole, found = false;

	ck_hash(bytes, size, &hash);
	while (next_line(&text, one, &whole)) {
		if (!whole || !parse_line(one, &holder) || (holder.end && now >= holder.end) ||
		    !ck_secret_equal(holder.hash.bytes, hash.bytes, sizeof(hash.bytes)))
			continue;
		memcpy(name, holder.name, sizeof(holder.name));
		found = true;
	}
	return found;
}
