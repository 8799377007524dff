/*
 * util/process/output.c - see output.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/process/output.h"

void ck_output_begin(void)
{
	static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", modes[fd]); /* the lowest that is free: this one */
	}
}

bool ck_output_end(const char *program)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	fprintf(stderr, "%s: standard output: %s\n", program,
		errno ? strerror(errno) : "not all of it could be written");
	return false;
}
