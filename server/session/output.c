/*
 * server/session/output.c - the memory files behind a worker's stdout and stderr; see output.h.
 *
 * Writers append at any time. Taken bytes are removed as a hole, so a file keeps its length,
 * offsets only grow, and concurrent writes are not lost.
 *
 * Each reply says whether there is output, and a system call would double its cost. So the page of
 * the first byte that is not taken is mapped: the byte is zero as long as nothing has been written.
 * Text that begins with a zero byte is found by the exact check, which the watch makes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/session/output.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/page.h"

CK_LOG_DEFINE("server");

#define CK_OUTPUT_MAX ((CK_RECORD_MAX - 4096) / 2) /* per file; a reply has both */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FILES 1
#else
#define FILES 2
#endif

static const char cut[] =
	"cricket: output of kernels is missing here: the program did not fetch it "
	"in time (see --kernel-output of the server)\n";

struct file {
	int fd;
	int target;		  /* the descriptor that the file replaces */
	_Atomic off_t taken;	  /* bytes taken; changed under the lock */
	_Atomic bool full;	  /* the target is /dev/null meanwhile */
	_Atomic bool found;	  /* by an exact check, and not taken yet */
	char *page;		  /* mapped: the one of the first byte that is not taken */
	const char *_Atomic next; /* that byte; NULL: the file ends before its page */
};

struct ck_output {
	struct ck_mutex lock;
	off_t most;	     /* bytes of each file that wait to be fetched */
	struct file file[2]; /* behind stdout, behind stderr; -1: none */
};

static int log_fd = -1; /* the original stderr */
static struct ck_output *redirected;

/* On abort, copy the C library's last words to the log. Uses only async-signal-safe calls. */
static void on_abort(int signal)
{
	char text[1024];
	off_t at = redirected->file[1].taken;
	ssize_t n;

	(void)signal;
	while ((n = pread(redirected->file[1].fd, text, sizeof(text), at)) > 0) {
		if (ck_fd_write_now(log_fd, text, (size_t)n) < 0)
			break;
		at += n;
	}
}

/* Map the page of the first byte that is not taken, at the same place as the one before. Bytes of
 * the file are in the page, unless the byte is its first: no access may be made there. */
static int show_next(struct file *file)
{
	size_t page = ck_page(), in_page = (size_t)file->taken % page;
	int flags = MAP_SHARED | (file->page ? MAP_FIXED : 0);
	void *at;

	atomic_store(&file->next, NULL);
	if (in_page == 0)
		return 0;
	at = mmap(file->page, page, PROT_READ, flags, file->fd, file->taken - (off_t)in_page);
	if (at == MAP_FAILED)
		return -errno;
	file->page = at;
	atomic_store(&file->next, file->page + in_page);
	return 0;
}

/* Put a memory file behind descriptor @target. */
static int redirect_output(struct file *file, const char *name, int target)
{
	file->target = target;
	file->fd = memfd_create(name, MFD_CLOEXEC);
	if (file->fd < 0)
		return -errno;
	if (fcntl(file->fd, F_SETFL, O_APPEND) < 0 || dup2(file->fd, target) < 0)
		return -errno;
	if (write(file->fd, "", 1) != 1) /* so that the first page exists */
		return -EIO;
	file->taken = 1;
	return show_next(file);
}

/* The emulated driver has its own log: the environment passes it the descriptor. */
static int keep_log(void)
{
	char text[16];

	log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	if (log_fd < 0)
		return -errno;
	snprintf(text, sizeof(text), "%d", log_fd);
	return setenv("CRICKET_LOG_FD", text, 1) < 0 ? -errno : 0;
}

int cks_output_redirect(size_t most, struct ck_output **output)
{
	struct ck_output *o = calloc(1, sizeof(*o));
	int ret;

	if (!o)
		return -ENOMEM;
	o->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_OUTPUT);
	o->file[0].fd = o->file[1].fd = -1;
	o->most = (off_t)most;
	fflush(stdout);
	ret = redirect_output(&o->file[0], "cricket-stdout", STDOUT_FILENO);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (ret == 0 && FILES == 2) {
		ret = keep_log();
		if (ret == 0)
			ret = redirect_output(&o->file[1], "cricket-stderr", STDERR_FILENO);
		if (ret == 0) {
			redirected = o;
			signal(SIGABRT, on_abort);
		}
	}
	if (ret < 0) {
		cks_output_destroy(o);
		return ret;
	}
	*output = o;
	return 0;
}

