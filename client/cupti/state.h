/*
 * client/cupti/state.h - the session state of client/cupti. Programs see one CUPTI per process, so
 * it is that of the process's session.
 */
#ifndef CK_CLIENT_CUPTI_STATE_H
#define CK_CLIENT_CUPTI_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/cupti/profile_file.h"
#include "client/link/client.h"
#include "cuda/cupti.h"
#include "util/map.h"

/* The program's clock and the server's, at one moment. */
struct ckc_cupti_sample {
	uint64_t local, remote;
	uint64_t error; /* half the round trip, in ns */
};

struct ckc_cupti_piece;

#define CKC_CUPTI_CALLS 1024 /* CUPTI has fewer calls of the driver, and of the runtime */

/* The client's number for a number of the server's driver. */
struct ckc_cupti_match {
	uint32_t server, client;
};

/* The server's numbers of a stream, by the ids on the wire. */
#define CKC_CUPTI_PLACES 256 /* that are remembered */
struct ckc_cupti_place {
	uint64_t context, stream;
	uint32_t context_number, stream_number;
};

struct ckc_cupti {
	/* Held while records are fetched and handed to the program. */
	struct ck_mutex flush_lock;
	ck_cupti_request_fn request;
	ck_cupti_complete_fn complete;
	ck_cupti_request_v2_fn request_v2; /* in the place of those, if it is set */
	ck_cupti_complete_v2_fn complete_v2;
	uint64_t told; /* the kinds that the server knows of */
	struct ckc_cupti_sample before, now;
	double rate;  /* local ticks per tick of the server's clock; 0: not known yet */
	bool stepped; /* one of the clocks was set between the two */
	struct ckc_cupti_match *matches;
	_Atomic uint64_t *links; /* number of a message (upper half) to that of its call */
	char **names;		 /* of kernels, by number; programs keep pointers to them */
	uint32_t name_count;
	/* the program's buffer that is being filled */
	uint8_t *buffer;
	size_t room, used, records, records_max;

	struct ck_mutex lock; /* with the records of calls, which wait for a flush */
	struct ckc_cupti_piece *first, *last;
	size_t pieces;
	struct ck_map *texts; /* of markers; they stay */
	uint64_t dropped;
	_Atomic ck_cupti_callback_fn subscriber; /* NULL: none */
	void *userdata;				 /* its own */
	struct ckc_cupti_place places[CKC_CUPTI_PLACES];
	unsigned int place_count; /* ever */

	struct ckc_profile_file own; /* with flush_lock */
	_Atomic uint64_t asked;	     /* the kinds that the program has enabled */
	/* calls that the subscriber hears of, by CUPTI's numbers; with flush_lock, to change
	 * them */
	_Atomic uint64_t reported_driver[CKC_CUPTI_CALLS / 64];
	_Atomic uint64_t reported_runtime[CKC_CUPTI_CALLS / 64];
	_Atomic bool reports_driver, reports_runtime; /* any */
	/* calls without records, by CUPTI's numbers */
	_Atomic uint64_t left_out_driver[CKC_CUPTI_CALLS / 64];
	_Atomic uint64_t left_out_runtime[CKC_CUPTI_CALLS / 64];
	_Atomic uint64_t kinds;		 /* those, and those of the own profile */
	uint64_t (*_Atomic clock)(void); /* the program's; NULL: the system's */
};

#endif
