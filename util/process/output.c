/*
 * util/process/output.c - see output.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "util/process/output.h"

bool ck_output_end(const char *program)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	fprintf(stderr, "%s: standard output: %s\n", program,
		errno ? strerror(errno) : "not all of it could be written");
	return false;
}
