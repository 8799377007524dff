/*
 * client/graphs/graph_node.h - nodes and their parameters, in one encoding: CUgraphNodeParams with
 * ids for handles, followed by the data that its pointers refer to.
 */
#ifndef CK_CLIENT_GRAPHS_GRAPH_NODE_H
#define CK_CLIENT_GRAPHS_GRAPH_NODE_H

#include "client/graphs/graph.h"

/* Encoded parameters; see graph_pack.c. */
struct ckc_packed {
	unsigned char *bytes;
	size_t size;
	uint64_t mirrors[2]; /* mirrors made for it; 0: none */
};

CUresult ckc_node_pack(const CUgraphNodeParams *params, struct ckc_packed *packed);
/* @failed: also undo the mirrors. */
void ckc_packed_free(struct ckc_packed *packed, bool failed);
/* Decode parameters; *@kept is the memory that the result points to, for the caller to free. */
CUresult ckc_node_unpack(const unsigned char *bytes, size_t size, CUgraphNodeParams *params,
			 void **kept);

#endif
