/*
 * client/cupti/cupti.h - shared by the files of client/cupti.
 */
#ifndef CK_CLIENT_CUPTI_CUPTI_H
#define CK_CLIENT_CUPTI_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cupti/state.h"
#include "client/link/hooks.h"
#include "cuda/cupti.h"
#include "rpc/activity.h"

/* --- state.c */
uint64_t ckc_cupti_clock(void); /* the program's clock, in ns */
static inline bool ckc_cupti_wants(const struct ckc_cupti *s, uint32_t kind)
{
	return atomic_load_explicit(&s->kinds, memory_order_relaxed) >> kind & 1;
}
/* Note the result of a call for cuptiGetLastError, and return it. */
CUptiResult ckc_cupti_result(CUptiResult result);
CUptiResult ckc_cupti_last(void); /* that result, which is forgotten */

/* A message, for the own profile: not one of CUPTI's kinds, and never in a buffer of the
 * program. */
#define CKC_CUPTI_MESSAGE 63
/* In the flags of a marker: of a range that may end in another thread. The program does not see
 * it. */
#define CKC_MARKER_FREE (1u << 31)
struct ckc_cupti_message {
	uint32_t kind, proc;
	uint64_t start, end, sent, received;
	uint32_t thread, result, waits, pad;
};
static inline size_t ckc_cupti_size(uint32_t kind)
{
	return kind == CKC_CUPTI_MESSAGE ? sizeof(struct ckc_cupti_message)
					 : ck_cupti_record_size(kind);
}

/* --- record_kinds.c */
bool ckc_cupti_is_ready(const struct ckc_client *c); /* messages can be sent */
/* The kinds have changed: the server learns of them now, or with cuInit. flush_lock is held. */
CUptiResult ckc_cupti_apply(struct ckc_client *c);
/* Hand over the records of calls. flush_lock is held. */
void ckc_cupti_hand_over_calls(struct ckc_client *c);

/* --- call_names.c: the name of a call of a domain by CUPTI's number; NULL: unknown */
const char *ckc_cupti_call_name(uint32_t domain, uint32_t call);
size_t ckc_cupti_name_length(const char *name); /* without the version */

/* --- thread.c: ids, calls and ranges that the calling thread has begun */
#define CKC_CUPTI_PUSHED 32
#define CKC_CUPTI_NESTED                                                                           \
	4 /* a call of the runtime, and one of the driver in it; callbacks of the program */
struct ckc_cupti_frame {
	uint32_t domain, call, number;
	bool part; /* of another one */
	uint64_t began;
	uint64_t data; /* the subscriber's */
};
struct ckc_cupti_range; /* nvtx.c */
struct ckc_cupti_self {
	struct {
		uint32_t kind;
		uint64_t id;
	} pushed[CKC_CUPTI_PUSHED];
	unsigned int pushes;
	struct ckc_cupti_frame frames[CKC_CUPTI_NESTED];
	unsigned int depth;
	uint32_t helped; /* the call that this thread, which is the client's own, works for */
	uint32_t number;
	bool reports; /* it is in the subscriber's function, whose own calls are not reported */
	CUptiResult last_result;
	struct ckc_cupti_range *range; /* the innermost that it has pushed */
};
struct ckc_cupti_self *ckc_cupti_self(void); /* NULL: there is no memory for it */
void ckc_cupti_ranges_free(struct ckc_cupti_range *innermost);

/* --- calls.c: records of the program's calls */
struct ckc_cupti_piece {
	struct ckc_cupti_piece *next;
	size_t size;
	_Alignas(8) unsigned char bytes[64u << 10];
};
/* Add a record; of a call, with the calling thread. */
void ckc_cupti_note(struct ckc_cupti *s, const void *record, size_t size);
void ckc_cupti_note_api(struct ckc_cupti *s, struct ck_cupti_api *api);
/* The records so far, which the caller frees. */
struct ckc_cupti_piece *ckc_cupti_calls_take(struct ckc_cupti *s);
CUptiResult ckc_cupti_push(uint32_t kind, uint64_t id);
CUptiResult ckc_cupti_pop(uint32_t kind, uint64_t *id);

