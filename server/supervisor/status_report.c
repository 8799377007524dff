/*
 * server/supervisor/status_report.c - the command `status`: the server and its sessions, for the
 * socket of docs/status.md.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "server/children/deadlines.h"
#include "server/children/queue.h"
#include "server/children/workers.h"
#include "server/control/control.h"
#include "server/door/disconnected_sessions.h"
#include "server/door/listeners.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/session_info.h"
#include "server/rules/ledger.h"
#include "server/session/version.h"
#include "server/supervisor/control_commands.h"
#include "util/env.h"
#include "util/until.h"
#include "util/util.h"

#define CK_STATUS_VERSION 1
#define CK_IDLE_MS 3000 /* as for --suspend-idle */

/* A program may call itself anything, but JSON is UTF-8. */
static json_t *encode_text(const char *bytes)
{
	json_t *string = json_string(bytes);

	return string ? string : json_string("?");
}

static const char *state_of(const struct cks_session_info *s, int64_t idle_ms)
{
	switch (s->suspension.state) {
	case CK_RUNNING:
		if (cks_disconnected(s))
			return "kept";
		return idle_ms < CK_IDLE_MS ? "running" : "idle";
	case CK_PARKING:
	case CK_MOVING_OUT:
		return "suspending";
	case CK_SUSPENDED:
		return s->suspension.parked ? "parked" : "suspended";
	case CK_MOVING_IN:
	case CK_RETURNING:
		return "resuming";
	}
	return "?";
}

static json_t *describe_session(const struct cks_session_info *s, bool own, bool gpu_time,
				int64_t now)
{
	const struct cks_suspension *u = &s->suspension;
	bool out = u->state == CK_SUSPENDED || u->state == CK_MOVING_IN;
	uint64_t away = cks_suspension_away(u);
	int64_t left = cks_deadlines_left(s, now);
	char name[CK_SESSION_NAME];
	json_t *json;

	json = json_pack("{s:s, s:i, s:o, s:o, s:i, s:o, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, "
			 "s:f, s:f, s:i, s:b}",
			 "session", cks_session_name(s, name), "pid", (int)s->pid, "program",
			 encode_text(s->program), "host", encode_text(s->use.host), "client_pid",
			 (int)s->client_pid, "identity", encode_text(s->owner.identity.name), "own",
			 own, "state", state_of(s, now - u->used), "memory",
			 (json_int_t)((away ? u->bytes : s->memory) - away), "host_memory",
			 (json_int_t)away, "calls", (json_int_t)s->use.calls, "commands",
			 (json_int_t)s->use.commands, "received", (json_int_t)s->use.received,
			 "sent", (json_int_t)s->use.sent, "age",
			 s->use.begun ? (double)(now - s->use.begun) / 1e3 : 0.0, "idle",
			 u->used ? (double)(now - u->used) / 1e3 : 0.0, "weight",
			 (int)cks_session_terms(s)->weight, "held", s->share.held);
	json_object_set_new(json, "share", json_string(s->mps ? "mps" : "time"));
	json_object_set_new(json, "park_memory", json_integer((json_int_t)s->pool));
	if (s->moved && !out)
		json_object_set_new(json, "device", json_integer(s->moved - 1));
	if (cks_disconnected(s)) {
		json_object_set_new(json, "kept", json_real((double)(now - s->cut.since) / 1e3));
		json_object_set_new(
			json, "kept_left",
			json_real((double)ck_max(s->cut.until - now, (int64_t)0) / 1e3));
	}
	if (left >= 0)
		json_object_set_new(json, "ends_in", json_real((double)left / 1e3));
	if (gpu_time)
		json_object_set_new(json, "gpu_time", json_real((double)s->use.gpu_us / 1e6));
	return json;
}

static json_t *describe_times(const struct cks_histogram *h)
{
	json_t *counts = json_array();

	for (size_t i = 0; i < CK_HISTOGRAM_COUNTS; i++)
		json_array_append_new(counts, json_integer((json_int_t)h->counts[i]));
	return json_pack("{s:f, s:o}", "sum", (double)h->sum_us / 1e6, "counts", counts);
}

/* How long things took, as counts of up to so many seconds, and of longer ones. */
static json_t *describe_latencies(const struct cks_totals *t)
{
	json_t *bounds = json_array();

	for (size_t i = 0; i < CK_HISTOGRAM_COUNTS - 1; i++)
		json_array_append_new(bounds, json_real((double)cks_histogram_us[i] / 1e6));
	return json_pack("{s:o, s:o, s:o, s:o}", "bounds", bounds, "call",
			 describe_times(&t->call_times), "round_trip",
			 describe_times(&t->round_trips), "start", describe_times(&t->start_times));
}

/* The server's counters since it began, for all users. */
static json_t *describe_totals(struct cks_server *server)
{
	struct cks_totals t = *cks_workers_totals(server->workers);
	json_t *refused = json_object();

	for (struct cks_session_info *s = NULL;
	     (s = cks_workers_next(server->workers, s)) != NULL;) {
		t.calls += s->use.calls;
		t.commands += s->use.commands;
		t.received += s->use.received;
		t.sent += s->use.sent;
		cks_histogram_merge(&t.call_times, &s->use.call_times);
		cks_histogram_merge(&t.round_trips, &s->use.round_trips);
	}
	for (int i = 0; i < CK_REFUSALS; i++)
		json_object_set_new(refused, cks_refusal_name((enum cks_refusal)i),
				    json_integer((json_int_t)t.refused[i]));
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "sessions",
			 (json_int_t)t.sessions, "calls", (json_int_t)t.calls, "commands",
			 (json_int_t)t.commands, "received", (json_int_t)t.received, "sent",
			 (json_int_t)t.sent, "suspends", (json_int_t)server->suspender->suspends,
			 "refused", refused, "latencies", describe_latencies(&t));
}

