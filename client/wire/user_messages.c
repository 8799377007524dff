/*
 * client/wire/user_messages.c - see user_messages.h.
 *
 * A server says that the session ends soon, and at the end why; and that it is suspended. The
 * thread has a lane of its own, because the program may make no call for hours. Programs that end
 * soon do without the lane.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/link/client.h"
#include "client/link/lane.h"
#include "client/link/session_list.h"
#include "client/wire/user_messages.h"
#include "util/log.h"
#include "util/text.h"

CK_LOG_DEFINE("client");

#define BEGIN_NS 100000000
#define WAIT_MS 30000
#define AGAIN_S 1 /* after a failure */
#define LINE 200

static void copy_line(char line[LINE], const ck_words_res *res)
{
	size_t size = ck_min((size_t)res->text.text_len, (size_t)LINE - 1);

	memcpy(line, res->text.text_val, size);
	line[size] = '\0';
	ck_text_plain(line, LINE);
}

static void handle_words(struct ckc_client *c, const ck_words_res *res)
{
	char line[LINE];

	copy_line(line, res);
	if (res->last)
		ckc_session_lost(c, line);
	else if (c->state == CK_STATE_READY)
		ck_warn("the GPU server at %s: %s", c->connection.address, line);
}

/* Wait for the next line. */
static CUresult fetch_line(struct ckc_client *c)
{
	ck_words_args args = {.milliseconds = WAIT_MS};
	ck_words_res res = {.last = 0};
	CUresult err;

	ckc_route_serve(c);
	err = ckc_call_aside(c, CK_PROC_words, &args, &res);
	if (!err && res.text.text_len > 0)
		handle_words(c, &res);
	xdr_free((xdrproc_t)xdr_ck_words_res, &res);
	return err;
}

/* The thread goes on after a failure: it may be the only one that notices the session's end. */
static void *listen_for_words(void *client)
{
	const struct timespec begin = {.tv_nsec = BEGIN_NS}, again = {.tv_sec = AGAIN_S};
	struct ckc_client *c = client;

	nanosleep(&begin, NULL);
	while (c->state == CK_STATE_READY && ckc_session_offers(c, CK_PROC_words)) {
		if (fetch_line(c))
			nanosleep(&again, NULL);
	}
	return NULL;
}

void ckc_user_messages_refused(struct ckc_client *c)
{
	static atomic_bool told;
	ck_words_args args = {.milliseconds = 0};
	ck_words_res res = {.last = 0};

	if (!c->rules.words || atomic_load(&told) || !ckc_session_offers(c, CK_PROC_words))
		return;
	if (!ckc_call_aside(c, CK_PROC_words, &args, &res) && res.text.text_len > 0 &&
	    !atomic_exchange(&told, true))
		handle_words(c, &res);
	xdr_free((xdrproc_t)xdr_ck_words_res, &res);
}

void ckc_user_messages_listen(struct ckc_client *c)
{
	if (c->rules.words && ckc_session_offers(c, CK_PROC_words) &&
	    ckc_thread_start(listen_for_words, c) < 0)
		ck_info("no thread for messages from the server");
}
