/*
 * client/graphs/graph.h - graphs, their nodes and executable graphs.
 *
 * A graph lives in the server's driver. The client has an object per handle, and knows which graph
 * a node belongs to: when a graph is destroyed, the objects inside it are freed too. One thread at
 * a time uses a graph, as CUDA requires; different threads may use different graphs.
 */
#ifndef CK_CLIENT_GRAPHS_GRAPH_H
#define CK_CLIENT_GRAPHS_GRAPH_H

#include "client/link/client.h"

/* Objects of handles. INVALID_VALUE if not valid, as the driver returns for graphs. */
CUresult ckc_graph_from(CUgraph handle, struct ckc_graph **graph);
CUresult ckc_node_from(CUgraphNode handle, struct ckc_node **node);
CUresult ckc_exec_from(CUgraphExec handle, struct ckc_exec **exec);

/* Ids of @count nodes, for the caller to free; NULL if there are none. */
CUresult ckc_node_ids(const CUgraphNode *nodes, size_t count, uint64_t **ids);

/* The node of @graph with the server's @id; NULL: out of memory. */
struct ckc_node *ckc_graph_node(struct ckc_graph *graph, uint64_t id);
/* The graph inside @node with the server's @id. */
struct ckc_graph *ckc_node_graph(struct ckc_node *node, uint64_t id);
/* Store handles of @count nodes of @graph in *@nodes, which is grown by realloc. */
CUresult ckc_graph_handles(struct ckc_graph *graph, const uint64_t *ids, size_t count,
			   CUgraphNode **nodes);

/* The server has no graph @id any more: forget it, and what the program knows of it. */
void ckc_graph_gone(uint64_t id);

/* A graph has @nodes nodes until it changes. */
void ckc_graph_counted(struct ckc_graph *graph, size_t nodes);
void ckc_graph_change(struct ckc_graph *graph);
/* Whether the number of its nodes is known. */
bool ckc_graph_count(struct ckc_graph *graph, size_t *nodes);

/* Forget the graphs inside @node: its parameters were replaced. */
void ckc_node_empty(struct ckc_node *node);

/* Does any edge have data beyond plain order? */
bool ckc_edges_hold_data(const CUgraphEdgeData *edges, size_t count);

/* Id of the current context; 0 without one. */
uint64_t ckc_current_id(void);

#endif
