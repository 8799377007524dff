/*
 * server/life/migration.c - see migration.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/checkpoint/stream.h"
#include "server/children/gpu_turns.h"
#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/door/absent_sessions.h"
#include "server/helpers/helper.h"
#include "server/life/migration.h"
#include "server/life/migration_part.h"
#include "server/life/suspend.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/session_info.h"
#include "util/hash.h"
#include "util/process/fd.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_EVERY_MAX 1000000 /* seconds */
#define CK_QUIET_MS 86400000 /* of a program that is written too: each copy would read the line */

struct cks_travels *cks_travels_create(void)
{
	return calloc(1, sizeof(struct cks_travels));
}

static void free_travel(struct travel *travel)
{
	if (travel->stream >= 0)
		close(travel->stream);
	if (travel->pool >= 0)
		close(travel->pool);
	json_decref(travel->reply);
	free(travel->folder);
	free(travel);
}

void cks_travels_destroy(struct cks_travels *t)
{
	struct travel *next;

	for (struct travel *travel = t ? t->first : NULL; travel; travel = next) {
		next = travel->next;
		free_travel(travel);
	}
	if (t)
		travel_free_memories(t);
	if (t)
		json_decref(t->gpu);
	free(t);
}

struct travel *travel_begin(struct cks_travels *t, enum step step, const char *directory,
			    struct cks_asker asker)
{
	struct travel *travel = calloc(1, sizeof(*travel) + strlen(directory) + 1);

	if (!travel)
		return NULL;
	travel->step = step;
	travel->asker = asker;
	travel->stream = travel->pool = -1;
	strcpy(travel->directory, directory);
	travel->next = t->first;
	t->first = travel;
	return travel;
}

static unsigned long long read_size(const json_t *reply, const char *name)
{
	return (unsigned long long)json_integer_value(json_object_get(reply, name));
}

void travel_finish(struct cks_server *server, struct travel *travel, json_t *reply)
{
	const char *error = json_string_value(json_object_get(reply, "error"));
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	travel->step = OVER;
	cks_helpers_forget(server->helpers, travel);
	travel_leave_memory(server, travel);
	if (!travel->by_time) {
		cks_control_answer(server->control, travel->asker, reply);
		return;
	}
	if (s)
		s->saved = ck_now_ms(); /* it has as long to run until the next time */
	if (error)
		ck_warn("session s%u is not saved: %s", travel->number, error);
	else
		ck_info("session s%u is saved in %s: %llu MiB written, a pause of %u ms",
			travel->number, travel->directory, read_size(reply, "written") >> 20,
			travel->pause_ms);
	if (travel->needless)
		travel->step = REMOVING;
	json_decref(reply);
}

bool cks_travels_has(const struct cks_travels *t, unsigned int number)
{
	const struct travel *travel = t->first;

	while (travel && (travel->number != number || travel->step == REMOVING))
		travel = travel->next;
	return travel != NULL;
}

bool cks_travels_any(const struct cks_travels *t)
{
	return t->first != NULL;
}

bool cks_travels_saving(const struct cks_travels *t)
{
	const struct travel *travel = t->first;

	while (travel && (!travel->keeps || travel->step == REMOVING))
		travel = travel->next;
	return travel != NULL;
}

static bool waits_for_suspender(const struct travel *travel)
{
	return travel->step == SUSPENDING || (travel->step == ROUNDS && travel->rounds_over);
}

int64_t cks_travels_due(const struct cks_travels *t, struct cks_workers *workers)
{
	int64_t due = t->due;

	for (const struct travel *travel = t->first; travel; travel = travel->next) {
		const struct cks_session_info *s = cks_workers_at(workers, travel->number);

		/* the suspender has gone on since cks_travels_run() */
		if (waits_for_suspender(travel) && s &&
		    (s->suspension.state == CK_SUSPENDED || s->suspension.state == CK_RUNNING))
			return 0;
		if (travel->step == REMOVING || travel->step == STAYING || travel->step == ROUNDS)
			due = ck_min(due, travel->again);
	}
	return due == INT64_MAX ? -1 : ck_max(due - ck_now_ms(), (int64_t)0);
}

const char *travel_directory(const json_t *request, json_t **error)
{
	const char *directory = json_string_value(json_object_get(request, "directory"));

	if (directory && directory[0] == '/')
		return directory;
	*error = cks_control_error("the folder must be an absolute path");
	return NULL;
}

void travel_digits(const unsigned char session[16], char digits[CK_TRAVEL_DIGITS])
{
	char text[CK_HASH_TEXT];
	struct ck_hash hash;

	ck_hash(session, 16, &hash);
	ck_hash_print(&hash, text);
	snprintf(digits, CK_TRAVEL_DIGITS, "%.*s", CK_TRAVEL_DIGITS - 1, text);
}

uint64_t travel_seconds(const struct cks_server *server)
{
	return server->options->limits.value[CK_LIMIT_KEEP];
}

/* --- into files */

