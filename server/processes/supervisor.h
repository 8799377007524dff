/*
 * server/processes/supervisor.h - the process that accepts connections; parts of it for each other.
 *
 * One thread, one poll loop, no blocking call: nothing that a peer does or leaves undone holds up
 * another. It never loads a driver.
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

/* Run the server until SIGTERM or SIGINT; the exit status. */
int ck_supervisor_main(const struct ck_options *options);


/* Unlink @path if it is still the file @own: another server may have made its own there. */
struct stat;
void ck_unlink_own(const char *path, const struct stat *own);

/*
 * workers.c: the processes of sessions.
 */
struct ck_workers;

/* @driver: what --driver auto has been decided to be; @broker: its socket. NULL: out of memory. */
struct ck_workers *ck_workers_create(const struct ck_options *options, const char *driver,
				     const char *broker);

/* Kill all and wait for their ends, 2 s at most. */
void ck_workers_destroy(struct ck_workers *workers);

/* Whose session it is. */
struct ck_owner {
	struct ck_peer peer;
	struct ck_identity identity;
};

struct ck_session_counts {
	size_t all;	       /* workers that have clients */
	size_t peer, identity; /* those of them that are of an owner's peer, of its identity */
};

void ck_workers_count(const struct ck_workers *workers, const struct ck_owner *owner,
		      struct ck_session_counts *counts);

/* Give connection @fd, which stays the caller's to close, to a spare process, or start one for it.
 * -errno. */
int ck_workers_serve(struct ck_workers *workers, int fd, const struct ck_owner *owner);

/* Start a spare process. -errno. */
int ck_workers_spare(struct ck_workers *workers);

struct ck_spare_counts {
	unsigned int warming, ready; /* now */
	unsigned int taken, lost;    /* ever: given a client; ended without one */
};

const struct ck_spare_counts *ck_workers_spares(const struct ck_workers *workers);

/* Kill spares that were started at @begin or before and are not ready. */
void ck_workers_expire(struct ck_workers *workers, int64_t begin);

/* Hand connection @fd, still the caller's to close, to the worker of @session. -ENOENT: there is
 * none; -EAGAIN: it is taking others, ask again. */
int ck_workers_join(struct ck_workers *workers, const unsigned char session[16], int fd);

/* Process @pid has ended with wait(2)'s @status; false: it is no worker. */
bool ck_workers_ended(struct ck_workers *workers, pid_t pid, int status);

/* Room for one descriptor a worker in @fds; the number filled in. */
size_t ck_workers_poll(const struct ck_workers *workers, struct pollfd *fds);

/* Read what workers have to say. */
void ck_workers_read(struct ck_workers *workers);

/*
 * spares.c: when processes are started that have no client yet.
 */
struct ck_spares {
	unsigned int wanted;
	unsigned int taken, lost; /* of ck_spare_counts, as last seen */
	unsigned int failures;	  /* that came one after the other */
	int64_t due;		  /* none is started before; in ms */
};

/* Start one if that is due, kill one that does not get ready; the milliseconds until there is
 * something to do again, -1: nothing, before one is taken or lost. */
int ck_spares_run(struct ck_spares *spares, struct ck_workers *workers);

/*
 * fresh.c: connections that have not said yet what they are.
 */
#define CK_FRESH_MAX 2048

struct ck_fresh_list;

struct ck_fresh_list *ck_fresh_create(struct ck_workers *workers,
				      const struct ck_options *options);
void ck_fresh_destroy(struct ck_fresh_list *list);

/* Whether one more may come; until then others wait in the listeners' queues. */
bool ck_fresh_has_room(const struct ck_fresh_list *list);

/* Take over an accepted socket. Where there are too many, of all or of one peer, one that says nothing is
 * closed: ask for room first. */
void ck_fresh_add(struct ck_fresh_list *list, int fd);

/* Room for CK_FRESH_MAX in @fds; the number filled in. @timeout_ms is lowered to the moment when
 * ck_fresh_run has something to do in any case. */
size_t ck_fresh_poll(struct ck_fresh_list *list, struct pollfd *fds, int *timeout_ms);

/* Note what poll(2) has found, in the @fds of ck_fresh_poll; nothing has been added since. */
void ck_fresh_polled(struct ck_fresh_list *list, const struct pollfd *fds);

/* Look at all connections whose time or bytes have come, and at new ones. */
void ck_fresh_run(struct ck_fresh_list *list);

/*
 * broker.c: the process that owns memory shared by name, started when somebody asks for it.
 */
struct ck_broker;

/*
 * Listen at @path, or beside the server's @unix_path, or else where only workers look. NULL:
 * nowhere.
 */
struct ck_broker *ck_broker_create(const char *path, const char *unix_path);
void ck_broker_driver(struct ck_broker *broker, const char *driver); /* kept, not copied */
void ck_broker_destroy(struct ck_broker *broker); /* kills it; NULL is nothing */
const char *ck_broker_path(const struct ck_broker *broker);

/* Room for one descriptor in @fds; the number filled in. When it is readable, start the broker. */
size_t ck_broker_poll(const struct ck_broker *broker, struct pollfd *fds, int *timeout_ms);
void ck_broker_start(struct ck_broker *broker);
bool ck_broker_ended(struct ck_broker *broker, pid_t pid, int status); /* false: it is another */

/* The process `--m3-broker DRIVER`; its listening socket is descriptor 3. The exit status. */
int ck_broker_main(const char *driver);

/*
 * probe.c, rpcbind.c, mps.c: around the loop.
 */

/* The driver to use for --driver @which, asked of a process `--probe`, which may load drivers.
 * NULL: none works (logged). */
const char *ck_probe_driver(const char *which);

/* The process `--probe WHICH`: its answer goes to descriptor 3; the exit status. */
int ck_probe_main(const char *which);

/* Register program 99 at TCP @port with rpcbind where one runs, in a child process; never waits. */
void ck_rpcbind_set(int fd);
/* Take the registration back; waits a second at most. */
void ck_rpcbind_unset(void);

/* Say in the log when NVIDIA's MPS runs, and how to stop it. */
void ck_mps_check(void);

#endif
