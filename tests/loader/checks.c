/*
 * tests/loader/checks.c - what an application sees of its lower halves: "checks NAME..." runs the
 * checks of these names; each says "NAME ok" or what is wrong. test_loader.py has the list.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loader/find.h"
#include "entries.h"
#include "rseq.h"
#include "toy.h"

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			printf("%s:%d: not so: %s\n", __func__, __LINE__, #x);                     \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)
#define IN(half, p) ((uint64_t)(p) >= (half)->base && (uint64_t)(p) < (half)->end)

extern char **environ;
static struct lhinfo *info;
static struct lh_half *upper, *toy;
static __thread int word = 1234;
static volatile int seen, runs, wrong;

static int calls(void)
{
	int local = 0;

	CHECK(toy_add(2, 3) == 5);
	CHECK(toy_scale(1.5, 2.0f) == 3.0);
	CHECK(toy_twelve(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) == 78);
	CHECK(toy_twelve(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2) == 1 + 11 + 24);
	CHECK(toy_constructed() == 1);
	CHECK(IN(toy, toy_fact(0)) == 0); /* it runs on our stack */
	CHECK(IN(toy, toy_fact(1)));
	CHECK(IN(upper, &local));
	return 0;
}

static int each_its_own(void)
{
	jmp_buf back;
	int *theirs = toy_word();

	errno = 99;
	toy_errno(11);
	CHECK(errno == 99);
	CHECK(*theirs == 7 && word == 1234); /* readable from here */
	*theirs = 8;
	CHECK(*toy_word() == 8 && word == 1234);
	*theirs = 7;
	if (!setjmp(back)) {
		toy_add(1, 1);
		longjmp(back, 1);
	}
	CHECK(word == 1234);
	return 0;
}

static int thread_block(void)
{
	uint64_t canary, pointer_guard;
	uint32_t tid;

	__asm__("movq %%fs:0x28, %0" : "=r"(canary));
	__asm__("movq %%fs:0x30, %0" : "=r"(pointer_guard));
	__asm__("movl %%fs:0x2d0, %0" : "=r"(tid));
	CHECK(canary && toy_fact(5) == canary);
	CHECK(toy_fact(3) == tid && tid == (uint32_t)getpid());
	CHECK((rseq_size() != 0) == RSEQ_KNOWN && toy_fact(2) == 0);
	return 0;
}

static int memory(void)
{
	enum { COUNT = 200, SIZE = 60000 };
	char *ours[COUNT], *theirs[COUNT];
	void *moved, *big;

	for (int i = 0; i < COUNT; i++) {
		ours[i] = memset(malloc(SIZE), 1, SIZE);
		theirs[i] = memset(toy_malloc(SIZE), 2, SIZE);
		CHECK(IN(upper, ours[i]) && IN(toy, theirs[i]));
	}
	for (int i = 0; i < COUNT; i++)
		for (int k = 0; k < SIZE; k += 100)
			CHECK(ours[i][k] == 1 && theirs[i][k] == 2);
	for (int i = 0; i < COUNT; i++) {
		free(ours[i]);
		toy_free(theirs[i]);
	}
	big = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(IN(upper, big) && (uint64_t)big % (2 << 20) == 0);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != big);
	strcpy((char *)big + 4096, "moved");
	moved = mremap(big, 64 << 20, 128 << 20, MREMAP_MAYMOVE);
	CHECK(IN(upper, moved) && !strcmp((char *)moved + 4096, "moved"));
	CHECK(!munmap(moved, 128 << 20));
	CHECK(sbrk(0) != (void *)-1 && IN(upper, sbrk(0)));
	return 0;
}

/* Memory that is wanted somewhere outside of all windows comes there, as NVIDIA's driver
 * expects. */
