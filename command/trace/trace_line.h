/*
 * command/trace/trace_line.h - a line of the file that CRICKET_TRACE names (client/link/stats.c).
 */
#ifndef CK_COMMAND_TRACE_TRACE_LINE_H
#define CK_COMMAND_TRACE_TRACE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CKX_TRACE_NAME 128

struct ckx_trace_line {
	char name[CKX_TRACE_NAME]; /* of the message */
	const char *text;	   /* arguments and result, in the line; not terminated */
	size_t text_size;
	bool waits;	 /* it has a reply */
	long long error; /* of the reply: a CUresult */
	uint64_t pid, thread, ns, took, bytes;
};

/* Parse @size bytes of a line, without newline; false: it is not one of a trace. */
bool ckx_trace_line(const char *line, size_t size, struct ckx_trace_line *out);

#endif
