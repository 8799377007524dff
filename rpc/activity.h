/*
 * rpc/activity.h - records of a profiler, as ck_profile_fetch carries them: one after the other,
 * each a multiple of 8 bytes.
 *
 * The layout is Cricket's own, so the CUPTI of the server's machine may be of another version than
 * the one that the program was built for.
 */
#ifndef CK_RPC_ACTIVITY_H
#define CK_RPC_ACTIVITY_H

#include <stdint.h>

#define CK_ACTIVITY_NAME 0	       /* the text of a name's number; other kinds are CUPTI's */
#define CK_ACTIVITY_NAME_MAX 16384     /* bytes; longer names are cut */
#define CK_ACTIVITY_PIECE (256u << 10) /* bytes of records in a reply */

/* The ids that the worker pushes around a message: the number of a command, or a lane's xid and
 * this bit. */
#define CK_ACTIVITY_CALL (1ull << 63)

struct ck_activity {
	uint32_t kind;
	uint32_t size;	      /* with a name's text */
	uint64_t start, end;  /* by the clock of the worker's CUPTI */
	uint32_t correlation; /* its number on the server */
	uint32_t device, context, stream;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t name; /* number of the kernel's name */
	union {
		struct {
			int32_t grid[3], block[3];
			int32_t static_shared, dynamic_shared;
			uint32_t local_per_thread, local_total, registers;
			uint32_t cluster[3];
			uint32_t channel, launch_type;
		} kernel;
		struct {
			uint64_t bytes, copies;
			uint32_t copy_kind, src_kind, dst_kind, flags;
			uint32_t src_device, src_context; /* from one device to another: */
			uint32_t dst_device, dst_context;
		} copy;
		struct {
			uint64_t bytes;
			uint32_t value, memory_kind;
		} fill;
		struct {
			uint32_t kind,
				/* CUPTI's; ids of devices, contexts and streams are above */
				object;
		} overhead;
		uint64_t external; /* see CK_ACTIVITY_CALL */
		uint32_t length;   /* of a name's text, which follows */
	};
};

#endif
