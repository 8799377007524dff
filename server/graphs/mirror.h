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

struct cks_mirrors;

int cks_mirrors_create(struct cks_mirrors **mirrors);
void cks_mirrors_destroy(struct cks_mirrors *mirrors);

/*
 * Decode a copy of the client: replace ids of arrays by arrays, and ids of mirrors by memory, which
 * is made here and owned by @owner. On an error, nothing is made.
 */
CUresult cks_mirror_copy(struct cks_request *q, CUDA_MEMCPY3D *copy, uint64_t owner);
/* The reverse: encode a copy. */
CUresult cks_mirror_describe(struct cks_request *q, CUDA_MEMCPY3D *copy);

/* Make @to own all that @from owns. */
CUresult cks_mirrors_share(struct cks_mirrors *mirrors, uint64_t from, uint64_t to);

/* The part of a reply about an exec: its mirrors, and mirrors without owners left. */
struct cks_told {
	uint64_t *ids, *gone;
	u_int count, gone_count;
};

/* @exec now runs the nodes of @graph: it owns their mirrors and no others. */
CUresult cks_mirrors_of_graph(struct cks_request *q, uint64_t exec, CUgraph graph,
			      struct cks_told *told);
/*
 * cks_mirror_copy has made mirrors for @exec. They replace those of the copy of @node; if the
 * change failed (not @done), they end.
 */
CUresult cks_mirrors_edit(struct cks_request *q, uint64_t exec, CUgraphNode node, bool done,
			  struct cks_told *told);

/* The child graph that @node of @exec runs is now @child; NULL: no change. */
CUresult cks_mirrors_edit_child(struct cks_request *q, uint64_t exec, CUgraphNode node,
				CUgraph child, struct cks_told *told);

/* Does @exec own mirrors? */
bool cks_mirrors_has(struct cks_mirrors *mirrors, uint64_t exec);
/* @exec was launched in @stream: if it has mirrors, record an event to learn when it is done. */
CUresult cks_mirrors_launched(struct cks_request *q, uint64_t exec, CUstream stream);
/* Wait until no launch uses the mirrors of @exec. */
CUresult cks_mirrors_wait(struct cks_mirrors *mirrors, uint64_t exec);

/* A graph or an exec has ended; returns the ids of mirrors that ended with it, unless @ids is
 * NULL. */
void cks_mirrors_owner_gone(struct cks_mirrors *mirrors, uint64_t owner, uint64_t **ids,
			    u_int *count);
/* Context @ctx is about to end: forget its events, and release memory pinned in it. */
void cks_mirrors_drop_context(struct cks_mirrors *mirrors, uint64_t ctx);

/* The outermost graph around @id; @id itself if it is in no other. */
uint64_t cks_graph_root(struct cks_request *q, uint64_t id);

#endif
