/*
 * emu/core/locks.h - every lock of the emulated GPU, outermost first: its rank (util/lock.h), and
 * the data that it guards. tools/check-state compares this list with the locks that emu/ makes.
 */
#ifndef CK_EMU_CORE_LOCKS_H
#define CK_EMU_CORE_LOCKS_H

#include "util/lock.h"

/* Rank 1 is that of a lock of libcuda/locks.h. */
enum ck_rank {
	CK_RANK_STATE = 2,		   /* whether the driver has been initialised */
	CK_RANK_TURNSTILE,		   /* waiting for others to leave calls, and to be let in */
	CK_RANK_PRIMARY,		   /* a primary context: retain, release, reset */
	CK_RANK_LOAD,			   /* loads of one library: one into a context at a time */
	CK_RANK_REFERENCES,		   /* lists of texture references, and their bindings */
	CK_RANK_GRAPHS,			   /* all graphs and nodes */
	CK_RANK_USER_OBJECTS,		   /* user objects whose destructors are to run */
	CK_RANK_GRAPH_MEMORY,		   /* allocations that graphs make */
	CK_RANK_GRAPH_POOLS,		   /* memory that graphs of a device reserve */
	CK_RANK_RESERVED,		   /* reserved addresses and their mappings */
	CK_RANK_PHYSICAL,		   /* counts of handles of physical memory */
	CK_RANK_IPC,			   /* memory of other processes that is open */
	CK_RANK_POOLS,			   /* memory pools */
	CK_RANK_ENGINE,			   /* streams, their work and their workers */
	CK_RANK_OBJECTS = CK_RANK_LEAF,	   /* the table of live objects, counts of references */
	CK_RANK_CONDITIONS = CK_RANK_LEAF, /* conditions of graphs */
	CK_RANK_EVENTS = CK_RANK_LEAF,	   /* times and states of events */
	CK_RANK_MEMOPS = CK_RANK_LEAF,	   /* words that streams write and wait for */
	CK_RANK_PRINT = CK_RANK_LEAF,	   /* output of the kernels of a context */
	CK_RANK_HAZARDS = CK_RANK_LEAF,	   /* reports of hazards */
	CK_RANK_NVML = CK_RANK_LEAF,	   /* NVML's answers about the time of processes */
	CK_RANK_ACTIVITY = CK_RANK_LEAF,   /* the profiler's buffer, names in it */
};

#endif