void cks_output_bound(struct ck_output *o, size_t most)
{
	o->most = (off_t)most;
}

void cks_output_destroy(struct ck_output *o)
{
	if (!o)
		return;
	for (int i = 0; i < 2; i++) {
		if (o->file[i].fd >= 0)
			close(o->file[i].fd);
		if (o->file[i].page)
			munmap(o->file[i].page, ck_page());
	}
	ck_mutex_destroy(&o->lock);
	free(o);
}

/* Drop further output until the unfetched bytes have been taken. Call with the lock held. */
static void close_tap(struct ck_output *o, struct file *f)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, f->target) < 0)
		ck_warn("kernel output cannot be bounded: %m");
	else
		ck_warn("the program has not fetched %lld bytes of kernel output: further output "
			"is dropped "
			"(--kernel-output)",
			(long long)o->most);
	if (null >= 0)
		close(null);
	f->full = true;
}

/* All bytes have been taken: write to the file again, after a line about the gap. */
static void open_tap(struct file *f)
{
	if (write(f->fd, cut, sizeof(cut) - 1) < 0 || dup2(f->fd, f->target) < 0)
		ck_warn("kernel output is lost: %m");
	f->full = false;
}

static off_t count_waiting(struct file *f)
{
	struct stat st;

	return f->fd >= 0 && fstat(f->fd, &st) == 0 ? st.st_size - f->taken : 0;
}

static bool check_file(struct ck_output *o, struct file *f)
{
	off_t bytes = count_waiting(f);

	if (bytes > o->most && !f->full) {
		ck_lock(&o->lock);
		if (!f->full)
			close_tap(o, f);
		ck_unlock(&o->lock);
	}
	f->found = bytes > 0;
	return bytes > 0;
}

bool cks_output_check(struct ck_output *o)
{
	bool text, errors;

	if (!o)
		return false;
	text = check_file(o, &o->file[0]);
	errors = check_file(o, &o->file[1]);
	return text || errors;
}

static bool has_pending(const struct file *f)
{
	const volatile char *next = atomic_load(&f->next);

	return f->fd >= 0 && (f->found || !next || *next != 0);
}

bool cks_output_pending(struct ck_output *o)
{
	return o && unlikely(has_pending(&o->file[0]) || has_pending(&o->file[1])) &&
	       cks_output_check(o);
}

size_t cks_output_take(struct ck_output *o, bool errors, void *buf, size_t size)
{
	struct file *f = o ? &o->file[errors] : NULL;
	ssize_t n;

	if (!f || f->fd < 0)
		return 0;
	ck_lock(&o->lock);
	n = pread(f->fd, buf, size, f->taken);
	if (n > 0) {
		f->taken += n;
		if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, f->taken) < 0)
			ck_debug("output that was taken keeps its memory: %m");
		if (show_next(f) < 0)
			ck_debug("output that comes next is not mapped: %m");
	}
	if (f->full && count_waiting(f) == 0)
		open_tap(f);
	ck_unlock(&o->lock);
	return n > 0 ? (size_t)n : 0;
}

static CUresult take_output(struct ck_output *o, bool errors, char **text, u_int *length)
{
	*text = malloc(CK_OUTPUT_MAX);
	if (!*text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*length = (u_int)cks_output_take(o, errors, *text, CK_OUTPUT_MAX);
	return CUDA_SUCCESS;
}

CUresult ck_serve_output(struct cks_request *q, ck_output_args *a, ck_output_res *res)
{
	struct ck_output *o = q->session->output;
	CUresult err;

	(void)a;
	if (!cks_output_check(o))
		return CUDA_SUCCESS;
	err = take_output(o, false, &res->text.text_val, &res->text.text_len);
	if (!err)
		err = take_output(o, true, &res->errors.errors_val, &res->errors.errors_len);
	return err;
}
