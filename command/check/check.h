/*
 * command/check/check.h - the steps of `cricket check`, and the advice when one fails.
 */
#ifndef CK_COMMAND_CHECK_CHECK_H
#define CK_COMMAND_CHECK_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "command/config/server.h"

/* --- a server, tried through the client library (probe.c) */

/*
 * In a process of its own: load the client, initialise, and copy to and from the first GPU. The
 * result has "error", a CUresult; "said", the client's log; and if there is no error "driver",
 * "devices" (name, memory, free), "up" and "down" (bytes/s). NULL: the process failed.
 */
json_t *ckx_probe(const struct ckx_server *server);

/* --- a step that has failed: the table advice.def (advice.c) */

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

/* Replacements of words in a row. */
struct ckx_advice_words {
	const char *server, *host, *pin; /* pin empty: unknown */
};

/* @text of a row, with these words, in @out of @size bytes. */
void ckx_advice_expand(const char *text, const struct ckx_advice_words *words, char *out,
		       size_t size);

#endif
