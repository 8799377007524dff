/*
 * command/config/messages.c - errors, help, colours; see command.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"

int ckx_error(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("cricket: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
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
