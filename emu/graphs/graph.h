/*
 * emu/graphs/graph.h - graphs, their instances and stream capture; see graph.c.
 *
 * A graph has nodes, and a node has a step, which is its operation. Steps do not change; to change
 * a node is to give it another step. So a clone or an instance shares the steps of its graph, and
 * queued work keeps those that it started with.
 *
 * One lock for all graphs, instances and captures: ck_emu_graph_lock(). The locks of emu.h are
 * taken inside it. No step is made, and no function of the application called, while it is held.
 */
#ifndef CK_EMU_GRAPHS_GRAPH_H
#define CK_EMU_GRAPHS_GRAPH_H

#include "emu/core/hooks.h"

/* --- steps (graph_step.c) --- */

struct ck_emu_step {
	atomic_uint refs;
	CUgraphNodeParams params; /* as the application gets them; they point into @storage */
	void *storage;
	CUlaunchAttribute *attributes; /* of a kernel; each id once */
	unsigned int attribute_count;
	struct ck_emu_command *command;	    /* run once or more; NULL: nothing to run */
	struct ck_emu_context *context;	    /* the command's, with a reference */
	struct ck_emu_object *event;	    /* of the event nodes, with a reference */
	struct ck_emu_condition *condition; /* of a conditional node, with a reference */
	struct ck_emu_graph_memory *memory; /* of the allocation nodes, with a reference */
	bool astray;			    /* to run it is an illegal access */
};

/* The input of a step; @context is for steps that name none. */
struct ck_emu_step_source {
	const CUgraphNodeParams *params;
	const CUlaunchAttribute *attributes;
	unsigned int attribute_count;
	struct ck_emu_context *context;
	bool captured; /* then the driver does not look whether there is memory to fill */
};

CUresult ck_emu_step_create(const struct ck_emu_step_source *source, struct ck_emu_step **step);
void ck_emu_step_ref(struct ck_emu_step *step);
void ck_emu_step_put(struct ck_emu_step *step); /* NULL: nothing */

/* --- graphs (graph.c, graph_edge.c, graph_handle.c) --- */

struct ck_emu_edge {
	struct ck_emu_node *node;
	CUgraphEdgeData data;
};

struct ck_emu_edges {
	struct ck_emu_edge *list;
	size_t count, room;
};

struct ck_emu_node {
	struct ck_emu_object base;
	struct ck_emu_graph *graph; /* NULL once destroyed */
	uint64_t id, origin;	    /* its number; that of the node it is a copy of */
	struct ck_emu_step *step;
	struct ck_emu_graph *child;   /* of a child graph node */
	struct ck_emu_graph **bodies; /* of a conditional node */
	struct ck_emu_edges in, out;
	size_t waits;  /* while nodes are put in order: predecessors that are not in it yet */
	bool disabled; /* in an instance */
};

struct ck_emu_graph {
	struct ck_emu_object base;
	uint64_t id, origin;
	struct ck_emu_node **nodes; /* in order of creation; each holds a reference */
	size_t count, room;
	struct ck_emu_node *parent;	     /* whose child or body this is */
	unsigned int captures;		     /* that add nodes to it */
	struct ck_emu_keep *keeps;	     /* user objects */
	struct ck_emu_condition *conditions; /* whose handles belong to it */
};

void ck_emu_graph_lock(void);
void ck_emu_graph_unlock(void);
bool ck_emu_graph_locked(void); /* by this thread */
/*
 * A call on a graph or a node: takes the lock, if it succeeds. The handle keeps the object that it
 * found while the lock is held.
 */
CUresult ck_emu_graph_begin(CUgraph handle, struct ck_emu_graph **graph);
CUresult ck_emu_node_begin(CUgraphNode handle, struct ck_emu_node **node);
/* The object of a handle, while the lock is held; NULL: none. */
struct ck_emu_graph *ck_emu_graph_find(CUgraph handle);
struct ck_emu_node *ck_emu_node_find(CUgraphNode handle);

