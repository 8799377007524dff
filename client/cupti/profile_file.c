/*
 * client/cupti/profile_file.c - the process's own profile: from cuInit on, into the file of
 * CRICKET_PROFILE.
 *
 * A thread fetches the records each second and adds them to the file, which is a whole document all
 * the time: a process that is killed loses a second. The file is open only while it is written,
 * because a program may close descriptors that it does not know.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "client/cupti/cupti.h"
#include "client/link/hooks.h"
#include "client/wire/profile.h"
#include "util/env.h"
#include "util/log.h"
#include "util/process/private_fds.h"
#include "util/process/sighold.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define LEAVE_MS 2000 /* the wait at exit for a fetch that another thread makes */

/* --- the file */

/* Write all of it at @at: 0 or -errno. */
static int write_at(struct ck_private_fd *f, const char *bytes, size_t size, off_t at)
{
	while (size > 0) {
		ssize_t n = pwrite(ck_private_fd_number(f), bytes, size, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes += n;
		size -= (size_t)n;
		at += n;
	}
	return 0;
}

/*
 * Write @bytes at @at, and the document's tail behind them: in one call, so that neither a reader
 * nor a kill finds a document without its tail. 0 or -errno.
 */
static int write_before_tail(struct ck_private_fd *f, const char *bytes, size_t size, off_t at)
{
	const size_t tail = strlen(CK_TIMELINE_TAIL);
	const struct iovec parts[] = {{(void *)(uintptr_t)bytes, size},
				      {(void *)(uintptr_t)CK_TIMELINE_TAIL, tail}};
	int ret = 0;

	if (pwritev(ck_private_fd_number(f), parts, 2, at) != (ssize_t)(size + tail)) {
		ret = write_at(f, bytes, size, at);
		if (ret == 0)
			ret = write_at(f, CK_TIMELINE_TAIL, tail, at + (off_t)size);
	}
	if (ret == 0 && ftruncate(ck_private_fd_number(f), at + (off_t)(size + tail)) < 0)
		ret = -errno;
	return ret;
}

/* Make the file at @path, which must not exist. */
static int create_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), ret;
	struct ck_private_fd f;

	if (fd < 0)
		return -errno;
	ck_private_fd_take(&f, fd, false);
	ret = write_before_tail(&f, CK_TIMELINE_HEAD, strlen(CK_TIMELINE_HEAD), 0);
	ck_private_fd_close(&f);
	return ret;
}

/* The file that the variable names; if it exists, this process is not the first: FILE.PID. */
static int create_own(struct ckc_profile_file *own, const char *name)
{
	char *folder = name[0] == '/' ? strdup("") : getcwd(NULL, 0), *numbered = NULL;
	int ret = folder ? 0 : -errno;

	own->path = NULL;
	if (ret == 0 && asprintf(&own->path, "%s%s%s", folder, *folder ? "/" : "", name) < 0) {
		own->path = NULL;
		ret = -ENOMEM;
	}
	free(folder);
	if (ret == 0)
		ret = create_file(own->path);
	if (ret != -EEXIST)
		return ret;
	if (asprintf(&numbered, "%s.%d", own->path, getpid()) < 0)
		return -ENOMEM;
	free(own->path);
	own->path = numbered;
	unlink(own->path); /* of an earlier process with this number */
	return create_file(own->path);
}

/* Put the events so far in front of the document's tail. If that fails, the document is as
 * before. */
static int append_events(struct ckc_profile_file *own)
{
	int fd = open(own->path, O_WRONLY | O_CLOEXEC), ret;
	struct ck_private_fd f;

	if (fd < 0)
		return -errno;
	ck_private_fd_take(&f, fd, false);
	ret = write_before_tail(&f, own->text.bytes, own->text.size, own->end);
	if (ret == 0)
		own->end += (off_t)own->text.size;
	else if (write_before_tail(&f, "", 0, own->end) < 0)
		ck_debug("%s: the end cannot be written", own->path);
	ck_private_fd_close(&f);
	return ret;
}

/* --- the profile. flush_lock is held. */

/* The records come to an end. */
static void stop_profile(struct ckc_client *c)
{
	struct ckc_cupti *s = c->cupti;
	struct ckc_profile_file *own = &s->own;

	own->on = false;
	atomic_store(&s->kinds, atomic_load(&s->asked));
	ckc_cupti_apply(c);
	ck_timeline_free(&own->text);
	free(own->calls);
	own->calls = NULL;
}

