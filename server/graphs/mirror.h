/*
 * server/graphs/mirror.h - what stands in for the client's memory in the copies of its graphs.
 *
 * A copy between host and device in a graph runs at every launch, and the driver reads or writes
 * the host's side then. That side is a mirror here: pinned memory of the copy's size, which the
 * client fills before a launch or fetches after it. Graphs and execs own mirrors; a mirror goes
 * with the last of its owners.
 */
#ifndef CK_SERVER_GRAPHS_MIRROR_H
#define CK_SERVER_GRAPHS_MIRROR_H

#include "server/session/session.h"

struct ck_mirrors;

int ck_mirrors_create(struct ck_mirrors **mirrors);
void ck_mirrors_destroy(struct ck_mirrors *mirrors);

/*
 * Put handles and addresses into a copy of the client's: ids of arrays become arrays, and ids of
 * mirrors become memory, made here and owned by @owner. On an error nothing is made.
 */
CUresult ck_mirror_copy(struct ck_request *q, CUDA_MEMCPY3D *copy, uint64_t owner);
/* The other way round. */
CUresult ck_mirror_describe(struct ck_request *q, CUDA_MEMCPY3D *copy);

/* @to owns what @from owns, too. */
CUresult ck_mirrors_share(struct ck_mirrors *mirrors, uint64_t from, uint64_t to);

/* What a reply tells of an exec: the mirrors that it has, and those that nobody has any more. */
struct ck_told {
	uint64_t *ids, *gone;
	u_int count, gone_count;
};

/* @exec now runs the nodes of @graph: it owns their mirrors and no others. */
CUresult ck_mirrors_of_graph(struct ck_request *q, uint64_t exec, CUgraph graph,
			     struct ck_told *told);
/*
 * ck_mirror_copy has made mirrors for @exec: they are for the copy of @node from now on, in place
 * of those that it had; or the change has failed (not @done), and they go.
 */
CUresult ck_mirrors_edit(struct ck_request *q, uint64_t exec, CUgraphNode node, bool done,
			 struct ck_told *told);

/* The child graph that @node of @exec runs has become @child; NULL: nothing has changed. */
CUresult ck_mirrors_edit_child(struct ck_request *q, uint64_t exec, CUgraphNode node,
			       CUgraph child, struct ck_told *told);

/* Has @exec any? */
bool ck_mirrors_has(struct ck_mirrors *mirrors, uint64_t exec);
/* @exec has been put into @stream: note when it is done, if it has mirrors. */
CUresult ck_mirrors_launched(struct ck_request *q, uint64_t exec, CUstream stream);
/* Wait until nothing uses the mirrors of @exec any more. */
CUresult ck_mirrors_wait(struct ck_mirrors *mirrors, uint64_t exec);

/* A graph or an exec has gone; ids of the mirrors that went with it, unless @ids is NULL. */
void ck_mirrors_owner_gone(struct ck_mirrors *mirrors, uint64_t owner, uint64_t **ids,
			   u_int *count);
/* Context @ctx is about to go: forget its events, and let go of the memory that is pinned in it. */
void ck_mirrors_drop_context(struct ck_mirrors *mirrors, uint64_t ctx);

/* The graph that @id lies in, at whatever depth; @id itself if it lies in none. */
uint64_t ck_graph_root(struct ck_request *q, uint64_t id);

#endif
