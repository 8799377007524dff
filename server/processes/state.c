/*
 * server/processes/state.c - reading the state; see state.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/processes/session_info.h"
#include "server/processes/sockets.h"
#include "server/processes/state.h"

#define CK_NUMBER_MAX (1 << 24) /* of descriptors and of processes */

const char *const cks_state_peer_kinds[CK_STATE_PEERS] = {
	[CK_PEER_UNKNOWN] = "unknown", [CK_PEER_USER] = "user",	      [CK_PEER_IPV4] = "ipv4",
	[CK_PEER_IPV6] = "ipv6",       [CK_PEER_NETWORK] = "network",
};

void cks_state_init(struct cks_state *state)
{
	*state = (struct cks_state){
		.pid_file = -1,
		.broker.fd = -1,
		.control.fd = -1,
		.status.fd = -1,
		.asker = -1,
		.rendezvous.fd = -1,
	};
}

void cks_state_free(struct cks_state *state)
{
	for (size_t i = 0; state->callers && i < state->caller_count; i++) {
		free(state->callers[i].in);
		free(state->callers[i].out);
	}
	free(state->workers);
	free(state->mps);
	free(state->fresh);
	free(state->callers);
	cks_state_init(state);
}

const char *cks_state_driver(const struct cks_state *state, const char *option)
{
	return strcmp(option, "auto") == 0 ? state->driver : option;
}

void cks_state_plain(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
			*text = '?';
	}
}

/* --- reading: errors are noted, and the state is refused at the end */

struct reader {
	bool failed;
};

/* A number that may be missing: then @missing. */
static int64_t get_number(struct reader *r, const json_t *object, const char *key, int64_t least,
			  int64_t most, int64_t missing)
{
	const json_t *value = json_object_get(object, key);
	int64_t number = json_integer_value(value);

	if (!value)
		return missing;
	if (!json_is_integer(value) || number < least || number > most)
		r->failed = true;
	return number;
}

/* A descriptor other than the standard ones. */
static int get_fd(struct reader *r, const json_t *object, const char *key)
{
	return (int)get_number(r, object, key, 3, CK_NUMBER_MAX, -1);
}

static int get_needed_fd(struct reader *r, const json_t *object, const char *key)
{
	int fd = get_fd(r, object, key);

	if (fd < 0)
		r->failed = true;
	return fd;
}

/* A descriptor, or 0 if it is missing. */
static int get_extra_fd(struct reader *r, const json_t *object, const char *key)
{
	return (int)get_number(r, object, key, 3, CK_NUMBER_MAX, 0);
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void decode_bytes(struct reader *r, const char *text, unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			r->failed = true;
		bytes[i] = (unsigned char)((high & 15) << 4 | (low & 15));
	}
}

/* Exactly @size bytes; false: missing. */
static bool get_bytes(struct reader *r, const json_t *object, const char *key, unsigned char *bytes,
		      size_t size)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);

	if (!value)
		return false;
	if (!text || json_string_length(value) != 2 * size) {
		r->failed = true;
		return false;
	}
	decode_bytes(r, text, bytes, size);
	return true;
}

/* Any number of bytes, to be freed; NULL: none. */
static char *get_some_bytes(struct reader *r, const json_t *object, const char *key, size_t *size)
{
	const json_t *value = json_object_get(object, key);
	char *bytes;

	*size = json_string_length(value) / 2;
	if (!value || *size == 0)
		return NULL;
	bytes = *size <= CK_STATE_SAID ? malloc(*size) : NULL;
	if (bytes)
		decode_bytes(r, json_string_value(value), (unsigned char *)bytes, *size);
	else
		r->failed = true;
	return bytes;
}

static void get_text(const json_t *object, const char *key, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(object, key));

	if (text)
		strncat(out, text, size - strlen(out) - 1);
	cks_state_plain(out);
}

/* The list @key, or an empty one if it is missing. */
static json_t *get_list(struct reader *r, const json_t *object, const char *key, size_t *count)
{
	json_t *list = json_object_get(object, key);

	if (list && !json_is_array(list))
		r->failed = true;
	*count = json_array_size(list);
	return list;
}

static void read_socket(struct reader *r, const json_t *json, struct cks_socket *socket)
{
	*socket = (struct cks_socket){.fd = get_needed_fd(r, json, "fd")};
	socket->file.st_dev = (dev_t)get_number(r, json, "device", INT64_MIN, INT64_MAX, 0);
	socket->file.st_ino = (ino_t)get_number(r, json, "inode", INT64_MIN, INT64_MAX, 0);
}

static void read_identity(struct reader *r, const json_t *json, struct cks_identity *identity)
{
	get_text(json, "name", identity->name, sizeof(identity->name));
	get_bytes(r, json, "key", identity->key.bytes, CK_HASH_SIZE);
}

