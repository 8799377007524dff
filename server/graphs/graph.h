/*
 * server/graphs/graph.h - graphs by id: what handlers of several files need.
 *
 * A node is a child of its graph in the table of handles, and the graphs inside a node are
 * children of it: what the driver ends with a graph leaves the table with it.
 */
#ifndef CK_SERVER_GRAPHS_GRAPH_H
#define CK_SERVER_GRAPHS_GRAPH_H

#include "server/session/session.h"

/* Handles of @count nodes, to be freed by the caller; NULL for none. INVALID_HANDLE. */
CUresult ck_nodes_find(struct ck_request *q, const uint64_t *ids, size_t count,
		       CUgraphNode **nodes);
/* Ids of @count nodes of the graph @graph, in an array for a reply; 0 for NULL nodes. */
CUresult ck_nodes_name(struct ck_request *q, uint64_t graph, const CUgraphNode *nodes,
		       size_t count, uint64_t **ids);

/* Edge data of @count edges off the wire: *@edges is NULL when there is none. INVALID_VALUE. */
CUresult ck_edges_check(const void *bytes, size_t size, size_t count,
			const CUgraphEdgeData **edges);

/* All nodes of @graph, to be freed by the caller. */
CUresult ck_graph_nodes(CUgraph graph, CUgraphNode **nodes, size_t *count);


#endif
