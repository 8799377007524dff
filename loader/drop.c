/*
 * loader/drop.c - removing a lower half from a running process, and loading it again.
 *
 * Its exit handlers run first, on the calling thread. Threads that it still has are ended by
 * force: each thread of the process is sent a signal that no libc blocks, and ends there when FS
 * is in the window and no thread of the application has lent it. Then its descriptors are closed
 * and the window is emptied.
 */
#include <asm/siginfo.h>
#include <asm/signal.h>
#include <linux/prctl.h>

#include "loader/half.h"
#include "loader/window.h"

#define PROBE_SIGNAL 33
#define WAIT_TRIES 5000
#define WAIT_NS 1000000

static struct {
	int half;			/* whose threads are meant */
	bool end;			/* they are to end */
	uint32_t answered, inside, own; /* threads; of the application in there; the half's own */
} probe;

struct list {
	int64_t ino, off;
	uint16_t size;
	uint8_t type;
	char name[];
};

extern char ck_signal_entries[];
void ck_restorer(void);
__asm__(".globl ck_restorer\nck_restorer:\n\tmovl $15, %eax\n\tsyscall\n");

/* In the handler, on the thread asked. True: the signal was ours. */
bool ck_drop_probe(int sig, const void *value)
{
	uint64_t fs = fs_get();
	int in = ck_window_of(fs);

	if (sig != PROBE_SIGNAL || value != &probe)
		return false;
	if (in == probe.half) {
		bool lent = ck_thread_here(fs, in) != NULL;

		__atomic_add_fetch(lent ? &probe.inside : &probe.own, 1, __ATOMIC_RELAXED);
		if (!lent && probe.end) {
			__atomic_add_fetch(&probe.answered, 1, __ATOMIC_RELEASE);
			for (;;)
				sys1(__NR_exit, 0);
		}
	}
	__atomic_add_fetch(&probe.answered, 1, __ATOMIC_RELEASE);
	return true;
}

static void pause_a_little(void)
{
	struct {
		int64_t s, ns;
	} time = {0, WAIT_NS};

	sys2(__NR_nanosleep, &time, NULL);
}

/* Sends the signal to every other thread of the process; returns to how many. */
static uint32_t ask_all(void)
{
	int fd = (int)sys3(__NR_open, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int32_t pid = (int32_t)sys1(__NR_getpid, 0), me = (int32_t)sys1(__NR_gettid, 0);
	char buffer[4096] __attribute__((aligned(8)));
	uint32_t asked = 0;
	long n;

	while (fd >= 0 && (n = sys3(__NR_getdents64, fd, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n;) {
			const struct list *l = (const struct list *)(buffer + at);
			siginfo_t info = {.si_signo = PROBE_SIGNAL, .si_code = SI_QUEUE};
			int32_t tid = 0;

			for (const char *c = l->name; *c >= '0' && *c <= '9'; c++)
				tid = tid * 10 + (*c - '0');
			at += l->size;
			info.si_ptr = &probe;
			if (tid && tid != me &&
			    !sys4(__NR_rt_tgsigqueueinfo, pid, tid, PROBE_SIGNAL, &info))
				asked++;
		}
	}
	sys1(__NR_close, fd);
	return asked;
}

/* Asks all threads where they are. False: they did not all answer. */
static bool probe_threads(unsigned int half, bool end)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} mine = {(uint64_t)ck_signal_entries, SA_SIGINFO | SA_RESTART | SA_RESTORER,
		  (uint64_t)ck_restorer, 0},
	  now;
	uint32_t asked;

	probe.half = (int)half;
	probe.end = end;
	probe.answered = probe.inside = probe.own = 0;
	sys4(__NR_rt_sigaction, PROBE_SIGNAL, NULL, &now, sizeof(uint64_t));
	if (now.handler <= 1)
		sys4(__NR_rt_sigaction, PROBE_SIGNAL, &mine, NULL, sizeof(uint64_t));
	asked = ask_all();
	for (int i = 0; i < WAIT_TRIES; i++) {
		if (__atomic_load_n(&probe.answered, __ATOMIC_ACQUIRE) >= asked)
			return true;
		pause_a_little();
	}
	return false;
}

/* Ends the half's own threads; they are gone when a question finds none. */
static bool end_threads(unsigned int half)
{
	for (int i = 0; i < WAIT_TRIES; i++) {
		if (!probe_threads(half, true))
			return false;
		if (!probe.own)
			return true;
		pause_a_little();
	}
	return false;
}

static void close_descriptors(struct lh_half *h)
{
	for (uint64_t w = 0; h->descriptors && w < h->descriptor_words; w++)
		for (unsigned int bit = 0; bit < 64; bit++)
			if (h->descriptors[w] >> bit & 1)
				sys1(__NR_close, w * 64 + bit);
	h->descriptors = NULL;
}

static int check_half(unsigned int half, enum lh_state state)
{
	if (!half || half >= ck_info.halves || ck_info.half[half].state != state ||
	    ck_window_of(fs_get()) != 0 || (int32_t)sys1(__NR_getpid, 0) != ck_info.pid)
		return -EINVAL;
	return 0;
}

int ck_half_drop(unsigned int half)
{
	int ret = check_half(half, LH_READY);

	if (ret)
		return ret;
	if (!probe_threads(half, false) || probe.inside)
		return -EBUSY;
	ck_half_finish(half);
	ck_info.half[half].table = NULL;
	if (!end_threads(half)) {
		ck_say("%s: its threads do not end", ck_halves[half].name);
		return -EBUSY;
	}
	close_descriptors(&ck_info.half[half]);
	ck_signal_forget(half);
	ck_thread_forget(half);
	ck_window_clear(half);
	ck_info.half[half].state = LH_DROPPED;
	return 0;
}

/* ld.so tells the kernel the word to clear at the thread's end, and of its robust mutexes: these
 * stay the application's. */
int ck_half_load(unsigned int half)
{
	uint64_t clear = 0, robust = 0, size = 0;
	struct lh_half *h = &ck_info.half[half];
	int ret = check_half(half, LH_DROPPED);

	if (ret)
		return ret;
	if (sys2(__NR_prctl, PR_GET_TID_ADDRESS, &clear) &&
	    sys1(__NR_gettid, 0) != sys1(__NR_getpid, 0))
		return -ENOSYS;
	sys3(__NR_get_robust_list, 0, &robust, &size);
	memset(&h->manager, 0, sizeof(h->manager));
	ck_halves[half].known_libc = false;
	ck_half_run(half);
	if (clear)
		sys1(__NR_set_tid_address, clear);
	if (robust)
		sys2(__NR_set_robust_list, robust, size);
	return 0;
}