static void write_out(struct ckc_client *c)
{
	struct ckc_profile_file *own = &c->cupti->own;
	struct ck_sighold limit;
	int ret;

	ck_sighold_begin(&limit, SIGXFSZ);
	ret = own->text.size > 0 ? append_events(own) : 0;
	ck_sighold_end(&limit, true);
	ck_timeline_clear(&own->text);
	if (ret == 0)
		return;
	ck_err("CRICKET_PROFILE: %s: %s: the profile ends here", own->path, strerror(-ret));
	stop_profile(c);
}

/* Everything up to now. */
static void collect_records(struct ckc_client *c, bool can_call, bool forced)
{
	struct ckc_cupti *s = c->cupti;

	ckc_cupti_hand_over_calls(c);
	if (can_call)
		ckc_cupti_fetch(c, forced);
	ck_lock(&s->lock);
	s->own.dropped += s->dropped;
	s->dropped = 0;
	ck_unlock(&s->lock);
}

/* Messages of the profile would keep a session that is idle on its GPU. After the last message
 * there is one more fetch. */
static bool is_idle(struct ckc_profile_file *own)
{
	uint64_t messages = atomic_load(&own->messages);
	bool idle = own->fetched_at == messages && own->fetched_again;

	own->fetched_again = own->fetched_at == messages;
	own->fetched_at = messages;
	return idle;
}

static void *write_each_second(void *client)
{
	struct ckc_client *c = client;
	struct ckc_cupti *s = c->cupti;
	const struct timespec second = {.tv_sec = 1};
	bool on = true;

	ckc_aside = true; /* the program's commands go at their own pace */
	while (on) {
		nanosleep(&second, NULL);
		ck_lock(&s->flush_lock);
		if (s->own.on) {
			collect_records(
				c, atomic_load(&c->state) == CK_STATE_READY && !is_idle(&s->own),
				false);
			write_out(c);
		}
		on = s->own.on;
		ck_unlock(&s->flush_lock);
	}
	return NULL;
}

static int start_profile(struct ckc_client *c, const char *name)
{
	struct ckc_cupti *s = c->cupti;
	struct ckc_profile_file *own = &s->own;
	int ret = create_own(own, name);

	if (ret < 0)
		return ret;
	own->end = (off_t)strlen(CK_TIMELINE_HEAD);
	own->calls = calloc(CKC_OWN_CALLS, sizeof(*own->calls));
	if (!own->calls)
		return -ENOMEM;
	own->on = true;
	ckc_profile_file_begin(c);
	atomic_store(&s->kinds, atomic_load(&s->asked) | CKC_OWN_KINDS);
	ckc_cupti_apply(c);
	if (ckc_thread_start_calling(c, write_each_second) < 0)
		ck_debug("CRICKET_PROFILE: no thread: the file is written at exit");
	return 0;
}

static void on_ready(struct ckc_client *c)
{
	const char *name = ck_env_string("CRICKET_PROFILE");
	struct ckc_cupti *s = c->cupti;
	int ret;

	if (!name || !*name)
		return;
	ck_lock(&s->flush_lock);
	if (!s->own.tried && !s->request && !s->request_v2) {
		ret = start_profile(c, name);
		if (ret < 0)
			ck_err("CRICKET_PROFILE: %s: %s: no timeline is written",
			       s->own.path ? s->own.path : name, strerror(-ret));
	}
	s->own.tried = true;
	ck_unlock(&s->flush_lock);
}
CK_ON_READY(on_ready);

static void finish_profile(struct ckc_client *c, bool can_call)
{
	collect_records(c, can_call, true);
	ckc_profile_file_finish(c);
	write_out(c);
	if (c->cupti->own.on)
		stop_profile(c);
}

void ckc_profile_file_yield(struct ckc_client *c)
{
	if (!c->cupti->own.on)
		return;
	finish_profile(c, atomic_load(&c->state) == CK_STATE_READY);
	ck_warn("CRICKET_PROFILE: the program starts its own profiler: %s ends here",
		c->cupti->own.path);
}

/* The process ends. */
static void on_leave(struct ckc_client *c, bool can_call)
{
	struct ckc_cupti *s = c->cupti;
	struct timespec until = ck_until(LEAVE_MS * CK_NS_PER_MS);

	if (!s || ck_lock_until(&s->flush_lock, &until) != 0)
		return; /* a fetch hangs; the file is as it was a second ago */
	if (s->own.on)
		finish_profile(c, can_call);
	ck_unlock(&s->flush_lock);
}
CK_HOOK(leave, on_leave, on_leave);

void ckc_profile_file_forget(struct ckc_cupti *s)
{
	s->own.on = false;
	s->own.text = (struct ck_timeline){.bytes = NULL};
}
