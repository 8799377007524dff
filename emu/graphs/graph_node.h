/*
 * emu/graphs/graph_node.h - nodes by their parameters, for the calls that name a kind; see
 * graph_node.c.
 */
#ifndef CK_EMU_GRAPHS_GRAPH_NODE_H
#define CK_EMU_GRAPHS_GRAPH_NODE_H

#include "emu/graphs/graph.h"

/* The parameters of a node that has to be of this type. */
CUresult ck_emu_node_params(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams *params);
/* The same of a kernel node: a library's function is set as kernel too, which the runtime knows it
 * by. */
CUresult ck_emu_node_kernel(CUgraphNode handle, CUgraphNodeParams *params);
/* Change the parameters of a node in an instance (graph_update.c). */
CUresult ck_emu_exec_change(CUgraphExec exec, CUgraphNode handle, const CUgraphNodeParams *params);

/* A step like @old with other parameters. */
CUresult ck_emu_step_change(const struct ck_emu_step *old, const CUgraphNodeParams *params,
			    struct ck_emu_step **step);

#endif
