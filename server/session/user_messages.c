/*
 * server/session/user_messages.c - see user_messages.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/session/locks.h"
#include "server/session/session.h"
#include "server/session/user_messages.h"
#include "util/until.h"
#include "util/util.h"
#include "util/wait.h"

#define CK_WORDS_ROOM 192 /* of a line, with its NUL */
#define CK_WORDS_LINES 4  /* that the client has not fetched */
#define CK_YOUNG_MS 10000 /* a client listens from its first second on, later on a busy machine */
#define CK_LISTEN_MS 2500 /* for one that is young and does not listen yet */
#define CK_FETCH_MS 1000  /* for one that listens, to fetch the last line */
#define CK_LEAVE_MS 1000  /* for the reply to arrive, and for the client to leave */

/* Of the process, which has one session. */
static struct {
	struct ck_mutex lock;
	struct ck_cond changed;
	char lines[CK_WORDS_LINES][CK_WORDS_ROOM];
	unsigned int first, count;
	bool last;    /* the newest line is the last one */
	bool listens; /* the client has asked for lines */
	int64_t began;
	char refusal[CK_WORDS_ROOM];
} words = {.lock = CK_MUTEX(CK_RANK_WORDS)};

/* Call with the lock held. */
static void add_line(const char *line)
{
	if (words.count == CK_WORDS_LINES) {
		words.first++;
		words.count--;
	}
	snprintf(words.lines[(words.first + words.count) % CK_WORDS_LINES], CK_WORDS_ROOM, "%s",
		 line);
	words.count++;
	ck_cond_broadcast(&words.changed);
}

void cks_user_messages_begin(void)
{
	words.began = ck_now_ms();
}

void cks_user_messages_say(const char *line)
{
	ck_lock(&words.lock);
	if (!words.last)
		add_line(line);
	ck_unlock(&words.lock);
}

void cks_user_messages_refuse(const char *line)
{
	ck_lock(&words.lock);
	snprintf(words.refusal, sizeof(words.refusal), "%s", line);
	ck_unlock(&words.lock);
}

/* A client that has not listened when it is old never will. */
static bool is_listener_known(void)
{
	return words.listens || ck_now_ms() - words.began > CK_YOUNG_MS;
}

static bool is_empty(void)
{
	return words.count == 0;
}

/* Wait at most @ms until @holds. Call with the lock held. */
static bool wait_until(bool (*holds)(void), uint64_t ms)
{
	struct timespec until = ck_until(ms * CK_NS_PER_MS);

	while (!holds() && ck_cond_timedwait(&words.changed, &words.lock, &until) != ETIMEDOUT)
		;
	return holds();
}

void cks_user_messages_end(const char *line)
{
	bool fetched;

	ck_lock(&words.lock);
	if (!words.last)
		add_line(line);
	words.last = true;
	fetched = wait_until(is_listener_known, CK_LISTEN_MS) && words.listens &&
		  wait_until(is_empty, CK_FETCH_MS);
	ck_unlock(&words.lock);
	if (fetched)
		usleep(CK_LEAVE_MS * 1000);
}

static bool is_said(void)
{
	return words.count > 0;
}

static CUresult put_text(ck_words_res *res, const char *line)
{
	res->text.text_val = strdup(line);
	if (!res->text.text_val)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res->text.text_len = (u_int)strlen(line);
	return CUDA_SUCCESS;
}

/* Call with the lock held, while there is a line. */
static CUresult take_line(ck_words_res *res)
{
	if (put_text(res, words.lines[words.first % CK_WORDS_LINES]))
		return CUDA_ERROR_OUT_OF_MEMORY;
	words.first++;
	words.count--;
	res->last = words.last && words.count == 0;
	ck_cond_broadcast(&words.changed);
	return CUDA_SUCCESS;
}

/* Call with the lock held. */
static CUresult take_refusal(ck_words_res *res)
{
	CUresult err = words.refusal[0] ? put_text(res, words.refusal) : CUDA_SUCCESS;

	words.refusal[0] = '\0';
	return err;
}

/* Call with the lock held. */
static CUresult wait_for_line(struct cks_session *s, uint64_t ms, ck_words_res *res)
{
	if (!words.listens && s->listens)
		s->listens();
	words.listens = true;
	ck_cond_broadcast(&words.changed);
	return wait_until(is_said, ck_min(ms, (uint64_t)s->wait_max_ms)) ? take_line(res)
									 : CUDA_SUCCESS;
}

/* 0 milliseconds: why memory was refused; else the client listens. */
CUresult ck_serve_words(struct cks_request *q, ck_words_args *a, ck_words_res *res)
{
	CUresult err;

	ck_lock(&words.lock);
	err = a->milliseconds ? wait_for_line(q->session, a->milliseconds, res) : take_refusal(res);
	ck_unlock(&words.lock);
	return err;
}