/* Each identity's use since then. */
static json_t *describe_identities(const struct cks_server *server)
{
	const struct cks_ledger *ledger = cks_workers_ledger(server->workers);
	json_t *list = json_array(), *row;

	for (size_t i = 0; i < ledger->count; i++) {
		row = json_pack("{s:o, s:I}", "identity", encode_text(ledger->rows[i].name),
				"sessions", (json_int_t)ledger->rows[i].sessions);
		if (server->options->gpu_time)
			json_object_set_new(row, "gpu_time",
					    json_real((double)ledger->rows[i].gpu_us / 1e6));
		json_array_append_new(list, row);
	}
	return list;
}

/* Spare workers, by how far they have got. */
static json_t *describe_spares(struct cks_server *server)
{
	const struct cks_spare_counts *c = cks_workers_spares(server->workers);

	return json_pack("{s:i, s:i, s:i, s:i}", "starting", (int)c->starting, "standby",
			 (int)c->standby, "warming", (int)c->warming, "ready", (int)c->ready);
}

static json_t *describe_waiter(const struct cks_queue *queue, const struct cks_waiter *w, bool own,
			       int64_t now)
{
	return json_pack("{s:i, s:o, s:o, s:i, s:o, s:b, s:f}", "place",
			 (int)cks_queue_place(queue, w), "program", encode_text(w->program), "host",
			 encode_text(w->host), "client_pid", (int)w->client_pid, "identity",
			 encode_text(w->owner.identity.name), "own", own, "age",
			 (double)(now - w->since) / 1e3);
}

/* Those that wait, or of these the asker's own. */
static json_t *list_waiters(const struct cks_server *server, struct cks_asker asker, int64_t now)
{
	bool all = cks_control_is_admin(server->control, asker);
	const struct cks_queue *queue = server->queue;
	json_t *list = json_array();

	for (size_t i = 0; i < queue->count; i++) {
		const struct cks_waiter *w = &queue->list[i];
		bool own = cks_control_is_owner(server->control, asker, &w->owner);

		if (all || own)
			json_array_append_new(list, describe_waiter(queue, w, own, now));
	}
	return list;
}

/* The emulated driver is a different machine in each environment: a command that shows its GPUs
 * needs this one's. NULL: the driver is another. */
static json_t *describe_emulated(const struct cks_server *server)
{
	if (strcmp(server->driver, "emu") != 0)
		return NULL;
	return json_pack("{s:I, s:I, s:I}", "devices",
			 (json_int_t)ck_env_word_number("CRICKET_EMU", "devices"), "memory",
			 (json_int_t)ck_env_word_number("CRICKET_EMU", "memory"), "machine",
			 (json_int_t)ck_env_word_number("CRICKET_EMU", "machine"));
}

/* NULL: all that the machine has. */
static json_t *describe_served(const char *gpus)
{
	json_t *list = *gpus ? json_array() : NULL;

	for (; list && strncmp(gpus, "GPU-", 4) == 0;) {
		size_t size = strcspn(gpus, ",");

		json_array_append_new(list, json_stringn(gpus, size));
		gpus += size + (gpus[size] == ',');
	}
	return list;
}

static json_t *host_name(void)
{
	char name[HOST_NAME_MAX + 1] = "";

	gethostname(name, sizeof(name) - 1);
	return encode_text(name);
}

/* Where clients connect. Commands that were given an address find the server by it. */
static json_t *describe_addresses(const struct cks_listeners *listeners)
{
	json_t *list = json_array();
	char address[CK_LISTENER_TEXT];

	for (size_t i = 0; i < listeners->count; i++) {
		cks_listeners_address(&listeners->list[i], address, sizeof(address));
		json_array_append_new(list, encode_text(address));
	}
	return list;
}

json_t *cks_report_status(struct cks_server *server, const json_t *request, struct cks_asker asker)
{
	bool all = cks_control_is_admin(server->control, asker);
	json_t *list = json_array();
	int64_t now = ck_now_ms();

	(void)request;
	for (struct cks_session_info *s = NULL;
	     (s = cks_workers_next(server->workers, s)) != NULL;) {
		bool own = cks_control_owns(server->control, asker, s);

		if (all || own)
			json_array_append_new(
				list, describe_session(s, own, server->options->gpu_time, now));
	}
	return json_pack(
		"{s:b, s:i, s:s, s:s, s:i, s:o, s:b, s:i, s:i, s:f, s:o, s:o, s:i, s:o, s:o*, "
		"s:o*, s:o, s:o*, s:o*}",
		"ok", 1, "version", CK_STATUS_VERSION, "release", CK_RELEASE, "driver",
		server->driver, "pid", (int)getpid(), "addresses",
		describe_addresses(server->listeners), "all", all, "session_count",
		(int)cks_workers_serving(server->workers), "max_sessions",
		(int)server->options->max_sessions, "time", (double)now / 1e3, "sessions", list,
		"waiting", list_waiters(server, asker, now), "waiting_count",
		(int)server->queue->count, "spares", describe_spares(server), "totals",
		all ? describe_totals(server) : NULL, "identities",
		all ? describe_identities(server) : NULL, "host", host_name(), "emulated",
		describe_emulated(server), "served", describe_served(server->gpus));
}
