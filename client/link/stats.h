/*
 * client/link/stats.h - count the program's calls and the messages sent for them (CRICKET_STATS),
 * and print each message as text (CRICKET_TRACE=1). Both cost one predicted branch when off.
 *
 * A call is counted by name if the program has its address from cuGetProcAddress, as NVIDIA's
 * runtime does: it then gets a function that counts (build/gen/counted.c). Messages are counted for
 * all calls.
 */
#ifndef CK_CLIENT_LINK_STATS_H
#define CK_CLIENT_LINK_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

extern bool ckc_stats_on, ckc_trace_on;

/* All calls of one name, or all messages of one kind. Bytes on the wire, without strings. */
struct ckc_stats_row {
	_Atomic uint64_t local, one_way, waited; /* by the most expensive action of the call */
	_Atomic uint64_t trips;			 /* round trips: times that the calls waited */
	_Atomic uint64_t sent, received;	 /* bytes */
	_Atomic uint64_t ns;			 /* spent waiting for the server */
};

/* One call in progress; nested calls count as part of the outer one. */
struct ckc_stats_call {
	struct ckc_stats_call *outer;
	unsigned int row, messages, waits;
	uint64_t sent, received, ns;
};

/* Generated from rpc/driver.api. */
extern const char *const ckc_stats_names[];
extern const unsigned int ckc_stats_name_count;
extern struct ckc_stats_row ckc_stats_rows[];

void ckc_stats_init(void); /* read the two variables, once */
void ckc_stats_begin(struct ckc_stats_call *call, unsigned int row);
void ckc_stats_end(struct ckc_stats_call *call);
void ckc_stats_entered(void); /* a call of the program, with a name or without */
void ckc_stats_sent(uint32_t proc, size_t bytes); /* a one-way message */
/* A message and its reply: a round trip. The wait began at @began of ck_now_ns(). NULLPROC
 * stands for opening connections, any number of them at a time. */
void ckc_stats_waited(uint32_t proc, size_t bytes_out, size_t bytes_in, uint64_t began);
void ckc_stats_pages(size_t sent, size_t fetched); /* of managed memory */
void ckc_stats_end_of_process(void); /* print to stderr or the file that CRICKET_STATS names */

/* Print one line: -> name(in) = err, out {pid, thread, time, duration, bytes}. @res is NULL for a
 * one-way message, and @began 0; else the wait began then. @bytes of payload were sent along.
 * `cricket trace` reads it. */
void ckc_trace_message(uint32_t proc, const void *args, const void *res, CUresult err,
		       uint64_t began, size_t bytes);

#endif
