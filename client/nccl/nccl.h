/*
 * client/nccl/nccl.h - functions that the files of this folder share.
 *
 * They return NCCL's results. An error that the client itself finds has a text for
 * ncclGetLastError.
 */
#ifndef CK_CLIENT_NCCL_NCCL_H
#define CK_CLIENT_NCCL_NCCL_H

#include "client/nccl/state.h"
#include "client/link/session_list.h"
#include "gen/nccl_client.h"

/* --- table.c */
extern const struct ck_nccl_table ckc_nccl_table;
ncclResult_t ckc_nccl_refused(const char *name);

/* --- error.c */
/* Note the text of an error; returns @result. */
ncclResult_t ckc_nccl_fail(ncclResult_t result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, with the text of @size bytes that a server has sent. */
ncclResult_t ckc_nccl_fail_with(ncclResult_t result, const char *text, size_t size);
/* NCCL's result for an error of a message. */
ncclResult_t ckc_nccl_from_driver(CUresult err);

/* --- library.c */
/* Can @c be asked, and does its server have NCCL? It is asked once. */
ncclResult_t ckc_nccl_ready(struct ckc_client *c);

/* --- comm.c */
/* The communicator of a handle, whose session lives; the thread's route is its session. */
ncclResult_t ckc_nccl_comm_from(ncclComm_t handle, struct ckc_nccl_comm **comm);
/* The same, with no outcome pending, except of an operation that has not ended. */
ncclResult_t ckc_nccl_comm_idle(ncclComm_t handle, struct ckc_nccl_comm **comm);
/* Make one in @context. NULL: there are too many. */
struct ckc_nccl_comm *ckc_nccl_comm_new(struct ckc_context *context, uint64_t clique);
void ckc_nccl_comm_free(struct ckc_nccl_comm *comm);
static inline ncclComm_t ckc_nccl_handle(struct ckc_nccl_comm *comm)
{
	return (ncclComm_t)(void *)comm;
}
/* Its number of ranks; the server is asked if need be. */
ncclResult_t ckc_nccl_comm_ranks(struct ckc_nccl_comm *comm, int *ranks);

/* --- batch.c */

/* The work after the outcome of a batch, for one of its operations. */
struct ckc_nccl_after {
	struct ckc_nccl_comm *comm;    /* that the operation is about */
	struct ckc_nccl_comm *newcomm; /* NULL unless it makes one */
	ncclComm_t *handle;	       /* where the program has that; set to NULL if it fails */
	bool ends;		       /* it ends comm */
	void **value;		       /* where a value of the outcome goes */
	int registers;		       /* 1: it registers a buffer of comm, -1: the opposite */
};

#define CKC_NCCL_WAITS 1u  /* it may wait for other ranks */
#define CKC_NCCL_URGENT 2u /* it goes ahead of commands */
#define CKC_NCCL_MAKES 4u  /* it waits for ranks that may never come */

struct ckc_nccl_batch {
	struct ckc_client *client;
	uint64_t context; /* id of one of its session */
	unsigned char *bytes;
	size_t size, room;
	unsigned int count, flags;
	bool nonblocking;
	struct ckc_nccl_after *afters; /* one an operation */
	size_t after_room;
};

/* Append an operation with @extra bytes behind it. False: out of memory, or the batch is full. */
bool ckc_nccl_batch_add(struct ckc_nccl_batch *b, const struct ck_nccl_op *op, const void *extra,
			size_t size, const struct ckc_nccl_after *after, unsigned int flags);
/* Make it empty. */
void ckc_nccl_batch_free(struct ckc_nccl_batch *b);
/* The outcome is here. @values: of the operations that have one. */
void ckc_nccl_batch_done(struct ckc_nccl_batch *b, ncclResult_t result, const uint64_t *values,
			 size_t count);
/* Its communicators whose making has failed, or that have not been made, go. */
void ckc_nccl_batch_undo(struct ckc_nccl_batch *b);

/* --- group.c */

/* The operation of the calling thread, alone or for its group. @op's comm and newcomm are those of
 * @after. */
ncclResult_t ckc_nccl_do(struct ck_nccl_op *op, const void *extra, size_t size,
			 const struct ckc_nccl_after *after, unsigned int flags);
/* An error in a group is that of the group too. Returns @result. */
ncclResult_t ckc_nccl_group_fail(ncclResult_t result);
bool ckc_nccl_grouping(void);

/* --- flush.c */

/* Send the batches and wait for their outcomes. @grouped: enum ck_nccl_grouped. They are empty on
 * return. */
ncclResult_t ckc_nccl_flush(struct ckc_nccl_batch *batches, unsigned int count,
			    unsigned int grouped, float *estimated);
/* Wait at most @ms for the outcome of @ticket. *@done: it is here, and so are the results. */
ncclResult_t ckc_nccl_fetch(struct ckc_nccl_batch *b, uint64_t ticket, unsigned int ms, bool *done,
			    float *estimated);

/* --- async_errors.c */

/* The program asks for the outcome of @b later. Takes the content of @b. */
ncclResult_t ckc_nccl_pending_put(struct ckc_nccl_batch *b, uint64_t ticket);
/* The outcome of pending work for @comm: ncclInProgress, or the result. Waits at most @ms. */
ncclResult_t ckc_nccl_pending_ask(struct ckc_nccl_comm *comm, unsigned int ms);
/* Wait a while for it. False: it is still in progress. */
bool ckc_nccl_pending_wait(struct ckc_nccl_comm *comm);
/* The program asks for @comm's no more. */
void ckc_nccl_pending_drop(struct ckc_nccl_comm *comm);

/* --- config.c */

/* The data behind an operation that makes a communicator: @count items of @item bytes, and @config,
 * which may be NULL. The caller frees *@extra. */
ncclResult_t ckc_nccl_config_pack(const void *items, size_t item, int count,
				  const ncclConfig_t *config, void **extra, size_t *size);

/* --- enqueue.c */
#define CKC_NCCL_HAS_OP 1u
#define CKC_NCCL_HAS_ROOT 2u
ncclResult_t ckc_nccl_enqueue(struct ck_nccl_op *op, unsigned int flags, ncclComm_t comm,
			      CUstream stream);

#endif
