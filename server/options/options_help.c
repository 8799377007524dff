/*
 * server/options/options_help.c - `cricket-rpc-server --help` and --new-config: print the table.
 */
#include <stdio.h>
#include <string.h>

#include "server/options/option_table.h"
#include "server/options/options.h"

#define CK_HELP_COLUMN 24 /* of the texts of --help */

/* Print @text in lines of at most 80 columns that begin with @margin; the first one goes on at
 * @column. */
static void put_text(FILE *out, const char *margin, int column, const char *text)
{
	for (const char *word = text; *word; word += strspn(word, " ")) {
		int length = (int)strcspn(word, " ");

		if (column + 1 + length > 80)
			column = fprintf(out, "\n%s", margin) - 1;
		else if (word != text)
			column += fprintf(out, " ");
		column += fprintf(out, "%.*s", length, word);
		word += length;
	}
	fputc('\n', out);
}

/* "what it is (default: ...)" */
static const char *describe_option(const struct cks_option *o, char text[512])
{
	if (o->usual)
		snprintf(text, 512, "%s (default: %s)", o->help, o->usual);
	else
		snprintf(text, 512, "%s", o->help);
	return text;
}

static void put_help(const struct cks_option *o)
{
	static const char margin[] = "                        ";
	int n = printf("  --%s%s%s", o->name, o->argument ? " " : "",
		       o->argument ? o->argument : "");
	char text[512];

	if (n >= CK_HELP_COLUMN)
		n = printf("\n") - 1;
	printf("%*s", CK_HELP_COLUMN - n, "");
	put_text(stdout, margin, CK_HELP_COLUMN, describe_option(o, text));
}

void cks_options_help(void)
{
	printf("Usage: cricket-rpc-server [OPTION]...\n"
	       "Run CUDA calls for programs on this host and on others.\n");
	for (int section = 0; section < CKS_SECTIONS; section++) {
		printf("\n%s:\n", cks_section_title((enum cks_section)section));
		for (size_t i = 0; i < cks_option_count(); i++) {
			struct cks_option o = cks_option_at(i);

			if ((int)o.section == section)
				put_help(&o);
		}
	}
}

void cks_options_template(FILE *out)
{
	char text[512];

	fprintf(out, "# Options of cricket-rpc-server, one in a line; cricket-rpc-server(1) "
		     "explains them.\n"
		     "# `systemctl restart cricket-rpc-server` applies changes, and\n"
		     "# `cricket-rpc-server --config FILE --show-config` checks the file first.\n");
	for (int section = 0; section < CKS_COMMANDS; section++) {
		fprintf(out, "\n# --- %s\n", cks_section_title((enum cks_section)section));
		for (size_t i = 0; i < cks_option_count(); i++) {
			struct cks_option o = cks_option_at(i);

			if ((int)o.section != section)
				continue;
			fprintf(out, "\n# ");
			put_text(out, "# ", 2, describe_option(&o, text));
			fprintf(out, "#%s = %s\n", o.name, o.argument ? o.argument : "yes");
		}
	}
}