/* The newest id of each kind that the thread has pushed, for call @correlation. */
void ckc_cupti_note_pushed(struct ckc_cupti *s, uint32_t correlation);
uint32_t ckc_cupti_thread(void); /* the calling thread's number */

/* --- call_frames.c: calls in progress */
void ckc_cupti_enter_runtime(uint32_t call);
void ckc_cupti_leave_runtime(uint32_t call);
/* The key of message @id (rpc/activity.h). */
static inline uint32_t ckc_cupti_message_number(uint64_t id)
{
	return (uint32_t)id << 1 | (id & CK_ACTIVITY_CALL ? 1 : 0);
}
int ckc_cupti_links_make(struct ckc_cupti *s); /* -ENOMEM. flush_lock is held. */
/* The number of the call that sent message @id; 0: not known, or none of the program's. */
uint32_t ckc_cupti_call_of(const struct ckc_cupti *s, uint64_t id);

/* --- sync.c: records of waits, contexts and devices; they may ask the server, so no lock is
 * held */
void ckc_cupti_note_sync(struct ckc_client *c, const struct ckc_call *call, uint64_t began,
			 uint32_t correlation);
void ckc_cupti_see_context(
	struct ckc_client *c); /* a record of the current context, if it is new */
void ckc_cupti_note_devices(struct ckc_client *c);
uint32_t ckc_cupti_context_number(struct ckc_client *c); /* of the current context; 0: none */
/* The server's numbers of stream @stream (its id; 0: legacy) of @context; true: they have not been
 * asked for before. */
bool ckc_cupti_find_place(struct ckc_client *c, const struct ckc_context *context, uint64_t stream,
			  struct ckc_cupti_place *out);

/* --- report.c: tell the subscriber of a call, if it wants to know */
_Atomic uint64_t *ckc_cupti_reported(struct ckc_cupti *s, uint32_t domain); /* which calls */
struct ckc_cupti_report {
	uint32_t domain, call;
	int site; /* 0 at the beginning, 1 at the end */
	const char *name;
	const void *given;
	void *result;
	uint64_t *data;
	uint32_t correlation;
};
void ckc_cupti_report(const struct ckc_cupti_report *report);

/* --- runtime.c: ask the runtimes in the process to report their calls, or not to */
void ckc_cupti_runtime_enable(bool on);

/* --- fetch.c: records from the server. flush_lock is held. */
/* Tell the server which kinds are wanted. */
CUptiResult ckc_cupti_send_kinds(struct ckc_client *c);
void ckc_cupti_clock_changed(struct ckc_client *c); /* read the clocks anew */
/* Fetch and hand over all records; with @forced, also unfinished ones. */
CUptiResult ckc_cupti_fetch(struct ckc_client *c, bool forced);

/* --- translate.c */
/* Both clocks have been read again. */
void ckc_cupti_clock_step(struct ckc_cupti *s, const struct ckc_cupti_sample *next);
/* Hand over the server's records, which may be any bytes; at an address that 8 divides. flush_lock
 * is held. */
void ckc_cupti_take_all(struct ckc_client *c, const unsigned char *bytes, size_t size);

/* --- buffer.c: the program's buffers. flush_lock is held. */
/* Have a buffer while a kind is enabled. Programs (Kineto) take one that waits for a flush as the
 * sign that there are records. */
void ckc_cupti_begin(struct ckc_cupti *s);
void ckc_cupti_append(struct ckc_client *c,
		      const void *record); /* to the own profile, if there is one */
void ckc_cupti_finish(struct ckc_cupti *s);

/* --- callback.c */
bool ckc_cupti_is_subscriber(struct ckc_cupti *s, const void *subscriber);

#endif
