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

struct ck_options;

/* Run the server until SIGTERM or SIGINT; returns the exit status. */
int ck_supervisor_main(const struct ck_options *options);


/* Unlink @path if it is still the file @own: another server may have replaced it. */
struct stat;
void ck_unlink_own(const char *path, const struct stat *own);

/*
 * workers.c: the processes of sessions.
 */
struct ck_workers;

/* @driver: the result for --driver auto; @broker: its socket. NULL: out of memory. */
struct ck_workers *ck_workers_create(const struct ck_options *options, const char *driver,
				     const char *broker);

/* Kill all and wait for their ends, at most 2 s. */
void ck_workers_destroy(struct ck_workers *workers);

/* The owner of a session. */
struct ck_owner {
	struct ck_peer peer;
	struct ck_identity identity;
};

struct ck_session_counts {
	size_t all;	       /* workers with clients */
	size_t peer, identity; /* of these, workers with the same peer, with the same identity */
};

void ck_workers_count(const struct ck_workers *workers, const struct ck_owner *owner,
		      struct ck_session_counts *counts);

/* Pass connection @fd to a spare process, or start one for it. The caller closes @fd. -errno. */
int ck_workers_serve(struct ck_workers *workers, int fd, const struct ck_owner *owner);

/* Start a spare process. -errno. */
int ck_workers_spare(struct ck_workers *workers);

struct ck_spare_counts {
	unsigned int warming, ready; /* current numbers */
	unsigned int taken, lost;    /* totals: got a client; ended without one */
};

const struct ck_spare_counts *ck_workers_spares(const struct ck_workers *workers);

/* Kill spares that were started at @begin or earlier and are not ready. */
void ck_workers_expire(struct ck_workers *workers, int64_t begin);

/* Pass connection @fd to the worker of @session; the caller closes it. -ENOENT: there is no such
 * session; -EAGAIN: the worker is busy, ask again. */
int ck_workers_join(struct ck_workers *workers, const unsigned char session[16], int fd);

/* Process @pid has ended with wait(2)'s @status; false: not a worker. */
bool ck_workers_ended(struct ck_workers *workers, pid_t pid, int status);

/* @fds has room for one descriptor per worker; returns the number filled in. */
size_t ck_workers_poll(const struct ck_workers *workers, struct pollfd *fds);

/* Read the notes of workers. */
void ck_workers_read(struct ck_workers *workers);

/* spares.c: when to start processes without a client. */
struct ck_spares {
	unsigned int wanted;
	unsigned int taken, lost; /* as last seen in ck_spare_counts */
	unsigned int failures;	  /* consecutive failures */
	int64_t due;		  /* earliest time of the next start; in ms */
};

/* Start a spare if one is due, or kill one that does not get ready. Returns the milliseconds until
 * the next call, or -1: call again when one is taken or lost. */
int ck_spares_run(struct ck_spares *spares, struct ck_workers *workers);

/* fresh.c: new connections, whose purpose is not yet known. */
#define CK_FRESH_MAX 2048

struct ck_fresh_list;

struct ck_fresh_list *ck_fresh_create(struct ck_workers *workers,
				      const struct ck_options *options);
void ck_fresh_destroy(struct ck_fresh_list *list);

/* Is there room for another one? If not, others wait in the listeners' queues. */
bool ck_fresh_has_room(const struct ck_fresh_list *list);

/* Add an accepted socket; check for room first. If there are too many, in total or of one peer, a
 * silent one is closed. */
void ck_fresh_add(struct ck_fresh_list *list, int fd);

/* @fds has room for CK_FRESH_MAX; returns the number filled in. Lowers @timeout_ms to the next time
 * at which ck_fresh_run must be called. */
size_t ck_fresh_poll(struct ck_fresh_list *list, struct pollfd *fds, int *timeout_ms);

/* Note the results of poll(2) in the @fds of ck_fresh_poll; call before adding connections. */
void ck_fresh_polled(struct ck_fresh_list *list, const struct pollfd *fds);

/* Handle new connections, and those with bytes or an expired pause. */
void ck_fresh_run(struct ck_fresh_list *list);

/* broker.c: the process that owns memory shared by name, started on demand. */
struct ck_broker;

/*
 * Listen at @path, or beside the server's @unix_path, or else where only workers find it. NULL:
 * failed.
 */
struct ck_broker *ck_broker_create(const char *path, const char *unix_path);
void ck_broker_driver(struct ck_broker *broker, const char *driver); /* keeps the pointer */
void ck_broker_destroy(struct ck_broker *broker); /* kills it; accepts NULL */
const char *ck_broker_path(const struct ck_broker *broker);

/* @fds has room for one descriptor; returns the number filled in. Start the broker when it is
 * readable. */
size_t ck_broker_poll(const struct ck_broker *broker, struct pollfd *fds, int *timeout_ms);
void ck_broker_start(struct ck_broker *broker);
bool ck_broker_ended(struct ck_broker *broker, pid_t pid, int status); /* false: another process */

/* Run the process `--m3-broker DRIVER`; its listening socket is descriptor 3. Returns the exit
 * status. */
int ck_broker_main(const char *driver);

/* probe.c, rpcbind.c, mps.c: outside the loop. */

/* Choose the driver for --driver @which, with a process `--probe` that may load drivers. NULL: none
 * works (logged). */
const char *ck_probe_driver(const char *which);

/* Run the process `--probe WHICH`: it writes the answer to descriptor 3; returns the exit
 * status. */
int ck_probe_main(const char *which);

/* Register program 99 at the TCP port of @fd with rpcbind, if it runs, in a child process; never
 * waits. */
void ck_rpcbind_set(int fd);
/* Remove the registration; waits at most a second. */
void ck_rpcbind_unset(void);

/* Log a warning if NVIDIA's MPS runs, and how to stop it. */
void ck_mps_check(void);

#endif