static int places(void)
{
	enum { SIZE = 16 << 20 };
	char *there = (char *)0x300000000, *p, *theirs = toy_map(there, SIZE);
	unsigned int half = (unsigned int)(toy - info->half);
	unsigned char present[SIZE / 4096];
	int fd = open("/proc/self/exe", O_RDONLY);

	CHECK(theirs == there);
	CHECK(IN(upper, mmap(there, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	CHECK(IN(upper,
		 mmap((void *)toy->base, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	CHECK(IN(upper, mmap((void *)(toy->base - 4096), SIZE, PROT_READ,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	CHECK(IN(upper, mmap(there + SIZE, 4096, PROT_READ, MAP_PRIVATE, fd, 0)));
	CHECK(!close(fd));
	p = mmap(there + SIZE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p == there + SIZE);
	p[0] = 5;
	/* in the middle of theirs: removed by us, and ours from now on */
	CHECK(!munmap(there + 4096, 4096));
	CHECK(mmap(there + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	      there + 4096);
	p = mremap(p, SIZE, 2 * SIZE, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED && p[0] == 5);
	CHECK(!munmap(p, 2 * SIZE));
	CHECK(toy_map(there + 2 * SIZE, 4096) == there + 2 * SIZE);
	CHECK(toy_resize(there + 2 * SIZE, 4096, 3 * 4096) == there + 2 * SIZE);
	CHECK(toy_resize(there + 2 * SIZE, 3 * 4096, 2 * 4096) == there + 2 * SIZE);
	p = there + 2 * SIZE + 2 * 4096; /* ours now */
	CHECK(mmap(p, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == p);
	CHECK(toy_fix(there + 3 * SIZE, SIZE) == there + 3 * SIZE);
	CHECK(info->drop(half) == 0);
	CHECK(mincore(there, 4096, present) < 0 && errno == ENOMEM);
	CHECK(mincore(there + 4096, 4096, present) == 0);
	CHECK(mincore(there + 8192, SIZE - 8192, present) < 0 && errno == ENOMEM);
	CHECK(mincore(there + 2 * SIZE, 4096, present) < 0 && errno == ENOMEM);
	CHECK(mincore(there + 2 * SIZE + 4096, 4096, present) < 0 && errno == ENOMEM);
	CHECK(mincore(p, 4096, present) == 0 && !munmap(p, 4096));
	CHECK(mincore(there + 3 * SIZE, SIZE, present) < 0 && errno == ENOMEM);
	CHECK(info->load(half) == 0 && !munmap(there + 4096, 4096));
	CHECK(toy_map(there, SIZE) == theirs);
	return 0;
}

/* 64 MiB taken and given back, many times more than the window has. */
static int reuse(void)
{
	for (int i = 0; i < 40000; i++) {
		char *p = mmap(NULL, 64 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(p != MAP_FAILED && IN(upper, p));
		CHECK(!munmap(p, 64 << 20));
	}
	return 0;
}

static int stacks(void)
{
	uint64_t low = toy_fact(6), size = toy_fact(7);
	pthread_attr_t attr;
	void *ours;
	size_t ours_size;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &ours, &ours_size);
	CHECK(IN(upper, ours) && ours_size >= 7 << 20);
	CHECK(IN(toy, low) && size >= 7 << 20);
	CHECK(IN(toy, toy_fact(8)));
	return 0;
}

static int vdso(void)
{
	struct timespec from, to, now;
	long ns;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < 100000; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_MONOTONIC, &to);
	ns = (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
	CHECK(ns > 0);
	printf("vdso: %ld ns a call\n", ns / 100000);
	return 0;
}

static long callee(long value)
{
	seen = word;
	return value + toy_add(1, 1);
}

static int callbacks(void)
{
	seen = 0;
	CHECK(toy_call(callee, 40) == 42 && seen == 1234);
	seen = 0;
	CHECK(toy_call_in_thread(callee, 40) == 42 && seen == 1234);
	for (int i = 0; i < 100; i++)
		CHECK(toy_call_in_thread(callee, i) == i + 2);
	return 0;
}

static void *churn(void *unused)
{
	(void)unused;
	if (word != 1234 || *toy_word() != 7)
		return (void *)1;
	*toy_word() = 8;
	return (void *)toy_churn(200000);
}

/* Two generations: the second is given nothing of the first's, and the first's are gone. */
static int threads(void)
{
	enum { COUNT = 8 };
	pthread_t thread[COUNT];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++)
			CHECK(!pthread_create(&thread[i], NULL, churn, NULL));
		for (int i = 0; i < COUNT; i++) {
			void *bad;

			pthread_join(thread[i], &bad);
			CHECK(!bad);
		}
	}
	CHECK(*toy_word() == 7);
	return 0;
}

static int thread_count(void)
{
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");
	int n = -1;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Threads: %d", &n);
	fclose(f);
	return n;
}

static void *use(void *unused)
{
	(void)unused;
	return (void *)toy_add(0, 0);
}

static int threads_are_given_back(void)
{
	int before = thread_count(), now = 0;
	pthread_t thread;

	for (int i = 0; i < 200; i++) {
		CHECK(!pthread_create(&thread, NULL, use, NULL));
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 1000 && (now = thread_count()) > before + 2; i++)
		usleep(1000);
	CHECK(now <= before + 2);
	return 0;
}

static void on_signal(int sig)
{
	(void)sig;
	runs++;
	seen = word;
	wrong += word != 1234;
}

static void *raise_later(void *target)
{
	usleep(20000);
	pthread_kill(*(pthread_t *)target, SIGUSR1);
	while (!__atomic_load_n(&runs, __ATOMIC_ACQUIRE))
		usleep(100);
	__atomic_store_n((int *)&seen, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A handler that comes while we are in the lower half finds our thread block; the half its own. */
static int signals(void)
{
	struct itimerval fast = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
	struct sigaction act = {.sa_handler = on_signal}, old;
	pthread_t self = pthread_self(), other;

	CHECK(!sigaction(SIGUSR1, &act, NULL) && !sigaction(SIGUSR1, NULL, &old));
	CHECK(old.sa_handler == on_signal && !(old.sa_flags & SA_SIGINFO));
	CHECK(!pthread_create(&other, NULL, raise_later, &self));
	seen = 0;
	CHECK(toy_wait((int *)&seen) == 7);
	pthread_join(other, NULL);
	CHECK(runs == 1 && !wrong);
	CHECK(signal(SIGALRM, on_signal) == SIG_DFL);
	runs = 0;
	setitimer(ITIMER_REAL, &fast, NULL);
	for (int i = 0; i < 400 || runs < 20; i++)
		toy_churn(2000);
	setitimer(ITIMER_REAL, &off, NULL);
	CHECK(runs >= 20 && !wrong);
	return 0;
}

static int their_handler(void)
{
	struct sigaction old;

	CHECK(!toy_handle(SIGUSR2));
	raise(SIGUSR2);
	CHECK(toy_handled() == 1);
	CHECK(!sigaction(SIGUSR2, NULL, &old) && old.sa_handler != SIG_DFL);
	old.sa_handler(SIGUSR2); /* as a program that chains does */
	CHECK(toy_handled() == 2 && word == 1234);
	CHECK(signal(SIGUSR2, on_signal) == old.sa_handler);
	CHECK(signal(SIGUSR2, old.sa_handler) == on_signal);
	raise(SIGUSR2);
	CHECK(toy_handled() == 3);
	return 0;
}

static void on_siginfo(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	wrong += !context || info->si_pid != getpid() || info->si_code != SI_TKILL;
	runs++;
}

/* An action reads as it was set, whatever the kernel was told. */
static int their_flags(void)
{
	struct sigaction plain = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;
	struct sigaction full = {.sa_sigaction = on_siginfo, .sa_flags = SA_SIGINFO};

	CHECK(!sigaction(SIGUSR1, &plain, NULL) && !sigaction(SIGUSR1, &full, &old));
	CHECK(old.sa_handler == on_signal &&
	      (old.sa_flags & (SA_SIGINFO | SA_RESTART)) == SA_RESTART);
	raise(SIGUSR1);
	CHECK(runs == 1 && !wrong);
	plain.sa_handler = SIG_IGN;
	CHECK(!sigaction(SIGUSR1, &plain, &old));
	CHECK(old.sa_sigaction == on_siginfo && old.sa_flags & SA_SIGINFO);
	CHECK(!sigaction(SIGUSR1, &full, &old));
	CHECK(old.sa_handler == SIG_IGN && !(old.sa_flags & SA_SIGINFO));
	return 0;
}

/* Ends the process: by SIGSEGV, and not by SIGALRM. */
static int their_fault(void)
{
	signal(SIGSEGV, on_signal);
	alarm(20);
	CHECK(!toy_fault_in_thread());
	for (;;)
		pause();
}

static void *idle(void *stop)
{
	toy_add(1, 1);
	while (!__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE))
		usleep(1000);
	return NULL;
}

static int setuid_with_threads(void)
{
	pthread_t thread;
	int stop = 0;

	CHECK(!pthread_create(&thread, NULL, idle, &stop));
	CHECK(!setgid(getgid()) && !setuid(getuid()));
	CHECK(toy_threads(2) == 0); /* the half's libc has its say now */
	CHECK(!setgid(getgid()) && !setuid(getuid()));
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	return 0;
}

static void *cancelled(void *unused)
{
	(void)unused;
	for (;;) {
		toy_churn(100);
		pthread_testcancel();
	}
	return NULL;
}

static int cancel(void)
{
	pthread_t thread;
	void *ret;

	CHECK(!pthread_create(&thread, NULL, cancelled, NULL));
	usleep(20000);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &ret) && ret == PTHREAD_CANCELED);
	return 0;
}

static int children(void)
{
	char *argv[] = {"sh", "-c", "exit 5", NULL};
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(toy_add(1, 2) == 3 && toy_churn(1000) == 0 && lhinfo_find() == info ? 4 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 4);
	status = system("exit 6");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 6);
	CHECK(!posix_spawnp(&pid, "sh", NULL, NULL, argv, environ));
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5);
	CHECK(!toy_add(0, 0));
	return 0;
}

/* Each half has a list of libraries of its own: what one opens lies in its window, and its name
 * again in the other's. */
static int libraries(void)
{
	void *ours, *theirs = toy_open("libresolv.so.2");
	Dl_info where;

	CHECK(theirs && !dlopen("libresolv.so.2", RTLD_NOW | RTLD_NOLOAD));
	ours = dlopen("libresolv.so.2", RTLD_NOW);
	CHECK(ours && ours != theirs);
	CHECK(IN(upper, ours) && IN(toy, theirs)); /* link maps come from each half's own heap */
	CHECK(dladdr(dlsym(ours, "ns_get16"), &where) && IN(upper, where.dli_fbase));
	CHECK(!dlclose(ours) && !dlopen("libresolv.so.2", RTLD_NOW | RTLD_NOLOAD));
	CHECK(!dlopen("no-such-library.so", RTLD_NOW) && dlerror());
	return 0;
}

static void *map_much(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
	return NULL;
}

/* Code of the libc may be mapped again (dlmopen, profilers), while other threads are in what it was
 * turned to. */
static int libc_again(void)
{
	pthread_t thread[3];
	Dl_info where;
	int stop = 0, fd, good = 0;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "mmap"), &where));
	fd = open(where.dli_fname, O_RDONLY);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread[i], NULL, map_much, &stop));
	for (int i = 0; i < 40; i++)
		good += mmap(NULL, 2 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) !=
			MAP_FAILED;
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	CHECK(good == 40);
	return !!close(fd);
}

static void *in_child(void *unused)
{
	(void)unused;
	return (void *)toy_add(1, 1);
}

/* In a thread that a child made there is no block to be had: an error, not a hang. */
static int thread_of_a_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		pthread_t thread;
		void *ret = NULL;

		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		pthread_create(&thread, NULL, in_child, NULL);
		pthread_join(thread, &ret);
		_exit((long)ret == -1000 ? 3 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
	return 0;
}

/* The half is taken out, with threads of its own, and put in again at the same place. */
static int reload(void)
{
	unsigned int half = (unsigned int)(toy - info->half), generation = toy->generation;
	int before = thread_count(), files = entries("/proc/self/fd"), ours[2];
	uint64_t page = toy->base + 4096;
	unsigned char there;

	CHECK(toy_files() == 9 && entries("/proc/self/fd") == files + 9);
	/* the numbers of what it has closed again are the program's */
	for (int i = 0; i < 2; i++)
		CHECK((ours[i] = open("/proc/self/exe", O_RDONLY)) >= 0);
	CHECK(toy_add(1, 2) == 3 && !toy_threads(3));
	*toy_word() = 9;
	CHECK(info->drop(half) == 0);
	CHECK(thread_count() < before && entries("/proc/self/fd") == files + 2);
	CHECK(!close(ours[0]) && !close(ours[1]) && fcntl(1, F_GETFD) >= 0);
	CHECK(mincore((void *)page, 4096, &there) < 0 && errno == ENOMEM);
	CHECK(toy_add(1, 2) == -1000); /* an error, no crash */
	CHECK(info->drop(half) == -EINVAL);
	CHECK(info->load(half) == 0);
	CHECK(toy->generation == generation + 1);
	CHECK(toy_add(1, 2) == 3 && *toy_word() == 7 && toy_constructed() == 1);
	CHECK(IN(toy, toy_fact(1)) && callbacks() == 0 && threads() == 0);
	return 0;
}

static int busy(void)
{
	unsigned int half = (unsigned int)(toy - info->half);
	pthread_t thread;

	seen = -1;
	CHECK(!pthread_create(&thread, NULL, (void *(*)(void *))(void *)toy_wait, (void *)&seen));
	while (__atomic_load_n((int *)&seen, __ATOMIC_ACQUIRE) == -1)
		usleep(1000); /* it is on its way into the half */
	CHECK(info->drop(half) == -EBUSY);
	seen = 1;
	pthread_join(thread, NULL);
	CHECK(toy_add(1, 2) == 3);
	return 0;
}

static int upper_region(void)
{
	memcpy(info->upper, "left here", 10);
	CHECK(!strcmp((char *)lhinfo_find()->upper, "left here"));
	CHECK(info->pid == getpid() && info->generation >= 2);
	CHECK(strlen(getenv(LHINFO_ENV)) == 18);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} all[] = {
	{"calls", calls},
	{"each_its_own", each_its_own},
	{"thread_block", thread_block},
	{"memory", memory},
	{"places", places},
	{"reuse", reuse},
	{"stacks", stacks},
	{"vdso", vdso},
	{"callbacks", callbacks},
	{"threads", threads},
	{"threads_are_given_back", threads_are_given_back},
	{"signals", signals},
	{"their_handler", their_handler},
	{"their_flags", their_flags},
	{"their_fault", their_fault},
	{"setuid_with_threads", setuid_with_threads},
	{"cancel", cancel},
	{"libraries", libraries},
	{"libc_again", libc_again},
	{"children", children},
	{"thread_of_a_child", thread_of_a_child},
	{"busy", busy},
	{"reload", reload},
	{"upper_region", upper_region},
};

static int run(const char *name)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(all[i].name, name))
			continue;
		if (all[i].run())
			return 1;
		printf("%s ok\n", name);
		fflush(stdout);
		return 0;
	}
	printf("%s: no such check\n", name);
	return 1;
}

int main(int argc, char **argv)
{
	int bad = 0;

	info = lhinfo_find();
	if (!info) {
		printf("no loader\n");
		return 3;
	}
	upper = &info->half[0];
	toy = &info->half[1];
	for (int i = 1; i < argc; i++)
		bad |= run(argv[i]);
	return bad;
}
