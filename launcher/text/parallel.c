/*
 * launcher/text/parallel.c - spread work that has independent pieces over the processors; see
 * parallel.h.
 *
 * The threads end with the call: a pool would have to survive fork, and starting a thread costs
 * about as much as reading a hundred numbers.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "launcher/text/parallel.h"
#include "util/util.h"

struct crew {
	void (*work)(void *context, size_t index);
	void *context;
	size_t count;
	atomic_size_t next;
};

static void *run_member(void *argument)
{
	struct crew *crew = argument;
	size_t index;

	while ((index = atomic_fetch_add(&crew->next, 1)) < crew->count)
		crew->work(crew->context, index);
	return NULL;
}

static size_t count_processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

void ckl_parallel(size_t count, void (*work)(void *context, size_t index), void *context)
{
	struct crew crew = {.work = work, .context = context, .count = count};
	size_t want = ck_min(count, ck_min(count_processors(), (size_t)CK_PARALLEL_MAX)),
	       started = 0;
	pthread_t threads[CK_PARALLEL_MAX];
	sigset_t all, before;

	/* Only the calling thread takes signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started + 1 < want &&
	       pthread_create(&threads[started], NULL, run_member, &crew) == 0)
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	run_member(&crew);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}
