/*
 * util/process/private_fds.c - see util/process/private_fds.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process/fd.h"
#include "util/process/private_fds.h"
#include "util/process/proc_file.h"
#include "util/until.h"
#include "util/util.h"

#define RECENT_NS 20000
#define HIGHEST 4096 /* the kernel's table of descriptors grows with the highest number */
#define HIGH 128     /* numbers below the limit that are tried first */
#define LAST 16	     /* numbers below the limit that no spare takes */

static rlim_t soft_limit(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? HIGH : limit.rlim_cur;
}

/* A copy of @fd with a high number below @most; -1: there is none. */
static int copy_high(int fd, rlim_t limit, rlim_t most)
{
	rlim_t top = ck_min(limit, (rlim_t)HIGHEST);
	int high = fcntl(fd, F_DUPFD_CLOEXEC, (int)(top - ck_min(top / 2, (rlim_t)HIGH)));

	if (high >= 0 && (rlim_t)high >= most) {
		close(high);
		high = -1;
	}
	return high;
}

/* Move @fd to a high number if one is free. Returns where the file is now. -1: the program has
 * closed @fd meanwhile, and its new descriptor there stays. */
static int move_high(int fd)
{
	rlim_t limit = soft_limit();
	struct stat st;
	int high;

	if (fstat(fd, &st) < 0)
		return -1;
	high = copy_high(fd, limit, limit);
	if (high < 0)
		return fd;
	if (!ck_fd_is(high, st.st_dev, st.st_ino)) {
		close(high);
		return -1;
	}
	if (ck_fd_is(fd, st.st_dev, st.st_ino))
		close(fd);
	return high;
}

static int make_spare(int fd)
{
	rlim_t limit = soft_limit();

	return limit > LAST ? copy_high(fd, limit, limit - LAST) : -1;
}

void ck_private_fd_plain(struct ck_private_fd *k, int fd)
{
	/* each alone: threads may use @k meanwhile */
	atomic_store(&k->spare, -1);
	atomic_store(&k->fd, fd);
	atomic_store(&k->mode, fd < 0 ? CK_KEPT_NONE : CK_KEPT_PLAIN);
}

/* When the kernel made this process, in its ticks; 0: not known. CRIU makes a process anew, with
 * the same number. */
static unsigned long long start_time(void)
{
	struct ck_proc_stat stat;

	return ck_proc_stat(0, &stat) == 0 ? stat.start : 0;
}

void ck_private_fd_note(struct ck_private_fd *k, int fd)
{
	uint64_t now = ck_now_ns();
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) < 0)
		fd = -1; /* the program has closed it */
	ck_private_fd_plain(k, fd);
	if (fd < 0)
		return;
	k->dev = st.st_dev;
	k->ino = st.st_ino;
	k->pid = getpid();
	k->start = start_time();
	atomic_store(&k->checked_ns, now);
	atomic_store(&k->mode, CK_KEPT_WATCHED);
}

void ck_private_fd_take(struct ck_private_fd *k, int fd, bool twice)
{
	int before = errno;

	ck_private_fd_note(k, fd < 0 ? fd : move_high(fd));
	if (k->mode == CK_KEPT_WATCHED && twice)
		atomic_store(&k->spare, make_spare(k->fd));
	errno = before;
}

int ck_private_fd_memory(struct ck_private_fd *k, const char *name, size_t size, bool twice)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), ret = fd < 0 ? -errno : 0;

	ck_private_fd_take(k, fd, twice);
	if (ret == 0)
		ret = ck_fd_resize(ck_private_fd_number(k), (off_t)size);
	if (ret == 0 && fcntl(ck_private_fd_number(k), F_ADD_SEALS,
			      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		ret = -errno;
	if (ret < 0)
		ck_private_fd_close(k);
	return ret;
}

void ck_private_fd_share(struct ck_private_fd *k, const struct ck_private_fd *of)
{
	/* each alone, as threads may use @k meanwhile: they find no descriptor until the last */
	atomic_store(&k->mode, CK_KEPT_NONE);
	atomic_store(&k->fd, of->fd);
	atomic_store(&k->spare, of->spare);
	k->dev = of->dev;
	k->ino = of->ino;
	k->pid = of->pid;
	k->start = of->start;
	atomic_store(&k->checked_ns, of->checked_ns);
	atomic_store(&k->mode, of->mode);
}

/* Has CRIU restored the process since @k was noted? Its files are the same, and have other inodes.
 * If that is not known, as without a free descriptor, the file is the program's. */
static bool was_restored(const struct ck_private_fd *k)
{
	unsigned long long start = k->start && k->pid == getpid() ? start_time() : 0;

	return start && start != k->start;
}

static bool is_ours(const struct ck_private_fd *k, int fd)
{
	return fd >= 0 &&
	       (ck_fd_is(fd, k->dev, k->ino) || (fcntl(fd, F_GETFD) >= 0 && was_restored(k)));
}

/* @gone is not this file's any more: use the spare in its place. False: it is gone too. */
static bool use_spare(struct ck_private_fd *k, int gone)
{
	int spare = atomic_load(&k->spare), next;

	if (!is_ours(k, spare))
		return atomic_load(&k->fd) != gone; /* another thread was here first */
	if (!atomic_compare_exchange_strong(&k->fd, &gone, spare))
		return true;
	next = make_spare(spare);
	atomic_store(&k->spare, next);
	return true;
}

int ck_private_fd_number(struct ck_private_fd *k)
{
	int before = errno, fd;
	uint64_t now;
	bool ours;

	if (k->mode != CK_KEPT_WATCHED)
		return k->mode == CK_KEPT_NONE ? -1 : atomic_load(&k->fd);
	do {
		now = ck_now_ns(); /* the thread may lose its processor after the check */
		fd = atomic_load(&k->fd);
		ours = is_ours(k, fd);
	} while (!ours && use_spare(k, fd));
	if (ours)
		atomic_store_explicit(&k->checked_ns, now, memory_order_relaxed);
	errno = before;
	return ours ? fd : -1;
}

int ck_private_fd_recent(struct ck_private_fd *k)
{
	if (k->mode == CK_KEPT_WATCHED &&
	    ck_now_ns() - atomic_load_explicit(&k->checked_ns, memory_order_relaxed) >= RECENT_NS)
		return ck_private_fd_number(k);
	return k->mode == CK_KEPT_NONE ? -1 : atomic_load_explicit(&k->fd, memory_order_relaxed);
}

bool ck_private_fd_gone(struct ck_private_fd *k)
{
	return k->mode == CK_KEPT_WATCHED && ck_private_fd_number(k) < 0;
}

void ck_private_fd_close(struct ck_private_fd *k)
{
	const int fds[] = {k->fd, k->spare};

	for (size_t i = 0; i < CK_ARRAY_SIZE(fds); i++) {
		if (k->mode == CK_KEPT_PLAIN ? fds[i] >= 0 : is_ours(k, fds[i]))
			close(fds[i]);
	}
	*k = (struct ck_private_fd){.mode = CK_KEPT_NONE, .fd = -1, .spare = -1};
}
