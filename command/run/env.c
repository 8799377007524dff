/*
 * command/run/env.c - `cricket env`: the variables of `cricket run`, for a shell or for a file of
 * variables.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/run/settings.h"

/* In single quotes, as a shell reads them; fish knows a backslash inside of them, sh does not. */
static void print_quoted(const char *value, bool fish)
{
	putchar('\'');
	for (const char *c = value; *c; c++) {
		if (*c == '\'')
			fputs(fish ? "\\'" : "'\\''", stdout);
		else if (*c == '\\' && fish)
			fputs("\\\\", stdout);
		else
			putchar(*c);
	}
	puts("'");
}

static void print_setting(const struct ckx_setting *s, const char *format)
{
	if (strcmp(format, "plain") == 0) {
		printf("%s=%s\n", s->name, s->value);
	} else if (strcmp(format, "fish") == 0) {
		printf("set -gx %s ", s->name);
		print_quoted(s->value, true);
	} else {
		printf("export %s=", s->name);
		print_quoted(s->value, false);
	}
}

int ckx_env(const struct ckx_command *self, int argc, char **argv)
{
	struct ckx_settings settings;
	struct ckx_wishes wishes;
	const char *format;
	int ret;

	if (ckx_settings_parse(argc, argv, &wishes) < 0 || optind < argc ||
	    ckx_settings_of_run(&wishes))
		return ckx_usage(self);
	format = wishes.format ? wishes.format : "sh";
	if (strcmp(format, "sh") != 0 && strcmp(format, "fish") != 0 &&
	    strcmp(format, "plain") != 0) {
		ckx_error("--format is sh, fish or plain: %s", format);
		return CKX_USAGE;
	}
	ret = ckx_settings_make(&wishes, &settings);
	for (size_t i = 0; ret == 0 && i < settings.count; i++)
		print_setting(&settings.list[i], format);
	ckx_settings_free(&settings);
	return ret == 0 ? CKX_OK : ret == -EINVAL ? CKX_USAGE : CKX_FAILED;
}
