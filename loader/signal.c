/*
 * loader/signal.c - a signal handler runs on the thread block of the half that installed it.
 *
 * There is one handler a signal in a process, whichever half installed it; and a signal comes
 * while a thread is in any half. The kernel is given an entry of ours for the half (entry.S), which
 * puts FS right, calls the half's handler and puts FS back.
 *
 * Signals 32 and 33 are glibc's own (pthread_cancel, setuid): each libc means the threads that it
 * made. They are handed to the libc whose thread it is.
 */
#include <asm/siginfo.h>
#include <asm/signal.h>

#include "loader/half.h"
#include "loader/window.h"

#define SIGNALS 65
#define SIG_INTERNAL(sig) ((sig) == 32 || (sig) == 33)
#define SIGSEGV_ETC (1ul << 4 | 1ul << 7 | 1ul << 8 | 1ul << 11 | 1ul << 31)
#define ENTRY 16

/* As the kernel has it. */
struct action {
	uint64_t handler, flags, restorer, mask;
};

typedef void (*handler_fn)(int sig, siginfo_t *info, void *context);

static uint64_t handlers[LHINFO_HALVES][SIGNALS];
static bool plain[LHINFO_HALVES][SIGNALS]; /* set without SA_SIGINFO */

extern char ck_signal_entries[];
void ck_signal(int sig, siginfo_t *info, void *context, unsigned int half);

static uint64_t entry_of(unsigned int half)
{
	return (uint64_t)ck_signal_entries + half * ENTRY;
}

/* The half whose entry @handler is; -1: it is no entry. */
static int half_of_entry(uint64_t handler)
{
	uint64_t n = handler - entry_of(0);

	return handler >= entry_of(0) && n < LHINFO_HALVES * ENTRY && !(n % ENTRY)
		       ? (int)(n / ENTRY)
		       : -1;
}

static long call_sigaction(int sig, const struct action *act, struct action *old)
{
	return sys4(__NR_rt_sigaction, sig, act, old, sizeof(uint64_t));
}

/*
 * The table is written before the kernel's action is set, and never for SIG_DFL and SIG_IGN: a
 * child of posix_spawn, which shares our memory for a while, sets only these. A query returns the
 * half's own handler; for another half's handler it returns the entry, which the caller may call or
 * install again. An entry reads the siginfo, which the kernel writes only with SA_SIGINFO: that is
 * always set for one.
 */
long ck_signal_action(unsigned int half, int sig, const void *act, void *old, size_t size)
{
	struct action mine, before;
	const struct action *wanted = act;
	uint64_t known;
	bool bare;
	long ret;

	if (sig < 1 || sig >= SIGNALS || size != sizeof(uint64_t))
		return sys4(__NR_rt_sigaction, sig, act, old, size);
	known = handlers[half][sig];
	bare = plain[half][sig];
	if (act) {
		mine = *wanted;
		if (mine.handler > 1 && half_of_entry(mine.handler) < 0) {
			plain[half][sig] = !(mine.flags & SA_SIGINFO);
			__atomic_store_n(&handlers[half][sig], mine.handler, __ATOMIC_RELEASE);
			mine.handler = entry_of(half);
		}
		if (mine.handler > 1)
			mine.flags |= SA_SIGINFO;
	}
	ret = call_sigaction(sig, act ? &mine : NULL, &before);
	if (ret)
		return ret;
	if (old) {
		if (half_of_entry(before.handler) == (int)half) {
			before.handler = known;
			if (bare)
				before.flags &= ~(uint64_t)SA_SIGINFO;
		}
		*(struct action *)old = before;
	}
	return 0;
}

void *ck_signal_handler(int sig, void *handler)
{
	if (sig < 1 || sig >= SIGNALS)
		return NULL;
	if ((uint64_t)handler > 1 && half_of_entry((uint64_t)handler) < 0)
		__atomic_store_n(&handlers[0][sig], (uint64_t)handler, __ATOMIC_RELEASE);
	return (void *)entry_of(0);
}

/* A lower half's own thread has no block of the application: the first thread takes the signal. */
static void pass_on(int sig, siginfo_t *info)
{
	struct action dfl = {0};

	if (info->si_code > 0 && sig < 64 && SIGSEGV_ETC & 1ul << sig)
		call_sigaction(sig, &dfl, NULL); /* its own fault: it happens again */
	else
		sys4(__NR_rt_tgsigqueueinfo, ck_info.pid, ck_info.pid, sig, info);
}

static void call_on(uint64_t fs, uint64_t here, uint64_t handler, int sig, siginfo_t *info,
		    void *context)
{
	if (fs != here)
		fs_set(fs);
	((handler_fn)handler)(sig, info, context);
	if (fs != here)
		fs_set(here);
}

/* The half that a signal of glibc's own is for: that of the thread. */
static unsigned int find_signal_half(const struct lh_thread *t, int in, unsigned int half)
{
	if (t)
		return 0;
	return in >= 0 ? (unsigned int)in : half;
}

void ck_signal(int sig, siginfo_t *info, void *context, unsigned int half)
{
	uint64_t fs = fs_get(), handler;
	int in = ck_window_of(fs);
	struct lh_thread *t = ck_thread_here(fs, in);

	if (SIG_INTERNAL(sig) && info->si_code == SI_QUEUE && ck_drop_probe(sig, info->si_ptr))
		return;
	if (SIG_INTERNAL(sig))
		half = find_signal_half(t, in, half);
	handler = __atomic_load_n(&handlers[half][sig], __ATOMIC_ACQUIRE);
	if (!handler)
		return;
	if (in < 0 || in == (int)half) {
		call_on(fs, fs, handler, sig, info, context);
		return;
	}
	if (!t && in > 0) {
		pass_on(sig, info);
		return;
	}
	if (!t || !t->fs[half])
		t = half ? ck_thread_enter(half) : NULL;
	if (t && t->fs[half])
		call_on(t->fs[half], fs, handler, sig, info, context);
}

void ck_signal_forget(unsigned int half)
{
	struct action now, dfl = {0};

	for (int sig = 1; sig < SIGNALS; sig++) {
		if (!handlers[half][sig])
			continue;
		if (!call_sigaction(sig, NULL, &now) && half_of_entry(now.handler) == (int)half)
			call_sigaction(sig, &dfl, NULL);
		handlers[half][sig] = 0;
	}
}