/* It is suspended: nothing of it is on the GPU, and no thread of the worker is on the way there. */
static bool begin_leaving(struct cks_server *server, struct travel *travel,
			  struct cks_session_info *s)
{
	if (!cks_workers_send(s, CK_CONTROL_LEAVE))
		return false;
	travel->step = LEAVING;
	s->left = CK_STAYS;
	cks_absent_sessions_leave(server->away, travel->session);
	return true;
}

/* Whose travel it is. */
static void take_session(struct travel *travel, const struct cks_session_info *s)
{
	travel->number = s->number;
	memcpy(travel->session, cks_workers_id(s), sizeof(travel->session));
}

/* Suspend it first, unless it is. */
json_t *travel_suspend(struct cks_server *server, struct travel *travel, struct cks_session_info *s)
{
	travel->resumes = s->suspension.state != CK_SUSPENDED;
	travel->held = s->suspension.held;
	if (travel->resumes || s->suspension.parked)
		return cks_suspend(server->suspender, s,
				   (struct cks_suspend_wish){.held = true,
							     .saves = travel->pooled,
							     .again_s = travel->again_s},
				   NULL);
	s->suspension.held = true;
	return begin_leaving(server, travel, s) ? NULL
						: cks_control_error("its worker does not respond");
}

static bool is_tcp(const char *text)
{
	char why[CK_ADDRESS_WHY];
	struct ck_address address;

	return ck_address_parse(text, &address, why) == 0 && address.kind == CK_ADDRESS_TCP;
}

/* The session of @request leaves, into @directory or over @stream, which it takes. */
static json_t *start_travel(struct cks_server *server, const json_t *request,
			    struct cks_asker asker, const char *directory, int stream)
{
	const char *name = json_string_value(json_object_get(request, "session"));
	struct cks_session_info *s = name ? cks_workers_find(server->workers, name) : NULL;
	const char *address = json_string_value(json_object_get(request, "address"));
	struct travel *travel = NULL;
	json_t *error = NULL;

	if (address && strlen(address) >= CK_ABSENT_ADDRESS)
		error = cks_control_error("the address is too long");
	else if (address && address[0] && !is_tcp(address)) /* clients use no other */
		error = cks_control_error("the address must be HOST or HOST:PORT, not %s", address);
	else if (!s || !cks_workers_id(s))
		error = cks_control_error("there is no session %s", name ? name : "");
	else if (cks_travels_has(server->travels, s->number))
		error = cks_control_error("session %s is already being written or moved", name);
	else if (!(cks_session_terms(s)->features & CK_FEATURE_CHECKPOINT))
		error = cks_control_error("the policy does not allow checkpoints of %s",
					  s->owner.identity.name);
	else if (!(travel = travel_begin(server->travels, SUSPENDING, directory, asker)))
		error = cks_control_error("%s", strerror(ENOMEM));
	if (!travel) {
		if (stream >= 0)
			close(stream);
		return error;
	}
	travel->stream = stream;
	if (stream < 0)
		travel->again_s =
			(unsigned int)json_integer_value(json_object_get(request, "every"));
	travel->keeps = travel->again_s > 0;
	travel->format = json_integer_value(json_object_get(request, "format"));
	travel->pooled = travel->keeps || travel->format >= CK_STREAM_CHUNKS;
	snprintf(travel->address, sizeof(travel->address), "%s", address ? address : "");
	take_session(travel, s);
	if (stream >= 0 && travel->pooled && s->suspension.state == CK_RUNNING &&
	    travel_begin_rounds(server, travel, s, json_object_get(request, "lanes")))
		return NULL;
	error = travel_suspend(server, travel, s);
	if (json_is_true(json_object_get(request, "quiet")))
		cks_suspend_quiet(s, CK_QUIET_MS);
	if (error)
		travel->step = OVER;
	return error;
}

json_t *cks_migration_checkpoint(struct cks_server *server, const json_t *request,
				 struct cks_asker asker)
{
	json_t *error = NULL;
	const char *directory = travel_directory(request, &error);
	const json_t *every = json_object_get(request, "every");

	if (every && (!json_is_integer(every) || json_integer_value(every) <= 0 ||
		      json_integer_value(every) > CK_EVERY_MAX))
		return cks_control_error("\"every\" is a number of seconds");
	if (every && json_object_get(request, "address"))
		return cks_control_error("a session that stays has no other address");

	return directory ? start_travel(server, request, asker, directory, -1) : error;
}

json_t *cks_migration_move(struct cks_server *server, const json_t *request, struct cks_asker asker)
{
	int stream = cks_control_take(server->control, asker);

	return stream >= 0 ? start_travel(server, request, asker, "", stream)
			   : cks_control_error("it needs a connection to the other server");
}

void cks_migration_save(struct cks_server *server, struct cks_session_info *s,
			const char *directory)
{
	struct travel *travel =
		travel_begin(server->travels, SUSPENDING, directory, (struct cks_asker){0});
	json_t *error;

	if (!travel)
		return;
	travel->keeps = travel->pooled = travel->by_time = true;
	travel->again_s = (unsigned int)server->options->limits.value[CK_LIMIT_SAVE];
	take_session(travel, s);
	error = travel_suspend(server, travel, s);
	if (error)
		travel_finish(server, travel, error);
}

