/*
 * server/processes/supervisor.h - the process that accepts connections; declarations for its parts.
 *
 * One thread, one poll loop, no blocking call: no peer can delay another. It never loads a driver.
 */
#ifndef CK_SERVER_PROCESSES_SUPERVISOR_H
#define CK_SERVER_PROCESSES_SUPERVISOR_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/processes/peer.h"
#include "server/session/identity.h"

struct cks_options;

/* Run the server until SIGTERM or SIGINT; returns the exit status. */
int cks_supervisor_main(const struct cks_options *options);

/* Unlink @path if it is still the file @own: another server may have replaced it. */
struct stat;
void cks_unlink_own(const char *path, const struct stat *own);

/*
 * workers.c: the processes of sessions.
 */
struct cks_workers;

/* @driver: the result for --driver auto; @broker: its socket. NULL: out of memory. */
struct cks_workers *cks_workers_create(const struct cks_options *options, const char *driver,
				       const char *broker);

/* Kill all and wait for their ends, at most 2 s. */
void cks_workers_destroy(struct cks_workers *workers);

/* The owner of a session. */
struct cks_owner {
	struct cks_peer peer;
	struct cks_identity identity;
};

struct cks_session_counts {
	size_t all;	       /* workers with clients */
	size_t peer, identity; /* of these, workers with the same peer, with the same identity */
};

void cks_workers_count(const struct cks_workers *workers, const struct cks_owner *owner,
		       struct cks_session_counts *counts);

/* The number of workers with clients. */
size_t cks_workers_serving(const struct cks_workers *workers);

/* Pass connection @fd to a spare process, or start one for it. The caller closes @fd. -errno. */
int cks_workers_serve(struct cks_workers *workers, int fd, const struct cks_owner *owner);

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

/* @fds has room for one descriptor per worker; returns the number filled in. */
size_t cks_workers_poll(const struct cks_workers *workers, struct pollfd *fds);

/* Read the notes of workers. */
void cks_workers_read(struct cks_workers *workers);

/* drain.c: after SIGTERM, until the running sessions have ended. */
struct cks_drain {
	int64_t by; /* stop at this time at the latest, in ms; 0: not draining */
};

void cks_drain_begin(struct cks_drain *drain, const struct cks_workers *workers, uint64_t seconds);
/* Is it over, so that the server stops? */
bool cks_drain_over(const struct cks_drain *drain, const struct cks_workers *workers);

/* spares.c: when to start processes without a client. */
struct cks_spares {
	unsigned int warm, standby; /* wanted numbers: with contexts, without */
	unsigned int taken, lost;   /* as last seen in cks_spare_counts */
	unsigned int failures;	    /* consecutive failures */
	int64_t due;		    /* earliest time of the next start; in ms */
	int64_t warm_due;	    /* the same for the next contexts */
};

/* Start a spare if one is due, or kill one that does not get ready. Returns the milliseconds until
 * the next call, or -1: call again when one is taken or lost. */
int cks_spares_run(struct cks_spares *spares, struct cks_workers *workers);

/* fresh.c: new connections, whose purpose is not yet known. */
#define CK_FRESH_MAX 2048

struct cks_fresh_list;

struct cks_fresh_list *cks_fresh_create(struct cks_workers *workers,
					const struct cks_options *options);
void cks_fresh_destroy(struct cks_fresh_list *list);

/* Refuse new sessions from now on; connections of existing ones are still passed on. */
void cks_fresh_drain(struct cks_fresh_list *list);

/* Is there room for another one? If not, others wait in the listeners' queues. */
bool cks_fresh_has_room(const struct cks_fresh_list *list);

/* Add an accepted socket; check for room first. If there are too many, in total or of one peer, a
 * silent one is closed. */
void cks_fresh_add(struct cks_fresh_list *list, int fd);

/* @fds has room for CK_FRESH_MAX; returns the number filled in. Lowers @timeout_ms to the next time
 * at which cks_fresh_run must be called. */
size_t cks_fresh_poll(struct cks_fresh_list *list, struct pollfd *fds, int *timeout_ms);

/* Note the results of poll(2) in the @fds of cks_fresh_poll; call before adding connections. */
void cks_fresh_polled(struct cks_fresh_list *list, const struct pollfd *fds);

/* Handle new connections, and those with bytes or an expired pause. */
void cks_fresh_run(struct cks_fresh_list *list);

/* broker.c: the process that owns memory shared by name, started on demand. */
struct cks_broker;

/*
 * Listen at @path, or beside the server's @unix_path, or else where only workers find it. NULL:
 * failed.
 */
struct cks_broker *cks_broker_create(const char *path, const char *unix_path);
void cks_broker_driver(struct cks_broker *broker, const char *driver); /* keeps the pointer */
void cks_broker_destroy(struct cks_broker *broker);		       /* kills it; accepts NULL */
const char *cks_broker_path(const struct cks_broker *broker);

/* @fds has room for one descriptor; returns the number filled in. Start the broker when it is
 * readable. */
size_t cks_broker_poll(const struct cks_broker *broker, struct pollfd *fds, int *timeout_ms);
void cks_broker_start(struct cks_broker *broker);
bool cks_broker_ended(struct cks_broker *broker, pid_t pid,
		      int status); /* false: another process */

/* Run the process `--m3-broker DRIVER`; its listening socket is descriptor 3. Returns the exit
 * status. */
int cks_broker_main(const char *driver);

/* probe.c, rpcbind.c, mps.c: outside the loop. */

/* Choose the driver for --driver @which, with a process `--probe` that may load drivers. NULL: none
 * works (logged). */
const char *cks_probe_driver(const char *which);

/* Run the process `--probe WHICH`: it writes the answer to descriptor 3; returns the exit
 * status. */
int cks_probe_main(const char *which);

/* Register program 99 at the TCP port of @fd with rpcbind, if it runs, in a child process; never
 * waits. */
void cks_rpcbind_set(int fd);
/* Remove the registration; waits at most a second. */
void cks_rpcbind_unset(void);

/* Log a warning if NVIDIA's MPS runs, and how to stop it. */
void cks_mps_check(void);

#endif
