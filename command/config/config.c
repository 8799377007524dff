/*
 * command/config/config.c - see config.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/config/config.h"
#include "command/config/install_paths.h"
#include "util/address/address.h"
#include "util/text.h"

/* One file, while it is read. */
struct reading {
	struct ckx_config *config;
	const char *path;
	size_t before;		 /* servers of the files before this one */
	struct ckx_entry *entry; /* of the section; NULL: none, or one that is not to count */
	bool inside;		 /* a section has begun */
	bool chosen;		 /* an earlier file has chosen a server */
	unsigned int line;
};

static int reject_line(const struct reading *r, const char *what, const char *text)
{
	ckx_error("%s:%u: %s: %s", r->path, r->line, what, text);
	return -EINVAL;
}

static int keep_in(const struct reading *r, char *out, size_t room, const char *value)
{
	if (strlen(value) >= room)
		return reject_line(r, "too long", value);
	strcpy(out, value);
	return 0;
}

static int store_value(const struct reading *r, char out[CKX_TEXT], const char *value)
{
	return keep_in(r, out, CKX_TEXT, value);
}

static const struct ckx_entry *find_by(const struct ckx_config *config, const char *name,
				       int (*compare)(const char *, const char *))
{
	for (size_t i = 0; i < config->count; i++) {
		if (compare(config->servers[i].name, name) == 0)
			return &config->servers[i];
	}
	return NULL;
}

const struct ckx_entry *ckx_config_find(const struct ckx_config *config, const char *name)
{
	const struct ckx_entry *same = find_by(config, name, strcmp);

	return same ? same : find_by(config, name, strcasecmp);
}

const struct ckx_entry *ckx_config_find_address(const struct ckx_config *config,
						const char *address)
{
	for (size_t i = 0; i < config->count; i++) {
		if (ck_address_same(config->servers[i].address, address))
			return &config->servers[i];
	}
	return NULL;
}

/* Is it a list of numbers and UUIDs, as CUDA_VISIBLE_DEVICES takes them? Blanks may be around
 * them. */
static bool is_device_list(const char *list)
{
	while (*list) {
		size_t size, digits;

		list += strspn(list, " ");
		size = strcspn(list, ",");
		digits = strspn(list, "0123456789");
		if (strncmp(list, "GPU-", 4) != 0 && strncmp(list, "MIG-", 4) != 0 &&
		    (digits == 0 || digits + strspn(list + digits, " ") < size))
			return false;
		list += size;
		if (*list && !*++list)
			return false; /* a comma is last */
	}
	return true;
}

bool ckx_config_takes_devices(const char *value)
{
	return strcmp(value, "none") == 0 || strcmp(value, "-1") == 0 || is_device_list(value);
}

/* "[NAME]" */
static int begin_section(struct reading *r, char *line)
{
	const struct ckx_entry *same;
	char *end = strchr(line, ']');

	if (!end || end[1] || end == line + 1)
		return reject_line(r, "not a section", line);
	*end = '\0';
	r->inside = true;
	r->entry = NULL;
	same = find_by(r->config, line + 1, strcmp);
	if (same)
		return same < r->config->servers + r->before
			       ? 0 /* the user's counts */
			       : reject_line(r, "a second section with this name", line + 1);
	if (r->config->count == CKX_SERVERS)
		return reject_line(r, "too many servers", line + 1);
	r->entry = &r->config->servers[r->config->count++];
	*r->entry = (struct ckx_entry){.file = r->path};
	return store_value(r, r->entry->name, line + 1);
}

/* "KEY = VALUE" */
static int take_setting(struct reading *r, char *line)
{
	struct ckx_entry ignored, *e = r->entry ? r->entry : &ignored;
	char *value = strchr(line, '='), *key, *place;

	if (!value)
		return reject_line(r, "neither a [section] nor NAME = VALUE", line);
	*value++ = '\0';
	key = ck_text_trim(line);
	value = ck_text_trim(value);
	if (!r->inside && strcmp(key, "server") == 0)
		return r->chosen ? 0 : store_value(r, r->config->chosen, value);
	if (r->inside && strcmp(key, "address") == 0)
		return store_value(r, e->address, value);
	if (r->inside && strcmp(key, "devices") == 0)
		return ckx_config_takes_devices(value)
			       ? store_value(r, e->devices, value)
			       : reject_line(r, "devices are " CKX_DEVICES, value);
	if (r->inside && strcmp(key, "token-file") == 0)
		return store_value(r, e->token_file, value);
	place = r->inside ? ckx_tls_find(&e->tls, key) : NULL;
	return place ? keep_in(r, place, CKX_TLS_TEXT, value)
		     : reject_line(r, "no such setting", key);
}

static int take_line(struct reading *r, char *text)
{
	char *line;

	r->line++;
	ck_text_cut_comment(text);
	line = ck_text_trim(text);
	if (!*line)
		return 0;
	return *line == '[' ? begin_section(r, line) : take_setting(r, line);
}

/* May this process not even look into the file's folder, as a service under ProtectHome=? Then it
 * has no such file. */
static bool is_hidden(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[CKX_TEXT];

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 0, path);
	return folder[0] && access(folder, X_OK) < 0;
}

static int read_file(struct ckx_config *config, const char *path)
{
	struct reading r = {.config = config,
			    .path = path,
			    .before = config->count,
			    .chosen = config->chosen[0] != '\0'};
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	if (!f) {
		if (errno == ENOENT || errno == ENOTDIR || (errno == EACCES && is_hidden(path)))
			return 0;
		ckx_error("%s: %s", path, strerror(errno));
		return -EIO;
	}
	while (ret == 0 && getline(&line, &room, f) > 0)
		ret = take_line(&r, line);
	if (ret == 0 && ferror(f)) { /* it is a folder */
		ckx_error("%s: %s", path, strerror(errno));
		ret = -EIO;
	}
	free(line);
	fclose(f);
	for (size_t i = r.before; ret == 0 && i < config->count; i++) {
		if (!config->servers[i].address[0])
			ret = reject_line(&r, "no address for server", config->servers[i].name);
	}
	return ret;
}

int ckx_config_read(struct ckx_config *config)
{
	int ret = 0;

	config->count = 0;
	config->chosen[0] = '\0';
	if (ckx_install_path_own("config", config->own) == 0)
		ret = read_file(config, config->own);
	else
		config->own[0] = '\0';
	return ret < 0 ? ret : read_file(config, CKX_SYSTEM_CONFIG);
}
