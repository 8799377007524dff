/*
 * server/options/option_file.c - see options.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options/option_table.h"
#include "server/options/options.h"
#include "util/text.h"

#define CK_LINE 4096

struct place {
	const char *path;
	unsigned int line;
};

static int report_error(const struct place *p, const char *what, const char *text)
{
	fprintf(stderr, "cricket-rpc-server: %s:%u: %s: %s\n", p->path, p->line, what, text);
	return -EINVAL;
}

/* The value, and where it is, live as long as the process. */
static int set_option(struct cks_options *o, const struct place *p, size_t index, const char *value)
{
	char *origin = NULL, *kept = value ? strdup(value) : NULL;

	if ((value && !kept) || asprintf(&origin, "%s:%u", p->path, p->line) < 0)
		return report_error(p, "out of memory", value ? value : "");
	return cks_options_give(o, index, kept, origin);
}

static int take_line(struct cks_options *o, const struct place *p, char *line)
{
	char *value = strchr(line, '='), *name = line;
	struct cks_option option;
	size_t index;

	if (!value)
		return report_error(p, "not NAME = VALUE", line);
	*value++ = '\0';
	name = ck_text_trim(name);
	value = ck_text_trim(value);
	index = cks_option_find(name);
	if (index == cks_option_count())
		return report_error(p, "there is no such option", name);
	option = cks_option_at(index);
	if (option.section == CKS_COMMANDS)
		return report_error(p, "this option is for the command line only", name);
	if (!*value)
		return report_error(p, "without a value", name);
	if (option.argument)
		return set_option(o, p, index, value);
	if (strcmp(value, "yes") == 0)
		return set_option(o, p, index, NULL);
	return strcmp(value, "no") == 0 ? 0 : report_error(p, "neither yes nor no", value);
}

int cks_options_read(struct cks_options *o, const char *path)
{
	bool may_lack = path[0] == '-';
	struct place p = {.path = path + may_lack};
	char line[CK_LINE];
	FILE *f = fopen(p.path, "re");
	int ret = 0;

	if (!f && may_lack && errno == ENOENT && *p.path)
		return 0;
	if (!f) {
		ret = -errno;
		fprintf(stderr, "cricket-rpc-server: --config %s: %s\n", p.path, strerror(-ret));
		return ret;
	}
	while (ret == 0 && fgets(line, sizeof(line), f)) {
		char *text;

		p.line++;
		if (!strchr(line, '\n') && !feof(f))
			ret = report_error(&p, "the line is too long", "");
		ck_text_cut_comment(line);
		text = ck_text_trim(line);
		if (ret == 0 && *text)
			ret = take_line(o, &p, text);
	}
	if (ret == 0 && ferror(f)) {
		ret = -errno;
		fprintf(stderr, "cricket-rpc-server: --config %s: %s\n", p.path, strerror(-ret));
	}
	fclose(f);
	return ret;
}
