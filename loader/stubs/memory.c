/*
 * loader/stubs/memory.c - libpreload.so of the CUDA half: functions of the application's C library
 * that must know of memory which a lower half has moved away until it is touched.
 *
 * A touch is a signal, which the half answers by itself. But a system call that is given such
 * memory fails, so the half is asked for it first; and a program that sets or blocks
 * the half's signal (SIGSEGV) must not take it away, so its handler is left with the half, which
 * calls it for faults that are none of its own. The same functions as in
 * client/managed/interpose.c, which only the half's own libraries find.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "loader/find.h"

#define EXPORT __attribute__((visibility("default")))

static void *behind_us(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static struct lhinfo *info;

__attribute__((constructor)) static void begin(void)
{
	info = lhinfo_find();
}

/* The half that has such memory; 0: none, or not now. */
static unsigned int find_keeper(void)
{
	for (unsigned int i = 1; info && i < info->halves; i++)
		if (info->half[i].bring && info->half[i].state == LH_READY)
			return i;
	return 0;
}

/* --- buffers */

static bool tracked(void)
{
	return find_keeper() != 0;
}

/* Memory in the application's own window is not. The memory of the half is not known. */
static bool held(uintptr_t at, size_t size)
{
	(void)size;
	return info && (at < info->half[0].base || at >= info->half[0].end) && tracked();
}

static bool call_keeper(struct lh_range range)
{
	unsigned int half = find_keeper();
	int error = errno;
	bool done = half && info->call(half, info->half[half].bring, &range) == 0;

	errno = error;
	return done;
}

static bool put(uintptr_t at, const void *bytes, size_t size)
{
	return call_keeper((struct lh_range){.at = (void *)at, .size = size, .from = bytes});
}

#define SOURCE_STAYS false

static bool get(uintptr_t at, void *bytes, size_t size)
{
	return call_keeper((struct lh_range){.at = (void *)at, .size = size, .to = bytes});
}

/* Pages become writable when bytes are stored there: their own. */
static void need(uintptr_t at, size_t size, bool write)
{
	if (held(at, size) && call_keeper((struct lh_range){(void *)at, size, NULL, NULL}) && write)
		put(at, (const void *)at, size);
}

/* An access of the application's own raises the signal. */
static const void *source(uintptr_t at, size_t size)
{
	(void)size;
	return (const void *)at;
}

#include "util/process/interposed_code.def"

/* --- signals */

/* The application's action for SIGSEGV, for queries; the last one set counts. */
static struct sigaction ours;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The half gets an entry of the loader, through which the handler always runs on the application's
 * thread block. The entry takes three arguments, so it is always called with them.
 */
static int set_with(unsigned int half, const struct sigaction *act, struct sigaction *old)
{
	void *handler = act ? (void *)(uintptr_t)act->sa_sigaction : NULL;
	struct sigaction passed, before;
	struct lh_action call = {SIGSEGV, act ? &passed : NULL, &before};
	void *entry = info->handler(SIGSEGV, handler);
	long ret;

	if (act) {
		passed = *act;
		if (act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN) {
			passed.sa_sigaction = (void (*)(int, siginfo_t *, void *))(uintptr_t)entry;
			passed.sa_flags |= SA_SIGINFO;
		}
	}
	ret = info->call(half, info->half[half].action, &call);
	if (ret) {
		errno = (int)-ret;
		return -1;
	}
	if (old)
		*old = (void *)(uintptr_t)before.sa_sigaction == entry ? ours : before;
	if (act)
		ours = *act;
	return 0;
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	unsigned int half = sig == SIGSEGV ? find_keeper() : 0;
	sigset_t all, was;
	int ret;

	if (!half)
		return NEXT(sigaction)(sig, act, old);
	sigfillset(&all);
	NEXT(pthread_sigmask)(SIG_SETMASK, &all, &was);
	pthread_mutex_lock(&lock);
	ret = set_with(half, act, old);
	pthread_mutex_unlock(&lock);
	NEXT(pthread_sigmask)(SIG_SETMASK, &was, NULL);
	return ret;
}

EXPORT __sighandler_t signal(int sig, __sighandler_t handler)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (sig != SIGSEGV)
		return NEXT(signal)(sig, handler);
	return sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* @set without SIGSEGV, in *@open: a fault while it is blocked would end the process. */
static const sigset_t *without_it(int how, const sigset_t *set, sigset_t *open)
{
	if (!set || how == SIG_UNBLOCK || sigismember(set, SIGSEGV) != 1 || !find_keeper())
		return set;
	*open = *set;
	sigdelset(open, SIGSEGV);
	return open;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t open;

	return NEXT(sigprocmask)(how, without_it(how, set, &open), old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t open;

	return NEXT(pthread_sigmask)(how, without_it(how, set, &open), old);
}
