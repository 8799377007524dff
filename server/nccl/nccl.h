/*
 * server/nccl/nccl.h - the communicators of a session, and batches of NCCL's operations.
 */
#ifndef CK_SERVER_NCCL_NCCL_H
#define CK_SERVER_NCCL_NCCL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/nccl_server.h"
#include "rpc/nccl.h"
#include "server/session/session.h"
#include "util/wait.h"

#define CK_NCCL_TEXT 512 /* of NCCL's last error */

/* --- library.c */

/* Open the library, once. NULL: it is there; else why not, in words. */
const char *cks_nccl_open(void);

/* --- comms.c */

/* A communicator of the client's. The lock of struct cks_nccl goes with all but the last group. */
struct cks_nccl_comm {
	unsigned int number, users;
	ncclComm_t handle; /* NULL: not made yet, or ended */
	uint64_t context;  /* id */
	bool making;	   /* NCCL waits for the other ranks */
	bool ended;
	bool nonblocking;    /* its operations go on behind the program's back; never changes */
	const void *batch;   /* that has it to itself; NULL: none */
	ncclResult_t failed; /* the first error of an operation without a reply */
	char text[CK_NCCL_TEXT];
	/* of the thread that carries out that batch */
	ncclRedOp_t *redops; /* by the client's number, from ncclNumOps; -1: none */
	unsigned int redop_count;
	void **buffers; /* registered ones, by number from 1 */
	bool *windows;	/* which of them are windows */
	unsigned int buffer_count;
};

struct cks_nccl {
	struct ck_mutex
		lock; /* of all members, except the insides of communicators that are in use */
	struct cks_nccl_comm *comms[CK_NCCL_COMMS];
	unsigned int count;
	struct cks_nccl_job *jobs;
	unsigned int job_count, threads;
	struct ck_cond done; /* a job is done, or there is a new one */
};

int cks_nccl_create(struct cks_nccl **nccl);
/* For tests; no thread may use it. */
void cks_nccl_destroy(struct cks_nccl *nccl);

/* Number @number of context @context, which is being made. NULL: it is taken, out of range, or
 * there is no memory. Used until put. */
struct cks_nccl_comm *cks_nccl_comm_new(struct cks_nccl *nccl, unsigned int number,
					uint64_t context, bool nonblocking);
/* NULL: there is none, or it has ended. */
struct cks_nccl_comm *cks_nccl_comm_get(struct cks_nccl *nccl, unsigned int number);
/* The same for an abort, which may overtake the command that makes the communicator: waits a while
 * until NCCL has begun. */
struct cks_nccl_comm *cks_nccl_comm_await(struct cks_nccl *nccl, unsigned int number);
void cks_nccl_comm_put(struct cks_nccl *nccl, struct cks_nccl_comm *comm);
/* Have it for @batch alone, until it is given back. False: another batch has it, which NCCL does
 * not allow. */
bool cks_nccl_comm_claim(struct cks_nccl *nccl, struct cks_nccl_comm *comm, const void *batch);
void cks_nccl_comm_give_back(struct cks_nccl *nccl, struct cks_nccl_comm *comm, const void *batch);
/* Its number is free from now on. */
void cks_nccl_comm_remove(struct cks_nccl *nccl, struct cks_nccl_comm *comm);
/* NCCL's own; NULL: not made, or ended. */
ncclComm_t cks_nccl_comm_handle(struct cks_nccl *nccl, const struct cks_nccl_comm *comm);
/* NCCL makes it behind our back, as @handle: it can be aborted meanwhile. */
void cks_nccl_comm_begun(struct cks_nccl *nccl, struct cks_nccl_comm *comm, ncclComm_t handle);
/* NCCL has made it, or not (NULL). False: it has been ended meanwhile. */
bool cks_nccl_comm_made(struct cks_nccl *nccl, struct cks_nccl_comm *comm, ncclComm_t handle);
/* From now on no other thread gets it. Returns the handle that the caller ends; NULL: NCCL is still
 * making it, and cannot be stopped. */
ncclComm_t cks_nccl_comm_end(struct cks_nccl *nccl, struct cks_nccl_comm *comm);
/* Note an error of an operation without a reply. */
void cks_nccl_comm_fail(struct cks_nccl *nccl, struct cks_nccl_comm *comm, ncclResult_t result,
			const char *text);
