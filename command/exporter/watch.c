/*
 * command/exporter/watch.c - see watch.h.
 *
 * All requests share one connection to the status socket, and a report for half a second: any
 * number of viewers costs the server two requests a second.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/exporter/watch.h"
#include "command/sessions/control.h"
#include "command/sessions/gpu.h"
#include "util/until.h"

#define FRESH_MS 500
#define AGAIN_MS 1000 /* until a server that was not there is tried again */
#define ANSWER_S 5    /* a server that stands still is one that does not answer */

struct ckx_watch {
	pthread_mutex_t lock; /* guards all */
	const char *server;
	int fd;		   /* -1: not connected */
	bool there;	   /* it has answered last time, */
	bool asked;	   /* if there was one */
	int64_t at, again; /* when @report is from; when to connect again */
	json_t *report;	   /* NULL: none */
	struct ckx_gpus *gpus;
	json_t *points;
};

struct ckx_watch *ckx_watch_create(const char *server)
{
	struct ckx_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->server = server;
	w->fd = -1;
	w->points = json_array();
	if (w->points)
		return w;
	ckx_watch_destroy(w);
	return NULL;
}

void ckx_watch_destroy(struct ckx_watch *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	ckx_gpus_close(w->gpus);
	json_decref(w->report);
	json_decref(w->points);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* False: not connected. At the start it says why. */
static bool connect_again(struct ckx_watch *w, int64_t now)
{
	const struct timeval most = {.tv_sec = ANSWER_S};

	if (w->fd >= 0)
		return true;
	if (now < w->again)
		return false;
	w->fd = w->asked ? ckx_control_reopen(w->server) : ckx_control_open(w->server);
	w->again = now + AGAIN_MS;
	if (w->fd < 0)
		return false;
	setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	return true;
}

/* A reply to @w, or NULL: then the connection is closed. */
static json_t *query_status(struct ckx_watch *w)
{
	json_t *report = ckx_control_try(w->fd, json_pack("{s:s}", "command", "status"));

	if (json_is_true(json_object_get(report, "ok")))
		return report;
	json_decref(report);
	close(w->fd);
	w->fd = -1;
	return NULL;
}

/* After an upgrade of the server the connection has ended: it is made again at once. */
static void refresh_report(struct ckx_watch *w, int64_t now)
{
	json_t *report = NULL;

	for (int i = 0; !report && i < 2 && connect_again(w, now); i++) {
		report = query_status(w);
		w->again = report ? w->again : now;
	}
	if (!w->gpus && report)
		w->gpus = ckx_gpus_open(report);
	if (report) {
		json_object_del(report, "ok");
		ckx_gpus_add(w->gpus, report);
	}
	if (report && w->asked && !w->there)
		ckx_error("the server answers again");
	else if (!report && w->there)
		ckx_error("the server does not answer; trying again");
	w->there = report != NULL;
	w->asked = true;
	json_decref(w->report);
	w->report = report;
	w->at = now;
}

static json_t *report_locked(struct ckx_watch *w)
{
	int64_t now = ck_now_ms();

	if (!w->asked || now - w->at >= FRESH_MS)
		refresh_report(w, now);
	return json_incref(w->report);
}

json_t *ckx_watch_report(struct ckx_watch *w)
{
	json_t *report;

	pthread_mutex_lock(&w->lock);
	report = report_locked(w);
	pthread_mutex_unlock(&w->lock);
	return report;
}

static json_t *point_of(const json_t *report)
{
	const json_t *totals = json_object_get(report, "totals"), *gpu;
	json_t *gpus = json_array();
	double calls = json_number_value(json_object_get(totals, "calls")) +
		       json_number_value(json_object_get(totals, "commands"));
	double bytes = json_number_value(json_object_get(totals, "received")) +
		       json_number_value(json_object_get(totals, "sent"));
	size_t i;

	json_array_foreach(json_object_get(report, "gpus"), i, gpu) json_array_append_new(
		gpus, json_pack("{s:O?, s:O?}", "used", json_object_get(gpu, "used"), "utilization",
				json_object_get(gpu, "utilization")));
	return json_pack("{s:f, s:O?, s:f, s:f, s:o}", "time",
			 json_number_value(json_object_get(report, "time")), "sessions",
			 json_object_get(report, "session_count"), "calls", calls, "bytes", bytes,
			 "gpus", gpus);
}

void ckx_watch_step(struct ckx_watch *w)
{
	json_t *report, *point;

	pthread_mutex_lock(&w->lock);
	report = report_locked(w);
	point = report ? point_of(report) : json_null();
	json_array_append_new(w->points, point);
	while (json_array_size(w->points) > CKX_POINTS)
		json_array_remove(w->points, 0);
	json_decref(report);
	pthread_mutex_unlock(&w->lock);
}

static json_t *without_totals(const json_t *points)
{
	json_t *kept = json_deep_copy(points), *point;
	size_t i;

	json_array_foreach(kept, i, point)
	{
		json_object_del(point, "calls");
		json_object_del(point, "bytes");
	}
	return kept;
}

char *ckx_watch_history(struct ckx_watch *w, bool all)
{
	json_t *history;
	char *text;

	pthread_mutex_lock(&w->lock);
	history = json_pack("{s:i, s:o}", "step", CKX_STEP_S, "points",
			    all ? json_incref(w->points) : without_totals(w->points));
	text = json_dumps(history, JSON_COMPACT | JSON_REAL_PRECISION(12));
	json_decref(history);
	pthread_mutex_unlock(&w->lock);
	return text;
}
