/*
 * emu/objects/activity.h - records of kernels, copies and fills, for a profiler (cupti/cupti.c).
 *
 * While no kind is enabled, a command pays one comparison when it is queued and one when it runs.
 */
#ifndef CK_EMU_OBJECTS_ACTIVITY_H
#define CK_EMU_OBJECTS_ACTIVITY_H

#include "cuda/cupti.h"
#include "emu/core/emu.h"

/* A bit for each enabled kind. */
extern _Atomic uint64_t ck_emu_activity_kinds;

static inline bool ck_emu_activity_on(void)
{
	return unlikely(atomic_load_explicit(&ck_emu_activity_kinds, memory_order_relaxed) != 0);
}

static inline bool ck_emu_activity_wants(uint32_t kind)
{
	return atomic_load_explicit(&ck_emu_activity_kinds, memory_order_relaxed) >> kind & 1;
}

/* The driver's own clock, in ns; the host's clocks differ from it. */
uint64_t ck_emu_activity_clock(void);

/* The number of the calling thread's next command, noted beside the ids that the thread has
 * pushed. */
uint32_t ck_emu_activity_number(void);

/* The launch for which a node of a graph ran; @node 0: none. */
struct ck_emu_activity_node {
	uint64_t node;
	uint32_t graph, correlation;
};

/* Add the record of work that ran in @stream of @context from @start until now. @record has the
 * rest; a kernel's name is copied. */
void ck_emu_activity_add(union ck_cupti_record *record, const struct ck_emu_context *context,
			 const struct ck_emu_stream *stream, uint64_t start);

/*
 * The same of work that launch @correlation of graph @graph ran, for its node @node. There is none
 * while launches have records as a whole.
 */
void ck_emu_activity_add_node(union ck_cupti_record *record, const struct ck_emu_context *context,
			      const struct ck_emu_stream *stream, uint64_t start,
			      const struct ck_emu_activity_node *node);
/* A launch as a whole, from @start until now. */
void ck_emu_activity_add_graph(const struct ck_emu_activity_node *node,
			       const struct ck_emu_stream *stream, uint64_t start);
/* The driver has compiled for call @correlation, from @start until now. */
void ck_emu_activity_add_compiler(uint32_t correlation, uint64_t start);

/* CUPTI's number of a stream; @id 0: of the legacy one, which is the same in each context. */
static inline uint32_t ck_emu_activity_stream(uint64_t id)
{
	return (uint32_t)id + 7;
}

/* --- for cupti.c */
void ck_emu_activity_callbacks(ck_cupti_request_fn request, ck_cupti_complete_fn complete);
void ck_emu_activity_flush(void);
uint64_t ck_emu_activity_dropped(void); /* since the last question */
CUptiResult ck_emu_activity_push(uint32_t kind, uint64_t id);
CUptiResult ck_emu_activity_pop(uint32_t kind, uint64_t *id);

#endif
