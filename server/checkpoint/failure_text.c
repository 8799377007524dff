/*
 * server/checkpoint/failure_text.c - see failure_text.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "server/checkpoint/failure_text.h"

int cks_why_set(struct cks_why *why, int error, const char *format, ...)
{
	va_list args;

	errno = error;
	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return -error;
}
