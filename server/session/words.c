/*
 * server/session/words.c - see words.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/handlers.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/session/words.h"
#include "util/until.h"
#include "util/util.h"

/* Of the process, which has one session. */
static struct {
	struct ck_mutex lock;
	pthread_cond_t changed;
	char line[CK_WORDS_ROOM]; /* empty: nothing to say */
	bool last;
} words = {.lock = CK_MUTEX(CK_RANK_WORDS), .changed = PTHREAD_COND_INITIALIZER};

void cks_words_say(const char *line, bool last)
{
	ck_lock(&words.lock);
	snprintf(words.line, sizeof(words.line), "%s", line);
	words.last = last;
	pthread_cond_broadcast(&words.changed);
	ck_unlock(&words.lock);
}

CUresult ck_serve_words(struct cks_request *q, ck_words_args *a, ck_words_res *res)
{
	uint64_t ms = ck_min(a->milliseconds, q->session->wait_max_ms);
	struct timespec until = ck_until(CLOCK_REALTIME, ms * CK_NS_PER_MS);
	CUresult err = CUDA_SUCCESS;

	ck_lock(&words.lock);
	while (!words.line[0] &&
	       ck_cond_timedwait(&words.changed, &words.lock, &until) != ETIMEDOUT)
		;
	if (words.line[0]) {
		res->text.text_val = strdup(words.line);
		err = res->text.text_val ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (res->text.text_val) {
		res->text.text_len = (u_int)strlen(words.line);
		res->last = words.last;
		words.line[0] = '\0';
	}
	ck_unlock(&words.lock);
	return err;
}
