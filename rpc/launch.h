/*
 * rpc/launch.h - launches as they travel.
 */
#ifndef CK_RPC_LAUNCH_H
#define CK_RPC_LAUNCH_H

#include <stdint.h>

#define CK_LAUNCH_ATTRIBUTES 64 /* the most that a launch may have */

/* One launch of ck_launch_multi; its parameters follow. */
struct ck_multi_launch {
	uint64_t function, stream;		    /* their ids */
	uint32_t grid[3], block[3], shared, params; /* params: their size in bytes */
};

#endif