/* That error; else NCCL's asynchronous error. ncclInvalidArgument: it has ended. */
ncclResult_t cks_nccl_comm_state(struct cks_nccl *nccl, const struct cks_nccl_comm *comm);
/* The text of that error, at @text of CK_NCCL_TEXT bytes. */
void cks_nccl_comm_text(struct cks_nccl *nccl, const struct cks_nccl_comm *comm, char *text);

/* The operator behind the client's number. False: there is none. */
bool cks_nccl_redop_find(const struct cks_nccl_comm *comm, int number, ncclRedOp_t *op);
bool cks_nccl_redop_put(struct cks_nccl_comm *comm, int number, ncclRedOp_t op);
void cks_nccl_redop_remove(struct cks_nccl_comm *comm, int number);

/* A place for a registered buffer; 0: no more. The value that the client gets: the place, of a
 * window its address. */
unsigned int cks_nccl_buffer_new(struct cks_nccl_comm *comm, bool window);
uint64_t cks_nccl_buffer_value(const struct cks_nccl_comm *comm, unsigned int place);
/* The place of that value; 0: none. */
unsigned int cks_nccl_buffer_find(const struct cks_nccl_comm *comm, bool window, uint64_t value);

/* Does the session have communicators, or is one being made? It cannot leave the GPU then. */
bool cks_nccl_any(struct cks_nccl *nccl);
/* Context @id ends: abort its communicators. */
void cks_nccl_drop_context(struct cks_session *session, uint64_t id);

/* --- batch.c */

/* The data behind an operation that makes a communicator. */
struct cks_nccl_extra {
	const void *items; /* ids, or excluded ranks */
	unsigned int count;
	bool has_config;
	/* the configuration with its names in place; NCCL writes into it */
	_Alignas(8) unsigned char config[CK_NCCL_CONFIG_MAX];
	char net_name[CK_NCCL_NAME_MAX], comm_name[CK_NCCL_NAME_MAX];
};

/* Is it a batch, whole and with known operations, whose extras are as they should be? @bytes are
 * aligned to 8. */
bool cks_nccl_batch_check(const void *bytes, size_t size);
static inline const struct ck_nccl_op *cks_nccl_batch_first(const void *batch)
{
	return (const void *)((const char *)batch + sizeof(struct ck_nccl_batch));
}

static inline const struct ck_nccl_op *cks_nccl_batch_next(const struct ck_nccl_op *o)
{
	return (const void *)((const char *)o + o->size);
}
/* Read the data behind @o. False: they are invalid. */
bool cks_nccl_extra_read(const struct ck_nccl_op *o, struct cks_nccl_extra *extra);

/* --- replay.c */

/* The outcome of a batch. */
struct cks_nccl_outcome {
	ncclResult_t result;
	uint64_t *
		values; /* of the operations that have one, in their order; the caller frees them */
	size_t count;
	float estimated;	 /* of a simulated group */
	char text[CK_NCCL_TEXT]; /* of an error */
};

/* Carry out a batch that has been checked. The calling thread is inside of the gate; its current
 * context stays. */
void cks_nccl_replay(struct cks_session *session, const void *batch,
		     struct cks_nccl_outcome *outcome);

/* --- comm_lifecycle.c */

/* One operation of a batch in progress. */
struct cks_nccl_step {
	const struct ck_nccl_op *op;
	struct cks_nccl_comm *comm, *newcomm; /* in use; NULL: none */
	ncclComm_t handle;		      /* of comm */
	ncclComm_t made;	      /* NCCL writes it, for newcomm, until the group ends */
	unsigned int place;	      /* of a buffer that it registers */
	struct cks_nccl_extra *extra; /* NCCL may read it until the group ends */
	ncclResult_t result;
};

/* Carry out a step that is no operation in a stream. */
ncclResult_t cks_nccl_manage(struct cks_nccl *nccl, struct cks_nccl_step *step);
/* The group of the step is over, with @result: its new communicators stay, or end. */
void cks_nccl_complete(struct cks_nccl *nccl, struct cks_nccl_step *step, ncclResult_t result);

/* --- jobs.c */

/* Carry out @batch, which is copied, in a thread. An error becomes the job's result. */
void cks_nccl_job_start(struct cks_session *session, uint64_t ticket, const void *batch,
			size_t size);
/* Wait at most @ms for a job. False: it is not done, or has not come. The outcome's values are the
 * caller's. */
bool cks_nccl_job_wait(struct cks_nccl *nccl, uint64_t ticket, unsigned int ms,
		       struct cks_nccl_outcome *outcome);

#endif
