/*
 * server/processes/state_write.c - writing the state; see state.h.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/session_info.h"
#include "server/processes/sockets.h"
#include "server/processes/state.h"
#include "server/session/version.h"

#define CK_NAME_MAX 256 /* of programs and identities, with the final 0 */

/* --- writing: a failure (out of memory) is noted and reported at the end */

struct writer {
	bool failed;
};

static void put_value(struct writer *w, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value) < 0)
		w->failed = true;
}

static void put_number(struct writer *w, json_t *object, const char *key, int64_t value)
{
	put_value(w, object, key, json_integer(value));
}

static void put_bytes(struct writer *w, json_t *object, const char *key, const unsigned char *bytes,
		      size_t size)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(2 * size + 1);

	for (size_t i = 0; text && i < size; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	put_value(w, object, key, text ? json_stringn(text, 2 * size) : NULL);
	free(text);
}

static void append_item(struct writer *w, json_t *list, json_t *item)
{
	if (json_array_append_new(list, item) < 0)
		w->failed = true;
}

static json_t *write_socket(struct writer *w, const struct cks_socket *socket)
{
	json_t *json = json_object();

	put_number(w, json, "fd", socket->fd);
	put_number(w, json, "device", (int64_t)socket->file.st_dev);
	put_number(w, json, "inode", (int64_t)socket->file.st_ino);
	return json;
}

/* A name in any encoding. */
static void put_name(struct writer *w, json_t *object, const char *key, const char *name)
{
	char text[CK_NAME_MAX] = "";

	strncat(text, name, sizeof(text) - 1);
	cks_state_plain(text);
	put_value(w, object, key, json_string(text));
}

static json_t *write_identity(struct writer *w, const struct cks_identity *identity)
{
	json_t *json = json_object();

	put_name(w, json, "name", identity->name);
	put_bytes(w, json, "key", identity->key.bytes, CK_HASH_SIZE);
	return json;
}

static json_t *write_owner(struct writer *w, const struct cks_owner *owner)
{
	json_t *json = json_object(), *peer = json_object();

	put_value(w, peer, "kind", json_string(cks_state_peer_kinds[owner->peer.kind]));
	put_bytes(w, peer, "bytes", owner->peer.bytes, sizeof(owner->peer.bytes));
	put_value(w, json, "peer", peer);
	put_value(w, json, "identity", write_identity(w, &owner->identity));
	return json;
}

static const char *state_of(const struct cks_state_worker *worker)
{
	if (!worker->serving)
		return "spare";
	return worker->info.suspension.state == CK_SUSPENDED ? "suspended" : "session";
}

static void put_suspension(struct writer *w, json_t *json, const struct cks_suspension *s)
{
	char need[CK_ROOM_TEXT];

	if (s->state != CK_SUSPENDED)
		return;
	put_value(w, json, "held", json_boolean(s->held));
	put_value(w, json, "wanted", json_boolean(s->wanted));
	put_number(w, json, "bytes", (int64_t)s->bytes);
	put_number(w, json, "away", (int64_t)s->away);
	put_value(w, json, "parked", json_boolean(s->parked));
	put_value(w, json, "tried", json_boolean(s->tried));
	put_value(w, json, "told", json_boolean(s->told));
	put_number(w, json, "stopped", s->stopped);
	cks_gpu_room_print(&s->need, need);
	put_value(w, json, "need", json_string(need));
}

static void put_gpus(struct writer *w, json_t *json, const struct cks_session_info *info)
{
	json_t *list = json_array();
	bool any = false;

	for (size_t i = 0; i < CK_NOTE_GPUS; i++) {
		append_item(w, list, json_integer(info->gpus[i]));
		any |= info->gpus[i] != 0;
	}
	if (any)
		put_value(w, json, "gpus", list);
	else
		json_decref(list);
	if (info->suspension.there[0])
		put_value(w, json, "there", json_string(info->suspension.there));
	if (info->moved)
		put_number(w, json, "moved", info->moved);
}

static json_t *write_worker(struct writer *w, const struct cks_state_worker *worker)
{
	const struct cks_session_info *info = &worker->info;
	json_t *json = json_object();

	put_number(w, json, "pid", info->pid);
	if (info->follower)
		put_number(w, json, "follower", info->follower);
	put_number(w, json, "control", worker->control);
	if (worker->process)
		put_number(w, json, "process", worker->process);
	put_value(w, json, "state", json_string(state_of(worker)));
	if (worker->named)
		put_bytes(w, json, "session", worker->session, sizeof(worker->session));
	if (!worker->serving)
		return json;
	put_value(w, json, "owner", write_owner(w, &info->owner));
	if (info->user)
		put_number(w, json, "user", info->user);
	if (info->mps)
		put_number(w, json, "mps", info->mps);
	put_number(w, json, "number", info->number);
	put_name(w, json, "program", info->program);
	put_number(w, json, "client_pid", info->client_pid);
	put_number(w, json, "memory", (int64_t)info->memory);
	put_name(w, json, "host", info->use.host);
	put_number(w, json, "begun", info->use.begun);
	put_bytes(w, json, "machine", info->machine, sizeof(info->machine));
	if (info->cut.since) {
		put_number(w, json, "cut_since", info->cut.since);
		put_number(w, json, "cut_until", info->cut.until);
	}
	put_suspension(w, json, &info->suspension);
	put_gpus(w, json, info);
	return json;
}

