/*
 * server/life/migration.h - sessions on their way into files, and out of files.
 *
 * A session leaves in steps: its connections are closed, then its worker is written into files and
 * ends. It arrives in steps too: a worker is made of the files, then it takes connections. Each
 * step ends in a process of its own or in the worker, so the supervisor looks after each round how
 * far each session has come.
 */
#ifndef CK_SERVER_LIFE_MIGRATION_H
#define CK_SERVER_LIFE_MIGRATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/control/control.h"

struct cks_session_info;
struct cks_travels;

/* NULL: out of memory. */
struct cks_travels *cks_travels_create(void);
void cks_travels_destroy(struct cks_travels *travels); /* accepts NULL */

/* Take the next step of each session that has done one. */
void cks_travels_run(struct cks_travels *travels, struct cks_server *server);

/* Milliseconds until cks_travels_run() has something to do, unless something happens before; -1:
 * nothing. */
int64_t cks_travels_due(const struct cks_travels *travels, struct cks_workers *workers);

/* Is session @number on its way? Is any being saved? */
bool cks_travels_has(const struct cks_travels *travels, unsigned int number);
bool cks_travels_saving(const struct cks_travels *travels);
/* Is any on its way? Its asker may have gone. */
bool cks_travels_any(const struct cks_travels *travels);

/* Write a session into @directory, in place of its older checkpoint, and let it go on. The result
 * is logged. */
void cks_migration_save(struct cks_server *server, struct cks_session_info *session,
			const char *directory);

/* The commands `checkpoint`, `move`, `receive` and `restore`. */
json_t *cks_migration_checkpoint(struct cks_server *server, const json_t *request,
				 struct cks_asker asker);
json_t *cks_migration_move(struct cks_server *server, const json_t *request,
			   struct cks_asker asker);
json_t *cks_migration_receive(struct cks_server *server, const json_t *request,
			      struct cks_asker asker);
json_t *cks_migration_restore(struct cks_server *server, const json_t *request,
			      struct cks_asker asker);

/* --- migration_policy.c: --checkpoint-every */

/* Save the session whose turn it is; returns when to call again, INT64_MAX: when something has
 * changed. */
int64_t cks_migration_policy(struct cks_server *server);
/* Process @pid has ended with wait(2)'s @status, or -1 if that is unknown and its worker's last
 * note decides: if it was a session that has come to its end, its checkpoint is removed. Call
 * before cks_workers_ended() or cks_workers_forget(). */
void cks_migration_policy_ended(struct cks_travels *travels, const struct cks_options *options,
				struct cks_workers *workers, pid_t pid, int status);

#endif
