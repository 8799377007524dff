/*
 * loader/sys.h - the kernel's calls, and the few functions of a libc that the loader needs.
 *
 * The loader is linked with nothing, and its code runs on the thread block of whichever half calls
 * it: no errno, no thread-local data, no stack protector, no vector registers.
 */
#ifndef CK_LOADER_SYS_H
#define CK_LOADER_SYS_H

#include <asm/prctl.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096ul
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#define SYS_ARG(x) ((long)(x))
#define sys1(n, a) sys6(n, SYS_ARG(a), 0, 0, 0, 0, 0)
#define sys2(n, a, b) sys6(n, SYS_ARG(a), SYS_ARG(b), 0, 0, 0, 0)
#define sys3(n, a, b, c) sys6(n, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), 0, 0, 0)
#define sys4(n, a, b, c, d) sys6(n, SYS_ARG(a), SYS_ARG(b), SYS_ARG(c), SYS_ARG(d), 0, 0)

static inline long sys_mmap(uint64_t at, size_t size, int prot, int flags, int fd, uint64_t off)
{
	return sys6(__NR_mmap, (long)at, (long)size, prot, flags, fd, (long)off);
}

static inline bool is_error(long ret)
{
	return (unsigned long)ret > -PAGE;
}

static inline uint64_t page_up(uint64_t n)
{
	return (n + PAGE - 1) & -PAGE;
}

static inline uint64_t page_down(uint64_t n)
{
	return n & -PAGE;
}

/* Have [a, a_end) and [b, b_end) something in common? */
static inline bool ranges_overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
	return a < b_end && b < a_end;
}

/* Whether user code may use the instructions that read and write FS; set once, at the start. */
extern bool ck_fsgsbase;

static inline uint64_t fs_get(void)
{
	uint64_t fs;

	if (__builtin_expect(ck_fsgsbase, 1))
		__asm__ volatile("rdfsbase %0" : "=r"(fs));
	else
		sys2(__NR_arch_prctl, ARCH_GET_FS, &fs);
	return fs;
}

static inline void fs_set(uint64_t fs)
{
	if (__builtin_expect(ck_fsgsbase, 1))
		__asm__ volatile("wrfsbase %0" : : "r"(fs) : "memory");
	else
		sys2(__NR_arch_prctl, ARCH_SET_FS, fs);
}

size_t ck_strlen(const char *s);
int ck_strcmp(const char *a, const char *b);
bool ck_starts(const char *s, const char *prefix);
char *ck_strrchr(const char *s, int c);
void *memcpy(void *to, const void *from, size_t n);
void *memset(void *at, int c, size_t n);
int memcmp(const void *a, const void *b, size_t n);

/* The value of a variable of @envp; NULL when it is not set. */
const char *ck_getenv(char **envp, const char *name);

/*
 * Text: %s string, %d int, %u unsigned, %x uint64_t in hexadecimal, %m the text of an errno (int).
 * ck_format returns the length, cut to fit; ck_print writes to descriptor @fd.
 */
size_t ck_format(char *to, size_t size, const char *format, ...);
void ck_print(int fd, const char *format, ...);

/* "kernel-loader: ..." as one line on stderr, at once; ck_die ends the process with status 2. */
void ck_say(const char *format, ...);
void ck_die(const char *format, ...) __attribute__((noreturn));

/* The first @n bytes of @from as a string; a string that does not fit ends the loader. */
void ck_copy_text(char *to, size_t size, const char *from, size_t n);

/* All signals of the thread, blocked and put back. */
uint64_t ck_signals_block(void);
void ck_signals_restore(uint64_t old);

/*
 * A futex lock for functions that are never called from a signal handler with signals open. The
 * owner's pid is in the word, so that a child of fork does not wait for a thread that only its
 * parent has.
 */
void ck_lock(uint32_t *word);
void ck_unlock(uint32_t *word);

#endif
