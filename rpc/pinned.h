/*
 * rpc/pinned.h - kinds of ck_pinned_copy and ck_pinned_move: which side of the copy is shared
 * memory.
 */
#ifndef CK_RPC_PINNED_H
#define CK_RPC_PINNED_H

#define CK_PINNED_TO_DEVICE 0u
#define CK_PINNED_TO_HOST 1u

#endif
