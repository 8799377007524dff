/*
 * client/wire/stats.h - count the program's calls and the messages sent for them (CRICKET_STATS),
 * and print each message as text (CRICKET_TRACE=1). Both cost one predicted branch when off.
 *
 * A call is counted by name if the program has its address from cuGetProcAddress, as NVIDIA's
 * runtime does: it then gets a function that counts (build/gen/counted.c). Messages are counted for
 * all calls.
 */
#ifndef CK_CLIENT_WIRE_STATS_H
#define CK_CLIENT_WIRE_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

extern bool ck_stats_on, ck_trace_on;

/* All calls of one name, or all messages of one kind. Bytes on the wire, without strings. */
struct ck_stats_row {
	_Atomic uint64_t local, one_way, waited; /* by the most expensive action of the call */
	_Atomic uint64_t sent, received;	 /* bytes */
	_Atomic uint64_t ns;			 /* spent waiting for the server */
};

/* One call in progress; nested calls count as part of the outer one. */
struct ck_stats_call {
	struct ck_stats_call *outer;
	unsigned int row, messages, waits;
	uint64_t sent, received, ns;
};

/* Generated from rpc/driver.api. */
extern const char *const ck_stats_names[];
extern const unsigned int ck_stats_name_count;
extern struct ck_stats_row ck_stats_rows[];

void ck_stats_init(void);	/* read the two variables, once */
void ck_stats_begin(struct ck_stats_call *call, unsigned int row);
void ck_stats_end(struct ck_stats_call *call);
void ck_stats_entered(void);	/* a call of the program, with a name or without */
uint64_t ck_stats_clock(void);	/* ns */
void ck_stats_sent(uint32_t proc, size_t bytes);	/* a one-way message */
/* A message and its reply. The wait began at ck_stats_clock() value @began. */
void ck_stats_waited(uint32_t proc, size_t bytes_out, size_t bytes_in, uint64_t began);
void ck_stats_pages(size_t sent, size_t fetched);	/* of managed memory */
void ck_stats_end_of_process(void); /* print to stderr or the file that CRICKET_STATS names */

/* Print one line: -> name(in) = err, out. @res is NULL for a one-way message. */
void ck_trace_message(uint32_t proc, const void *args, const void *res, CUresult err);

#endif
