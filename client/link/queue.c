/*
 * client/link/queue.c - see queue.h.
 *
 * The server holds each hello for some seconds. Ctrl-C ends a program that has no handler for it. A
 * handler, such as Python's, may only note the signal for later; so one of ours comes before it
 * while a client with CRICKET_WAIT connects, and ends the waiting.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/link/client.h"
#include "client/link/queue.h"
#include "util/env.h"
#include "util/log.h"
#include "util/address/server_addresses.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define TELL_NS 30000000000u /* between two lines about the place */
#define PAUSE_NS 50000000    /* between two questions */

static volatile sig_atomic_t interrupted;
static struct sigaction theirs;

static void handle_interrupt(int number, siginfo_t *info, void *context)
{
	interrupted = 1;
	if (theirs.sa_flags & SA_SIGINFO)
		theirs.sa_sigaction(number, info, context);
	else
		theirs.sa_handler(number);
}

/* Put our handler before the program's, if it has one. */
static void install_handler(struct ckc_waiting *w)
{
	struct sigaction ours = {.sa_sigaction = handle_interrupt, .sa_flags = SA_SIGINFO};

	interrupted = 0;
	if (sigaction(SIGINT, NULL, &theirs) < 0 ||
	    (!(theirs.sa_flags & SA_SIGINFO) &&
	     (theirs.sa_handler == SIG_DFL || theirs.sa_handler == SIG_IGN)))
		return;
	ours.sa_mask = theirs.sa_mask;
	w->catching = sigaction(SIGINT, &ours, NULL) == 0;
}

void ckc_queue_begin(struct ckc_client *c)
{
	struct ckc_waiting *w = &c->waiting;
	uint64_t seconds = ck_env_seconds("CRICKET_WAIT");

	*w = (struct ckc_waiting){.until_ns = 0};
	if (seconds == 0 || getrandom(w->ticket, sizeof(w->ticket), 0) != sizeof(w->ticket))
		return;
	w->until_ns = ck_now_ns() + ck_min(seconds, (uint64_t)7 * 86400) * 1000000000u;
	install_handler(w);
}

bool ckc_queue_waits(const struct ckc_client *c)
{
	return c->waiting.until_ns > ck_now_ns() && !c->connection.hurried;
}

void ckc_queue_request(const struct ckc_client *c, ck_hello_queue *wish)
{
	const struct ckc_connection *at = &c->connection;
	const struct ckc_waiting *w = &c->waiting;
	uint64_t now = ck_now_ns();

	memset(wish, 0, sizeof(*wish));
	if (!ckc_queue_waits(c) || (at->places && at->places->count > 1 && !at->patient))
		return;
	wish->wait = (u_int)((w->until_ns - now) / 1000000000u + 1);
	memcpy(wish->ticket, w->ticket, sizeof(wish->ticket));
}

static void report_waiting(struct ckc_client *c, const char *message, uint64_t now)
{
	struct ckc_waiting *w = &c->waiting;

	if (w->told_ns && now - w->told_ns < TELL_NS)
		return;
	w->told_ns = now;
	ck_warn("the GPU server at %s is full: %s; waiting for %llu s more (CRICKET_WAIT)",
		c->connection.address, message,
		(unsigned long long)((w->until_ns - now) / 1000000000u));
}

bool ckc_queue_go_on(struct ckc_client *c, const char *message)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS}; /* a server may not hold the hello */
	struct ckc_waiting *w = &c->waiting;
	uint64_t now = ck_now_ns();

	if (interrupted) {
		ck_err("the GPU server at %s is full: no longer waiting: interrupted",
		       c->connection.address);
		return false;
	}
	if (now >= w->until_ns) {
		ck_err("the GPU server at %s is full: %s; the time of CRICKET_WAIT has expired",
		       c->connection.address, message);
		return false;
	}
	report_waiting(c, message, now);
	nanosleep(&pause, NULL);
	return true;
}

void ckc_queue_end(struct ckc_client *c)
{
	struct ckc_waiting *w = &c->waiting;

	if (w->catching)
		sigaction(SIGINT, &theirs, NULL);
	w->catching = false;
}
