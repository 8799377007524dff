/*
 * server/children/workers.h - the processes of sessions.
 */
#ifndef CK_SERVER_CHILDREN_WORKERS_H
#define CK_SERVER_CHILDREN_WORKERS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/options/options.h"
#include "server/policy/refusal.h"
#include "server/policy/terms.h"
#include "server/processes/session_info.h"

struct cks_accounts;
struct cks_audit;
struct cks_helper;
struct cks_helpers;
struct cks_ledger;
struct cks_prefix;
struct cks_state;
struct cks_state_mps;
struct cks_state_worker;
struct cks_uids;
struct cks_workers;

/* @driver: the result for --driver auto; @broker: its socket. NULL: out of memory. */
struct cks_workers *cks_workers_create(const struct cks_options *options, const char *driver,
				       const char *broker);

/* With the emulated @driver, and unless workers become users of their own: fork them from a process
 * that is ready for that (fork_server.h). */
void cks_workers_fork_early(struct cks_workers *workers, const char *driver);
/* Wait a moment until that process is ready. */
void cks_workers_await_fork_server(struct cks_workers *workers);

/* Record in @audit how sessions end; it must live longer. */
void cks_workers_audit(struct cks_workers *workers, struct cks_audit *audit);

/* session_accounts.c: the policy and its accounts, which must live longer. The terms of an
 * identity, and of a session. */
void cks_workers_accounts(struct cks_workers *workers, struct cks_accounts *accounts);
const struct cks_terms *cks_workers_identity_terms(const struct cks_workers *workers,
						   const struct cks_identity *identity);
const struct cks_terms *cks_session_terms(const struct cks_session_info *session);
/* The file of its account, which stays the account's, and its seat; -1: it has none. */
int cks_session_account(const struct cks_session_info *session, uint32_t *seat);
/* The command @name, if a worker of @identity may be started through it; else NULL. Valid until the
 * policy is read again. */
const struct cks_prefix *cks_workers_prefix(const struct cks_workers *workers,
					    const struct cks_identity *identity, const char *name);

/* worker_mps.c: the GPUs that the server sees (cks_driver_gpus); must live longer. */
void cks_workers_gpus(struct cks_workers *workers, const char *gpus);
/* Child @pid has ended, with @status of wait(2): was it of NVIDIA MPS? Then the sessions that need
 * it end. */
bool cks_workers_mps_ended(struct cks_workers *workers, pid_t pid, int status);
/* Go on with the daemons of NVIDIA MPS. Lowers *@timeout_ms to the next call. */
void cks_workers_mps_run(struct cks_workers *workers, int *timeout_ms);

/* Have each identity's workers become another user; @uids must live longer. */
void cks_workers_users(struct cks_workers *workers, struct cks_uids *uids);

/* Tell all to end; their programs' users read @line. Those that do not listen for it yet may still
 * join their sessions. */
void cks_workers_begin_stop(struct cks_workers *workers, const char *line);
/* The milliseconds that sessions have left for that; 0: there is no session. */
int64_t cks_workers_stop_left(const struct cks_workers *workers);

/* End all, as cks_workers_begin_stop, and wait for that; kill those that do not end. At most 7 s
 * from cks_workers_begin_stop on. */
void cks_workers_destroy(struct cks_workers *workers, const char *line);

#define CK_SESSION_NAME 16

/* The public name, as in "s12". Returns @out. */
const char *cks_session_name(const struct cks_session_info *session, char out[CK_SESSION_NAME]);

/* The session behind @session, or the first one for NULL; NULL: the end. */
struct cks_session_info *cks_workers_next(struct cks_workers *workers,
					  const struct cks_session_info *session);
/* Send @kind, one of CK_CONTROL_..., to its worker; false: it does not listen. */
bool cks_workers_send(const struct cks_session_info *session, char kind);
/* Have it park, with at most @room bytes of host memory for its device memory. @saves: for a
 * checkpoint, after which it goes on; it keeps that memory for @pool_s seconds. */
bool cks_workers_park(const struct cks_session_info *session, uint64_t room, bool saves,
		      unsigned int pool_s);
/* Have it copy changed memory into at most @room bytes of host memory, while it runs. */
bool cks_workers_round(const struct cks_session_info *session, uint64_t room);
/* It takes connections again, and the file of its pool back; -1: it has none. */
bool cks_workers_readmit(struct cks_session_info *session, int pool);
/* It comes from files as a copy, and gets these names before it takes connections. */
struct cks_session_names;
bool cks_workers_rename(const struct cks_session_info *session,
			const struct cks_session_names *names);
/* End that. Its memory waits at most @room_ms for room on the GPU. */
bool cks_workers_unpark(const struct cks_session_info *session, unsigned int room_ms,
			uint64_t leaving);
/* The same with a line for the program's user; @last: it is why the session ends. */
bool cks_workers_send_line(const struct cks_session_info *session, const char *line, bool last);
/* The same if an allocation fails for want of memory. */
bool cks_workers_send_refusal(const struct cks_session_info *session, const char *line);
/* A command ends the session; its user reads @line. */
bool cks_workers_end(const struct cks_session_info *session, const char *line);
/* The same for a session whose client has no connections. @why: for the log. */
bool cks_workers_gone_client(const struct cks_session_info *session, const char *why);
/* The same with a map: its devices are on these GPUs now. */
struct cks_device_map;
bool cks_workers_map(struct cks_session_info *session, const struct cks_device_map *map);
/* End its process at once. */
void cks_workers_kill(const struct cks_session_info *session);
/* By public name, or by the worker's process id; NULL: there is none. */
struct cks_session_info *cks_workers_find(struct cks_workers *workers, const char *name);

