/*
 * emu/graphs/graph_run.h - steps: their parts, and how they run; see graph_step.c.
 */
#ifndef CK_EMU_GRAPHS_GRAPH_RUN_H
#define CK_EMU_GRAPHS_GRAPH_RUN_H

#include "emu/graphs/graph.h"

/* A launch that runs, on the thread of its stream. */
struct ck_emu_running {
	struct ck_emu_context *context; /* the stream's */
	const struct ck_emu_stream *stream;
	uint32_t graph; /* the instance's number */
	uint32_t correlation;
};

/* Carry out the step of node @node. */
CUresult ck_emu_step_run(struct ck_emu_step *step, uint64_t node,
			 const struct ck_emu_running *running);

/* --- conditions (graph_condition.c) --- */

/* Find the condition that a conditional node's step names. */
CUresult ck_emu_condition_take(struct ck_emu_step *step);
void ck_emu_condition_put(struct ck_emu_condition *condition);
/* At the start of a launch: the value that its handle was made with, if there is one. */
void ck_emu_condition_start(struct ck_emu_condition *condition);
unsigned int ck_emu_condition_value(const struct ck_emu_condition *condition);
/* The effect of a kernel's cudaGraphSetConditional(); a bad handle is ignored. */
void ck_emu_condition_set(CUgraphConditionalHandle id, unsigned int value);
/* The rest with the lock of the graphs held. One node only has it: false when another does. */
bool ck_emu_condition_use(struct ck_emu_condition *condition, bool use);
/* True when there is none in a graph's list that no node has. */
bool ck_emu_conditions_used(const struct ck_emu_condition *list);
/* All conditions of a graph, when it ends. */
void ck_emu_conditions_drop(struct ck_emu_condition **list);

/* --- memory of graphs (graph_memory.c) --- */

/* Addresses for the step of an allocation node, which it sets. The memory is taken by launches. */
CUresult ck_emu_graph_memory_create(struct ck_emu_step *step, struct ck_emu_context *context);
/* The memory at an address that a node gave, with a reference, or NULL. */
struct ck_emu_graph_memory *ck_emu_graph_memory_get(CUdeviceptr address);
void ck_emu_graph_memory_put(struct ck_emu_graph_memory *memory);
/* It is freed: false when it is so already. */
bool ck_emu_graph_memory_release(struct ck_emu_graph_memory *memory);
/* The memory of an earlier launch is freed, as the instance asks for before the next one. */
void ck_emu_graph_memory_relaunch(const struct ck_emu_exec *exec);
/* Have the memory that a launch needs reserved. OUT_OF_MEMORY: a device has too little left. */
CUresult ck_emu_graph_memory_reserve(const struct ck_emu_exec *exec, struct ck_emu_stream *stream);
/* An instance's nodes allocate and free it in a launch that has been queued. */
void ck_emu_graph_memory_launched(const struct ck_emu_exec *exec);
/* A context has ended, with the memory that launches have left allocated in it. */
void ck_emu_graph_memory_end(const struct ck_emu_context *context);
bool ck_emu_graph_memory_allocated(struct ck_emu_graph_memory *memory);
/*
 * An instance takes the memory of all allocation nodes, or gives it back: false when another one
 * has some of it. With the lock of the graphs held.
 */
bool ck_emu_graph_memory_claim(const struct ck_emu_graph *graph, bool claim);
/*
 * The effect of cuMemFree(), once the work that may use the memory is done: NOT_FOUND when no node
 * gave this address.
 */
CUresult ck_emu_graph_memory_free(CUdeviceptr address);

#endif
