/*
 * server/graphs/mirror_copy.c - decode copies of the client's graphs, from ids to handles and
 * mirrors, and encode them.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/copy_side.h"
#include "server/graphs/graph.h"
#include "server/graphs/mirror_list.h"
#include "server/memory/pinned.h"
#include "util/util.h"

#define CK_DEPTH_MAX 64 /* nesting of graphs */

uint64_t cks_graph_root(struct cks_request *q, uint64_t id)
{
	uint64_t parent;

	while ((parent = cks_handles_parent(q->session->handles, id)) != 0)
		id = parent;
	return id;
}

static CUresult size_of(const CUDA_MEMCPY3D *c, size_t *size)
{
	if (ck_mul_overflow(c->WidthInBytes, c->Height, size) ||
	    ck_mul_overflow(*size, c->Depth, size))
		return CUDA_ERROR_INVALID_VALUE;
	return *size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The mirror @id, if @o uses it and it has memory of its own. */
static struct cks_mirror *mirror_used(struct cks_mirrors *ms, const struct cks_owner *o,
				      uint64_t id)
{
	struct cks_mirror *m = id ? cks_mirror_of(ms, id) : NULL;

	for (size_t i = 0; m && !m->whole && i < o->count; i++) {
		if (o->uses[i].mirror == m)
			return m;
	}
	return NULL;
}

/* From the first to behind the last byte of the box of a copy. */
static CUresult extent_of(const CUDA_MEMCPY3D *c, const struct ck_copy_side *side, size_t *size)
{
	size_t slice, planes, rows;

	if (side->pitch < c->WidthInBytes || side->height < c->Height ||
	    ck_mul_overflow(side->pitch, side->height, &slice) ||
	    ck_mul_overflow(slice, c->Depth - 1, &planes) ||
	    ck_mul_overflow(side->pitch, c->Height - 1, &rows) ||
	    ck_add_overflow(planes, rows, size) || ck_add_overflow(*size, c->WidthInBytes, size))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/*
 * A mirror for the client's memory at @side. If it is in memory that another copy of the same graph
 * writes, side->device names the mirror of that one, and the rest of @side its place there.
 */
static CUresult make_mirror(struct cks_request *q, struct cks_owner *o, const CUDA_MEMCPY3D *c,
			    struct ck_copy_side *side, struct cks_mirror **out)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct cks_mirror *whole = mirror_used(ms, o, side->device);
	uint64_t id = (uintptr_t)side->host;
	size_t size;
	CUresult err = size_of(c, &size);

	if (!err && whole)
		err = extent_of(c, side, &size);
	if (!err)
		err = whole ? cks_mirror_make_part(ms, id, size, whole, side->x, out)
			    : cks_mirror_make(q, id, size, out);
	if (err)
		return err;
	if (!whole)
		ck_copy_side_pack(side, c, (*out)->host);
	side->host = (*out)->host;
	side->device = side->x = side->y = side->z = 0;
	return CUDA_SUCCESS;
}

/* The same, and @owner owns it. Call with the lock held, which stays: the owner may end without
 * it. */
static CUresult add_mirror(struct cks_request *q, const CUDA_MEMCPY3D *c, struct ck_copy_side *side,
			   uint64_t owner)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct cks_owner *o = cks_owner_of(ms, owner, true);
	struct ck_copy_side made = *side;
	struct cks_mirror *m;
	CUresult err = o ? make_mirror(q, o, c, &made, &m) : CUDA_ERROR_OUT_OF_MEMORY;

	if (err)
		return err;
	err = cks_owner_add(o, m, NULL);
	if (err)
		cks_mirror_drop(ms, m, NULL);
	else
		*side = made;
	return err;
}

static CUresult mirror_for(struct cks_request *q, const CUDA_MEMCPY3D *c, struct ck_copy_side *side,
			   uint64_t owner)
{
	struct cks_mirrors *ms = q->session->mirrors;
	CUresult err;

	ck_lock(&ms->lock);
	ms->refused = false;
	cks_disconnected_trim(ms, false);
	err = add_mirror(q, c, side, owner);
	if (err && ms->refused && cks_disconnected_trim(ms, true)) /* they count, too */
		err = add_mirror(q, c, side, owner);
	if (err && ms->refused)
		cks_pinned_report(q->session->pinned);
	ck_unlock(&ms->lock);
	return err;
}

/* Decode one end of a copy: the handle of its array, or a mirror for the client's memory. */
static CUresult decode_end(struct cks_request *q, CUDA_MEMCPY3D *c, enum ck_copy_end end,
			   uint64_t owner)
{
	struct ck_copy_side side = ck_copy_side(c, end);
	uint64_t array = (uintptr_t)side.array;
	CUresult err = CUDA_SUCCESS;

	side.array = NULL;
	side.reserved = NULL;
	if (side.type == CU_MEMORYTYPE_HOST)
		err = mirror_for(q, c, &side, owner);
	else if (side.type != CU_MEMORYTYPE_ARRAY && side.type != CU_MEMORYTYPE_DEVICE)
		err = CUDA_ERROR_INVALID_VALUE;
	else if (side.type == CU_MEMORYTYPE_ARRAY && !cks_array_find(q, array, &side.array))
		err = CUDA_ERROR_INVALID_HANDLE;
	if (err || side.type != CU_MEMORYTYPE_HOST)
		side.host = NULL;
	ck_copy_side_set(c, end, &side);
	return err;
}

