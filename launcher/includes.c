/*
 * launcher/includes.c - follow #include lines; see includes.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/file.h"
#include "launcher/includes.h"
#include "util/map.h"

#define FILES_MAX 4096
#define DEPTH_MAX 200 /* compilers go no deeper either */

struct search {
	const json_t *options;
	struct ck_map *seen; /* by path */
	struct ck_includes *out;
	unsigned depth;
};

static int text_scan(struct search *s, const char *text, const char *path);

/* The folder that option @i names, if it is one for headers. */
static const char *include_folder(const json_t *options, size_t i)
{
	static const char *const names[] = {"--include-path", "-I"};
	const char *option = json_string_value(json_array_get(options, i));

	for (size_t k = 0; option && k < 2; k++) {
		size_t n = strlen(names[k]);

		if (strcmp(option, names[k]) == 0)
			return json_string_value(json_array_get(options, i + 1));
		if (strncmp(option, names[k], n) == 0 && option[n])
			return option + n + (option[n] == '=');
	}
	return NULL;
}

/* Options whose files this does not follow. */
static bool is_opaque(const char *option)
{
	return !option || strncmp(option, "-include", 8) == 0 ||
	       strncmp(option, "--pre-include", 13) == 0 || strncmp(option, "-optf", 5) == 0 ||
	       strncmp(option, "--options-file", 14) == 0;
}

/* One file that is included: remembered with its content, and followed. -ENOENT: not there. */
static int file_add(struct search *s, const char *path)
{
	struct ck_includes *out = s->out;
	struct ck_dependency *items;
	struct stat st;
	struct {
		struct ck_hash before, content;
	} both;
	size_t size;
	char *text;
	int ret;

	if (ck_map_find(s->seen, path, strlen(path)))
		return 0;
	ret = ck_file_read(AT_FDCWD, path, &text, &size, &st);
	if (ret < 0)
		return ret;
	items = reallocarray(out->items, out->count + 1, sizeof(*items));
	if (items)
		out->items = items;
	if (!items || !(items[out->count].path = strdup(path))) {
		free(text);
		return -ENOMEM;
	}
	ck_file_state_of(&st, &items[out->count++].state);
	both.before = out->digest;
	ck_hash(text, size, &both.content);
	ck_hash(&both, sizeof(both), &out->digest);
	ret = ck_map_insert(s->seen, path, strlen(path), s);
	if (ret == 0)
		ret = out->count > FILES_MAX ? -ENOTSUP : text_scan(s, text, path);
	free(text);
	return ret;
}

/* Where the compiler would look: beside the includer when quoted, then in the -I folders. */
static int name_find(struct search *s, const char *name, size_t size, bool quoted,
		     const char *includer)
{
	const char *slash = includer ? strrchr(includer, '/') : NULL, *folder;
	char path[PATH_MAX];
	int ret = -ENOENT;

	if (*name == '/' || quoted) {
		if (*name == '/')
			snprintf(path, sizeof(path), "%.*s", (int)size, name);
		else
			snprintf(path, sizeof(path), "%.*s%.*s",
				 slash ? (int)(slash - includer + 1) : 0, includer ? includer : "",
				 (int)size, name);
		ret = file_add(s, path);
	}
	for (size_t i = 0; ret == -ENOENT && i < json_array_size(s->options); i++) {
		folder = include_folder(s->options, i);
		if (!folder)
			continue;
		snprintf(path, sizeof(path), "%s/%.*s", folder, (int)size, name);
		ret = file_add(s, path);
	}
	return ret == -ENOENT || ret == -EISDIR ? 0 : ret;
}

static const char *blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* One line of the source. */
static int line_scan(struct search *s, const char *line, const char *path)
{
	const char *at = blanks(line), *end;
	char close;

	if (*at != '#')
		return 0;
	at = blanks(at + 1);
	if (strncmp(at, "include", 7) != 0)
		return 0;
	at = blanks(at + 7);
	if (*at != '"' && *at != '<')
		return -ENOTSUP;
	close = *at == '"' ? '"' : '>';
	end = at + 1 + strcspn(at + 1, close == '"' ? "\"\n" : ">\n");
	if (*end != close || end == at + 1)
		return 0;
	return name_find(s, at + 1, (size_t)(end - at - 1), close == '"', path);
}

static int text_scan(struct search *s, const char *text, const char *path)
{
	int ret = s->depth++ < DEPTH_MAX ? 0 : -ENOTSUP;

	while (ret == 0 && text) {
		ret = line_scan(s, text, path);
		text = strchr(text, '\n');
		text += text ? 1 : 0;
	}
	s->depth--;
	return ret;
}

int ck_includes_find(const char *text, const char *path, const json_t *options,
		     struct ck_includes *out)
{
	struct search s = {.options = options, .seen = ck_map_create(), .out = out};
	int ret = s.seen ? 0 : -ENOMEM;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; ret == 0 && i < json_array_size(options); i++) {
		if (is_opaque(json_string_value(json_array_get(options, i))))
			ret = -ENOTSUP;
	}
	if (ret == 0)
		ret = text_scan(&s, text, path);
	ck_map_destroy(s.seen);
	out->unknown = ret < 0;
	return ret;
}

void ck_includes_free(struct ck_includes *includes)
{
	for (size_t i = 0; i < includes->count; i++)
		free(includes->items[i].path);
	free(includes->items);
	memset(includes, 0, sizeof(*includes));
}
