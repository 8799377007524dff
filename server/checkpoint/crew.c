/*
 * server/checkpoint/crew.c - see crew.h.
 */
#include <unistd.h>

#include "server/checkpoint/crew.h"
#include "server/session/locks.h"
#include "util/util.h"

/* With the lock held, which it gives up meanwhile. */
static void do_next(struct cks_crew *crew)
{
	size_t job = crew->next++;

	ck_unlock(&crew->lock);
	crew->work(crew->data, job);
	ck_lock(&crew->lock);
	crew->done[job % CKS_CREW_AHEAD] = true;
	ck_cond_broadcast(&crew->changed);
}

static void *do_jobs(void *data)
{
	struct cks_crew *crew = data;

	ck_lock(&crew->lock);
	while (!crew->ends) {
		if (crew->next < crew->released)
			do_next(crew);
		else
			ck_cond_wait(&crew->changed, &crew->lock);
	}
	ck_unlock(&crew->lock);
	return NULL;
}

void cks_crew_start(struct cks_crew *crew, void (*work)(void *data, size_t job), void *data)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t most = ck_min((size_t)CKS_CREW_THREADS, (size_t)ck_max(processors, 1L));

	*crew = (struct cks_crew){.work = work, .data = data};
	crew->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_CREW);
	while (crew->count < most &&
	       pthread_create(&crew->threads[crew->count], NULL, do_jobs, crew) == 0)
		crew->count++;
}

void cks_crew_release(struct cks_crew *crew, size_t end)
{
	ck_lock(&crew->lock);
	crew->released = end;
	ck_cond_broadcast(&crew->changed);
	ck_unlock(&crew->lock);
}

void cks_crew_wait(struct cks_crew *crew, size_t job)
{
	ck_lock(&crew->lock);
	while (!crew->done[job % CKS_CREW_AHEAD]) {
		if (crew->next < crew->released)
			do_next(crew);
		else
			ck_cond_wait(&crew->changed, &crew->lock);
	}
	crew->done[job % CKS_CREW_AHEAD] = false;
	ck_unlock(&crew->lock);
}

void cks_crew_end(struct cks_crew *crew)
{
	ck_lock(&crew->lock);
	crew->ends = true;
	ck_cond_broadcast(&crew->changed);
	ck_unlock(&crew->lock);
	while (crew->count > 0)
		pthread_join(crew->threads[--crew->count], NULL);
	ck_cond_destroy(&crew->changed);
	ck_mutex_destroy(&crew->lock);
}
