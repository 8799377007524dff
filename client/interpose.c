/*
 * client/interpose.c - functions of the C library that must know of managed memory.
 *
 * Pages that are on the device are shut here. A touch of one is a signal, which client/fault.c
 * answers; but the kernel gives a system call that meets one EFAULT. So the calls that programs
 * give their buffers to fetch them first: reading and writing, by file or socket. And a program
 * that sets or blocks SIGSEGV must not take the signal from us: its own handler is kept and called
 * for its own faults.
 *
 * This works for programs that find our names before the C library's: where the shim is
 * preloaded, or linked. Not under the sanitizers, which put their own functions in these places.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/fault.h"
#include "client/managed.h"
#include "client/window.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__FUZZER__)

int ck_fault_system(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sigaction(sig, act, old);
}

#else

/* The C library's function: the next of this name, or where the shim was loaded behind the C
 * library (as what a program is linked with needs), the C library's own. */
static void *behind_us(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name), *libc;

	if (found)
		return found;
	libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	return libc ? dlsym(libc, name) : NULL;
}

/* It is looked up once: racing threads find the same. */
#define NEXT(name)                                                              \
	__extension__({                                                         \
		static __typeof__(&name) next_;                                 \
		__typeof__(&name) f_ = __atomic_load_n(&next_, __ATOMIC_RELAXED); \
		if (unlikely(!f_)) {                                            \
			f_ = (__typeof__(&name))behind_us(#name);               \
			__atomic_store_n(&next_, f_, __ATOMIC_RELAXED);         \
		}                                                               \
		f_;                                                             \
	})

/* --- buffers */

/* Have [p, p+size) here, and writable, for a system call. */
static inline void need(uintptr_t p, size_t size, bool write)
{
	if (unlikely(ck_managed_may_be(p)))
		ck_managed_need(p, size, write);
}

static void need_all(const struct iovec *iov, int count, bool write)
{
	for (int i = 0; i < count; i++)
		need((uintptr_t)iov[i].iov_base, iov[i].iov_len, write);
}

#define INTO true	/* the call writes into the buffer */
#define FROM false

CK_EXPORT ssize_t read(int fd, void *buf, size_t size)
{
	need((uintptr_t)buf, size, INTO);
	return NEXT(read)(fd, buf, size);
}

CK_EXPORT ssize_t write(int fd, const void *buf, size_t size)
{
	need((uintptr_t)buf, size, FROM);
	return NEXT(write)(fd, buf, size);
}

CK_EXPORT ssize_t pread(int fd, void *buf, size_t size, off_t at)
{
	need((uintptr_t)buf, size, INTO);
	return NEXT(pread)(fd, buf, size, at);
}

CK_EXPORT ssize_t pread64(int fd, void *buf, size_t size, off64_t at)
{
	need((uintptr_t)buf, size, INTO);
	return NEXT(pread64)(fd, buf, size, at);
}

CK_EXPORT ssize_t pwrite(int fd, const void *buf, size_t size, off_t at)
{
	need((uintptr_t)buf, size, FROM);
	return NEXT(pwrite)(fd, buf, size, at);
}

CK_EXPORT ssize_t pwrite64(int fd, const void *buf, size_t size, off64_t at)
{
	need((uintptr_t)buf, size, FROM);
	return NEXT(pwrite64)(fd, buf, size, at);
}

CK_EXPORT ssize_t readv(int fd, const struct iovec *iov, int count)
{
	need_all(iov, count, INTO);
	return NEXT(readv)(fd, iov, count);
}

CK_EXPORT ssize_t writev(int fd, const struct iovec *iov, int count)
{
	need_all(iov, count, FROM);
	return NEXT(writev)(fd, iov, count);
}

CK_EXPORT ssize_t recv(int fd, void *buf, size_t size, int flags)
{
	need((uintptr_t)buf, size, INTO);
	return NEXT(recv)(fd, buf, size, flags);
}

CK_EXPORT ssize_t send(int fd, const void *buf, size_t size, int flags)
{
	need((uintptr_t)buf, size, FROM);
	return NEXT(send)(fd, buf, size, flags);
}

CK_EXPORT ssize_t recvfrom(int fd, void *buf, size_t size, int flags, struct sockaddr *from,
			   socklen_t *length)
{
	need((uintptr_t)buf, size, INTO);
	return NEXT(recvfrom)(fd, buf, size, flags, from, length);
}

CK_EXPORT ssize_t sendto(int fd, const void *buf, size_t size, int flags,
			 const struct sockaddr *to, socklen_t length)
{
	need((uintptr_t)buf, size, FROM);
	return NEXT(sendto)(fd, buf, size, flags, to, length);
}

/* These hand large buffers to the kernel as they are, without a call of the above. */
CK_EXPORT size_t fread(void *buf, size_t size, size_t count, FILE *stream)
{
	need((uintptr_t)buf, size * count, INTO);
	return NEXT(fread)(buf, size, count, stream);
}

CK_EXPORT size_t fwrite(const void *buf, size_t size, size_t count, FILE *stream)
{
	need((uintptr_t)buf, size * count, FROM);
	return NEXT(fwrite)(buf, size, count, stream);
}

/* --- signals */

int ck_fault_system(int sig, const struct sigaction *act, struct sigaction *old)
{
	return NEXT(sigaction)(sig, act, old);
}

CK_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (sig == SIGSEGV && ck_fault_sigaction(act, old) == 0)
		return 0;
	return ck_fault_system(sig, act, old);
}

CK_EXPORT __sighandler_t signal(int sig, __sighandler_t handler)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	if (sig != SIGSEGV)
		return NEXT(signal)(sig, handler);
	return sigaction(sig, &act, &old) < 0 ? SIG_ERR : old.sa_handler;
}

/* @set without SIGSEGV, in *@open: a fault while it is blocked would end the process. */
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *open)
{
	if (!set || how == SIG_UNBLOCK || !ck_window_lo || sigismember(set, SIGSEGV) != 1)
		return set;
	*open = *set;
	sigdelset(open, SIGSEGV);
	return open;
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

#endif
