/*
 * server/children/sessions.c - sessions as commands see them: their public names, and messages to
 * their workers.
 *
 * A session's own id admits to it, so it is a secret. For commands it has a number.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "m3/message.h"
#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/children/workers_part.h"
#include "server/processes/process.h"
#include "server/processes/session_info.h"
#include "util/process/fd.h"
#include "util/util.h"

const char *cks_session_name(const struct cks_session_info *session, char out[CK_SESSION_NAME])
{
	snprintf(out, CK_SESSION_NAME, "s%u", session->number);
	return out;
}

bool cks_worker_send_line(const struct worker *worker, char kind, const char *line, bool last)
{
	struct cks_control_words message = {.kind = kind, .last = last};

	snprintf(message.text, sizeof(message.text), "%s", line);
	return worker->control >= 0 &&
	       send(worker->control, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) ==
		       (ssize_t)sizeof(message);
}

bool cks_workers_send_refusal(const struct cks_session_info *session, const char *line)
{
	return cks_worker_send_line(container_of(session, struct worker, info), CK_CONTROL_REFUSAL,
				    line, false);
}

bool cks_workers_send_line(const struct cks_session_info *session, const char *line, bool last)
{
	return cks_worker_send_line(container_of(session, struct worker, info), CK_CONTROL_WORDS,
				    line, last);
}

bool cks_workers_end(const struct cks_session_info *session, const char *line)
{
	return cks_worker_send_line(container_of(session, struct worker, info), CK_CONTROL_END,
				    line, true);
}

bool cks_workers_gone_client(const struct cks_session_info *session, const char *why)
{
	return cks_worker_send_line(container_of(session, struct worker, info), CK_CONTROL_GONE,
				    why, true);
}

static bool send_park(const struct cks_session_info *session,
		      const struct cks_control_park *message)
{
	int control = container_of(session, struct worker, info)->control;

	return control >= 0 && send(control, message, sizeof(*message),
				    MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*message);
}

bool cks_workers_park(const struct cks_session_info *session, uint64_t room, bool saves,
		      unsigned int pool_s)
{
	return send_park(session, &(struct cks_control_park){.kind = CK_CONTROL_PARK,
							     .saves = saves,
							     .pool_s = pool_s,
							     .room = room});
}

bool cks_workers_round(const struct cks_session_info *session, uint64_t room)
{
	return send_park(session,
			 &(struct cks_control_park){.kind = CK_CONTROL_ROUND, .room = room});
}

bool cks_workers_readmit(struct cks_session_info *session, int pool)
{
	int control = container_of(session, struct worker, info)->control;
	const char kind = CK_CONTROL_RETURN;

	if (control < 0 ||
	    ck_m3_send(control, &kind, 1, NULL, 0, pool, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	session->pool_sent = pool >= 0;
	return true;
}

bool cks_workers_rename(const struct cks_session_info *session,
			const struct cks_session_names *names)
{
	int control = container_of(session, struct worker, info)->control;
	const struct cks_control_names message = {.kind = CK_CONTROL_NAMES, .names = *names};

	return control >= 0 && send(control, &message, sizeof(message),
				    MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(message);
}

bool cks_workers_unpark(const struct cks_session_info *session, unsigned int room_ms,
			uint64_t leaving)
{
	int control = container_of(session, struct worker, info)->control;
	const struct cks_control_unpark message = {
		.kind = CK_CONTROL_UNPARK, .room_ms = room_ms, .leaving = leaving};

	return control >= 0 && send(control, &message, sizeof(message),
				    MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(message);
}

bool cks_workers_map(struct cks_session_info *session, const struct cks_device_map *map)
{
	int control = container_of(session, struct worker, info)->control;
	const struct cks_control_map message = {.kind = CK_CONTROL_MAP, .map = *map};
	bool moved[CK_NOTE_GPUS] = {false};

	for (uint32_t i = 0; i < map->count; i++) {
		for (size_t k = 0; k < CK_NOTE_GPUS; k++) {
			if (moved[k] || session->gpus[k] != cks_uuid_mark(map->pairs[i].was))
				continue;
			session->gpus[k] = cks_uuid_mark(map->pairs[i].is);
			moved[k] = true;
		}
	}
	return control >= 0 && send(control, &message, sizeof(message),
				    MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

void cks_workers_kill(const struct cks_session_info *session)
{
	const struct worker *worker = container_of(session, struct worker, info);

	if (worker->process)
		cks_process_kill(worker->process);
	else
		kill(worker->info.pid, SIGKILL);
}

struct cks_session_info *cks_workers_find(struct cks_workers *workers, const char *name)
{
	struct cks_session_info *s = NULL;
	char own[CK_SESSION_NAME], pid[CK_SESSION_NAME];

	while ((s = cks_workers_next(workers, s)) != NULL) {
		snprintf(pid, sizeof(pid), "%d", (int)s->pid);
		if (strcmp(name, cks_session_name(s, own)) == 0 || strcmp(name, pid) == 0)
			return s;
	}
	return NULL;
}

struct cks_session_info *cks_workers_at(struct cks_workers *workers, unsigned int number)
{
	struct worker *worker = workers->first;

	while (worker && (worker->state != SERVING || worker->info.number != number))
		worker = worker->next;
	return worker ? &worker->info : NULL;
}

const struct cks_ledger *cks_workers_ledger(const struct cks_workers *w)
{
	return &w->ledger;
}

const unsigned char *cks_workers_id(const struct cks_session_info *session)
{
	const struct worker *worker = container_of(session, struct worker, info);

	return worker->named ? worker->session : NULL;
}

const unsigned char *cks_workers_secret(const struct cks_session_info *session)
{
	return container_of(session, struct worker, info)->session;
}

int cks_workers_restore(struct cks_workers *w, struct cks_helpers *helpers,
			struct cks_helper *helper, unsigned int *number)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int pair[2] = {-1, -1}, ret = -ENOMEM;

	if (worker && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		ret = -errno;
	if (pair[0] < 0) {
		free(worker);
		json_decref(helper->request);
		return ret;
	}
	ck_fd_set_nonblock(pair[0], true);
	helper->control = pair[1];
	ret = cks_helpers_start(helpers, helper);
	close(pair[1]);
	if (ret < 0) {
		close(pair[0]);
		free(worker);
		return ret;
	}
	*worker = (struct worker){
		.pid = ret, .control = pair[0], .info = {.number = ++w->numbered, .pid = ret}};
	cks_worker_listen(w, worker);
	cks_worker_add(w, worker, SERVING);
	w->changed = true;
	w->totals.sessions++;
	*number = worker->info.number;
	return 0;
}
