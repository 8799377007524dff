/*
 * server/checkpoint/crew.h - threads that do numbered jobs for one other thread, which needs them
 * in order: it releases jobs, and waits for one after the other.
 *
 * While it waits, it does jobs too. So all is done without any thread, only slower.
 */
#ifndef CK_SERVER_CHECKPOINT_CREW_H
#define CK_SERVER_CHECKPOINT_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/lock.h"
#include "util/wait.h"

#define CKS_CREW_AHEAD ((size_t)16) /* jobs that are released before they are waited for */
#define CKS_CREW_THREADS 8

struct cks_crew {
	void (*work)(void *data, size_t job); /* in any thread, in any order */
	void *data;
	struct ck_mutex lock;
	struct ck_cond changed;
	size_t released, next; /* jobs below have been released, and begun */
	bool done[CKS_CREW_AHEAD];
	bool ends;
	pthread_t threads[CKS_CREW_THREADS];
	size_t count; /* of them */
};

void cks_crew_start(struct cks_crew *crew, void (*work)(void *data, size_t job), void *data);
/* Jobs below @end may be done; at most CKS_CREW_AHEAD of them have not been waited for. */
void cks_crew_release(struct cks_crew *crew, size_t end);
/* Until @job is done; for each released job once, in order. */
void cks_crew_wait(struct cks_crew *crew, size_t job);
/* Jobs that have not begun are not done. */
void cks_crew_end(struct cks_crew *crew);

#endif