static void read_owner(struct reader *r, const json_t *json, struct cks_owner *owner)
{
	const json_t *peer = json_object_get(json, "peer");
	char kind[16] = "";

	get_text(peer, "kind", kind, sizeof(kind));
	for (size_t i = 0; i < CK_STATE_PEERS; i++) {
		if (strcmp(kind, cks_state_peer_kinds[i]) == 0)
			owner->peer.kind = i;
	}
	get_bytes(r, peer, "bytes", owner->peer.bytes, sizeof(owner->peer.bytes));
	read_identity(r, json_object_get(json, "identity"), &owner->identity);
}

/* On which GPUs it is. */
static void read_gpus(struct reader *r, const json_t *json, struct cks_session_info *info)
{
	const json_t *list = json_object_get(json, "gpus");

	for (size_t i = 0; i < CK_NOTE_GPUS; i++)
		info->gpus[i] = (uint32_t)json_integer_value(json_array_get(list, i));
	get_text(json, "there", info->suspension.there, sizeof(info->suspension.there));
	info->moved = (int)get_number(r, json, "moved", 0, CK_MAP_GPUS, 0);
}

/* A worker that is not a spare has a session, under any name that a newer release gives its
 * state. */
static void read_worker(struct reader *r, const json_t *json, struct cks_state_worker *w)
{
	struct cks_session_info *info = &w->info;
	char state[16] = "", need[CK_ROOM_TEXT] = "";

	get_text(json, "state", state, sizeof(state));
	*w = (struct cks_state_worker){.serving = strcmp(state, "spare") != 0};
	info->pid = (pid_t)get_number(r, json, "pid", 2, CK_NUMBER_MAX, 0);
	info->follower = (pid_t)get_number(r, json, "follower", 0, CK_NUMBER_MAX, 0);
	info->user = (uint32_t)get_number(r, json, "user", 0, UINT32_MAX, 0);
	info->mps = (uint32_t)get_number(r, json, "mps", 0, UINT32_MAX, 0);
	w->control = (int)get_number(r, json, "control", -1, CK_NUMBER_MAX, -1);
	w->process = get_extra_fd(r, json, "process");
	if (info->pid == 0 || (w->control >= 0 && w->control < 3))
		r->failed = true;
	w->named = get_bytes(r, json, "session", w->session, sizeof(w->session));
	read_owner(r, json_object_get(json, "owner"), &info->owner);
	info->number = (unsigned int)get_number(r, json, "number", 0, UINT32_MAX, 0);
	get_text(json, "program", info->program, sizeof(info->program));
	info->client_pid = (unsigned int)get_number(r, json, "client_pid", 0, UINT32_MAX, 0);
	info->memory = (uint64_t)get_number(r, json, "memory", 0, INT64_MAX, 0);
	get_text(json, "host", info->use.host, sizeof(info->use.host));
	info->use.begun = get_number(r, json, "begun", 0, INT64_MAX, 0);
	get_bytes(r, json, "machine", info->machine, sizeof(info->machine));
	info->cut.since = get_number(r, json, "cut_since", 0, INT64_MAX, 0);
	info->cut.until = get_number(r, json, "cut_until", 0, INT64_MAX, 0);
	read_gpus(r, json, info);
	if (strcmp(state, "suspended") == 0) {
		get_text(json, "need", need, sizeof(need));
		cks_gpu_room_parse(need, &info->suspension.need);
		info->suspension.state = CK_SUSPENDED;
		info->suspension.tried = json_is_true(json_object_get(json, "tried"));
		info->suspension.told = json_is_true(json_object_get(json, "told"));
		info->suspension.stopped = get_number(r, json, "stopped", 0, INT64_MAX, 0);
		info->suspension.held = json_is_true(json_object_get(json, "held"));
		info->suspension.wanted = json_is_true(json_object_get(json, "wanted"));
		info->suspension.bytes = (uint64_t)get_number(r, json, "bytes", 0, INT64_MAX, 0);
		info->suspension.away = (uint64_t)get_number(r, json, "away", 0, INT64_MAX, 0);
		info->suspension.parked = json_is_true(json_object_get(json, "parked"));
	}
}

static void read_mps(struct reader *r, const json_t *json, struct cks_state_mps *mps)
{
	mps->number = (uint32_t)get_number(r, json, "number", 1, UINT32_MAX, 0);
	mps->pid = (pid_t)get_number(r, json, "pid", 0, CK_NUMBER_MAX, 0);
	mps->messenger = (pid_t)get_number(r, json, "messenger", 0, CK_NUMBER_MAX, 0);
	read_identity(r, json_object_get(json, "identity"), &mps->identity);
	get_text(json, "gpus", mps->gpus, sizeof(mps->gpus));
	get_text(json, "folder", mps->folder, sizeof(mps->folder));
	mps->quits = json_is_true(json_object_get(json, "quits"));
	mps->lost = get_number(r, json, "lost", 0, INT64_MAX, 0);
	if (mps->number == 0 || mps->folder[0] != '/' || mps->pid == 1 || mps->messenger == 1)
		r->failed = true;
}

