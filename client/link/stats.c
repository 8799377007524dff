/*
 * client/link/stats.c - counts of calls and messages, and traces of messages; see stats.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/link/session_list.h"
#include "client/link/stats.h"
#include "cricket.h"
#include "rpc/proc.h"
#include "util/env.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("client");

#define TRACE_TAIL 160 /* bytes for the text behind the arguments */

bool ckc_stats_on, ckc_trace_on;

static struct ckc_stats_row messages[CK_PROC_END]; /* NULLPROC: see ckc_stats_waited */
static _Atomic uint64_t trips, trips_to_kernel;	   /* of all threads; until the first launch */
static atomic_bool launched;
static _Atomic uint64_t entered, unnamed; /* calls without a name; messages for such */
static _Atomic uint64_t pages_sent, pages_fetched;
static __thread struct ckc_stats_call *current __attribute__((tls_model("initial-exec")));

static bool env_is_enabled(const char *name)
{
	const char *value = ck_env_string(name);

	return value && *value && strcmp(value, "0") != 0;
}

/* Where the trace goes to, for as long as one line: a program may close descriptors that it does
 * not know. -1: failed. */
static int open_trace(void)
{
	const char *where = ck_env_string("CRICKET_TRACE");

	return strcmp(where, "1") == 0
		       ? STDERR_FILENO
		       : open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void close_trace(int fd)
{
	if (fd > STDERR_FILENO)
		close(fd);
}

static void stop_trace(int fd, int error)
{
	static atomic_bool trace_ended;

	ckc_trace_on = false;
	if (!atomic_exchange(&trace_ended, true) && fd > STDERR_FILENO)
		ck_err("CRICKET_TRACE=%s: %s: the trace ends here", ck_env_string("CRICKET_TRACE"),
		       strerror(error));
}

static bool can_trace(void)
{
	int fd = open_trace();

	if (fd < 0)
		ck_err("CRICKET_TRACE=%s: %s", ck_env_string("CRICKET_TRACE"), strerror(errno));
	close_trace(fd);
	return fd >= 0;
}

static void read_variables(void)
{
	ckc_stats_on = env_is_enabled("CRICKET_STATS");
	ckc_slow_entry = ckc_slow_entry || ckc_stats_on;
	ckc_trace_on = env_is_enabled("CRICKET_TRACE") && can_trace();
}

void ckc_stats_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_variables);
}

