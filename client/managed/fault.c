/*
 * client/managed/fault.c - pass a SIGSEGV to ckc_managed_touch, or to the program's own handler.
 *
 * A signal handler may do almost nothing, and the thread may hold any lock of any library. So the
 * handler passes the address to a client thread and sleeps; that thread talks to the server. A
 * fault at an address that is not managed goes to the program's handler, as without Cricket.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/managed/fault.h"
#include "client/managed/managed.h"
#include "client/managed/rebind.h"
#include "client/managed/window.h"
#include "client/link/hooks.h"
#include "util/cancel.h"
#include "util/cpu.h"
#include "util/log.h"
#include "util/process/process_limits.h"

CK_LOG_DEFINE("client");

/* One fault, on the stack of the faulting thread. */
struct fault {
	uint64_t address;
	bool write, inside; /* inside: in a host function */
	int result;	    /* of ckc_managed_touch */
	_Atomic uint32_t done;
	struct fault *next;
};

/* Per process, as signal handlers are. */
static struct ck_mutex start_lock = CK_MUTEX(CK_RANK_FAULT);
static bool started;

/* Faults that wait for a thread to serve them. Faults in host functions have a queue of their own:
 * another fault may wait for work of the device, and that for the function.
 */
static struct queue {
	sem_t bell; /* not a descriptor: programs close descriptors they do not know */
	_Atomic(struct fault *) waiting;
} elsewhere, in_functions;

/* The program's action, guarded by a flag that is only held with all signals blocked. */
static struct sigaction theirs;
static atomic_flag theirs_busy = ATOMIC_FLAG_INIT;

static void handle_fault(int sig, siginfo_t *info, void *context);

/* --- the program's signal action */

static void theirs_lock(sigset_t *was)
{
	sigset_t all;

	sigfillset(&all);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, was, _NSIG / 8);
	while (atomic_flag_test_and_set(&theirs_busy))
		ck_cpu_relax();
}

static void theirs_unlock(const sigset_t *was)
{
	atomic_flag_clear(&theirs_busy);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, was, NULL, _NSIG / 8);
}

int ckc_fault_sigaction(const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before;
	sigset_t was;

	if (!__atomic_load_n(&started, __ATOMIC_ACQUIRE)) {
		errno = EAGAIN;
		return -1;
	}
	theirs_lock(&was);
	before = theirs;
	if (act)
		theirs = *act;
	theirs_unlock(&was);
	if (old)
		*old = before;
	return 0;
}

/* Let the fault end the process, as it would without Cricket. */
static void die_of_fault(int sig, const siginfo_t *info)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};

	ckc_fault_system(sig, &dfl, NULL);
	if (info->si_code <= 0) /* sent by a process: the fault will not repeat by itself */
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
}

/* Do the same as the system would do for the program's signal action. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction action;
	sigset_t was;

	theirs_lock(&was);
	action = theirs;
	if (action.sa_flags & SA_RESETHAND)
		theirs = (struct sigaction){.sa_handler = SIG_DFL};
	theirs_unlock(&was);
	if (action.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
		die_of_fault(sig, info);
		return;
	}
	/* keep SIGSEGV unblocked, so that the program's handler can touch managed memory */
	sigdelset(&action.sa_mask, SIGSEGV);
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &action.sa_mask, &was, _NSIG / 8);
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(sig, info, context);
	else
		action.sa_handler(sig);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &was, NULL, _NSIG / 8);
}

/* --- faults on managed memory */

static void call_futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Pass the fault to the thread that serves such faults, wait, and return the result. */
static int submit_fault(uint64_t address, bool write_access)
{
	struct fault f = {.address = address, .write = write_access, .inside = ckc_inside_callback};
	struct queue *q = f.inside ? &in_functions : &elsewhere;

	f.next = atomic_load(&q->waiting);
	while (!atomic_compare_exchange_weak(&q->waiting, &f.next, &f))
		;
	sem_post(&q->bell);
	while (!atomic_load(&f.done))
		call_futex(&f.done, FUTEX_WAIT, 0);
	return f.result;
}

static bool is_ours(const siginfo_t *info)
{
	return info->si_code > 0 && ckc_managed_may_be((uintptr_t)info->si_addr) &&
	       ckc_client_default->state != CK_STATE_FORKED;
}

