/*
 * launcher/compile/includes.c - follow #include lines; see includes.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/compile/includes.h"
#include "launcher/text/file.h"
#include "util/map.h"
#include "util/util.h"

#define FILES_MAX 4096
#define DEPTH_MAX 200 /* compilers go no deeper either */

struct search {
	const json_t *options;
	struct ck_map *seen; /* by path */
	struct ckl_includes *out;
	unsigned depth;
};

/* Folders that a host compiler looks through behind those of the options. */
static const char *const variables[] = {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"};

static int text_scan(struct search *s, const char *text, const char *path);

/* The folder that option @i names, if it is one for headers. */
static const char *include_folder(const json_t *options, size_t i)
{
	static const char *const names[] = {"--include-path", "-I", "--system-include", "-isystem"};
	const char *option = json_string_value(json_array_get(options, i));

	for (size_t k = 0; option && k < CK_ARRAY_SIZE(names); k++) {
		size_t n = strlen(names[k]);

		if (strcmp(option, names[k]) == 0)
			return json_string_value(json_array_get(options, i + 1));
		if (strncmp(option, names[k], n) == 0 && option[n])
			return option + n + (option[n] == '=');
	}
	return NULL;
}

/* Options whose files this does not follow: those of the host compiler, lists of folders. */
static bool is_opaque(const json_t *options, size_t i)
{
	static const char *const starts[] = {"-include", "--pre-include", "-optf",
					     "--options-file"};
	static const char *const parts[] = {",-I", "=-I", ",-i", "=-i"};
	const char *option = json_string_value(json_array_get(options, i));
	const char *folder = include_folder(options, i);

	if (!option || (folder && strchr(folder, ',')))
		return true;
	for (size_t k = 0; k < CK_ARRAY_SIZE(starts); k++) {
		if (strncmp(option, starts[k], strlen(starts[k])) == 0 || strstr(option, parts[k]))
			return true;
	}
	return false;
}

/* One file that is included: remembered with its content, and followed. -ENOENT: not there. */
static int file_add(struct search *s, const char *path)
{
	struct ckl_includes *out = s->out;
	struct ckl_dependency *items;
	struct stat st;
	struct {
		struct ck_hash before, content;
	} both;
	size_t size;
	char *text;
	int ret;

	if (ck_map_find(s->seen, path, strlen(path)))
		return 0;
	ret = ckl_file_read(AT_FDCWD, path, &text, &size, &st);
	if (ret < 0)
		return ret;
	items = reallocarray(out->items, out->count + 1, sizeof(*items));
	if (items)
		out->items = items;
	if (!items || !(items[out->count].path = strdup(path))) {
		free(text);
		return -ENOMEM;
	}
	ckl_file_state_of(&st, &items[out->count++].state);
	both.before = out->digest;
	ck_hash(text, size, &both.content);
	ck_hash(&both, sizeof(both), &out->digest);
	ret = ck_map_insert(s->seen, path, strlen(path), s);
	if (ret == 0)
		ret = out->count > FILES_MAX ? -ENOTSUP : text_scan(s, text, path);
	free(text);
	return ret;
}

/* -ENOENT: it is not in that folder, if that is one. */
static int folder_find(struct search *s, const char *folder, size_t length, const char *name,
		       size_t size)
{
	char path[PATH_MAX];
	int ret;

	snprintf(path, sizeof(path), "%.*s%s%.*s", (int)length, folder, length ? "/" : "",
		 (int)size, name);
	ret = file_add(s, path);
	return ret == -ENOTDIR || ret == -EISDIR ? -ENOENT : ret;
}

/* In the folders of a variable; an empty one is the working directory. */
static int variable_find(struct search *s, const char *value, const char *name, size_t size)
{
	int ret = -ENOENT;

	while (ret == -ENOENT && value) {
		size_t length = strcspn(value, ":");

		ret = folder_find(s, value, length, name, size);
		value = value[length] ? value + length + 1 : NULL;
	}
	return ret;
}

/* Where the compiler would look: beside the includer when quoted, then in the folders. */
static int name_find(struct search *s, const char *name, size_t size, bool quoted,
		     const char *includer)
{
	const char *slash = includer ? strrchr(includer, '/') : NULL, *folder;
	int ret = -ENOENT;

	if (*name == '/')
		ret = folder_find(s, "", 0, name, size);
	else if (quoted)
		ret = folder_find(s, slash ? includer : "",
				  slash ? (size_t)(slash - includer + 1) : 0, name, size);
	for (size_t i = 0; ret == -ENOENT && i < json_array_size(s->options); i++) {
		folder = include_folder(s->options, i);
		if (folder)
			ret = folder_find(s, folder, strlen(folder), name, size);
	}
	for (size_t i = 0; ret == -ENOENT && i < CK_ARRAY_SIZE(variables); i++)
		ret = variable_find(s, getenv(variables[i]), name, size);
	return ret == -ENOENT ? 0 : ret;
}

/* Behind blanks and comments, which may go over lines. */
static const char *skip_blanks(const char *at)
{
	const char *end;

	for (;;) {
		at += strspn(at, " \t\v\f\r");
		if (at[0] != '/' || at[1] != '*')
			return at;
		end = strstr(at + 2, "*/");
		at = end ? end + 2 : at + strlen(at);
	}
}

/* Whether a '#' can begin a directive: behind blanks, a byte order mark, the end of a comment. */
static bool can_begin(const char *text, const char *hash)
{
	const char *line = hash;

	while (line > text && line[-1] != '\n' && hash - line < 256)
		line--;
	return hash - line >= 256 || memmem(line, (size_t)(hash - line), "*/", 2) ||
	       line + strspn(line, " \t\v\f\r\xef\xbb\xbf") >= hash;
}

/* Behind a '#'. An #include that is seen in a comment or a string does no harm. */
static int directive_scan(struct search *s, const char *at, bool begins, const char *path)
{
	static const char word[] = "include";
	const char *end;
	size_t n = 0;
	char close;

	at = skip_blanks(at);
	while (word[n] && at[n] == word[n])
		n++;
	if (word[n])
		return at[n] == '\\' && begins ? -ENOTSUP : 0; /* it may go on in the next line */
	at = skip_blanks(at + n);
	if (*at != '"' && *at != '<')
		return begins ? -ENOTSUP : 0;
	close = *at == '"' ? '"' : '>';
	end = at + 1 + strcspn(at + 1, close == '"' ? "\"\n" : ">\n");
	if (*end != close || end == at + 1)
		return 0;
	return name_find(s, at + 1, (size_t)(end - at - 1), close == '"', path);
}

static int text_scan(struct search *s, const char *text, const char *path)
{
	int ret = s->depth++ < DEPTH_MAX ? 0 : -ENOTSUP;
	const char *at = text;

	/* A '#' has other spellings, too. */
	while (ret == 0 && (at = strpbrk(at, "#%?"))) {
		size_t n = *at == '#'			 ? 1
			   : strncmp(at, "%:", 2) == 0	 ? 2
			   : strncmp(at, "?\?=", 3) == 0 ? 3
							 : 0;

		if (n)
			ret = directive_scan(s, at + n, can_begin(text, at), path);
		at++;
	}
	s->depth--;
	return ret;
}

int ckl_includes_find(const char *text, const char *path, const json_t *options,
		      struct ckl_includes *out)
{
	struct search s = {.options = options, .seen = ck_map_create(), .out = out};
	int ret = s.seen ? 0 : -ENOMEM;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; ret == 0 && i < json_array_size(options); i++) {
		if (is_opaque(options, i))
			ret = -ENOTSUP;
	}
	if (ret == 0)
		ret = text_scan(&s, text, path);
	ck_map_destroy(s.seen);
	out->unknown = ret < 0;
	return ret;
}

void ckl_includes_free(struct ckl_includes *includes)
{
	for (size_t i = 0; i < includes->count; i++)
		free(includes->items[i].path);
	free(includes->items);
	memset(includes, 0, sizeof(*includes));
}
