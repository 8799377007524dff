/*
 * client/wire/alive.c - a call waits, and nothing comes: does the kernel run for long, or does the server
 * not respond?
 *
 * A thread of ours asks the server on a lane of its own. Any thread of the worker can answer, whatever
 * the GPU does; a stopped worker cannot. The first wait that lasts a second starts the thread, which
 * asks only while some call waits.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/wire/hooks.h"
#include "client/wire/client.h"
#include "client/wire/lane.h"
#include "rpc/record.h"
#include "util/cancel.h"
#include "util/log.h"
#include "util/spin.h"

CK_LOG_DEFINE("client");

#define PATIENCE_NS 4000000000 /* with the second that passes before the server is asked: 5 s */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t asked;
	bool running, wanted;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .asked = PTHREAD_COND_INITIALIZER };

/* Of the thread that asks. */
static __thread bool asks __attribute__((tls_model("initial-exec")));
static uint64_t since;
static bool told;

static void overdue(void)
{
	if (told || ck_now_ns() - since < PATIENCE_NS || ck_client.state != CK_STATE_READY)
		return;
	told = true;
	ck_warn("server %s has not responded for 5 s, still waiting", ck_session_server());
}

static void answered(void)
{
	if (told && ck_client.state == CK_STATE_READY)
		ck_warn("server %s responds again", ck_session_server());
	told = false;
}

static void wait_for_suspicion(void)
{
	pthread_mutex_lock(&all.lock);
	while (!all.wanted)
		pthread_cond_wait(&all.asked, &all.lock);
	pthread_mutex_unlock(&all.lock);
}

static void suspicion_settled(void)
{
	pthread_mutex_lock(&all.lock);
	all.wanted = false;
	pthread_mutex_unlock(&all.lock);
}

/* A lane that cannot be had, or breaks, says nothing of the session, whose calls find out for themselves. */
static void *ask(void *unused)
{
	struct ck_exchange ping = { .proc = CK_PING, .xdr_args = ck_code_nothing,
				    .xdr_res = ck_code_nothing };
	struct ck_lane *lane = NULL;

	(void)unused;
	asks = true;
	while (ck_client.state == CK_STATE_READY) {
		int ret = 0;

		wait_for_suspicion();
		since = ck_now_ns();
		if (!lane)
			ret = ck_lane_take(&lane);
		if (ret == 0)
			ret = ck_lane_exchange(lane, &ping);
		if (ret == 0)
			answered();
		else if (lane)
			ck_lane_destroy(lane);
		if (ret < 0)
			lane = NULL;
		suspicion_settled();
	}
	if (lane)
		ck_lane_destroy(lane);
	return NULL;
}

static void suspect(void)
{
	int cancel;

	if (asks) {
		overdue();
		return;
	}
	if (ck_client.state != CK_STATE_READY)
		return;
	cancel = ck_cancel_lock(&all.lock);
	if (!all.running)
		all.running = ck_thread_start(ask, NULL) == 0;
	if (!all.wanted)
		pthread_cond_signal(&all.asked);
	all.wanted = true;
	ck_cancel_unlock(&all.lock, cancel);
}
CK_ON_QUIET(suspect);

static void in_child(void)
{
	pthread_mutex_init(&all.lock, NULL);
	pthread_cond_init(&all.asked, NULL);
	all.running = all.wanted = told = false;
}
CK_ON_FORK(in_child);
