/*
 * server/memory/status.c - watched events and streams; see server/memory/status.h.
 *
 * A thread polls the watched objects: closely at first, since a polling client wants to know at
 * once, then less and less often. The first watch starts it; it sleeps while there is none. Replies
 * poll too. In shared memory, a lane that waits for its next call polls closely, and the thread is
 * there for the time when no lane does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "rpc/status.h"
#include "server/memory/delivery.h"
#include "server/session/locks.h"
#include "server/session/output.h"
#include "server/session/session.h"
#include "server/memory/pinned.h"
#include "server/memory/status.h"
#include "server/memory/status_part.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

CK_LOG_DEFINE("server");

#define WATCHES 32u	    /* a reply polls all of them; clients query the others */
#define CLOSELY_NS 100000   /* time of polling without sleep, with enough processors */
#define LOOK_FIRST_NS 20000 /* first poll interval; then an eighth of the time so far, up to: */
#define LOOK_PART 8
#define LOOK_MOST_NS 1000000
#define LINGER 20 /* of these long intervals, without a watch: see look_often */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct cks_status {
	struct ck_mutex lock;
	struct ck_cond work;
	struct cks_watch watches[WATCHES];
	_Atomic unsigned int count;
	_Atomic unsigned int untold; /* these, plus ended ones being reported */
	_Atomic uint64_t begun;	     /* number of watches so far */
	struct ck_status_file *file; /* in the client's memory, or NULL */
	uint64_t batch;
	pthread_t thread;
	bool running, stop;
	_Atomic bool awake;   /* the thread */
	struct cks_pass pass; /* its own */
};

int cks_status_create(struct cks_status **out)
{
	struct cks_status *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_STATUS);
	*out = t;
	return 0;
}

/* --- ends of watches. The lock is held. */

/* Ends found in one batch. */
struct ends {
	uint64_t number[WATCHES];
	unsigned int state[WATCHES], count;
};

static void end_watch(struct cks_status *t, struct ends *ends, unsigned int i, unsigned int state)
{
	ends->number[ends->count] = t->watches[i].number;
	ends->state[ends->count++] = state;
	t->watches[i] = t->watches[atomic_fetch_sub(&t->count, 1) - 1];
}

static void report_ends(struct cks_session *s, const struct ends *ends, bool by_reply)
{
	struct cks_status *t = s->status;
	uint64_t batch = ends->count > 0 ? ++t->batch : 0;

	if (ends->count > 0 && !t->file)
		cks_shadows_compare(s, by_reply);
	for (unsigned int i = 0; i < ends->count; i++) {
		uint64_t number = ends->number[i];
		struct ck_status_word *word;

		if (!t->file) {
			cks_deliveries_send_watch(
				s, number,
				batch << 3 | ends->state[i] |
					(i + 1 == ends->count ? CK_STATUS_CLOSES : 0),
				by_reply);
			continue;
		}
		word = &t->file->word[number & (CK_STATUS_WORDS - 1)];
		atomic_store(&word->batch, batch);
		atomic_store(&word->end, number << 2 | ends->state[i]);
	}
	if (t->file && ends->count > 0)
		atomic_store(&t->file->closed, batch);
	atomic_fetch_sub(&t->untold, ends->count);
}

/*
 * A word cannot carry everything: deliveries need the rank in a reply, and kernel output and
 * command errors need a call.
 */
static bool needs_call(struct cks_session *s)
{
	return atomic_load(&s->async_error) != 0 || cks_output_pending(s->output) ||
	       (s->status->file && cks_deliveries_any(s->deliveries));
}

static CUresult look_at(const struct cks_watch *w)
{
	CUcontext popped;
	CUresult err;

	if (w->event)
		return ck_driver.cuEventQuery(w->event);
	if (ck_driver.cuCtxPushCurrent_v2(w->context))
		return CUDA_ERROR_INVALID_CONTEXT;
	err = ck_driver.cuStreamQuery(w->stream);
	ck_driver.cuCtxPopCurrent_v2(&popped);
	return err;
}

