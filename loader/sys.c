/*
 * loader/sys.c - strings, text and locks without a libc; see sys.h.
 */
#include "loader/sys.h"

#include <stdarg.h>

bool ck_fsgsbase;

size_t ck_strlen(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

int ck_strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}

bool ck_starts(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return false;
	return true;
}

char *ck_strrchr(const char *s, int c)
{
	const char *found = NULL;

	for (; *s; s++)
		if (*s == c)
			found = s;
	return (char *)found;
}

/* The compiler may call these by itself. */
void *memcpy(void *to, const void *from, size_t n)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *memset(void *to, int c, size_t n)
{
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(c) : "memory");
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *x = a, *y = b;

	for (; n; n--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

const char *ck_getenv(char **envp, const char *name)
{
	size_t n = ck_strlen(name);

	for (; *envp; envp++)
		if (ck_starts(*envp, name) && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

static const char *error_text(int error)
{
	static const struct {
		int error;
		const char *text;
	} texts[] = {
		{ENOENT, "no such file"},
		{EACCES, "permission denied"},
		{ENOMEM, "out of memory"},
		{EEXIST, "something lies there"},
		{EISDIR, "is a directory"},
		{ENOTDIR, "not a directory"},
		{EMFILE, "too many open files"},
		{ELOOP, "too many links"},
		{ENAMETOOLONG, "name too long"},
		{EPERM, "not permitted"},
		{EBUSY, "busy"},
		{EINVAL, "invalid argument"},
		{ESPIPE, "is no file"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].error == error)
			return texts[i].text;
	return NULL;
}

/* --- text */

struct text {
	char *at, *end;
};

static void put_string(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
}

static void put_number(struct text *t, uint64_t n, unsigned int base)
{
	char digits[24], *d = digits + sizeof(digits) - 1;

	*d = '\0';
	do
		*--d = "0123456789abcdef"[n % base];
	while (n /= base);
	put_string(t, d);
}

static void put_signed(struct text *t, int n)
{
	if (n < 0)
		put_string(t, "-");
	put_number(t, n < 0 ? 0u - (unsigned int)n : (unsigned int)n, 10);
}

static void put_error(struct text *t, int error)
{
	const char *known = error_text(error);

	if (known) {
		put_string(t, known);
		return;
	}
	put_string(t, "error ");
	put_signed(t, error);
}

static size_t format_list(char *to, size_t size, const char *format, va_list args)
{
	struct text t = {to, to + size - 1};
	char one[2] = {0};

	for (; *format; format++) {
		one[0] = *format;
		if (*format != '%') {
			put_string(&t, one);
			continue;
		}
		switch (*++format) {
		case 's':
			put_string(&t, va_arg(args, const char *));
			break;
		case 'd':
			put_signed(&t, va_arg(args, int));
			break;
		case 'u':
			put_number(&t, va_arg(args, unsigned int), 10);
			break;
		case 'x':
			put_number(&t, va_arg(args, uint64_t), 16);
			break;
		case 'm':
			put_error(&t, va_arg(args, int));
			break;
		default:
			put_string(&t, "%");
			break;
		}
	}
	*t.at = '\0';
	return (size_t)(t.at - to);
}

size_t ck_format(char *to, size_t size, const char *format, ...)
{
	va_list args;
	size_t n;

	va_start(args, format);
	n = format_list(to, size, format, args);
	va_end(args);
	return n;
}

static void write_all(int fd, const char *text, size_t n)
{
	while (n) {
		long ret = sys3(__NR_write, fd, text, n);

		if (ret == -EINTR)
			continue;
		if (ret <= 0)
			return;
		text += ret;
		n -= (size_t)ret;
	}
}

void ck_print(int fd, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	write_all(fd, line, format_list(line, sizeof(line), format, args));
	va_end(args);
}

static void say_list(const char *format, va_list args)
{
	char line[1024];
	size_t n = ck_format(line, sizeof(line), "kernel-loader: ");

	n += format_list(line + n, sizeof(line) - n - 1, format, args);
	line[n++] = '\n';
	write_all(2, line, n);
}

void ck_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_list(format, args);
	va_end(args);
}

void ck_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say_list(format, args);
	va_end(args);
	for (;;)
		sys1(__NR_exit_group, 2);
}

void ck_copy_text(char *to, size_t size, const char *from, size_t n)
{
	if (n >= size)
		ck_die("%s: too long", from);
	memcpy(to, from, n);
	to[n] = '\0';
}

/* --- signals and locks */

uint64_t ck_signals_block(void)
{
	uint64_t all = ~0ull, old = 0;

	sys4(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &old, sizeof(all));
	return old;
}

void ck_signals_restore(uint64_t old)
{
	sys4(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &old, NULL, sizeof(old));
}

/* The top bit: somebody waits. */
#define WAITERS 0x80000000u

void ck_lock(uint32_t *word)
{
	uint32_t me = (uint32_t)sys1(__NR_getpid, 0);

	for (;;) {
		uint32_t now = 0;

		if (__atomic_compare_exchange_n(word, &now, me, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return;
		if ((now & ~WAITERS) != me) { /* left behind by fork */
			if (__atomic_compare_exchange_n(word, &now, me | WAITERS, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
			continue;
		}
		if (now & WAITERS ||
		    __atomic_compare_exchange_n(word, &now, now | WAITERS, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			sys4(__NR_futex, word, FUTEX_WAIT_PRIVATE, me | WAITERS, NULL);
	}
}

void ck_unlock(uint32_t *word)
{
	if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) & WAITERS)
		sys3(__NR_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff);
}