/* It could not be suspended: it runs, or is about to, or is parked as before. */
static bool has_stayed(const struct cks_suspension *u)
{
	return u->state == CK_RUNNING || u->state == CK_RETURNING ||
	       (u->state == CK_SUSPENDED && u->parked);
}

/* The program waits from the moment on at which its worker lets no call pass, until the session
 * runs. */
static void note_pause(struct cks_server *server, struct travel *travel)
{
	const struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	if (!s || !travel->resumes) /* an earlier note does not count */
		return;
	if (travel->began == 0 && s->suspension.said.kind == CK_NOTE_PARKED)
		travel->began = ck_now_ms() - s->suspension.said.move_ms;
	if (travel->began > 0 && travel->pause_ms == 0 && travel->stays &&
	    s->suspension.state == CK_RUNNING)
		travel->pause_ms = (unsigned int)(ck_now_ms() - travel->began);
}

/* Its checkpointer has ended before the session has left: it goes on. */
static void give_up(struct cks_server *server, struct travel *travel, struct cks_session_info *s)
{
	s->suspension.held &= travel->held;
	if (travel->resumes)
		json_decref(cks_resume(server->suspender, s, NULL, NULL));
	travel_finish(server, travel, json_incref(travel->reply));
}

static void check_suspended(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	if (!s)
		travel_finish(server, travel, cks_control_error("the session has ended"));
	else if (has_stayed(&s->suspension)) {
		s->suspension.held &= travel->held;
		travel_finish(server, travel,
			      cks_control_error("it cannot be suspended: %s", s->suspension.why));
	} else if (s->suspension.state == CK_SUSPENDED && travel->reply)
		give_up(server, travel, s);
	else if (s->suspension.state == CK_SUSPENDED && !begin_leaving(server, travel, s))
		travel_finish(server, travel, cks_control_error("its worker does not respond"));
}

/* The file of the memory that the worker will drop: it gets it back, whatever happens to the
 * process that writes it. Its own descriptor, so nothing that the worker could not open itself. */
static void take_pool(struct travel *travel, const struct cks_session_info *s)
{
	int process =
		travel->pooled && s->pool_fd > 0 ? (int)syscall(SYS_pidfd_open, s->pid, 0) : -1;

	if (process < 0)
		return;
	travel->pool = (int)syscall(SYS_pidfd_getfd, process, s->pool_fd, 0);
	close(process);
	if (travel->pool < 0)
		ck_info("session s%u: CRIU writes all of its memory: %m", travel->number);
}

/* Has the worker closed its connections? */
static void check_left(struct cks_server *server, struct travel *travel)
{
	struct cks_session_info *s = cks_workers_at(server->workers, travel->number);
	json_t *error;

	if (s && s->left == CK_STAYS)
		return;
	if (s && s->left == CK_LEFT && !travel->reply) {
		take_pool(travel, s);
		travel_write(server, travel, s);
		return;
	}
	if (s && travel->reply)
		error = json_incref(travel->reply);
	else
		error = cks_control_error(s ? "the session cannot be written or moved: %s"
					    : "the session has ended",
					  s ? s->why : "");
	travel_finish(server, travel, error);
	travel_stay(server, travel);
}

/* The answer comes when commands do not find the session here any more. */
static void check_ended(struct cks_server *server, struct travel *travel)
{
	if (!cks_workers_at(server->workers, travel->number))
		travel_finish(server, travel, json_incref(travel->reply));
}

/* The answer of a session that stays has the time for which its program waited. */
static void check_staying(struct cks_server *server, struct travel *travel)
{
	const struct cks_session_info *s = cks_workers_at(server->workers, travel->number);

	if (s && travel->resumes && s->suspension.state != CK_RUNNING &&
	    ck_now_ms() < travel->again)
		return;
	if (travel->pause_ms > 0)
		json_object_set_new(travel->reply, "pause_ms", json_integer(travel->pause_ms));
	travel_finish(server, travel, json_incref(travel->reply));
}

/* --- all */

void cks_travels_run(struct cks_travels *t, struct cks_server *server)
{
	struct travel **at = &t->first, *travel;

	while ((travel = *at) != NULL) {
		note_pause(server, travel);
		if (travel->step == ROUNDS)
			travel_check_round(server, travel);
		else if (travel->step == SUSPENDING)
			check_suspended(server, travel);
		else if (travel->step == LEAVING)
			check_left(server, travel);
		else if (travel->step == ENDING)
			check_ended(server, travel);
		else if (travel->step == STAYING)
			check_staying(server, travel);
		else if (travel->step == LOADING)
			travel_check_memory(server, travel);
		else if (travel->step == RETURNING)
			travel_check_named(server, travel);
		if (travel->step == REMOVING)
			travel_remove(server, travel);
		if (travel->step != OVER) {
			at = &travel->next;
			continue;
		}
		*at = travel->next;
		free_travel(travel);
	}
	t->due = cks_migration_policy(server);
}