static void check_watches(struct cks_session *s, bool by_reply)
{
	struct cks_status *t = s->status;
	struct ends ends = {.count = 0};
	unsigned int before;

	do {
		before = ends.count;
		for (unsigned int i = 0; i < atomic_load(&t->count);) {
			CUresult err = look_at(&t->watches[i]);

			if (err == CUDA_ERROR_NOT_READY)
				i++;
			else
				end_watch(t, &ends, i,
					  err || needs_call(s) ? CK_STATUS_ASK : CK_STATUS_ENDED);
		}
	} while (ends.count > before && atomic_load(&t->count) > 0);
	report_ends(s, &ends, by_reply);
}

/* End the watches of @object, or of all streams, or all. */
static void drop_watches(struct cks_session *s, uint64_t object, bool streams, bool all)
{
	struct cks_status *t = s->status;
	struct ends ends = {.count = 0};

	for (unsigned int i = atomic_load(&t->count); i-- > 0;) {
		const struct cks_watch *w = &t->watches[i];

		if (all || (streams ? !w->event : w->object == object))
			end_watch(t, &ends, i, CK_STATUS_ASK);
	}
	report_ends(s, &ends, false);
}

void cks_status_report(struct cks_session *s, bool takes)
{
	struct cks_status *t = s->status;

	if (likely(atomic_load(&t->untold) == 0))
		return;
	ck_lock(&t->lock);
	check_watches(s, takes);
	ck_unlock(&t->lock);
}

void cks_status_wake(struct cks_session *s)
{
	struct cks_status *t = s->status;

	if (likely(atomic_load(&t->count) == 0) || atomic_load(&t->awake))
		return;
	ck_lock(&t->lock);
	ck_cond_signal(&t->work);
	ck_unlock(&t->lock);
}

void cks_status_drop_all(struct cks_session *s)
{
	struct cks_status *t = s->status;

	ck_lock(&t->lock);
	drop_watches(s, 0, false, true);
	ck_unlock(&t->lock);
}

void cks_status_drop(struct cks_session *s, uint64_t object)
{
	struct cks_status *t = s->status;

	if (likely(atomic_load(&t->count) == 0))
		return;
	ck_lock(&t->lock);
	drop_watches(s, object, false, false);
	ck_unlock(&t->lock);
}

void cks_status_capture(struct cks_session *s)
{
	struct cks_status *t = s->status;

	ck_lock(&t->lock);
	drop_watches(s, 0, true, false);
	ck_unlock(&t->lock);
}

void cks_status_destroy(struct cks_status *t)
{
	if (!t)
		return;
	ck_lock(&t->lock);
	t->stop = true;
	ck_cond_signal(&t->work);
	ck_unlock(&t->lock);
	if (t->running)
		pthread_join(t->thread, NULL);
	if (t->file)
		munmap(t->file, sizeof(*t->file));
	ck_cond_destroy(&t->work);
	ck_mutex_destroy(&t->lock);
	free(t);
}

/* --- the thread */

/* The gate comes before the lock: a thread inside may need the lock to leave. */
static void look_inside(struct cks_session *s)
{
	struct cks_status *t = s->status;

	if (atomic_load(&t->count) == 0)
		return;
	cks_gate_enter(&s->gate, &t->pass);
	ck_lock(&t->lock);
	check_watches(s, false);
	ck_unlock(&t->lock);
	cks_gate_leave(&t->pass);
}

/*
 * Poll until nothing is watched. Where lanes poll closely, stay a while longer: a program that
 * polls one event after the other would have to wake this thread for each.
 */
