/*
 * server/graphs/graph.h - graphs by id: functions shared by handlers of several files.
 *
 * In the handle table, a node is a child of its graph, and the graphs inside a node are its
 * children. When the driver destroys a graph, all of them leave the table.
 */
#ifndef CK_SERVER_GRAPHS_GRAPH_H
#define CK_SERVER_GRAPHS_GRAPH_H

#include "server/session/session.h"

/* Handles of @count nodes, for the caller to free; NULL if there are none. INVALID_HANDLE. */
CUresult cks_nodes_find(struct cks_request *q, const uint64_t *ids, size_t count,
			CUgraphNode **nodes);
/* Ids of @count nodes of @graph, in an array for a reply; 0 for NULL nodes. */
CUresult cks_nodes_name(struct cks_request *q, uint64_t graph, const CUgraphNode *nodes,
			size_t count, uint64_t **ids);

/* Check the encoded data of @count edges: *@edges is NULL if there is none. INVALID_VALUE. */
CUresult cks_edges_check(const void *bytes, size_t size, size_t count,
			 const CUgraphEdgeData **edges);

/* Destroy the executable graph @id; @gone, @count: as cks_mirrors_owner_gone() returns them. */
CUresult cks_exec_end(struct cks_request *q, uint64_t id, uint64_t **gone, u_int *count);

/* All nodes of @graph, for the caller to free. */
CUresult cks_graph_nodes(CUgraph graph, CUgraphNode **nodes, size_t *count);

#endif
