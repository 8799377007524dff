/*
 * command/check/advice.h - what to do about a step of `cricket check` that has failed: the table
 * advice.def.
 */
#ifndef CK_COMMAND_CHECK_ADVICE_H
#define CK_COMMAND_CHECK_ADVICE_H

#include <stdbool.h>
#include <stddef.h>

struct ckx_advice {
	const char *step;
	int error;
	const char *seen;
	const char *advice;
	bool there; /* next is a command for the server's host */
	const char *next;
};

/* The row for step @step, which has failed with this @error (a CUresult, or 0) and message. NULL:
 * there is no such step. */
const struct ckx_advice *ckx_advice_find(const char *step, int error, const char *message);

/* What stands in the place of words of a row. */
struct ckx_advice_words {
	const char *server, *host, *pin; /* pin empty: unknown */
};

/* @text of a row, with these words, in @out of @size bytes. */
void ckx_advice_expand(const char *text, const struct ckx_advice_words *words, char *out,
		       size_t size);

#endif
