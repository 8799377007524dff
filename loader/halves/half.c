/*
 * loader/halves/half.c - a lower half's own part of loading: its table of functions, and the
 * thread that makes threads for others to borrow.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "loader/find.h"
#include "loader/halves/half.h"

#define SLEEPER_STACK (256 << 10)
#define TABLE_SIZE 4096 /* names, and functions that stubs add behind them */

static struct lh_half *me;
static const char *name = "lower half";

void ck_half_say(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "kernel-loader: %s: %s\n", name, text);
}

static void futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

/* --- threads whose block is lent */

/* Its stack is small: the borrower brings its own. */
static void *run_sleeper(void *argument)
{
	struct lh_parked self = {0}, **published = argument;

	syscall(SYS_arch_prctl, ARCH_GET_FS, &self.fs);
	__atomic_store_n(published, &self, __ATOMIC_RELEASE);
	syscall(SYS_futex, published, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (!__atomic_load_n(&self.leave, __ATOMIC_ACQUIRE))
		futex_wait(&self.leave, 0);
	return NULL;
}

static struct lh_parked *make_sleeper(void)
{
	struct lh_parked *published = NULL;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SLEEPER_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (!pthread_create(&thread, &attr, run_sleeper, &published))
		while (!__atomic_load_n(&published, __ATOMIC_ACQUIRE))
			futex_wait((uint32_t *)&published, 0);
	pthread_attr_destroy(&attr);
	return published;
}

/* Answers one request after the other; the loader lets one in at a time. */
static void *run_manager(void *argument)
{
	struct lh_manager *m = argument;
	uint32_t done = 0;

	for (;;) {
		while (__atomic_load_n(&m->asked, __ATOMIC_ACQUIRE) == done)
			futex_wait(&m->asked, done);
		done++;
		m->parked = make_sleeper();
		__atomic_add_fetch(&m->given, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &m->given, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	return NULL;
}

/* Signals are the application's; a thread that sleeps for others takes none. */
static int start_manager(void)
{
	sigset_t all, old;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&thread, NULL, run_manager, &me->manager);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

/* --- fork: the application's libc does it, and does not know of our libraries' handlers */

#define FORK_HANDLERS 64

static struct {
	void (*stage[3])(void);
} fork_handlers[FORK_HANDLERS];
static unsigned int fork_count;

/* In the order that pthread_atfork promises: prepare backwards. */
static long run_fork_handlers(void *argument)
{
	enum lh_fork_stage stage = (enum lh_fork_stage)(uintptr_t)argument;

	for (unsigned int i = 0; i < fork_count; i++) {
		unsigned int at = stage == LH_FORK_PREPARE ? fork_count - 1 - i : i;

		if (fork_handlers[at].stage[stage])
			fork_handlers[at].stage[stage]();
	}
	return 0;
}

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

/*
 * The function that pthread_atfork calls: ours is found before libc's. The half itself forks
 * rarely; then libc runs them.
 */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso)
{
	static int (*next)(void (*)(void), void (*)(void), void (*)(void), void *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "__register_atfork");
	if (fork_count == FORK_HANDLERS)
		return ENOMEM;
	fork_handlers[fork_count].stage[LH_FORK_PREPARE] = prepare;
	fork_handlers[fork_count].stage[LH_FORK_PARENT] = parent;
	fork_handlers[fork_count++].stage[LH_FORK_CHILD] = child;
	if (me)
		me->forked = run_fork_handlers;
	return next ? next(prepare, parent, child, dso) : 0;
}

/* --- the table */

static void *any_symbol(const char *symbol)
{
	return dlsym(RTLD_DEFAULT, symbol);
}

static void *exit_entry(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	return libc ? dlsym(libc, "_exit") : NULL;
}

static struct lh_half *half_being_loaded(struct lhinfo *info)
{
	for (unsigned int i = 1; i < info->halves; i++)
		if (info->half[i].state == LH_LOADING)
			return &info->half[i];
	return NULL;
}

static long (*keeps_bring)(void *range), (*keeps_action)(void *action);

void ck_half_keeps(long (*bring)(void *range), long (*action)(void *action))
{
	keeps_bring = bring;
	keeps_action = action;
}

static long (*leaves)(void *status);

void ck_half_leaves(long (*leave)(void *status))
{
	leaves = leave;
}

int ck_half_offer(const char *const *names, unsigned long hash, void *(*find)(const char *name))
{
	static void *table[TABLE_SIZE];
	struct lhinfo *info = lhinfo_find();

	me = info ? half_being_loaded(info) : NULL;
	if (!me) {
		ck_half_say("cannot be started directly: kernel-loader loads it");
		return 2;
	}
	name = me->name;
	for (unsigned int i = 0; names[i] && i < sizeof(table) / sizeof(table[0]); i++)
		table[i] = find(names[i]);
	me->names = names;
	me->hash = hash;
	me->table = table;
	me->dlsym = any_symbol;
	me->exit_entry = exit_entry;
	me->descriptors = ck_half_descriptors;
	me->descriptor_words = CK_HALF_DESCRIPTORS / 64;
	me->forked = fork_count ? run_fork_handlers : NULL;
	me->bring = keeps_bring;
	me->action = keeps_action;
	me->leave = leaves;
	if (start_manager()) {
		ck_half_say("no thread can be made");
		return 2;
	}
	info->ready(me);
	return 0;
}
