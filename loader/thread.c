/*
 * loader/thread.c - which thread block a thread has in which half.
 *
 * A thread of the application that calls a lower half needs a thread block (the target of FS) that
 * the lower half's libc has made: its errno, malloc cache and thread-local data. Sharing one
 * between threads corrupts the lower half's heap. So each gets one for itself: the half's manager
 * thread makes a thread that does nothing but sleep, and the caller takes that thread's FS until it
 * ends. The sleeper ends with it, which runs the half's destructors of thread-local data.
 */
#include "loader/half.h"

#define THREADS 1024

static struct lh_thread threads[THREADS];
static uint32_t threads_lock;

static void gs_set(struct lh_thread *t)
{
	sys2(__NR_arch_prctl, ARCH_SET_GS, t);
}

static struct lh_thread *gs_get(void)
{
	struct lh_thread *t;

	__asm__ volatile("movq %%gs:0, %0" : "=r"(t));
	return t;
}

void ck_thread_first(void)
{
	struct lh_thread *t = &threads[0];

	t->self = t;
	t->tid = (int32_t)sys1(__NR_gettid, 0);
	gs_set(t);
}

struct lh_thread *ck_thread_here(uint64_t fs, int half)
{
	struct lh_thread *t = gs_get();

	return half >= 0 && t->fs[half] == fs ? t : NULL;
}

void ck_thread_loaded(unsigned int half, uint64_t fs)
{
	struct lh_thread *t = gs_get();

	t->fs[half] = fs;
	t->parked[half] = NULL;
}

/* --- sleepers */

static void wait_change(uint32_t *word, uint32_t from)
{
	struct {
		int64_t s, ns;
	} second = {1, 0};

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == from)
		sys4(__NR_futex, word, FUTEX_WAIT, from, &second);
}

/* Has the half's manager make a sleeper. NULL: none, or the manager is not in this process. */
static struct lh_parked *sleeper_get(struct lh_half *h)
{
	struct lh_manager *m = &h->manager;
	struct lh_parked *p;
	uint32_t given;

	if ((int32_t)sys1(__NR_getpid, 0) != ck_info.pid)
		return NULL;
	ck_lock(&m->lock);
	given = m->given;
	__atomic_add_fetch(&m->asked, 1, __ATOMIC_RELEASE);
	sys3(__NR_futex, &m->asked, FUTEX_WAKE, 1);
	wait_change(&m->given, given);
	p = m->parked;
	ck_unlock(&m->lock);
	return p;
}

static void sleeper_end(struct lh_parked *p)
{
	__atomic_store_n(&p->leave, 1, __ATOMIC_RELEASE);
	sys3(__NR_futex, &p->leave, FUTEX_WAKE, 1);
}

/* --- blocks; with the lock */

static void clear_thread(struct lh_thread *t)
{
	for (int i = 0; i < LHINFO_HALVES; i++) {
		if (t->parked[i])
			sleeper_end(t->parked[i]);
		t->parked[i] = NULL;
		t->fs[i] = 0;
	}
	t->tid = 0;
}

/* The first block is the first thread's for good: its FS in each half is no sleeper's. */
static struct lh_thread *block_of(int32_t tid, uint64_t fs)
{
	struct lh_thread *unused = NULL;

	for (struct lh_thread *t = threads; t < threads + THREADS; t++) {
		if (t->tid == tid && (t->fs[0] == fs || t == threads))
			return t;
		if (t == threads)
			continue;
		/* a thread that ended without a word, or had this number before */
		if (t->tid == tid ||
		    (t->tid && sys3(__NR_tgkill, ck_info.pid, t->tid, 0) == -ESRCH))
			clear_thread(t);
		if (!t->tid && !unused)
			unused = t;
		if (!t->tid && !t->self)
			break; /* none above was ever used */
	}
	return unused;
}

/* The block of the calling thread, which is in the upper half; GS leads to it from now on. */
static struct lh_thread *own_block(uint64_t fs)
{
	int32_t tid = (int32_t)sys1(__NR_gettid, 0);
	struct lh_thread *t = ck_thread_here(fs, 0);

	if (!t)
		t = block_of(tid, fs);
	if (!t) {
		ck_say("more than %u threads call lower halves", (unsigned int)THREADS);
		return NULL;
	}
	t->self = t;
	t->tid = tid;
	t->fs[0] = fs;
	gs_set(t);
	return t;
}

static struct lh_thread *enter_locked(unsigned int half, uint64_t fs)
{
	struct lh_thread *t = own_block(fs);

	if (!t)
		return NULL;
	if (!t->fs[half]) {
		t->parked[half] = sleeper_get(&ck_info.half[half]);
		t->fs[half] = t->parked[half] ? t->parked[half]->fs : 0;
	}
	return t->fs[half] ? t : NULL;
}

struct lh_thread *ck_thread_enter(unsigned int half)
{
	struct lh_thread *t = NULL;
	uint64_t fs = fs_get(), mask;

	if (half >= ck_info.halves || ck_info.half[half].state != LH_READY)
		return NULL;
	mask = ck_signals_block();
	ck_lock(&threads_lock);
	t = enter_locked(half, fs);
	ck_unlock(&threads_lock);
	ck_signals_restore(mask);
	return t;
}

void ck_thread_lend(unsigned int half, uint64_t fs)
{
	uint64_t mask = ck_signals_block();
	struct lh_thread *t;

	ck_lock(&threads_lock);
	t = own_block(fs_get());
	if (t)
		t->fs[half] = fs;
	ck_unlock(&threads_lock);
	ck_signals_restore(mask);
}

void ck_thread_leave(void)
{
	struct lh_thread *t = ck_thread_here(fs_get(), 0);
	uint64_t mask;

	if (!t || t == threads || (int32_t)sys1(__NR_getpid, 0) != ck_info.pid)
		return;
	mask = ck_signals_block();
	ck_lock(&threads_lock);
	clear_thread(t);
	ck_unlock(&threads_lock);
	ck_signals_restore(mask);
}

void ck_thread_forget(unsigned int half)
{
	uint64_t mask = ck_signals_block();

	ck_lock(&threads_lock);
	for (struct lh_thread *t = threads; t < threads + THREADS; t++) {
		t->fs[half] = 0;
		t->parked[half] = NULL;
	}
	ck_unlock(&threads_lock);
	ck_signals_restore(mask);
}

long ck_thread_call(unsigned int half, long (*function)(void *argument), void *argument)
{
	struct lh_thread *t = ck_thread_here(fs_get(), 0);
	uint64_t fs = fs_get();
	long ret;

	if (!t || !t->fs[half])
		t = ck_thread_enter(half);
	if (!t)
		return -ESRCH;
	fs_set(t->fs[half]);
	ret = function(argument);
	fs_set(fs);
	return ret;
}
