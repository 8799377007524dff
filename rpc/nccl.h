/*
 * rpc/nccl.h - NCCL's calls on the wire: batches of operations, and questions about a communicator.
 *
 * A batch has the calls that the program has grouped, or one call. It is a struct ck_nccl_batch and
 * its operations, each a struct ck_nccl_op with its further data. All are in the layout of x86-64,
 * at multiples of 8 bytes. Communicators have numbers that the client chooses, from 1; so have the
 * operators that a communicator makes (from ncclNumOps).
 */
#ifndef CK_RPC_NCCL_H
#define CK_RPC_NCCL_H

#include <stdint.h>

#define CK_NCCL_COMMS 1024	  /* numbers of communicators in a session are below this */
#define CK_NCCL_REDOPS 4096	  /* numbers of a communicator's operators are below this */
#define CK_NCCL_BUFFERS 1024	  /* registered buffers and windows of a communicator */
#define CK_NCCL_BATCH_MAX 1000000 /* bytes; a field of a message holds them */
#define CK_NCCL_CONFIG_MAX 512	  /* bytes of a configuration */
#define CK_NCCL_NAME_MAX 256	  /* bytes of a name in it, with its NUL */
#define CK_NCCL_WAIT_MS 1000	  /* one message waits no longer for a batch */

/* Operations that have no row of the kind `op` in rpc/nccl.api (build/gen/nccl_wire.h has
 * those). */
enum ck_nccl_what {
	CK_NCCL_INIT = 100,    /* count: ranks; root: rank; ck_nccl_init, ids, configuration */
	CK_NCCL_INIT_SCALABLE, /* the same */
	CK_NCCL_SPLIT,	       /* root: colour; count: key (as int); ck_nccl_init, configuration */
	CK_NCCL_SHRINK,	       /* root: flags; ck_nccl_init, excluded ranks, configuration */
	CK_NCCL_FINALIZE,
	CK_NCCL_DESTROY,
	CK_NCCL_ABORT,
	CK_NCCL_REVOKE,	    /* root: flags */
	CK_NCCL_REGISTER,   /* send, count: buffer; a value comes back */
	CK_NCCL_DEREGISTER, /* send: that value */
	CK_NCCL_WINDOW,	    /* send, count: buffer; root: flags; a value comes back */
	CK_NCCL_WINDOW_END, /* send: that value */
	/* op: its number; type; root: residence; send: address, or the scalar in it */
	CK_NCCL_PREMUL,
	CK_NCCL_REDOP_END, /* op */
};

/* A simulated group has one more value: the estimated time, a float in its lower bytes. */
enum ck_nccl_grouped { CK_NCCL_ALONE, CK_NCCL_GROUPED, CK_NCCL_SIMULATED };

struct ck_nccl_batch {
	uint32_t count;	  /* operations */
	uint32_t grouped; /* enum ck_nccl_grouped */
};

struct ck_nccl_op {
	uint32_t size; /* of all of it: a multiple of 8 */
	uint32_t what;
	uint32_t comm;
	uint32_t newcomm; /* number of the communicator that it makes; 0: none */
	uint64_t context; /* id of the communicator's context */
	uint64_t stream;  /* id */
	uint64_t send, recv, count;
	int32_t type, op, root;
	uint32_t unused;
};

/* Behind an operation that makes a communicator: items of @item bytes, then the configuration (0:
 * none) and the two names in it, each with its NUL (0: NULL). */
struct ck_nccl_init {
	uint32_t items;
	uint32_t config;
	uint32_t net_name;
	uint32_t comm_name;
};

/* Questions of ck_nccl_ask. */
enum ck_nccl_question {
	CK_NCCL_ASK_ERROR,	/* result: the asynchronous error */
	CK_NCCL_ASK_COUNT,	/* value: ranks */
	CK_NCCL_ASK_RANK,	/* value: this rank */
	CK_NCCL_ASK_LAST_ERROR, /* text; comm 0: of the library */
};

#endif
