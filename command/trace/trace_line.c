/*
 * command/trace/trace_line.c - see trace_line.h.
 *
 *     cricket: -> cuMemAlloc_v2(bytesize 100) = 0, dptr 0x7f12 {pid 7 thread 8 ns 12345 took 678
 *     bytes 0}
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <string.h>

#include "command/trace/trace_line.h"

#define HEAD "cricket: -> "

/* The decimal number behind @word at *@at, at most to @end; false: there is none. */
static bool take_number(const char **at, const char *end, const char *word, uint64_t *out)
{
	size_t n = strlen(word);
	const char *p = *at;
	int digits = 0;

	if ((size_t)(end - p) < n || memcmp(p, word, n) != 0)
		return false;
	*out = 0;
	for (p += n; p < end && *p >= '0' && *p <= '9' && digits < 19; p++, digits++)
		*out = *out * 10 + (uint64_t)(*p - '0');
	*at = p;
	return digits > 0;
}

/* The text between the braces at the end. */
static bool take_tail(const char *at, const char *end, struct ckx_trace_line *out)
{
	return take_number(&at, end, "{pid ", &out->pid) &&
	       take_number(&at, end, " thread ", &out->thread) &&
	       take_number(&at, end, " ns ", &out->ns) &&
	       take_number(&at, end, " took ", &out->took) &&
	       take_number(&at, end, " bytes ", &out->bytes) && end - at == 1 && *at == '}';
}

/* The result, behind the last ") = " of the text: arguments may have one in them. */
static void take_result(struct ckx_trace_line *out)
{
	const char *end = out->text + out->text_size, *at = NULL;
	uint64_t number;

	for (const char *p = out->text; end - p >= 4; p++) {
		if (memcmp(p, ") = ", 4) == 0)
			at = p;
	}
	out->waits = at && take_number(&at, end, ") = ", &number);
	out->error = out->waits ? (long long)number : 0;
}

bool ckx_trace_line(const char *line, size_t size, struct ckx_trace_line *out)
{
	const char *end = line + size, *name = line + strlen(HEAD), *open, *tail;

	memset(out, 0, sizeof(*out));
	if (size < strlen(HEAD) || memcmp(line, HEAD, strlen(HEAD)) != 0)
		return false;
	open = memchr(name, '(', (size_t)(end - name));
	tail = memrchr(name, '{', (size_t)(end - name));
	if (!open || !tail || tail <= open || open == name || open - name >= CKX_TRACE_NAME ||
	    !take_tail(tail, end, out))
		return false;
	for (const char *p = name; p < open; p++) {
		if (!isalnum((unsigned char)*p) && *p != '_')
			return false;
	}
	memcpy(out->name, name, (size_t)(open - name));
	out->text = open;
	out->text_size = (size_t)(tail - open);
	take_result(out);
	return true;
}
