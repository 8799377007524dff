/*
 * command/exporter/tail.c - see tail.h. The file is opened again each time, as it may have been
 * rotated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/exporter/page.h"
#include "util/text.h"

/* The last bytes of @fd into @text: their number, or -1. *@whole: that is all of it. */
static ssize_t read_end(int fd, char text[CKX_TAIL_BYTES], bool *whole)
{
	struct stat st;
	off_t from;
	ssize_t n;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	from = st.st_size > CKX_TAIL_BYTES ? st.st_size - CKX_TAIL_BYTES : 0;
	*whole = from == 0;
	do
		n = pread(fd, text, CKX_TAIL_BYTES, from);
	while (n < 0 && errno == EINTR);
	return n;
}

char *ckx_tail_read(const char *path)
{
	char *text = malloc(CKX_TAIL_BYTES + 1), *line;
	int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	bool whole = true;
	ssize_t n = fd < 0 ? -1 : read_end(fd, text, &whole);

	if (fd >= 0)
		close(fd);
	if (n < 0) {
		free(text);
		return NULL;
	}
	text[ck_text_mask(text, (size_t)n, "\n\t")] = '\0';
	line = whole ? NULL : strchr(text, '\n');
	if (line)
		memmove(text, line + 1, strlen(line + 1) + 1);
	return text;
}