/* If the copy fails, a mirror made for it stays until its owner ends: harmless. */
CUresult cks_mirror_copy(struct cks_request *q, CUDA_MEMCPY3D *copy, uint64_t owner)
{
	CUresult err = decode_end(q, copy, CK_COPY_SOURCE, owner);

	return err ? err : decode_end(q, copy, CK_COPY_DESTINATION, owner);
}

/* Of the memory at an end of a copy; 0: it is an array. */
static uintptr_t address_of(const struct ck_copy_side *side)
{
	return side->type == CU_MEMORYTYPE_HOST	   ? (uintptr_t)side->host
	       : side->type == CU_MEMORYTYPE_ARRAY ? 0
						   : side->device;
}

/* The mirror at an end of a copy, or NULL. Call with the lock held. */
static struct cks_mirror *mirror_of(struct cks_mirrors *ms, const struct ck_copy_side *side)
{
	return cks_mirror_at(ms, address_of(side));
}

/* Encode one end as the driver reports it, with ids. */
static CUresult encode_end(struct cks_request *q, CUDA_MEMCPY3D *c, enum ck_copy_end end)
{
	struct cks_mirrors *ms = q->session->mirrors;
	struct ck_copy_side side = ck_copy_side(c, end);
	const struct cks_mirror *m;
	uint64_t id = 0;
	CUresult err = CUDA_SUCCESS;

	ck_lock(&ms->lock);
	m = mirror_of(ms, &side);
	if (m) {
		side.x = address_of(&side) - (uintptr_t)m->host;
		side.type = CU_MEMORYTYPE_HOST;
	}
	side.host = m ? (void *)(uintptr_t)m->id : NULL;
	ck_unlock(&ms->lock);
	if (side.type == CU_MEMORYTYPE_ARRAY)
		err = cks_handle_name(q, CK_KIND_ARRAY, side.array, 0, &id);
	side.array = (CUarray)(uintptr_t)id;
	side.reserved = NULL;
	ck_copy_side_set(c, end, &side);
	return err;
}

CUresult cks_mirror_describe(struct cks_request *q, CUDA_MEMCPY3D *c)
{
	CUresult err = encode_end(q, c, CK_COPY_SOURCE),
		 also = encode_end(q, c, CK_COPY_DESTINATION);

	return err ? err : also;
}

/* A walk through a graph and the graphs inside it, for the mirrors of @owner. */
struct search {
	struct cks_request *q;
	struct cks_owner *owner;
	CUgraphNode top; /* the node of the outermost graph in the current walk */
	int depth;
};

/* Call with the lock held, as for the rest of the walk. */
static CUresult add_copy(const struct search *s, const CUDA_MEMCPY3D *c)
{
	CUresult err = CUDA_SUCCESS;

	for (int end = CK_COPY_SOURCE; end <= CK_COPY_DESTINATION && !err; end++) {
		const struct ck_copy_side side = ck_copy_side(c, end);
		struct cks_mirror *m = mirror_of(s->q->session->mirrors, &side);

		if (m)
			err = cks_owner_add(s->owner, m, s->top);
	}
	return err;
}

static CUresult search_graph(struct search *s, CUgraph graph);

/* The bodies of a conditional node are known since it was added. */
static CUresult search_bodies(struct search *s, CUgraphNode node)
{
	struct cks_handles *handles = s->q->session->handles;
	uint64_t id, *graphs;
	CUresult err = CUDA_SUCCESS;
	size_t count;

	if (!cks_handles_known(handles, CK_KIND_NODE, node, &id))
		return CUDA_SUCCESS;
	graphs = cks_handles_children(handles, id, CK_KIND_GRAPH, &count);
	for (size_t i = 0; i < count && !err; i++)
		err = search_graph(s, cks_handles_get(handles, graphs[i], CK_KIND_GRAPH));
	free(graphs);
	return err;
}

static CUresult search_node(struct search *s, CUgraphNode node)
{
	CUgraphNodeType type;
	CUDA_MEMCPY3D copy;
	CUgraph graph;
	CUresult err = ck_driver.cuGraphNodeGetType(node, &type);

	if (err)
		return err;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		memset(&copy, 0, sizeof(copy));
		err = ck_driver.cuGraphMemcpyNodeGetParams(node, &copy);
		return err ? err : add_copy(s, &copy);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		err = ck_driver.cuGraphChildGraphNodeGetGraph(node, &graph);
		return err ? err : search_graph(s, graph);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return search_bodies(s, node);
	default:
		return CUDA_SUCCESS;
	}
}

