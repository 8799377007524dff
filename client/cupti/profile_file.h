/*
 * client/cupti/profile_file.h - the process's own profile, in the file that CRICKET_PROFILE names.
 *
 * It takes the records that a program could have asked for by CUPTI, and writes them as a timeline.
 * As with CUPTI there is one profile of a process: when the program begins one of its own, this one
 * ends.
 */
#ifndef CK_CLIENT_CUPTI_PROFILE_FILE_H
#define CK_CLIENT_CUPTI_PROFILE_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/timeline.h"

struct ckc_client;
struct ckc_cupti;

/* A call that work of the GPU may be tied to. */
struct ckc_profile_file_call {
	uint32_t correlation, thread;
	uint64_t start;
};

/* The kinds that it takes. */
#define CKC_OWN_BIT(kind) (1ull << (kind))
#define CKC_OWN_KINDS                                                                              \
	(CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_MEMCPY) | CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_MEMCPY2) |      \
	 CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_MEMSET) |                                                 \
	 CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) |                                      \
	 CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_MARKER) | CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_DRIVER) |       \
	 CKC_OWN_BIT(CUPTI_ACTIVITY_KIND_RUNTIME) | CKC_OWN_BIT(CKC_CUPTI_MESSAGE))

#define CKC_OWN_CALLS (1u << 16) /* that are remembered at a time */
#define CKC_OWN_RANGES 1024	 /* by id */
#define CKC_OWN_ROWS 512	 /* that have got their names */

struct ckc_profile_file_row {
	uint64_t process, thread;
};

/* With flush_lock. */
struct ckc_profile_file {
	char *path;
	off_t end; /* of the events in the file; the document's tail follows */
	struct ck_timeline text;
	uint64_t began; /* the timeline's zero */
	struct ckc_profile_file_call *calls;
	const char *ranges[CKC_OWN_RANGES]; /* names of those that may end in another thread */
	struct ckc_profile_file_row rows[CKC_OWN_ROWS];
	unsigned int row_count;
	uint64_t dropped;
	_Atomic uint64_t messages; /* of the program, so far */
	uint64_t fetched_at;	   /* at that count */
	bool fetched_again;	   /* and once more at the same */
	bool tried;		   /* the variable has been read */
	bool on;
};

/* The program begins a profile of its own: end this one. */
void ckc_profile_file_yield(struct ckc_client *c);
/* In the child of a fork: the file is the parent's. */
void ckc_profile_file_forget(struct ckc_cupti *s);

/* --- profile_rows.c: records as events */
void ckc_profile_file_begin(struct ckc_client *c);
void ckc_profile_file_take(struct ckc_client *c, const void *record);
void ckc_profile_file_finish(struct ckc_client *c);

#endif
