/*
 * command/config/config_keep.c - writes a section of the user's configuration file; see config.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/command.h"
#include "command/config/config.h"
#include "command/config/install_paths.h"
#include "util/process/replace.h"

#define SETTINGS (3 + CKX_TLS_SETTINGS)

struct setting {
	const char *key, *value; /* empty: the entry says nothing */
};

static void list_settings(const struct ckx_entry *e, struct setting out[SETTINGS])
{
	out[0] = (struct setting){"address", e->address};
	out[1] = (struct setting){"devices", e->devices};
	out[2] = (struct setting){"token-file", e->token_file};
	for (int i = 0; i < CKX_TLS_SETTINGS; i++)
		out[3 + i] =
			(struct setting){ckx_tls_key((enum ckx_tls_setting)i), e->tls.value[i]};
}

static const char *skip_blanks(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* Is @line the head of section @name? */
static bool is_head(const char *line, const char *name)
{
	size_t size = strlen(name);

	return strncmp(line + 1, name, size) == 0 && line[1 + size] == ']';
}

/* Is @line one of a setting that is written anew? */
static bool is_replaced(const char *line, const struct setting settings[SETTINGS])
{
	for (int i = 0; i < SETTINGS; i++) {
		size_t size = strlen(settings[i].key);

		if (settings[i].value[0] && strncmp(line, settings[i].key, size) == 0 &&
		    *skip_blanks(line + size) == '=')
			return true;
	}
	return false;
}

static void print_settings(FILE *out, const struct setting settings[SETTINGS])
{
	for (int i = 0; i < SETTINGS; i++) {
		if (settings[i].value[0])
			fprintf(out, "%s = %s\n", settings[i].key, settings[i].value);
	}
}

/* Copy the file, with the settings in the section; a new one comes last. */
static void write_section(FILE *in, FILE *out, const struct ckx_entry *e)
{
	struct setting settings[SETTINGS];
	bool inside = false, found = false, empty = true, ended = true;
	char *line = NULL;
	size_t room = 0;

	list_settings(e, settings);
	while (in && getline(&line, &room, in) >= 0) {
		const char *text = skip_blanks(line);

		if (*text == '[')
			inside = is_head(text, e->name);
		if (!inside || !is_replaced(text, settings))
			fputs(line, out);
		empty = false;
		ended = line[strlen(line) - 1] == '\n';
		if (*text == '[' && inside) {
			fputs(ended ? "" : "\n", out);
			print_settings(out, settings);
			found = ended = true;
		}
	}
	free(line);
	if (found)
		return;
	fprintf(out, "%s%s[%s]\n", ended ? "" : "\n", empty ? "" : "\n", e->name);
	print_settings(out, settings);
}

int ckx_config_keep(const struct ckx_entry *e)
{
	struct ck_replace file;
	char path[CKX_PATH];
	FILE *in = NULL;
	int ret = ckx_install_path_own_folder("config", path);

	if (ret < 0)
		return ret;
	ret = ck_replace_begin(&file, path, 0600);
	if (ret == 0) {
		in = fopen(path, "re");
		ret = in || errno == ENOENT ? 0 : -errno;
		if (ret == 0)
			write_section(in, file.out, e);
		if (in && ferror(in)) /* the rest would lose sections */
			ret = -EIO;
		if (ret < 0)
			ck_replace_end(&file, false);
		else
			ret = ck_replace_end(&file, true);
	}
	if (in)
		fclose(in);
	if (ret < 0)
		ckx_error("%s: %s", path, strerror(-ret));
	return ret;
}
