/*
 * server/children/workers_part.h - the parts of the workers' table, for workers.c, worker_starts.c,
 * worker_exits.c, worker_reports.c, worker_mps.c, command.c, sessions.c and adopt.c alone.
 */
#ifndef CK_SERVER_CHILDREN_WORKERS_PART_H
#define CK_SERVER_CHILDREN_WORKERS_PART_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/children/fork_server.h"
#include "server/children/mps.h"
#include "server/children/workers.h"
#include "server/rules/accounts.h"
#include "server/rules/fair_share.h"
#include "server/rules/ledger.h"
#include "server/rules/uids.h"

#define CK_ARGUMENTS (34 + 2 * (CK_LISTEN_MAX + CK_LIMITS))

struct worker {
	struct worker *next;
	pid_t pid;   /* of the child, which is info.pid or follows it */
	int control; /* -1: the worker has closed its end */
	/* a pidfd: it is no child, but has outlived its supervisor; 0: it is a child */
	int process;
	enum state {
		SPARE_STARTING,
		SPARE_STANDBY,
		SPARE_WARMING,
		SPARE_READY,
		SERVING,
		RETIRED /* a spare of the release before an upgrade: told to end */
	} state;
	int64_t begin; /* of a spare's state, in ms */
	struct cks_session_info info;
	bool named;  /* session is known, and connections may join it */
	bool listed; /* from then on, as long as the process lives */
	unsigned char session[16];
	struct cks_seat seat; /* in the account of its identity */
};

/* How workers are started. */
struct cks_worker_command {
	char *arguments[CK_ARGUMENTS];
	size_t count;
	char limits[CK_LIMITS][32]; /* option names of limits among the arguments */
};

struct cks_workers {
	struct worker *first;
	int spoken;		       /* an epoll: control sockets of all workers */
	bool changed;		       /* something has changed that may concern the suspender */
	unsigned int strangers;	       /* workers that are no children */
	struct cks_audit *audit;       /* NULL: none */
	struct cks_accounts *accounts; /* NULL: there is no policy */
	struct cks_uids *uids;	       /* NULL: workers stay the server's user */
	const char *cache_dir;
	bool confined; /* workers cannot read the token file, nor can other users */
	unsigned int serving, retired;
	unsigned int numbered; /* sessions so far */
	size_t most;	       /* sessions */
	bool cut;	       /* a session has lost all connections */
	int64_t return_by;     /* until then, sessions may return */
	int64_t stop_by;       /* the server stops: then workers are killed; 0: it does not */
	struct cks_spare_counts spares;
	struct cks_totals totals;
	struct cks_fair_share shares;
	struct cks_ledger ledger;
	struct cks_worker_command command;
	struct cks_fork_server fork_server;
	struct cks_mps mps;
	const char *gpus; /* that the server sees; "": not known */
};

/* workers.c: read the control socket of @worker from now on; -errno. Close it. */
int cks_worker_listen(struct cks_workers *workers, struct worker *worker);
void cks_worker_hang_up(struct cks_workers *workers, struct worker *worker);

/* Add @worker, which the table then owns, in @state. It enters another state now. Remove and
 * free the one that *@at is, and close its sockets. */
void cks_worker_add(struct cks_workers *workers, struct worker *worker, enum state state);
void cks_worker_change(struct cks_workers *workers, struct worker *worker, enum state state);
void cks_worker_remove(struct cks_workers *workers, struct worker **at);

/* Pass connection @fd with @kind, one of CK_CONTROL_..., to @worker; the caller closes it.
 * -EAGAIN: the worker is busy. */
int cks_worker_pass(const struct worker *worker, char kind, int fd);

/* session_accounts.c: have @worker count in the account of its identity, if there is a policy.
 * -errno. */
int cks_worker_seat(struct cks_workers *workers, struct worker *worker);

/* worker_users.c: with --worker-users, have @worker become the user of its identity: -errno. Keep
 * the user of one that is here again; false: it is another identity's by now, and the process was
 * killed. */
int cks_worker_assign_user(struct cks_workers *workers, struct worker *worker);
bool cks_worker_reassign_user(struct cks_workers *workers, struct worker *worker);

/* worker_mps.c: the daemon of NVIDIA MPS that the session of @start uses, started if need be; NULL:
 * it uses none. -errno; *@why: for the client. */
int cks_worker_find_mps(struct cks_workers *workers, const struct cks_start *start,
			struct cks_mps_daemon **daemon, const char **why);
/* In a process that will be a worker: use @daemon; @sm as in struct cks_start. */
void cks_worker_enter_mps(const struct cks_workers *workers, const struct cks_mps_daemon *daemon,
			  unsigned int sm);
/* For a successor; @state owns the list. -ENOMEM. */
int cks_worker_mps_save(const struct cks_workers *workers, struct cks_state *state);

/* worker_exits.c: tell all workers to end, wait for that, and remove them; see
 * cks_workers_destroy. */
void cks_workers_stop(struct cks_workers *workers, const char *line);

/* sessions.c: send @kind, one of CK_CONTROL_..., with a line for the program's user. False: it does
 * not listen. */
bool cks_worker_send_line(const struct worker *worker, char kind, const char *line, bool last);

/* worker_reports.c: read all that @worker has said. */
void cks_worker_read_notes(struct cks_workers *workers, struct worker *worker);

/* @driver and @broker as for cks_workers_create; keeps the pointers. */
void cks_command_fill(struct cks_worker_command *command, const struct cks_options *options,
		      const char *driver, const char *broker);

/* In a child: become a worker for @connection; -1: a spare one. @prefix: the command to do so
 * through; NULL: none. */
_Noreturn void cks_command_run(struct cks_worker_command *command, int connection, int control,
			       char *const *prefix);

#endif
