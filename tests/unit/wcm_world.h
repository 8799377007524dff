/*
 * tests/unit/wcm_world.h - groups of ranks for the tests of wcm/: as processes, and as threads of
 * one.
 *
 * A role is what each rank does; it ends with rank_ok's status, or the test fails. The test program
 * itself never calls CUDA, so that its forks can. The emulated driver is linked, as in a program.
 */
#ifndef CK_TESTS_WCM_WORLD_H
#define CK_TESTS_WCM_WORLD_H

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/types.h"
#include "wcm/wcm.h"

#define MiB (1024ul * 1024)
#define RANKS WCM_RANKS_MAX

enum world_kind { PROCESSES, THREADS, KINDS };

/* What a rank knows; @group is NULL until it has called world_join. */
struct world {
	int rank, size, backing;
	unsigned int timeout_ms;
	char name[WCM_GROUP_NAME_MAX];
	void (*role)(struct world *w);
	wcm_group *group;
	int *shared; /* of all ranks: how many have come to some point */
};

/* In a role: it is as it should be, or the whole program of the rank ends. */
#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: rank %d of %d: not so: %s\n", __FILE__, __LINE__,  \
				w->rank, w->size, #condition);                                     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define expect_status(call, status)                                                                \
	do {                                                                                       \
		int got_ = (call);                                                                 \
		if (got_ != (status)) {                                                            \
			fprintf(stderr, "%s:%d: rank %d of %d: %s is %d (%s), not %d\n", __FILE__, \
				__LINE__, w->rank, w->size, #call, got_, wcm_strerror(got_),       \
				(int)(status));                                                    \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define expect_ok(call) expect_status(call, WCM_OK)

static inline void world_sleep(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
}

static inline double world_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Without the library: say that this rank has come to a point; wait until @count have. */
static inline void world_arrive(struct world *w)
{
	__atomic_fetch_add(w->shared, 1, __ATOMIC_SEQ_CST);
}

static inline void world_await(struct world *w, int count)
{
	while (__atomic_load_n(w->shared, __ATOMIC_SEQ_CST) < count)
		world_sleep(2);
}

static inline wcm_opts world_opts(const struct world *w)
{
	return (wcm_opts){.group = w->name,
			  .device = WCM_ANY_DEVICE,
			  .backing = w->backing,
			  .timeout_ms = w->timeout_ms};
}

static inline void world_join(struct world *w)
{
	wcm_opts opts = world_opts(w);

	expect_ok(wcm_init(&opts, w->rank, w->size, &w->group));
}

static inline void *world_thread(void *data)
{
	struct world *w = data;

	w->role(w);
	return NULL;
}

static inline void world_threads(const struct world *all)
{
	struct world ranks[RANKS];
	pthread_t threads[RANKS];

	for (int i = 0; i < all->size; i++) {
		ranks[i] = *all;
		ranks[i].rank = i;
		pthread_create(&threads[i], NULL, world_thread, &ranks[i]);
	}
	for (int i = 0; i < all->size; i++)
		pthread_join(threads[i], NULL);
}

static inline pid_t world_fork(const struct world *all, int rank)
{
	struct world w = *all;
	pid_t pid = fork();

	if (pid)
		return pid;
	alarm(240); /* nothing of a test outlives it */
	w.rank = rank;
	if (rank >= 0)
		w.role(&w);
	else
		world_threads(&w);
	exit(0);
}

static inline int world_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline struct world world_of(int size, int backing, void (*role)(struct world *))
{
	static int groups;
	struct world w = {.size = size, .backing = backing, .role = role, .timeout_ms = 100 * 1000};

	w.shared =
		mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(w.shared, MAP_FAILED);
	snprintf(w.name, sizeof(w.name), "test-%d-%d", (int)getpid(), ++groups);
	return w;
}

/* Run the role in all ranks; each must end well. */
static inline void world_run(enum world_kind kind, int size, int backing,
			     void (*role)(struct world *))
{
	struct world w = world_of(size, backing, role);
	pid_t pids[RANKS];
	int count = kind == THREADS ? 1 : size, bad = 0;

	for (int i = 0; i < count; i++)
		pids[i] = world_fork(&w, kind == THREADS ? -1 : i);
	for (int i = 0; i < count; i++)
		bad += world_status(pids[i]) != 0;
	assert_int_equal(bad, 0);
}

/* The same as processes and as threads, with both backings. */
static inline void world_run_all(int size, void (*role)(struct world *))
{
	for (int kind = 0; kind < KINDS; kind++) {
		world_run(kind, size, WCM_IPC, role);
		world_run(kind, size, WCM_VMM, role);
	}
}

/* Processes, of which those in @killed end by SIGKILL. */
static inline void world_run_killed(int size, int backing, uint32_t killed,
				    void (*role)(struct world *))
{
	struct world w = world_of(size, backing, role);
	pid_t pids[RANKS];
	int bad = 0;

	for (int i = 0; i < size; i++)
		pids[i] = world_fork(&w, i);
	for (int i = 0; i < size; i++)
		bad += world_status(pids[i]) != (killed >> i & 1 ? 128 + SIGKILL : 0);
	assert_int_equal(bad, 0);
}

static inline int world_setup(void **state)
{
	(void)state;
	setenv("CRICKET_EMU", "devices=4,memory=64M,threads=1", 1);
	return 0;
}

#endif