/* By number, also one that has not named itself yet. */
struct cks_session_info *cks_workers_at(struct cks_workers *workers, unsigned int number);
/* Its secret id; NULL: it has not named itself, or is ending. */
const unsigned char *cks_workers_id(const struct cks_session_info *session);
/* The same of a listed one, also while it ends. */
const unsigned char *cks_workers_secret(const struct cks_session_info *session);

/* Start @helper, which makes a worker of files, with that one's control socket; *@number: of the
 * session. -errno. */
int cks_workers_restore(struct cks_workers *workers, struct cks_helpers *helpers,
			struct cks_helper *helper, unsigned int *number);

struct cks_session_counts {
	size_t all;	       /* workers with clients */
	size_t peer, identity; /* of these, workers with the same peer, with the same identity */
};

void cks_workers_count(const struct cks_workers *workers, const struct cks_owner *owner,
		       struct cks_session_counts *counts);

/* The number of workers with clients. */
size_t cks_workers_serving(const struct cks_workers *workers);

/* The number of the next session. */
unsigned int cks_workers_new_number(struct cks_workers *workers);

/* A session that begins. */
struct cks_start {
	const struct cks_owner *owner;
	unsigned int number;
	const struct cks_prefix
		*prefix; /* the command that its worker is started through; NULL: none */
	/* percent of the multiprocessors, as its client asks; 0: all it may have */
	unsigned int sm;
};

/* Pass connection @fd to a spare process, or start one for it. The caller closes @fd. -errno;
 * *@why: for the client. */
int cks_workers_serve(struct cks_workers *workers, int fd, const struct cks_start *start,
		      const char **why);
/* Since this program began; an upgrade begins at 0. */
struct cks_totals {
	uint64_t sessions;			  /* that have begun */
	uint64_t calls, commands, received, sent; /* of those that have ended */
	uint64_t refused[CK_REFUSALS];
	struct cks_histogram call_times, round_trips; /* of those that have ended */
	struct cks_histogram start_times;	      /* from the hello until the session stands */
};

struct cks_totals *cks_workers_totals(struct cks_workers *workers);

/* Process @pid, a worker or NVIDIA's MPS of an identity, has had @us of GPU time more. */
void cks_workers_add_gpu_time(struct cks_workers *workers, pid_t pid, uint64_t us);
/* The use by identities. */
const struct cks_ledger *cks_workers_ledger(const struct cks_workers *workers);

/* Start a spare process. -errno. */
int cks_workers_spare(struct cks_workers *workers);

/* Have a spare process on standby make its contexts. -ENOENT: there is none. */
int cks_workers_warm(struct cks_workers *workers);

struct cks_spare_counts {
	/* current numbers: starting; with a driver; making contexts; with contexts */
	unsigned int starting, standby, warming, ready;
	unsigned int taken, lost; /* totals: got a client; ended without one */
};

const struct cks_spare_counts *cks_workers_spares(const struct cks_workers *workers);

/* Kill spares that began to start, or to make contexts, at @begin or earlier and are not done. */
void cks_workers_expire(struct cks_workers *workers, int64_t begin);

/* Pass connection @fd to the worker of @session; the caller closes it. -ENOENT: there is no such
 * session; -EAGAIN: the worker is busy, ask again. */
int cks_workers_join(struct cks_workers *workers, const unsigned char session[16], int fd);

/* Process @pid has ended with wait(2)'s @status; false: not a worker. */
bool cks_workers_ended(struct cks_workers *workers, pid_t pid, int status);

/* A descriptor that is readable if a worker has said something; and read the notes of those that
 * have. */
int cks_workers_fd(const struct cks_workers *workers);
void cks_workers_read(struct cks_workers *workers);

/* A session has begun, or is or asks for another state than before: the suspender looks at all of
 * them. Was that said since the last question? */
void cks_workers_mark_changed(struct cks_workers *workers);
bool cks_workers_take_changed(struct cks_workers *workers);
/* Has a session lost all connections since the last question? */
bool cks_workers_cut(struct cks_workers *workers);

/* adopt.c: for a successor. Save all workers in @state, which owns the list: -errno. Adopt one that
 * was saved: one with a client, or a spare, which is to end. -errno. */
int cks_workers_save(const struct cks_workers *workers, struct cks_state *state);
int cks_workers_adopt(struct cks_workers *workers, const struct cks_state_worker *saved);
/* worker_mps.c: the same for a daemon of NVIDIA MPS. */
int cks_workers_mps_adopt(struct cks_workers *workers, const struct cks_state_mps *saved);
/* A worker has outlived its supervisor: @saved has its control socket and its pidfd, which are
 * taken. -errno. */
int cks_workers_return(struct cks_workers *workers, const struct cks_state_worker *saved);
/* The id of a process that returned and has ended since, of which no signal tells; 0: none. Forget
 * it. */
pid_t cks_workers_gone(const struct cks_workers *workers);
void cks_workers_forget(struct cks_workers *workers, pid_t pid);
/* For so long, let connections wait that join a session which is not here (yet). */
void cks_workers_expect(struct cks_workers *workers, unsigned int ms);
/* Number further sessions from @numbered on. */
void cks_workers_number(struct cks_workers *workers, unsigned int numbered);

#endif