static void read_fresh(struct reader *r, const json_t *json, struct cks_state_fresh *f)
{
	f->fd = get_needed_fd(r, json, "fd");
	f->deadline = get_number(r, json, "deadline", 0, INT64_MAX, 0);
	f->answered = json_is_true(json_object_get(json, "answered"));
}

static void read_caller(struct reader *r, const json_t *json, struct cks_state_caller *c)
{
	c->fd = get_needed_fd(r, json, "fd");
	c->passed = get_fd(r, json, "passed");
	c->user = (uint32_t)get_number(r, json, "user", 0, UINT32_MAX, UINT32_MAX);
	c->limited = !json_is_false(json_object_get(json, "limited"));
	c->in = get_some_bytes(r, json, "in", &c->in_size);
	c->out = get_some_bytes(r, json, "out", &c->out_size);
}

static void read_lists(struct reader *r, const json_t *json, struct cks_state *s)
{
	json_t *listeners = get_list(r, json, "listeners", &s->listeners.count);
	json_t *workers = get_list(r, json, "workers", &s->worker_count);
	json_t *mps = get_list(r, json, "mps", &s->mps_count);
	json_t *fresh = get_list(r, json, "fresh", &s->fresh_count);
	json_t *callers = get_list(r, json, "callers", &s->caller_count);

	s->workers = calloc(s->worker_count + 1, sizeof(*s->workers));
	s->mps = calloc(s->mps_count + 1, sizeof(*s->mps));
	s->fresh = calloc(s->fresh_count + 1, sizeof(*s->fresh));
	s->callers = calloc(s->caller_count + 1, sizeof(*s->callers));
	if (!s->workers || !s->mps || !s->fresh || !s->callers ||
	    s->listeners.count > CK_LISTENERS || s->caller_count > CK_STATE_CALLERS) {
		r->failed = true;
		return;
	}
	for (size_t i = 0; i < s->listeners.count; i++)
		read_socket(r, json_array_get(listeners, i), &s->listeners.list[i]);
	for (size_t i = 0; i < s->worker_count; i++)
		read_worker(r, json_array_get(workers, i), &s->workers[i]);
	for (size_t i = 0; i < s->mps_count; i++)
		read_mps(r, json_array_get(mps, i), &s->mps[i]);
	for (size_t i = 0; i < s->fresh_count; i++)
		read_fresh(r, json_array_get(fresh, i), &s->fresh[i]);
	for (size_t i = 0; i < s->caller_count; i++)
		read_caller(r, json_array_get(callers, i), &s->callers[i]);
}

static void read_state(struct reader *r, const json_t *json, struct cks_state *s)
{
	const json_t *broker = json_object_get(json, "broker"),
		     *control = json_object_get(json, "control"),
		     *status = json_object_get(json, "status"),
		     *rendezvous = json_object_get(json, "rendezvous");

	if (get_number(r, json, "readable_by", 1, CK_STATE_FORMAT, 0) == 0)
		r->failed = true;
	get_text(json, "driver", s->driver, sizeof(s->driver));
	get_text(json, "gpus", s->gpus, sizeof(s->gpus));
	s->pid_file = get_fd(r, json, "pid_file");
	s->asker = get_fd(r, json, "asker");
	if (control)
		read_socket(r, control, &s->control);
	if (status)
		read_socket(r, status, &s->status);
	if (rendezvous)
		read_socket(r, rendezvous, &s->rendezvous);
	s->drain_by = get_number(r, json, "drain_by", 0, INT64_MAX, 0);
	s->numbered = (unsigned int)get_number(r, json, "numbered", 0, UINT32_MAX, 0);
	if (broker) {
		read_socket(r, broker, &s->broker);
		s->broker_pid = (pid_t)get_number(r, broker, "pid", 0, CK_NUMBER_MAX, 0);
		s->broker_process = get_extra_fd(r, broker, "process");
		s->broker_leash = get_extra_fd(r, broker, "leash");
		if (s->broker_pid == 1 || !s->broker_process != !s->broker_leash)
			r->failed = true;
	}
	read_lists(r, json, s);
}

int cks_state_parse(const char *text, size_t size, struct cks_state *state)
{
	json_t *json = json_loadb(text, size, 0, NULL);
	struct reader r = {.failed = !json_is_object(json)};

	cks_state_init(state);
	if (!r.failed)
		read_state(&r, json, state);
	json_decref(json);
	if (r.failed)
		cks_state_free(state);
	return r.failed ? -EPROTO : 0;
}
