/*
 * server/life/migration_policy.c - --checkpoint-every: each session is saved in turn, and goes on.
 *
 * A session's folder is named by a hash of its id: the name is the same for each server that has
 * the session, and does not tell the id, which admits to it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/helpers/helper.h"
#include "server/life/migration.h"
#include "server/life/migration_part.h"
#include "server/options/options.h"
#include "server/processes/session_info.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define REMOVE_AGAIN_MS 1000

static void folder_of(const char *parent, const unsigned char session[16], char out[PATH_MAX])
{
	char digits[CK_TRAVEL_DIGITS];

	travel_digits(session, digits);
	snprintf(out, PATH_MAX, "%s/%s", parent, digits);
}

/* Programs on this host do not come back after a cut, and others may not want to. */
static bool may_be_saved(const struct cks_session_info *s)
{
	return cks_workers_id(s) && s->owner.peer.kind != CK_PEER_USER &&
	       s->left != CK_CANNOT_LEAVE && !s->mps &&
	       (cks_session_terms(s)->features & CK_FEATURE_CHECKPOINT) &&
	       (s->suspension.state == CK_RUNNING || s->suspension.state == CK_SUSPENDED);
}

/* When it is to be saved; INT64_MAX: not before it has used the GPU again. */
static int64_t get_due_time(struct cks_session_info *s, int64_t every_ms)
{
	if (s->saved == 0)
		s->saved = ck_now_ms(); /* its begin, as seen here */
	return s->suspension.uses == s->saved_uses ? INT64_MAX : s->saved + every_ms;
}

int64_t cks_migration_policy(struct cks_server *server)
{
	int64_t every_ms = (int64_t)server->options->limits.value[CK_LIMIT_SAVE] * 1000;
	int64_t next = INT64_MAX;
	struct cks_session_info *s = NULL, *first = NULL;
	char folder[PATH_MAX];

	if (every_ms == 0 || cks_travels_saving(server->travels))
		return INT64_MAX;
	while ((s = cks_workers_next(server->workers, s)) != NULL) {
		int64_t time = get_due_time(s, every_ms);

		if (time >= next || !may_be_saved(s) || cks_travels_has(server->travels, s->number))
			continue;
		next = time;
		first = s;
	}
	if (!first || next > ck_now_ms())
		return next;
	first->saved = ck_now_ms();
	first->saved_uses = first->suspension.uses;
	folder_of(server->options->checkpoint_dir, cks_workers_id(first), folder);
	cks_migration_save(server, first, folder);
	return ck_now_ms(); /* it may have failed at once: then it is the next one's turn */
}

static void handle_removed(struct cks_server *server, json_t *reply, void *data)
{
	(void)server;
	(void)data;
	json_decref(reply);
}

void travel_remove(struct cks_server *server, struct travel *travel)
{
	struct cks_helper helper = {
		.argument = CK_CHECKPOINTER_ARGUMENT, .control = -1, .done = handle_removed};
	pid_t pid;

	if (travel->again > ck_now_ms())
		return;
	travel->step = OVER;
	if (access(travel->directory, F_OK) < 0)
		return;
	helper.request = json_pack("{s:s}", "remove", travel->directory);
	pid = cks_helpers_start(server->helpers, &helper);
	if (pid >= 0)
		return;
	if (travel->again == 0)
		ck_warn("%s cannot be removed now: %s; the server tries again", travel->directory,
			strerror(-pid));
	travel->step = REMOVING;
	travel->again = ck_now_ms() + REMOVE_AGAIN_MS;
}

/* Has the session @s come to its end? Else its program may still want it back from the files. */
static bool has_come_to_end(const struct cks_session_info *s, int status)
{
	if (s->written)
		return false;
	return status == -1 ? s->end_reported : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void cks_migration_policy_ended(struct cks_travels *travels, const struct cks_options *options,
				struct cks_workers *workers, pid_t pid, int status)
{
	struct cks_session_info *s = NULL;
	char folder[PATH_MAX];

	while ((s = cks_workers_next(workers, s)) != NULL) {
		if (cks_session_child(s) == pid)
			break;
	}
	if (!s || !options->checkpoint_dir || !has_come_to_end(s, status))
		return;
	for (struct travel *travel = travels->first; travel; travel = travel->next)
		travel->needless |= travel->by_time && travel->number == s->number;
	folder_of(options->checkpoint_dir, cks_workers_secret(s), folder);
	if (!travel_begin(travels, REMOVING, folder, (struct cks_asker){0}))
		ck_warn("%s: cannot be removed", folder);
}
