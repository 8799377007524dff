/*
 * client/nccl/state.h - the session state of client/nccl: its communicators.
 */
#ifndef CK_CLIENT_NCCL_STATE_H
#define CK_CLIENT_NCCL_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "cuda/nccl.h"
#include "gen/nccl_wire.h"
#include "rpc/nccl.h"

struct ckc_nccl_pending;

/* A handle is the address of one of these in its session's table, so that any value can be
 * checked. */
struct ckc_nccl_comm {
	struct ckc_client *client; /* NULL: there is none */
	struct ckc_context *context;
	unsigned int number;
	int device;	 /* of the application */
	int ranks, rank; /* -1: ask the server */
	uint64_t clique; /* the same in all ranks of it */
	bool crowded;	 /* other ranks of its clique are in this session */
	bool nonblocking;
	_Atomic unsigned int registered; /* buffers and windows */
	struct ckc_nccl_pending
		*pending;    /* with the lock: an outcome that is not here yet; NULL: none */
	ncclResult_t failed; /* the outcome of an earlier one */
	/* operations that have been carried out: a bit for each size, and for each peer */
	uint64_t seen[CK_NCCL_OP_END];
	uint64_t *peers[2];
	uint64_t redops[CK_NCCL_REDOPS / 64]; /* numbers in use, from ncclNumOps */
};

#define CKC_NCCL_TEXT 512

struct ckc_nccl {
	struct ck_mutex lock;
	struct ckc_nccl_comm comms[CK_NCCL_COMMS];
	unsigned int used; /* no communicator has had a number from here on */
	_Atomic uint64_t tickets;
	struct ck_mutex open_lock; /* with the members below, while the server is asked */
	bool asked;
	ncclResult_t opened;
	int version;
	/* of the process's first session: the last error that the client has found, or the server
	 * has told */
	char text[CKC_NCCL_TEXT];
	char told[CKC_NCCL_TEXT]; /* the latest result of ncclGetLastError */
};

#endif