static void look_often(struct cks_session *s)
{
	struct cks_status *t = s->status;
	bool lanes = atomic_load(&s->commands) != NULL;
	unsigned int vain = lanes ? 0 : LINGER;
	struct ck_spin spin;
	struct ck_spin_turn turn = {0};
	uint64_t begun = 0, since = 0, pause = LOOK_FIRST_NS;

	ck_spin_init(&spin, lanes ? 0 : CLOSELY_NS / 1000);
	while ((atomic_load(&t->count) > 0 || vain < LINGER) && !t->stop) {
		struct timespec step = {.tv_nsec = (long)pause};

		if (lanes && pause == LOOK_MOST_NS)
			vain = atomic_load(&t->count) > 0 ? 0 : vain + 1;
		if (begun != atomic_load(&t->begun)) {
			begun = atomic_load(&t->begun);
			since = ck_now_ns();
			turn = ck_spin_begin(&spin);
			pause = LOOK_FIRST_NS;
		}
		ck_unlock(&t->lock);
		look_inside(s);
		if (!ck_spin_again(&turn)) {
			nanosleep(&step, NULL);
			pause = ck_max(pause, (ck_now_ns() - since) / LOOK_PART);
			pause = ck_min(pause, (uint64_t)LOOK_MOST_NS);
		}
		ck_lock(&t->lock);
	}
}

static void *run_watcher(void *session)
{
	struct cks_session *s = session;
	struct cks_status *t = s->status;

	cks_gate_join(&s->gate, &t->pass);
	ck_lock(&t->lock);
	while (!t->stop) {
		atomic_store(&t->awake, false);
		while (atomic_load(&t->count) == 0 && !t->stop)
			ck_cond_wait(&t->work, &t->lock);
		atomic_store(&t->awake, true);
		look_often(s);
	}
	ck_unlock(&t->lock);
	return NULL;
}

/* --- starting watches */

/* A slot for a watch of @object, or NULL. Call with the lock held. A newer number wins. */
static struct cks_watch *place_watch(struct cks_session *s, uint64_t object)
{
	struct cks_status *t = s->status;
	unsigned int n = atomic_load(&t->count);

	for (unsigned int i = 0; i < n; i++) {
		if (t->watches[i].object == object)
			return &t->watches[i];
	}
	if (n == WATCHES || (!t->running && pthread_create(&t->thread, NULL, run_watcher, s) != 0))
		return NULL;
	t->running = true;
	t->watches[n] = (struct cks_watch){.object = object};
	atomic_store(&t->count, n + 1);
	atomic_fetch_add(&t->untold, 1);
	return &t->watches[n];
}

/* Polling a captured stream would end the capture, so no stream is watched during captures. */
bool cks_status_watch(struct cks_session *s, const struct cks_watch *new)
{
	struct cks_status *t = s->status;
	struct cks_watch *w;
	bool placed = false;

	if (new->number == 0)
		return false;
	ck_lock(&t->lock);
	w = new->event || cks_handles_marked(s->handles) == 0 ? place_watch(s, new->object) : NULL;
	if (w && w->number < new->number) {
		*w = *new;
		placed = true;
		atomic_fetch_add(&t->begun, 1);
	}
	ck_unlock(&t->lock);
	return placed;
}

void cks_status_follow(struct cks_session *s, const struct cks_watch *new)
{
	struct cks_status *t = s->status;
	struct ends ends = {.number = {new->number}, .state = {CK_STATUS_ASK}, .count = 1};

	cks_deliveries_list(s->deliveries);
	if (cks_status_watch(s, new)) {
		cks_status_wake(s);
		return;
	}
	ck_lock(&t->lock);
	atomic_fetch_add(&t->untold, 1);
	report_ends(s, &ends, false);
	ck_unlock(&t->lock);
}

/* --- the shared file */

/* Map a file of words that cannot shrink; it is never read here. */
static CUresult take_words(struct cks_status *t, int fd, size_t size)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	void *at;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size != (off_t)size || size != sizeof(*t->file))
		return CUDA_ERROR_INVALID_VALUE;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	t->file = at;
	return CUDA_SUCCESS;
}

CUresult cks_status_use_file(struct cks_status *t, int fd, size_t size)
{
	CUresult err = CUDA_ERROR_INVALID_VALUE;

	ck_lock(&t->lock);
	if (!t->file && atomic_load(&t->begun) == 0)
		err = take_words(t, fd, size);
	ck_unlock(&t->lock);
	return err;
}