static CUresult search_graph(struct search *s, CUgraph graph)
{
	CUgraphNode *nodes;
	size_t count;
	CUresult err;

	if (!graph || s->depth == CK_DEPTH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	err = cks_graph_nodes(graph, &nodes, &count);
	s->depth++;
	for (size_t i = 0; i < count && !err; i++) {
		if (s->depth == 1)
			s->top = nodes[i];
		err = search_node(s, nodes[i]);
	}
	s->depth--;
	free(nodes);
	return err;
}

/* List each mirror of @o once, for a reply; the whole one instead of its parts. Call with the lock
 * held. */
static CUresult list_mirrors(const struct cks_owner *o, uint64_t **ids, u_int *count)
{
	*ids = calloc(o->count + 1, sizeof(**ids));
	if (!*ids)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*count = 0;
	for (size_t i = 0; i < o->count; i++) {
		uint64_t id = cks_mirror_memory(o->uses[i].mirror)->id;
		u_int at = 0;

		while (at < *count && (*ids)[at] != id)
			at++;
		if (at == *count)
			(*ids)[(*count)++] = id;
	}
	return CUDA_SUCCESS;
}

static bool can_walk(void)
{
	return ck_driver.cuGraphNodeGetType && ck_driver.cuGraphMemcpyNodeGetParams &&
	       ck_driver.cuGraphChildGraphNodeGetGraph;
}

/* Recompute the owner's uses from the nodes of @graph. Call with the lock held. */
static CUresult use_graph(struct cks_request *q, struct cks_owner *o, CUgraph graph,
			  struct cks_told *told)
{
	struct search search = {.q = q, .owner = o};
	struct cks_owner old = *o;
	struct cks_gone gone = cks_gone_of(&old);
	CUresult err;

	o->uses = NULL;
	o->count = o->room = 0;
	err = gone.ids ? search_graph(&search, graph) : CUDA_ERROR_OUT_OF_MEMORY;
	if (!err)
		err = list_mirrors(o, &told->ids, &told->count);
	cks_owner_cut(q->session->mirrors, &old, 0, &gone);
	free(old.uses);
	told->gone = gone.ids;
	told->gone_count = (u_int)gone.count;
	return err;
}

/* Skip the walk while the session has no mirrors. */
CUresult cks_mirrors_of_graph(struct cks_request *q, uint64_t exec, CUgraph graph,
			      struct cks_told *told)
{
	struct cks_mirrors *ms = q->session->mirrors;
	CUresult err = CUDA_SUCCESS;
	struct cks_owner *o;

	*told = (struct cks_told){0};
	ck_lock(&ms->lock);
	if (ck_map_count(ms->by_id) > 0 && can_walk()) {
		o = cks_owner_of(ms, exec, true);
		err = o ? use_graph(q, o, graph, told) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	ck_unlock(&ms->lock);
	return err;
}

/*
 * Drop the uses of @node; NULL: the new uses, which have no node yet. Remaining new uses become
 * those of @name.
 */
static void cut_uses(struct cks_mirrors *ms, struct cks_owner *o, CUgraphNode node,
		     CUgraphNode name, struct cks_told *told)
{
	struct cks_gone gone = cks_gone_of(o);
	size_t kept = 0;

	for (size_t i = 0; i < o->count; i++) {
		struct cks_use use = o->uses[i];

		if (use.node == node)
			continue;
		o->uses[i] = o->uses[kept];
		use.node = use.node ? use.node : name;
		o->uses[kept++] = use;
	}
	cks_owner_cut(ms, o, kept, &gone);
	told->gone = gone.ids;
	told->gone_count = (u_int)gone.count;
}

CUresult cks_mirrors_edit(struct cks_request *q, uint64_t exec, CUgraphNode node, bool done,
			  struct cks_told *told)
{
	struct cks_mirrors *ms = q->session->mirrors;
	CUresult err = CUDA_SUCCESS;
	struct cks_owner *o;

	*told = (struct cks_told){0};
	ck_lock(&ms->lock);
	o = cks_owner_of(ms, exec, false);
	if (o) {
		cut_uses(ms, o, done ? node : NULL, node, told);
		err = list_mirrors(o, &told->ids, &told->count);
	}
	ck_unlock(&ms->lock);
	return err;
}

CUresult cks_mirrors_edit_child(struct cks_request *q, uint64_t exec, CUgraphNode node,
				CUgraph child, struct cks_told *told)
{
	struct search search = {.q = q, .top = node, .depth = 1};
	struct cks_mirrors *ms = q->session->mirrors;
	CUresult err = CUDA_SUCCESS;

	*told = (struct cks_told){0};
	ck_lock(&ms->lock);
	if (ck_map_count(ms->by_id) > 0 && can_walk()) {
		search.owner = cks_owner_of(ms, exec, true);
		err = search.owner ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (!err && child) {
			cut_uses(ms, search.owner, node, NULL, told);
			err = search_graph(&search, child);
		}
		if (!err)
			err = list_mirrors(search.owner, &told->ids, &told->count);
	}
	ck_unlock(&ms->lock);
	return err;
}
