/*
 * client/graphs/graph_node.h - nodes and their parameters, in the one form that travels: CUgraphNodeParams
 * with ids for handles, and behind it what its pointers point to.
 */
#ifndef CK_CLIENT_GRAPHS_GRAPH_NODE_H
#define CK_CLIENT_GRAPHS_GRAPH_NODE_H

#include "client/graphs/graph.h"

/* What a node is added to, and behind what. */
struct ck_place {
	CUgraph graph;
	const CUgraphNode *dependencies;
	const CUgraphEdgeData *edges;
	size_t count;
};

/* Add a node; what CUDA gives back in the parameters is written into @params. */
CUresult ck_node_add(CUgraphNode *out, const struct ck_place *place, CUgraphNodeParams *params);
/* Change a node, or, with an exec, what it does there. */
CUresult ck_node_set(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params);
/* The parameters of a node of type @type; what they point to stays until the node is asked again
 * or goes. INVALID_VALUE: it is of another type. */
CUresult ck_node_get(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *params);

/* Parameters on their way; see graph_pack.c. */
struct ck_packed {
	unsigned char *bytes;
	size_t size;
	uint64_t mirrors[2];	/* made for it; 0: none */
};

CUresult ck_node_pack(const CUgraphNodeParams *params, struct ck_packed *packed);
/* @failed: it has come to nothing. */
void ck_packed_free(struct ck_packed *packed, bool failed);
/* The other way round; *@kept is what the result points to, to be freed by the caller. */
CUresult ck_node_unpack(const unsigned char *bytes, size_t size, CUgraphNodeParams *params,
			void **kept);

#endif
