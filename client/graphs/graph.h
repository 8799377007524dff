/*
 * client/graphs/graph.h - graphs, their nodes and what can be launched of them.
 *
 * A graph lives in the server's driver. Here is an object a handle, and which graph a node is of:
 * when a graph goes, all that is known inside it goes too. One thread at a time uses a graph, as
 * CUDA asks; different graphs may be used by different threads.
 */
#ifndef CK_CLIENT_GRAPHS_GRAPH_H
#define CK_CLIENT_GRAPHS_GRAPH_H

#include "client/wire/client.h"

/* Objects behind handles: INVALID_VALUE for what is none, as the driver says of graphs. */
CUresult ck_graph_from(CUgraph handle, struct ck_graph **graph);
CUresult ck_node_from(CUgraphNode handle, struct ck_node **node);
CUresult ck_exec_from(CUgraphExec handle, struct ck_exec **exec);

/* Ids of @count nodes, to be freed by the caller; NULL for none. */
CUresult ck_node_ids(const CUgraphNode *nodes, size_t count, uint64_t **ids);

/* The node of @graph that the server calls @id; NULL: out of memory. */
struct ck_node *ck_graph_node(struct ck_graph *graph, uint64_t id);
/* The graph inside @node that the server calls @id. */
struct ck_graph *ck_node_graph(struct ck_node *node, uint64_t id);
/* Handles of @count nodes of @graph in *@nodes, which is grown by realloc. */
CUresult ck_graph_tell(struct ck_graph *graph, const uint64_t *ids, size_t count,
		       CUgraphNode **nodes);

/* The graphs inside @node have gone: its parameters were replaced. */
void ck_node_empty(struct ck_node *node);

/* Is there more to an edge than its order? */
bool ck_edges_hold_data(const CUgraphEdgeData *edges, size_t count);

/* Id of the current context, 0 without one. */
uint64_t ck_current_id(void);

#endif
