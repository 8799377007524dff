/*
 * client/stats.h - what crossed the wire (CRICKET_STATS=1), and each message as text
 * (CRICKET_TRACE=1). Both cost one predicted branch when they are off.
 */
#ifndef CK_CLIENT_STATS_H
#define CK_CLIENT_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

extern bool ck_stats_on, ck_trace_on;

void ck_stats_init(void);	/* read the two variables */
void ck_stats_entered(void);	/* the application has called us */
void ck_stats_message(uint32_t proc, size_t bytes_out, size_t bytes_in);
void ck_stats_pages(size_t sent, size_t fetched);	/* of managed memory */
void ck_stats_print(void);	/* at exit, on stderr */

/* One line: -> name(in) = err, out; @res is NULL for a one-way message. */
void ck_trace_message(uint32_t proc, const void *args, const void *res, CUresult err);

#endif