static json_t *write_mps(struct writer *w, const struct cks_state_mps *mps)
{
	json_t *json = json_object();

	put_number(w, json, "number", mps->number);
	put_number(w, json, "pid", mps->pid);
	put_number(w, json, "messenger", mps->messenger);
	put_value(w, json, "identity", write_identity(w, &mps->identity));
	put_name(w, json, "gpus", mps->gpus);
	put_name(w, json, "folder", mps->folder);
	put_value(w, json, "quits", json_boolean(mps->quits));
	put_number(w, json, "lost", mps->lost);
	return json;
}

static json_t *write_fresh(struct writer *w, const struct cks_state_fresh *fresh)
{
	json_t *json = json_object();

	put_number(w, json, "fd", fresh->fd);
	put_number(w, json, "deadline", fresh->deadline);
	put_value(w, json, "answered", json_boolean(fresh->answered));
	return json;
}

static json_t *write_caller(struct writer *w, const struct cks_state_caller *caller)
{
	json_t *json = json_object();

	put_number(w, json, "fd", caller->fd);
	if (caller->passed >= 0)
		put_number(w, json, "passed", caller->passed);
	put_number(w, json, "user", caller->user);
	put_value(w, json, "limited", json_boolean(caller->limited));
	if (caller->in)
		put_bytes(w, json, "in", (const unsigned char *)caller->in, caller->in_size);
	if (caller->out)
		put_bytes(w, json, "out", (const unsigned char *)caller->out, caller->out_size);
	return json;
}

static json_t *write_state(struct writer *w, const struct cks_state *s)
{
	json_t *json = json_object(), *listeners = json_array(), *workers = json_array(),
	       *fresh = json_array(), *callers = json_array(), *mps = json_array(), *broker;

	for (size_t i = 0; i < s->listeners.count; i++)
		append_item(w, listeners, write_socket(w, &s->listeners.list[i]));
	for (size_t i = 0; i < s->worker_count; i++)
		append_item(w, workers, write_worker(w, &s->workers[i]));
	for (size_t i = 0; i < s->mps_count; i++)
		append_item(w, mps, write_mps(w, &s->mps[i]));
	for (size_t i = 0; i < s->fresh_count; i++)
		append_item(w, fresh, write_fresh(w, &s->fresh[i]));
	for (size_t i = 0; i < s->caller_count; i++)
		append_item(w, callers, write_caller(w, &s->callers[i]));
	put_number(w, json, "format", CK_STATE_FORMAT);
	put_number(w, json, "readable_by", CK_STATE_FORMAT);
	put_value(w, json, "release", json_string(CK_RELEASE));
	if (s->driver[0])
		put_value(w, json, "driver", json_string(s->driver));
	if (s->gpus[0])
		put_value(w, json, "gpus", json_string(s->gpus));
	if (s->pid_file >= 0)
		put_number(w, json, "pid_file", s->pid_file);
	if (s->drain_by)
		put_number(w, json, "drain_by", s->drain_by);
	if (s->broker.fd >= 0) {
		broker = write_socket(w, &s->broker);
		put_number(w, broker, "pid", s->broker_pid);
		if (s->broker_process) {
			put_number(w, broker, "process", s->broker_process);
			put_number(w, broker, "leash", s->broker_leash);
		}
		put_value(w, json, "broker", broker);
	}
	if (s->control.fd >= 0)
		put_value(w, json, "control", write_socket(w, &s->control));
	if (s->status.fd >= 0)
		put_value(w, json, "status", write_socket(w, &s->status));
	if (s->rendezvous.fd >= 0)
		put_value(w, json, "rendezvous", write_socket(w, &s->rendezvous));
	if (s->asker >= 0)
		put_number(w, json, "asker", s->asker);
	put_value(w, json, "listeners", listeners);
	put_value(w, json, "workers", workers);
	put_value(w, json, "mps", mps);
	put_number(w, json, "numbered", s->numbered);
	put_value(w, json, "fresh", fresh);
	put_value(w, json, "callers", callers);
	return json;
}

char *cks_state_print(const struct cks_state *state)
{
	struct writer w = {.failed = false};
	json_t *json = write_state(&w, state);
	char *text = w.failed ? NULL : json_dumps(json, JSON_COMPACT);

	json_decref(json);
	return text;
}
