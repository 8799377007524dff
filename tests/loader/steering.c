/*
 * tests/loader/steering.c - two ways to steer a libc's mappings into a window without changing its
 * code, which kernel-loader does not use: what they can do, and what they cannot.
 *
 *	steering fill		all other addresses are taken: libraries, stacks and heap come to
 *the window steering fill MIB	the same with an address space of so many MiB: it is refused
 *	steering dispatch	the kernel hands each system call to us (Syscall User Dispatch)
 *
 * Prints facts as "name value"; 2 where the way is refused, 77 where the kernel does not have it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define LOW 0x100000ul
#define WINDOW 0x120000000000ul
#define WINDOW_END (WINDOW + (64ul << 30))
#define BELOW_STACK (2ul << 20)
#define HOLES 512
#define DISPATCH 59 /* PR_SET_SYSCALL_USER_DISPATCH */

static int inside(const void *p)
{
	return (uintptr_t)p >= WINDOW && (uintptr_t)p < WINDOW_END;
}

static void *on_a_stack(void *unused)
{
	(void)unused;
	return __builtin_frame_address(0);
}

/* A mapping, a library, a thread's stack; 1: it lies in the window. */
static void say_places(void)
{
	void *map = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *library,
	     *stack = NULL;
	pthread_t thread;
	Dl_info where = {0};

	library = dlopen("libresolv.so.2", RTLD_NOW);
	if (library)
		dladdr(dlsym(library, "ns_get16"), &where);
	if (!pthread_create(&thread, NULL, on_a_stack, NULL))
		pthread_join(thread, &stack);
	printf("mapping %d\nlibrary %d\nstack %d\n", inside(map), inside(where.dli_fbase),
	       inside(stack));
}

/* --- fill */

static struct hole {
	uintptr_t from, to;
} holes[HOLES];

static void add(int *count, uintptr_t from, uintptr_t to)
{
	if (from < to && *count < HOLES)
		holes[(*count)++] = (struct hole){from, to};
}

/* What lies between the mappings, the window left out; up to the stack, whose room to grow stays.
 */
static int find_holes(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uintptr_t at = LOW, from, to;
	char line[4352];
	int count = 0;

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "%lx-%lx", &from, &to) == 2) {
		int stack = strstr(line, "[stack]") != NULL;

		if (stack)
			from -= BELOW_STACK;
		add(&count, at, from < WINDOW ? from : at < WINDOW ? WINDOW : at);
		add(&count, at > WINDOW_END ? at : WINDOW_END, from);
		at = to > at ? to : at;
		if (stack)
			break;
	}
	if (f)
		fclose(f);
	return count;
}

static int fill(const char *mib)
{
	struct rlimit limit = {0, 0};
	int count, errors = 0;

	if (mib) {
		limit.rlim_cur = limit.rlim_max = strtoul(mib, NULL, 10) << 20;
		setrlimit(RLIMIT_AS, &limit);
	}
	count = find_holes();
	for (int i = 0; i < count; i++)
		errors += mmap((void *)holes[i].from, holes[i].to - holes[i].from, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			       -1, 0) == MAP_FAILED;
	/* without this question all goes on, and lies where it must not */
	if (errors)
		fprintf(stderr, "steering: %d of %d holes cannot be filled: %s\n", errors, count,
			strerror(errno));
	printf("holes %d\n", count);
	say_places();
	printf("brk %d\n", sbrk(1 << 20) != (void *)-1);
	return errors ? 2 : 0;
}

/* --- dispatch */

static char block; /* PR_SYS_DISPATCH_BLOCK 1: calls are ours; 0: they are the kernel's */
static int traps;
static uintptr_t next = WINDOW;

extern char native_begin[], native_end[];
long native(long number, long a, long b, long c, long d, long e, long f);
void restorer(void);
__asm__("native_begin:\n"
	"native:\n\tmovq %rdi, %rax\n\tmovq %rsi, %rdi\n\tmovq %rdx, %rsi\n\tmovq %rcx, %rdx\n"
	"\tmovq %r8, %r10\n\tmovq %r9, %r8\n\tmovq 8(%rsp), %r9\n\tsyscall\n\tret\n"
	"restorer:\n\tmovl $15, %eax\n\tsyscall\n\tnop\n" /* what counts is where a call ends */
	"native_end:\n");

/* Async: no libc in here, its calls would come to us again. */
static void on_call(int sig, siginfo_t *info, void *context)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	long number = r[REG_RAX];

	(void)sig, (void)info;
	traps++;
	if (number == SYS_mmap && !(r[REG_R10] & MAP_FIXED)) {
		r[REG_RDI] = (greg_t)next;
		r[REG_R10] |= MAP_FIXED_NOREPLACE;
		next += ((uintptr_t)r[REG_RSI] + 8191) & -4096ul;
	}
	if (number == SYS_clone ||
	    number == 435) /* clone3: it would come back here in the child too */
		block = 0, r[REG_RIP] -= 2, r[REG_RAX] = number;
	else
		r[REG_RAX] = native(number, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
				    r[REG_R8], r[REG_R9]);
}

static void *maps_in_a_thread(void *unused)
{
	(void)unused;
	return mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int dispatch(void)
{
	struct {
		void (*handler)(int, siginfo_t *, void *);
		unsigned long flags;
		void (*restorer)(void);
		unsigned long mask;
	} act = {on_call, SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */, restorer, 0};
	Dl_info where = {0};
	pthread_t thread;
	void *library, *map, *theirs = NULL;

	syscall(SYS_rt_sigaction, SIGSYS, &act, NULL, 8);
	if (prctl(DISPATCH, 1, native_begin, native_end - native_begin, &block))
		return 77;
	block = 1;
	library = dlopen("libresolv.so.2", RTLD_NOW);
	map = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	block = 0;
	if (library)
		dladdr(dlsym(library, "ns_get16"), &where);
	block = 1;
	if (!pthread_create(&thread, NULL, maps_in_a_thread, NULL)) {
		block = 0;
		pthread_join(thread, &theirs);
	}
	block = 0;
	printf("traps %d\nmapping %d\nlibrary %d\nof a thread %d\n", traps, inside(map),
	       inside(where.dli_fbase), inside(theirs));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "fill"))
		return fill(argv[2]);
	return argc > 1 && !strcmp(argv[1], "dispatch") ? dispatch() : 1;
}
