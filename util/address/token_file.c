/*
 * util/address/token_file.c - see token_file.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/hash.h"
#include "util/address/token_file.h"

#define CK_DAY 86400
#define CK_NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_@"
#define HEX "0123456789abcdefABCDEF"
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

struct holder {
	char name[CK_HOLDER_NAME];
	struct ck_hash hash;
	time_t end; /* 0: it does not expire */
};

bool ck_token_file_is_name(const char *text, size_t size)
{
	return size > 0 && size < CK_HOLDER_NAME && strspn(text, CK_NAME_CHARACTERS) >= size;
}

static bool parse_date(const char *text, time_t *end)
{
	struct tm day = {.tm_isdst = 0};
	const char *rest = strptime(text, "%Y-%m-%d", &day);
	int number = day.tm_mday;

	if (!rest || *rest)
		return false;
	*end = timegm(&day) + CK_DAY; /* which makes 2 March of 30 February */
	return day.tm_mday == number;
}

/* Parse a line without its end. */
static bool parse_line(const char *line, struct holder *out)
{
	size_t name = strcspn(line, ":");
	char hex[CK_HASH_TEXT] = "";
	const char *rest = line + name + 1;

	*out = (struct holder){.end = 0};
	if (line[name] != ':' || !ck_token_file_is_name(line, name) ||
	    strlen(rest) < CK_HASH_TEXT - 1)
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

/* A line of a list, or a part of one: a hash and more, or a name, a colon and hex digits
 * only. A secret may be as long as a hash, and no more than that. */
static bool resembles_line(const char *line)
{
	size_t name = strcspn(line, ":");

	if (line[name] && ck_token_file_is_name(line, name) &&
	    !line[name + 1 + strspn(line + name + 1, HEX)])
		return true;
	if (!line[strspn(line, HEX)])
		return false;
	for (const char *c = line; *c; c += *c != '\0') {
		size_t digits = strspn(c, HEX);

		if (digits >= CK_HASH_TEXT - 1)
			return true;
		c += digits;
	}
	return false;
}

/* The lines of a text, without empty ones. */
struct summary {
	unsigned int count;  /* lines */
	unsigned int wrong;  /* of the first that is neither a comment nor a holder; 0: none */
	unsigned int marked; /* how many resemble lines of a list */
};

static struct summary summarize_holders(const char *text)
{
	struct summary s = {.count = 0};
	struct holder holder;
	char one[256];
	bool whole;

	for (unsigned int n = 1; next_line(&text, one, &whole); n++) {
		if (!one[0])
			continue;
		s.count++;
		s.marked += one[0] == '#' || resembles_line(one);
		if (!s.wrong && one[0] != '#' && (!whole || !parse_line(one, &holder)))
			s.wrong = n;
	}
	return s;
}

int ck_token_file_check(const char *text, size_t size, unsigned int *line)
{
	size_t read = strlen(text);
	const struct summary s = summarize_holders(text);

	*line = 1;
	if (read < size || strncmp(text, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) {
		for (size_t i = 0; read < size && i < read; i++)
			*line += text[i] == '\n';
		return -EINVAL;
	}
	if (s.count == 0)
		return -ENODATA;
	if (s.wrong && s.count == 1 && s.marked == 0)
		return CK_TOKEN_FILE_SECRET;
	*line = s.wrong;
	return s.wrong ? -EINVAL : 0;
}

size_t ck_token_file_count(const char *text, time_t now, size_t *expired)
{
	struct holder holder;
	char one[256];
	bool whole;
	size_t n = 0;

	*expired = 0;
	while (next_line(&text, one, &whole)) {
		if (!whole || !parse_line(one, &holder))
			continue;
		n++;
		*expired += holder.end && now >= holder.end;
	}
	return n;
}

bool ck_token_file_has(const char *text, const char *name)
{
	struct holder holder;
	char one[256];
	bool whole, found = false;

	while (!found && next_line(&text, one, &whole))
		found = whole && parse_line(one, &holder) && strcmp(holder.name, name) == 0;
	return found;
}

bool ck_token_file_find(const char *text, const void *bytes, size_t size, time_t now,
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
