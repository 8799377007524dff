/*
 * command/config/messages.c - errors, help, colours; see command.h.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"

int ckx_error(const char *format, ...)
{
	char *text;
	va_list args;

	fflush(stdout);
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	/* in one piece: a program that `cricket run` has started may write there too */
	fprintf(stderr, "cricket: %s\n", text ? text : "out of memory");
	free(text);
	return CKX_FAILED;
}

int ckx_help(const struct ckx_command *command)
{
	printf("Usage: cricket %s %s\n%s\n", command->name, command->arguments, command->purpose);
	if (command->options)
		printf("\n%s", command->options);
	return CKX_OK;
}

int ckx_usage(const struct ckx_command *command)
{
	ckx_error("usage: cricket %s %s; see `cricket %s --help`", command->name,
		  command->arguments, command->name);
	return CKX_USAGE;
}

bool ckx_colours(int fd)
{
	const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(fd) && (!no || !*no) && terminal && strcmp(terminal, "dumb") != 0;
}
