/*
 * server/graphs/mirror.h - mirrors: they replace the client's memory in copies of its graphs.
 *
 * A copy between host and device in a graph runs at each launch; the driver accesses the host side
 * then. That side is a mirror here: pinned memory of the copy's size. The client fills it before a
 * launch or fetches it afterwards. Graphs and execs own mirrors; a mirror ends with its last owner.
 */
#ifndef CK_SERVER_GRAPHS_MIRROR_H
#define CK_SERVER_GRAPHS_MIRROR_H

#include "server/session/session.h"

struct ck_mirrors;

int ck_mirrors_create(struct ck_mirrors **mirrors);
void ck_mirrors_destroy(struct ck_mirrors *mirrors);

/*
 * Decode a copy of the client: replace ids of arrays by arrays, and ids of mirrors by memory, which
 * is made here and owned by @owner. On an error, nothing is made.
 */
CUresult ck_mirror_copy(struct ck_request *q, CUDA_MEMCPY3D *copy, uint64_t owner);
/* The reverse: encode a copy. */
CUresult ck_mirror_describe(struct ck_request *q, CUDA_MEMCPY3D *copy);

/* Make @to own all that @from owns. */
CUresult ck_mirrors_share(struct ck_mirrors *mirrors, uint64_t from, uint64_t to);

/* The part of a reply about an exec: its mirrors, and mirrors without owners left. */
struct ck_told {
	uint64_t *ids, *gone;
	u_int count, gone_count;
};

/* @exec now runs the nodes of @graph: it owns their mirrors and no others. */
CUresult ck_mirrors_of_graph(struct ck_request *q, uint64_t exec, CUgraph graph,
			     struct ck_told *told);
/*
 * ck_mirror_copy has made mirrors for @exec. They replace those of the copy of @node; if the change
 * failed (not @done), they end.
 */
CUresult ck_mirrors_edit(struct ck_request *q, uint64_t exec, CUgraphNode node, bool done,
			 struct ck_told *told);

/* The child graph that @node of @exec runs is now @child; NULL: no change. */
CUresult ck_mirrors_edit_child(struct ck_request *q, uint64_t exec, CUgraphNode node,
			       CUgraph child, struct ck_told *told);

/* Does @exec own mirrors? */
bool ck_mirrors_has(struct ck_mirrors *mirrors, uint64_t exec);
/* @exec was launched in @stream: if it has mirrors, record an event to learn when it is done. */
CUresult ck_mirrors_launched(struct ck_request *q, uint64_t exec, CUstream stream);
/* Wait until no launch uses the mirrors of @exec. */
CUresult ck_mirrors_wait(struct ck_mirrors *mirrors, uint64_t exec);

/* A graph or an exec has ended; returns the ids of mirrors that ended with it, unless @ids is
 * NULL. */
void ck_mirrors_owner_gone(struct ck_mirrors *mirrors, uint64_t owner, uint64_t **ids,
			   u_int *count);
/* Context @ctx is about to end: forget its events, and release memory pinned in it. */
void ck_mirrors_drop_context(struct ck_mirrors *mirrors, uint64_t ctx);

/* The outermost graph around @id; @id itself if it is in no other. */
uint64_t ck_graph_root(struct ck_request *q, uint64_t id);

#endif
