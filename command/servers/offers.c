/*
 * command/servers/offers.c - ask several servers at the same time; see offer.h.
 *
 * A process for each: TLS and the variables that they would share are not made for threads, and one
 * that hangs is ended.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/servers/offer.h"
#include "util/process/fd.h"
#include "util/until.h"
#include "util/util.h"

#define PATIENCE_MS 12000

struct question {
	pid_t pid; /* <= 0: none */
	int answer;
};

static void begin_question(struct question *q, const struct ckx_server *server)
{
	struct ckx_offer offer;
	int ends[2];

	*q = (struct question){.pid = -1, .answer = -1};
	if (pipe(ends) < 0)
		return;
	q->pid = fork();
	if (q->pid == 0) {
		ckx_offer_ask(server, &offer);
		_exit(ck_fd_write_full(ends[1], &offer, sizeof(offer)) < 0);
	}
	close(ends[1]);
	q->answer = ends[0];
}

/* Has it said something, or ended, until @until? */
static bool wait_for(const struct question *q, int64_t until)
{
	struct pollfd p = {.fd = q->answer, .events = POLLIN};
	int64_t left = ck_max(until - ck_now_ms(), (int64_t)0);

	return q->pid > 0 && poll(&p, 1, ck_poll_ms(left)) == 1;
}

static void end_question(struct question *q, int64_t until, struct ckx_offer *offer)
{
	/* one write of less than a pipe holds: it is there as a whole */
	if (!wait_for(q, until) || ck_fd_read_full(q->answer, offer, sizeof(*offer)) < 0) {
		*offer = (struct ckx_offer){.error = -ETIMEDOUT};
		snprintf(offer->why, sizeof(offer->why), "it does not answer");
		if (q->pid > 0)
			kill(q->pid, SIGKILL);
	}
	if (q->answer >= 0)
		close(q->answer);
	if (q->pid > 0)
		waitpid(q->pid, NULL, 0);
}

void ckx_offers_ask(const struct ckx_server *const *servers, struct ckx_offer *offers, size_t count)
{
	struct question *list = calloc(count + 1, sizeof(*list));
	int64_t until = ck_now_ms() + PATIENCE_MS;

	memset(offers, 0, count * sizeof(*offers));
	for (size_t i = 0; list && i < count; i++)
		begin_question(&list[i], servers[i]);
	for (size_t i = 0; list && i < count; i++)
		end_question(&list[i], until, &offers[i]);
	free(list);
}
