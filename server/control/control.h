/*
 * server/control/control.h - the control socket: commands for a running server, and `--ctl`.
 *
 * A request is one JSON object on a line, and so is its reply:
 *     {"command": "suspend", "session": "s3"}
 *     {"ok": true}  or  {"ok": false, "error": "there is no session s3"}
 * A reply may come later, while the supervisor goes on. A process that can connect to the socket
 * has the rights of the server's user; its file has mode 0600.
 *
 * A second socket, of status, is for all users of this host (docs/status.md). The kernel tells who
 * connects: root and the server's user have all commands there, others only those for users, and
 * for their own sessions.
 */
#ifndef CK_SERVER_CONTROL_CONTROL_H
#define CK_SERVER_CONTROL_CONTROL_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/processes/session_info.h"

struct cks_audit;
struct cks_options;
struct cks_queue;
struct cks_reload;
struct cks_state;
struct cks_suspender;
struct cks_upgrade;
struct cks_absent_sessions;
struct cks_command;
struct cks_helpers;
struct cks_travels;
struct cks_workers;

#define CK_CONTROL_MAX 16  /* connections; others wait in the queue */
#define CK_CONTROL_USERS 8 /* of these, connections of users at most */
#define CK_CONTROL_POLL (2 + CK_CONTROL_MAX)

struct cks_control;

/* The parts of the supervisor that commands use. */
struct cks_server {
	const struct cks_command *commands; /* all; the last has no name */
	const struct cks_options *options;
	struct cks_control *control;
	struct cks_workers *workers;
	struct cks_upgrade *upgrade;
	struct cks_suspender *suspender;
	struct cks_helpers *helpers;
	struct cks_travels *travels;
	struct cks_absent_sessions *away;
	struct cks_audit *audit; /* NULL: none */
	const struct cks_queue *queue;
	const struct cks_listeners *listeners;
	const struct cks_reload *files; /* `reload` reads them again */
	uint64_t *drain;		/* set it to begin to drain, for so many seconds */
	const char *driver;		/* the choice of --driver auto */
	const char *gpus;		/* see cks_driver_gpus */
};

struct cks_command {
	const char *name;
	/* their names in a request, in the order of --ctl; "[NAME]" may be left out */
	const char *arguments;
	/* NULL: the answer comes later, by cks_control_answer(). No function: only --ctl has the
	 * command. */
	json_t *(*run)(struct cks_server *server, const json_t *request, struct cks_asker asker);
	/* For --ctl: do more than send @request, which it takes; the reply. NULL: no more. */
	json_t *(*act)(int server, json_t *request, const struct cks_options *options);
	/* For --ctl: print the rest of a successful reply; NULL: nothing. */
	void (*print)(const json_t *reply);
	bool for_users;	 /* may be used by all, for their own sessions */
	bool only_reads; /* it changes nothing: the audit log does not have it */
};

/* @path, or else beside the server's @unix_path. NULL: there is no such socket (logged). */
struct cks_control *cks_control_create(const char *path, const char *unix_path);
void cks_control_destroy(struct cks_control *control); /* accepts NULL */

/* Save the sockets and connections in @state, with that of *@asker unless NULL apart (-ENOMEM); or
 * continue with those: the asker is of slot 0 then. NULL: there is no socket. */
int cks_control_save(const struct cks_control *control, const struct cks_asker *asker,
		     struct cks_state *state);
struct cks_control *cks_control_resume(const struct cks_state *state);
/* Does a command wait for its answer, other than that of *@asker unless NULL? */
bool cks_control_busy(const struct cks_control *control, const struct cks_asker *asker);

/* Fill in CK_CONTROL_POLL descriptors; and handle poll(2)'s results for them. */
size_t cks_control_poll(const struct cks_control *control, struct pollfd *fds);
void cks_control_run(struct cks_control *control, const struct pollfd *fds,
		     struct cks_server *server);

/* Has the asker all rights? Is it the session's user? */
bool cks_control_is_admin(const struct cks_control *control, struct cks_asker asker);
/* The same of a client that has no session yet. */
bool cks_control_is_owner(const struct cks_control *control, struct cks_asker asker,
			  const struct cks_owner *owner);
struct cks_session_info;
bool cks_control_owns(const struct cks_control *control, struct cks_asker asker,
		      const struct cks_session_info *session);

/* The descriptor that came with the asker's command, the caller's to close; -1: none did. */
int cks_control_take(struct cks_control *control, struct cks_asker asker);

/* Does the asker still wait? */
bool cks_control_waits(const struct cks_control *control, struct cks_asker asker);

/* Send @reply, which it takes, unless the asker has gone. */
void cks_control_answer(struct cks_control *control, struct cks_asker asker, json_t *reply);

/* The reply to a command that failed, with the reason in words. */
json_t *cks_control_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
