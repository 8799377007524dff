/*
 * rpc/multi_launch.h - encoding of one launch of ck_launch_multi; its parameters follow.
 */
#ifndef CK_RPC_MULTI_LAUNCH_H
#define CK_RPC_MULTI_LAUNCH_H

#include <stdint.h>

struct ck_multi_launch {
	uint64_t function, stream;		    /* their ids */
	uint32_t grid[3], block[3], shared, params; /* params: their size in bytes */
};

#endif
