/*
 * client/managed/interpose.c - functions of the C library that must know about managed memory.
 *
 * Pages that are newest on the device are inaccessible here. An access raises a signal, which
 * client/managed/fault.c handles. But a system call on such a page fails with EFAULT. So the calls
 * that read or write files and sockets get other memory (util/process/interposed_code.def). Also, a
 * program that sets a handler for SIGSEGV or blocks it must not disable the client's: the program's
 * own handler is kept and called for its own faults.
 *
 * Programs that preload or link the client find these symbols before the C library's. For others,
 * client/managed/rebind.c makes them find ours. It does not work with sanitizers, which interpose
 * the same functions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/managed/fault.h"
#include "client/managed/managed.h"
#include "client/managed/rebind.h"
#include "client/managed/window.h"
#include "client/wire/quick_exit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__FUZZER__)

int ckc_fault_system(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sigaction(sig, act, old);
}

#else

/* The C library's function: the next one of this name. If the client was loaded after the C library
 * (as a dependency of the program), it is the C library's own. */
static void *behind_us(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name), *libc;

	if (found)
		return found;
	libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	return libc ? dlsym(libc, name) : NULL;
}

/* --- buffers */

static inline bool tracked(void)
{
	const struct ckc_managed_state *s = ckc_managed_if_any();

	return s && (unlikely(ckc_many) || s->window.lo || s->variables.ranges);
}

static inline bool held(uintptr_t at, size_t size)
{
	(void)size;
	return unlikely(ckc_managed_may_be(at)) && ckc_managed_keeps(at);
}

static const void *source(uintptr_t at, size_t size)
{
	return ckc_managed_source(at, size);
}

#define SOURCE_STAYS true
#define get(at, bytes, size) false

static bool put(uintptr_t at, const void *bytes, size_t size)
{
	return ckc_managed_put(at, bytes, size);
}

static void need(uintptr_t at, size_t size, bool write)
{
	if (unlikely(ckc_managed_may_be(at)) && size > 0)
		ckc_managed_need(at, size, write);
}

/* The portable build has its own under these names, for the rest of the client. */
#undef getrandom
#undef pwritev2
#define EXPORT CK_EXPORT
#include "util/process/interposed_code.def"

/* --- signals */

int ckc_fault_system(int sig, const struct sigaction *act, struct sigaction *old)
{
	return NEXT(sigaction)(sig, act, old);
}

CK_EXPORT __sighandler_t signal(int sig, __sighandler_t handler)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	if (sig != SIGSEGV)
		return NEXT(signal)(sig, handler);
	return sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

static bool window_is_open(void)
{
	const struct ckc_managed_state *s = ckc_managed_if_any();
	bool open = s && s->window.lo;

	for (unsigned int i = 1; unlikely(ckc_many) && !open && i < ckc_servers_count(); i++)
		open = ckc_server_session(i)->managed->window.lo;
	return open;
}

/* Return @set without SIGSEGV, in *@open: a fault while SIGSEGV is blocked would end the process.
 * Before there is a window, change only filled sets: those do not aim at SIGSEGV. */
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *open)
{
	if (!set || how == SIG_UNBLOCK || sigismember(set, SIGSEGV) != 1 ||
	    (!window_is_open() && sigismember(set, SIGKILL) != 1))
		return set;
	*open = *set;
	sigdelset(open, SIGSEGV);
	return open;
}

/* Handlers of other signals may access managed pages too. */
CK_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction open;

	if (sig == SIGSEGV)
		return ckc_fault_sigaction(act, old) == 0 ? 0 : ckc_fault_system(sig, act, old);
	if (act && without_ours(SIG_BLOCK, &act->sa_mask, &open.sa_mask) != &act->sa_mask) {
		open.sa_flags = act->sa_flags;
		open.sa_restorer = act->sa_restorer;
		open.sa_sigaction = act->sa_sigaction;
		act = &open;
	}
	return ckc_fault_system(sig, act, old);
}

CK_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t open;

	return NEXT(sigprocmask)(how, without_ours(how, set, &open), old);
}

CK_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t open;

	return NEXT(pthread_sigmask)(how, without_ours(how, set, &open), old);
}

/* --- all of them, for programs that do not find them */

#define CALL(type, name, params, args, buffers, moved) {#name, (void *)(name)},
const struct ckc_interposed ckc_interposed[] = {
#include "util/process/interposed.def"
	CKC_LEAVE_CALLS{"pthread_sigmask", (void *)pthread_sigmask},
	{"sigaction", (void *)sigaction},
	{"signal", (void *)signal},
	{"sigprocmask", (void *)sigprocmask},
};
const size_t ckc_interposed_count = CK_ARRAY_SIZE(ckc_interposed);

#endif
