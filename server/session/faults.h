/*
 * server/session/faults.h - which kernel has ended a context by its fault, for the program's
 * stderr.
 *
 * CUDA reports such an error at the next call that waits, long after the launch, and names no
 * kernel. The last launches are kept; those that a later wait has covered cannot be the cause. The
 * emulated driver knows more, and writes it to its log.
 */
#ifndef CK_SERVER_SESSION_FAULTS_H
#define CK_SERVER_SESSION_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"
#include "util/lock.h"

struct cks_session;

#define CK_LAUNCHES 64 /* kept */
#define CK_NAMED 4096  /* kernels whose names are kept; power of 2 */

struct cks_faults_launch {
	_Atomic uint64_t function, stream; /* ids; function 0: a graph */
	_Atomic bool ended;
};

struct cks_faults {
	_Atomic uint64_t
		count; /* launches so far; written by the thread that carries out commands */
	_Atomic uint64_t first; /* those before it have ended well */
	struct cks_faults_launch launches[CK_LAUNCHES];
	_Atomic uint64_t told; /* the context whose fault has been reported, + 1 */
	struct ck_mutex lock;
	struct {
		uint64_t function;
		char *name;
	} names[CK_NAMED]; /* by the low bits of the id */
	char message[400]; /* the driver's last error in its log; empty: none */
};

void cks_faults_init(struct cks_faults *faults);
void cks_faults_fini(struct cks_faults *faults);

/* Listen to the driver's log, if it tells there which kernel failed. Once, when the driver is
 * open. */
void cks_faults_listen(struct cks_faults *faults);

/* Kernel @function, or a graph if it is 0, was launched in @stream; @function is called @name. Both
 * are for the thread that carries out commands, after the driver's call: see cks_faults_begin(). */
void cks_faults_launch(struct cks_session *session, uint64_t function, uint64_t stream);
void cks_faults_name(struct cks_session *session, uint64_t function, const char *name);

/* The number of launches so far: a wait for all work that begins now covers them. */
uint64_t cks_faults_begin(const struct cks_session *session);

/* A wait for @stream, or for the whole context, has succeeded; it began after @count launches. */
void cks_faults_stream_done(struct cks_session *session, uint64_t stream, uint64_t count);
void cks_faults_context_done(struct cks_session *session, uint64_t count);

/* Call @name in context @ctx reports @err: say on the program's stderr which kernels may have
 * caused it. Once a context. */
void cks_faults_report(struct cks_session *session, const char *name, uint64_t ctx, CUresult err);

#endif