/* The rest of this part with the lock held. An empty graph; @handle: it gets one. */
struct ck_emu_graph *ck_emu_graph_create(bool handle);
/* End a graph, its nodes and all below it. */
void ck_emu_graph_end(struct ck_emu_graph *graph);
/* A copy with all below it; each node's origin is the original. NULL: out of memory. */
struct ck_emu_graph *ck_emu_graph_copy(const struct ck_emu_graph *graph, bool handles);
/* True when it allocates or frees memory: then it is not copied, and not put in another one. */
bool ck_emu_graph_has_memory(const struct ck_emu_graph *graph);
/* Add a node, which takes over @step. NULL: out of memory, and the step is the caller's. */
struct ck_emu_node *ck_emu_node_create(struct ck_emu_graph *graph, struct ck_emu_step *step,
				       bool handle);
void ck_emu_node_end(struct ck_emu_node *node);
/* The node of @graph, or of the graphs below it, that was made from node @origin. */
struct ck_emu_node *ck_emu_graph_copy_of(const struct ck_emu_graph *graph, uint64_t origin,
					 bool deep);
/* Nodes of @graph in an order that edges allow, into @order (count of them); false: a cycle. */
bool ck_emu_graph_order(const struct ck_emu_graph *graph, struct ck_emu_node **order);

/* 0, -EEXIST or -ENOMEM. */
int ck_emu_edge_add(struct ck_emu_node *from, struct ck_emu_node *to, const CUgraphEdgeData *data);
void ck_emu_edges_drop(struct ck_emu_node *node); /* all of a node */
/* Check dependencies of a node to be: of @graph, no two the same. */
CUresult ck_emu_edges_check(const struct ck_emu_graph *graph, const CUgraphNode *nodes,
			    const CUgraphEdgeData *data, size_t count);

/* --- instances (graph_exec.c, graph_launch.c) --- */

struct ck_emu_exec {
	struct ck_emu_object base;
	uint64_t flags;
	bool claimed;		    /* the memory of its allocation nodes */
	struct ck_emu_graph *graph; /* a copy, without handles */
	struct ck_emu_node **order; /* its nodes, with those of child graphs in their place */
	size_t count;
	struct ck_emu_point last; /* the end of the newest launch */
	uint64_t began;		  /* the launch that runs, for a profiler; 0: not known */
};

CUresult ck_emu_exec_begin(CUgraphExec handle, struct ck_emu_exec **exec);
/* The instance's copy of a node that the application names. */
CUresult ck_emu_exec_node(struct ck_emu_exec *exec, CUgraphNode handle, struct ck_emu_node **node);

/* --- capture (capture.c, capture_node.c, capture_event.c): the functions of struct ck_emu_hooks */

CUresult ck_emu_capture_check(struct ck_emu_stream *stream);
CUresult ck_emu_capture_unsafe(void);
CUresult ck_emu_capture_context(struct ck_emu_context *context);
CUresult ck_emu_capture_node(struct ck_emu_stream *stream, const CUgraphNodeParams *params,
			     const CUlaunchAttribute *attributes, unsigned int attribute_count);
bool ck_emu_capture_copy(CUstream handle, const CUDA_MEMCPY3D *copy, CUresult *result);
CUresult ck_emu_capture_nothing(struct ck_emu_stream *stream);
void ck_emu_capture_lose(struct ck_emu_stream *stream);
bool ck_emu_capture_alloc(struct ck_emu_stream *stream, size_t size, CUdeviceptr *address,
			  CUresult *result);
bool ck_emu_capture_free(struct ck_emu_stream *stream, CUdeviceptr address, CUresult *result);
void ck_emu_capture_leave(struct ck_emu_stream *stream);
void ck_emu_capture_leave_all(const struct ck_emu_context *context);
CUresult ck_emu_capture_mark(struct ck_emu_stream *stream, struct ck_emu_capture_place *place);
void ck_emu_capture_unmark(struct ck_emu_capture_place *place);
void ck_emu_capture_place_fini(struct ck_emu_capture_place *place);
CUresult ck_emu_capture_join(struct ck_emu_stream *stream, struct ck_emu_capture_place *place);
CUresult ck_emu_capture_asked(struct ck_emu_capture_place *place);
CUresult ck_emu_capture_timed(struct ck_emu_capture_place *place);

#endif
