/*
 * server/session/faults.c - see faults.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/session/driver.h"
#include "server/session/faults.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_NAMES 8 /* of kernels, in a report */
#define CK_REPORT 2048

void cks_faults_init(struct cks_faults *f)
{
	f->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_FAULTS);
}

void cks_faults_fini(struct cks_faults *f)
{
	for (size_t i = 0; i < CK_NAMED; i++)
		free(f->names[i].name);
	ck_mutex_destroy(&f->lock);
}

/* The driver logs this in one of its threads. */
static void note_message(void *data, CUlogLevel level, char *message, size_t length)
{
	struct cks_faults *f = data;

	if (level != CU_LOG_LEVEL_ERROR)
		return;
	ck_lock(&f->lock);
	snprintf(f->message, sizeof(f->message), "%.*s", (int)ck_min(length, sizeof(f->message)),
		 message);
	ck_unlock(&f->lock);
}

/* A real driver logs wrong arguments of calls, but nothing about kernels. */
void cks_faults_listen(struct cks_faults *f)
{
	CUlogsCallbackHandle handle;

	if (cks_driver_emulated() && ck_driver.cuLogsRegisterCallback &&
	    ck_driver.cuLogsRegisterCallback(note_message, f, &handle) != CUDA_SUCCESS)
		ck_debug("the driver's log is not heard");
}

/* The place of launch number @n. */
static struct cks_faults_launch *launch_at(struct cks_faults *f, uint64_t n)
{
	return &f->launches[n % CK_LAUNCHES];
}

void cks_faults_launch(struct cks_session *s, uint64_t function, uint64_t stream)
{
	struct cks_faults *f = &s->faults;
	uint64_t n = atomic_load_explicit(&f->count, memory_order_relaxed);
	struct cks_faults_launch *l = launch_at(f, n);

	atomic_store_explicit(&l->function, function, memory_order_relaxed);
	atomic_store_explicit(&l->stream, stream, memory_order_relaxed);
	atomic_store_explicit(&l->ended, false, memory_order_relaxed);
	atomic_store_explicit(&f->count, n + 1, memory_order_release);
}

/* A driver may not tell a function's name once its context has failed, so it is kept from the
 * beginning. A later function may take the place of an earlier one. */
void cks_faults_name(struct cks_session *s, uint64_t function, const char *name)
{
	struct cks_faults *f = &s->faults;
	size_t at = function % CK_NAMED;
	char *copy = strdup(name);

	ck_lock(&f->lock);
	free(f->names[at].name);
	f->names[at].function = function;
	f->names[at].name = copy;
	ck_unlock(&f->lock);
}

uint64_t cks_faults_begin(const struct cks_session *s)
{
	return atomic_load_explicit(&s->faults.count, memory_order_acquire);
}

/* The oldest launch before number @count that is kept and may not have ended. */
static uint64_t find_oldest_launch(const struct cks_faults *f, uint64_t count)
{
	uint64_t first = atomic_load_explicit(&f->first, memory_order_relaxed);

	return count > CK_LAUNCHES ? ck_max(first, count - CK_LAUNCHES) : first;
}

void cks_faults_context_done(struct cks_session *s, uint64_t count)
{
	atomic_store_explicit(&s->faults.first, count, memory_order_relaxed);
}

void cks_faults_stream_done(struct cks_session *s, uint64_t stream, uint64_t count)
{
	struct cks_faults *f = &s->faults;
	bool all = true;

	for (uint64_t i = find_oldest_launch(f, count); i < count; i++) {
		struct cks_faults_launch *l = launch_at(f, i);

		if (atomic_load_explicit(&l->stream, memory_order_relaxed) == stream)
			atomic_store_explicit(&l->ended, true, memory_order_relaxed);
		all &= atomic_load_explicit(&l->ended, memory_order_relaxed);
	}
	if (all)
		cks_faults_context_done(s, count);
}

/* A text that is cut where there is no more room. */
struct text {
	char *at;
	size_t size, used;
};

static void append_text(struct text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void append_text(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at + t->used, t->size - t->used, format, args);
	va_end(args);
	t->used = ck_min(t->used + (size_t)ck_max(n, 0), t->size - 1);
}

static void put_kernel(struct cks_faults *f, struct text *t, uint64_t function, uint64_t stream)
{
	size_t at = function % CK_NAMED;
	bool known;

	ck_lock(&f->lock);
	known = f->names[at].function == function && f->names[at].name;
	if (function == 0)
		append_text(t, "a graph");
	else
		append_text(t, "kernel %s", known ? f->names[at].name : "?");
	ck_unlock(&f->lock);
	if (stream > 2) /* the smaller numbers are CUDA's own streams */
		append_text(t, " (stream %llu)", (unsigned long long)stream);
}

/* Put the kernels that may be the cause into @t; returns their number, a kernel on a stream
 * once. */
static unsigned int put_kernels(struct cks_session *s, struct text *t)
{
	struct cks_faults *f = &s->faults;
	uint64_t count = cks_faults_begin(s), seen[CK_NAMES][2];
	unsigned int names = 0;

	for (uint64_t i = find_oldest_launch(f, count); i < count; i++) {
		struct cks_faults_launch *l = launch_at(f, i);
		uint64_t function = atomic_load(&l->function), stream = atomic_load(&l->stream);
		bool known = atomic_load(&l->ended);

		for (unsigned int j = 0; j < names; j++)
			known |= seen[j][0] == function && seen[j][1] == stream;
		if (known)
			continue;
		append_text(t, "%s", names ? ", " : "");
		if (names == CK_NAMES) {
			append_text(t, "and others");
			return names + 1;
		}
		put_kernel(f, t, function, stream);
		seen[names][0] = function;
		seen[names++][1] = stream;
	}
	return names;
}

/* The known facts about the cause. */
static void explain_fault(struct cks_session *s, char *text, size_t size)
{
	char list[CK_REPORT - 100] = "";
	struct text t = {.at = list, .size = sizeof(list)};
	unsigned int n;

	ck_lock(&s->faults.lock);
	n = (unsigned int)snprintf(text, size, "%s", s->faults.message);
	ck_unlock(&s->faults.lock);
	if (n > 0)
		return;
	n = put_kernels(s, &t);
	if (n == 0)
		snprintf(text, size, "no launch that may have caused it is known");
	else if (n == 1)
		snprintf(text, size, "%s", list);
	else
		snprintf(text, size, "one of: %s; CUDA_LAUNCH_BLOCKING=1 finds out which", list);
}

void cks_faults_report(struct cks_session *s, const char *name, uint64_t ctx, CUresult err)
{
	char text[CK_REPORT], line[CK_REPORT + 300];
	bool own =
		strncmp(name, "ck_", 3) == 0; /* one of ours that carries out several of CUDA's */
	int n;

	/* not a kernel's; and CUDA itself reports a failed assertion */
	if (err == CUDA_ERROR_ECC_UNCORRECTABLE || err == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
	    err == CUDA_ERROR_ASSERT || atomic_exchange(&s->faults.told, ctx + 1) == ctx + 1)
		return;
	explain_fault(s, text, sizeof(text));
	n = snprintf(line, sizeof(line),
		     "cricket: %s%s reports %s: a kernel has failed, and every further call of its "
		     "context will. Cause: %s\n",
		     own ? "a call " : "", own ? "that waits" : name, cks_error_name(err), text);
	/* the program's, see output.h; a report that is lost changes nothing */
	if (write(STDERR_FILENO, line, ck_min((size_t)n, sizeof(line) - 1)) < 0)
		ck_debug("stderr: %m");
}