static void add_count(_Atomic uint64_t *count, uint64_t n)
{
	atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

void ckc_stats_begin(struct ckc_stats_call *call, unsigned int row)
{
	*call = (struct ckc_stats_call){.outer = current, .row = row};
	current = call;
}

void ckc_stats_end(struct ckc_stats_call *call)
{
	struct ckc_stats_row *row = &ckc_stats_rows[call->row];

	current = call->outer;
	add_count(call->waits ? &row->waited : call->messages ? &row->one_way : &row->local, 1);
	add_count(&row->trips, call->waits);
	add_count(&row->sent, call->sent);
	add_count(&row->received, call->received);
	add_count(&row->ns, call->ns);
}

void ckc_stats_entered(void)
{
	if (!current)
		add_count(&entered, 1);
}

/* Note the round trips until the first kernel is on its way. */
static void note_launch(uint32_t proc)
{
	const struct ck_proc *p = ck_proc(proc);

	if (p && p->launches && !atomic_exchange(&launched, true))
		trips_to_kernel = trips;
}

void ckc_stats_sent(uint32_t proc, size_t bytes)
{
	note_launch(proc);
	add_count(&messages[proc].one_way, 1);
	add_count(&messages[proc].sent, bytes);
	if (!current) {
		add_count(&unnamed, ck_proc(proc) ? 1 : 0); /* a join is no call's own message */
		return;
	}
	current->messages++;
	current->sent += bytes;
}

void ckc_stats_waited(uint32_t proc, size_t bytes_out, size_t bytes_in, uint64_t began)
{
	uint64_t ns = ck_now_ns() - began;

	add_count(&trips, 1);
	add_count(&messages[proc].waited, 1);
	add_count(&messages[proc].trips, 1);
	add_count(&messages[proc].sent, bytes_out);
	add_count(&messages[proc].received, bytes_in);
	add_count(&messages[proc].ns, ns);
	if (!current) {
		add_count(&unnamed, ck_proc(proc) ? 1 : 0);
		return;
	}
	current->waits++;
	current->sent += bytes_out;
	current->received += bytes_in;
	current->ns += ns;
}

void ckc_stats_pages(size_t sent, size_t fetched)
{
	add_count(&pages_sent, sent);
	add_count(&pages_fetched, fetched);
}

/* --- at the end */

struct line {
	const char *name;
	uint64_t calls, local, one_way, waited, trips, sent, received, ns;
};

/* Fill a line from @row; false: the row is empty. */
static bool fill_line(struct line *l, const char *name, const struct ckc_stats_row *row)
{
	*l = (struct line){.name = name,
			   .local = row->local,
			   .one_way = row->one_way,
			   .waited = row->waited,
			   .trips = row->trips,
			   .sent = row->sent,
			   .received = row->received,
			   .ns = row->ns};
	l->calls = l->local + l->one_way + l->waited;
	return name && l->calls > 0;
}

static void add_line(struct line *total, const struct line *l)
{
	total->one_way += l->one_way;
	total->waited += l->waited;
	total->sent += l->sent;
	total->received += l->received;
	total->ns += l->ns;
}

/* Sort by time waited, then by number of calls. */
static int dearest_first(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void print_line(FILE *f, const struct line *l)
{
	fprintf(f,
		"cricket: %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %6" PRIu64
		" %12" PRIu64 " %12" PRIu64 " %10.3f %9.1f  %s\n",
		l->calls, l->local, l->one_way, l->waited, l->trips, l->sent, l->received,
		(double)l->ns / 1e6, l->waited ? (double)l->ns / 1e3 / (double)l->waited : 0.0,
		l->name);
}

static void print_table(FILE *f, const char *title, struct line *lines, size_t count)
{
	qsort(lines, count, sizeof(*lines), dearest_first);
	fprintf(f, "cricket: %9s %9s %9s %9s %6s %12s %12s %10s %9s  %s\n", "count", "local",
		"one-way", "waited", "trips", "bytes sent", "received", "ms waited", "us mean",
		title);
	for (size_t i = 0; i < count; i++)
		print_line(f, &lines[i]);
}

static void print_calls(FILE *f, struct line *lines, struct line *total)
{
	size_t n = 0;

	for (unsigned int i = 0; i < ckc_stats_name_count; i++) {
		if (fill_line(&lines[n], ckc_stats_names[i], &ckc_stats_rows[i]))
			total->local += lines[n++].local;
	}
	/* each unnamed call that crossed the wire sent at least one message */
	if (entered > unnamed) {
		lines[n] = (struct line){.name = "(by other ways than cuGetProcAddress)",
					 .calls = entered - unnamed,
					 .local = entered - unnamed};
		total->local += lines[n++].local;
	}
	print_table(f, "calls of the program", lines, n);
}

static const char *message_name(uint32_t proc)
{
	static const char *const control[] = {
		"connect", [CK_HELLO] = "hello", [CK_JOIN] = "join", [CK_LINK] = "link"};

	return proc < CK_ARRAY_SIZE(control) && control[proc] ? control[proc] : ck_procs[proc].name;
}

static void print_messages(FILE *f, struct line *lines, struct line *total)
{
	size_t n = 0;

	for (uint32_t i = 0; i < CK_PROC_END; i++) {
		if (fill_line(&lines[n], message_name(i), &messages[i]))
			add_line(total, &lines[n++]);
	}
	print_table(f, "messages", lines, n);
}

static void print_stats(FILE *f)
{
	struct line *lines = calloc(ckc_stats_name_count + CK_PROC_END, sizeof(*lines));
	struct line total = {0};

	fprintf(f, "cricket: %s, pid %d\n", program_invocation_short_name, (int)getpid());
	if (lines) {
		print_calls(f, lines, &total);
		print_messages(f, lines, &total);
	}
	free(lines);
	if (pages_sent || pages_fetched)
		fprintf(f,
			"cricket: managed memory: %" PRIu64 " pages of 4 KiB sent, %" PRIu64
			" fetched\n",
			(uint64_t)pages_sent, (uint64_t)pages_fetched);
	fprintf(f, "cricket: %" PRIu64 " round trips", (uint64_t)trips);
	if (launched)
		fprintf(f, ", %" PRIu64 " of them before the first kernel was on its way",
			(uint64_t)trips_to_kernel);
	fprintf(f,
		"\ncricket: %" PRIu64 " calls answered locally, %" PRIu64 " one-way, %" PRIu64
		" waited; %" PRIu64 " bytes sent, %" PRIu64 " received; %.3f ms waited\n",
		total.local, total.one_way, total.waited, total.sent, total.received,
		(double)total.ns / 1e6);
}

/* Append to the file: children of the program may write to the same one. */
void ckc_stats_end_of_process(void)
{
	const char *where = ck_env_string("CRICKET_STATS");
	FILE *f = stderr;

	if (strcmp(where, "1") != 0)
		f = fopen(where, "ae");
	if (!f) {
		ck_err("CRICKET_STATS=%s: %s", where, strerror(errno));
		return;
	}
	print_stats(f);
	if (f != stderr && fclose(f) != 0)
		ck_err("CRICKET_STATS=%s: %s", where, strerror(errno));
}

void ckc_trace_message(uint32_t proc, const void *args, const void *res, CUresult err,
		       uint64_t began, size_t bytes)
{
	const struct ck_proc *p = &ck_procs[proc];
	uint64_t now = ck_now_ns();
	char line[1024 + TRACE_TAIL];
	ssize_t written;
	int fd;
	size_t n = (size_t)snprintf(line, sizeof(line), "cricket: -> %s(", p->name);

	n += ck_fields_print(p->in, args, line + n, sizeof(line) - n - TRACE_TAIL - 64);
	n += (size_t)snprintf(line + n, sizeof(line) - n, p->one_way ? ")" : ") = %d", (int)err);
	if (res && p->out && n < sizeof(line) - TRACE_TAIL - 64) {
		n += (size_t)snprintf(line + n, sizeof(line) - n, ", ");
		n += ck_fields_print(p->out, res, line + n, sizeof(line) - n - TRACE_TAIL);
	}
	n += (size_t)snprintf(line + n, sizeof(line) - n,
			      " {pid %d thread %d ns %" PRIu64 " took %" PRIu64 " bytes %zu}\n",
			      (int)getpid(), (int)gettid(), began ? began : now,
			      began ? now - began : 0, bytes);
	fd = open_trace();
	written = fd >= 0 ? write(fd, line, n) : (ssize_t)n;
	if (written != (ssize_t)n) /* the disk is full, or the reader has gone */
		stop_trace(fd, written < 0 ? errno : ENOSPC);
	close_trace(fd);
}
