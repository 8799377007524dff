/*
 * client/graphs/graph_node.h - nodes and their parameters, in the one form that travels: CUgraphNodeParams
 * with ids for handles, and behind it what its pointers point to.
 */
#ifndef CK_CLIENT_GRAPHS_GRAPH_NODE_H
#define CK_CLIENT_GRAPHS_GRAPH_NODE_H

#include "client/graphs/graph.h"

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
