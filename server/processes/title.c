/*
 * server/processes/title.c - see title.h.
 *
 * The kernel shows the bytes where the arguments were at the start. They are adjacent; the memory
 * behind them, the environment, stays as it is.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/child.h"
#include "util/text.h"
#include "util/util.h"

#define CK_TITLE_MAX 512

/* Of the process. */
static struct {
	char *place; /* NULL: none */
	size_t size;
} title;

char **cks_title_take(int argc, char **argv)
{
	char **copies = calloc((size_t)argc + 1, sizeof(*copies));
	char *end = argc > 0 ? argv[0] : NULL;

	if (!copies || !end)
		return argv;
	for (int i = 0; i < argc; i++) {
		copies[i] = strdup(argv[i]);
		if (!copies[i])
			return argv;
		if (argv[i] == end)
			end += strlen(argv[i]) + 1;
	}
	title.place = argv[0];
	title.size = (size_t)(end - argv[0]);
	return copies;
}

void cks_title_set(const char *format, ...)
{
	char text[CK_TITLE_MAX];
	va_list args;
	size_t n;

	if (!title.place)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	ck_text_plain(text, ck_min(sizeof(text), title.size));
	n = strlen(text);
	memcpy(title.place, text, n);
	memset(title.place + n, 0, title.size - n);
}
