/*
 * server/session/profile_record.c - CUPTI's records in the form in which they travel; see
 * profile_record.h.
 */
#include <string.h>

#include "server/session/profile_record.h"

#define OVERHEAD_HAS_CALL                                                                          \
	20 /* the first version whose records of overhead have their call: CUDA 12.2's */

/* Members of all records of the GPU's work, in each kind's own place. */
#define take_common(r, from)                                                                       \
	((r)->start = (from)->start, (r)->end = (from)->end,                                       \
	 (r)->correlation = (from)->correlation, (r)->device = (from)->device,                     \
	 (r)->context = (from)->context, (r)->stream = (from)->stream,                             \
	 (r)->graph_node = (from)->graph_node, (r)->graph = (from)->graph)

static void take_kernel(struct ck_activity *r, const struct ck_cupti_kernel *k,
			cks_profile_name_fn number_of)
{
	take_common(r, k);
	r->name = number_of(k->name);
	memcpy(r->kernel.grid, k->grid, sizeof(k->grid));
	memcpy(r->kernel.block, k->block, sizeof(k->block));
	memcpy(r->kernel.cluster, k->cluster, sizeof(k->cluster));
	r->kernel.static_shared = k->static_shared;
	r->kernel.dynamic_shared = k->dynamic_shared;
	r->kernel.local_per_thread = k->local_per_thread;
	r->kernel.local_total = k->local_total;
	r->kernel.registers = k->registers_per_thread;
	r->kernel.channel = k->channel;
	r->kernel.launch_type = k->launch_type;
}

static void take_copy(struct ck_activity *r, const struct ck_cupti_memcpy *m)
{
	take_common(r, m);
	r->copy.bytes = m->bytes;
	r->copy.copies = 1; /* CUDA 12's record has no such field */
	r->copy.copy_kind = m->copy_kind;
	r->copy.src_kind = m->src_kind;
	r->copy.dst_kind = m->dst_kind;
	r->copy.flags = m->flags;
}

static void take_peer(struct ck_activity *r, const struct ck_cupti_peer *p)
{
	take_common(r, p);
	r->copy.bytes = p->bytes;
	r->copy.copies = 1;
	r->copy.copy_kind = p->copy_kind;
	r->copy.src_kind = p->src_kind;
	r->copy.dst_kind = p->dst_kind;
	r->copy.flags = p->flags;
	r->copy.src_device = p->src_device;
	r->copy.src_context = p->src_context;
	r->copy.dst_device = p->dst_device;
	r->copy.dst_context = p->dst_context;
}

static void take_fill(struct ck_activity *r, const struct ck_cupti_memset *m)
{
	take_common(r, m);
	r->fill.bytes = m->bytes;
	r->fill.value = m->value;
	r->fill.memory_kind = m->memory_kind;
}

static void take_graph(struct ck_activity *r, const struct ck_cupti_graph *g)
{
	r->start = g->start;
	r->end = g->end;
	r->correlation = g->correlation;
	r->device = g->device;
	r->context = g->context;
	r->stream = g->stream;
	r->graph = g->graph;
}

/* Processes and threads are the worker's, so their ids are left out. */
static void take_overhead(struct ck_activity *r, const struct ck_cupti_overhead *o,
			  uint32_t version)
{
	r->start = o->start;
	r->end = o->end;
	r->overhead.kind = o->overhead;
	r->overhead.object = o->object;
	if (version >= OVERHEAD_HAS_CALL)
		r->correlation = o->correlation;
	if (o->object < CUPTI_ACTIVITY_OBJECT_DEVICE)
		return;
	r->device = o->id[0];
	r->context = o->id[1];
	r->stream = o->id[2];
}

/* Records of other kinds, such as the worker's own driver calls, are not for the client. */
bool cks_profile_translate(struct ck_activity *r, const union ck_cupti_record *from,
			   const struct cks_profile_source *cupti)
{
	*r = (struct ck_activity){.kind = from->kind, .size = sizeof(*r)};
	switch (from->kind) {
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel(r, &from->kernel, cupti->number_of);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		take_copy(r, &from->copy);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		take_peer(r, &from->peer);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		take_fill(r, &from->fill);
		return true;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		take_graph(r, &from->graph);
		return true;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		take_overhead(r, &from->overhead, cupti->version);
		return true;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		r->correlation = from->external.correlation;
		r->external = from->external.external;
		return from->external.external_kind == CKS_PROFILE_ID_KIND;
	default:
		return false;
	}
}