#if defined(__x86_64__)
bool ckc_fault_is_write(const ucontext_t *uc)
{
	return uc->uc_mcontext.gregs[REG_ERR] & 2;
}
#elif defined(__aarch64__)
#define WRITE_NOT_READ (1u << 6) /* of a data abort's syndrome */

/* The kernel's records behind the registers have the syndrome. */
bool ckc_fault_is_write(const ucontext_t *uc)
{
	const char *at = (const char *)uc->uc_mcontext.__reserved;
	const char *end = at + sizeof(uc->uc_mcontext.__reserved);
	struct esr_context record;

	while ((size_t)(end - at) >= sizeof(record)) {
		memcpy(&record, at, sizeof(record));
		if (record.head.magic == ESR_MAGIC)
			return record.esr & WRITE_NOT_READ;
		if (record.head.magic == 0 || record.head.size > (size_t)(end - at) ||
		    record.head.size < sizeof(record.head))
			return true;
		at += record.head.size;
	}
	return true;
}
#endif

static void handle_fault(int sig, siginfo_t *info, void *context)
{
	int was = errno;
	bool served = false;

	if (info->si_code > 0)
		ckc_each_hook(fault, h) served = served || h->run((uintptr_t)info->si_addr);
	served = served || (is_ours(info) && submit_fault((uintptr_t)info->si_addr,
							  ckc_fault_is_write(context)) == 0);

	errno = was;
	if (!served)
		pass_on(sig, info, context);
}

/* A thread resumes as soon as it is served, and its fault is gone then. */
static void serve_faults(struct fault *f)
{
	while (f) {
		struct fault *next = f->next;

		ckc_aside = f->inside;
		f->result = ckc_managed_touch(f->address, f->write, f->inside);
		ckc_aside = false;
		atomic_store(&f->done, 1);
		call_futex(&f->done, FUTEX_WAKE, 1);
		f = next;
	}
}

static void serve_queue(struct queue *q)
{
	sigset_t own;

	sigemptyset(&own);
	sigaddset(&own, SIGSEGV); /* a fault here ends the process: nothing could serve it */
	pthread_sigmask(SIG_BLOCK, &own, NULL);
	while (sem_wait(&q->bell) == 0 || errno == EINTR)
		serve_faults(atomic_exchange(&q->waiting, NULL));
}

static void *serve_elsewhere(void *unused)
{
	(void)unused;
	serve_queue(&elsewhere);
	return NULL;
}

static void *serve_in_functions(void *unused)
{
	(void)unused;
	serve_queue(&in_functions);
	return NULL;
}

/* --- start */

static const struct sigaction *ours(void)
{
	static struct sigaction action;

	action.sa_sigaction = handle_fault;
	/* Release dirty runs only: read protection must not open invalid pages between them. */
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
	return &action;
}

/* A thread opens its lane first: a faulting thread has no way to handle a lack of descriptors. */
static int start_fault_servers(void)
{
	int ret;

	if (sem_init(&elsewhere.bell, 0, 0) < 0 || sem_init(&in_functions.bell, 0, 0) < 0)
		return -errno;
	ret = ckc_thread_start_calling(ckc_client_current(), serve_elsewhere);
	if (ret == 0)
		ret = ckc_thread_start_calling(ckc_client_current(), serve_in_functions);
	if (ret < 0)
		return ret;
	if (ckc_fault_system(SIGSEGV, ours(), &theirs) < 0)
		return -errno;
	__atomic_store_n(&started, true, __ATOMIC_RELEASE);
	return 0;
}

int ckc_fault_start(void)
{
	int cancel = ck_lock_uncancelled(&start_lock);
	int ret = 0;

	if (!started) {
		char why[CK_LIMIT_TEXT];

		ret = start_fault_servers();
		if (ret < 0)
			ck_err("no thread for managed memory: %s", ck_limit_text(ret, why));
		else
			ckc_rebind_begin();
	}
	ck_unlock_uncancelled(&start_lock, cancel);
	return ret;
}

void ckc_fault_rearm(void)
{
	struct sigaction now;
	sigset_t was;

	ckc_rebind();
	if (!started || ckc_fault_system(SIGSEGV, NULL, &now) < 0 ||
	    now.sa_sigaction == handle_fault)
		return;
	ckc_fault_system(SIGSEGV, ours(), NULL);
	theirs_lock(&was);
	theirs = now;
	theirs_unlock(&was);
}
