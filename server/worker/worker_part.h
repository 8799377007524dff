/*
 * server/worker/worker_part.h - the parts of the process of one session, for the files
 * worker*.c alone.
 */
#ifndef CK_SERVER_WORKER_WORKER_PART_H
#define CK_SERVER_WORKER_WORKER_PART_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/record.h"
#include "server/options/options.h"
#include "server/processes/messages.h"
#include "server/processes/peer.h"
#include "server/session/session.h"
#include "server/worker/hello.h"
#include "server/worker/reconnect.h"
#include "server/worker/session_tls.h"

struct ck_output;

#define CK_LONG_MESSAGES 32 /* per session, received at a time by its lanes; others wait */

/* State of the process's one session, shared by its threads. */
struct worker {
	struct cks_session *_Atomic session; /* set last: once set, the rest is valid */
	struct cks_client client;
	struct cks_peer owner; /* the peer of its first connection */
	const struct cks_options *options;
	char peer[160];
	int watch;    /* epoll: connections whose end is the session's */
	int wake_fd;  /* also watched: wakes the watch */
	int hello_fd; /* watched until the command connection exists */
	/* NULL: the session ends with its command connection */
	struct cks_reconnect *_Atomic keep;
	struct cks_session_tls *tls;	  /* there before a connection joins */
	struct ck_chan *_Atomic commands; /* NULL before it has joined */
	atomic_bool command_taken;
	atomic_uint lanes;	       /* connections for calls with a thread */
	atomic_uint joining;	       /* connections that are not answered yet */
	bool left;		       /* they are closed, and none joins */
	bool copy;		       /* of a session that was written into files */
	unsigned int max_lanes;	       /* limit for call lanes */
	uint64_t bandwidth;	       /* bytes per second; 0: no bound */
	int64_t commands_by;	       /* deadline for the command connection; in ms */
	unsigned int command_wait;     /* seconds until then */
	struct ck_reader_memory *room; /* for their long messages */
	atomic_flag ended;
	char verdict[CK_NOTE_TEXT]; /* why it ends; valid when */
	atomic_bool judged;	    /* this is true */
};
extern struct worker worker;

/* The connection of the hello becomes the first call lane. */
struct first_lane {
	struct ck_chan *chan;
	struct ck_reader *reader;
};

/* worker_watch.c: the end of the session. */

/* End the process, from any thread. */
_Noreturn void worker_end(const char *reason);
/* If the process ends from now on, this was the reason. Once. */
void worker_verdict(const char *reason);
/* Watch the client's first connection @fd, in a thread. -errno. */
int worker_watch_begin(int fd);
/* The end of connection @fd ends the session, or no longer. */
int worker_watch_add(int fd);
void worker_watch_drop(int fd);
/* Wake the watch when @fd is readable: connections of the keeper are cut, or there again.
 * -errno. */
int worker_watch_cuts(int fd);
/* The end of the program ends the session, if the kernel can report it: the program runs on this
 * machine. Its kernel also closes its connections, but a proxy between them may not. If there is no
 * such process, the session ends at once if the program @runs, and otherwise waits for it as after
 * a cut: it is watched when its connections are there again. */
void worker_watch_program(bool runs);
void worker_watch_no_program(void);

/* worker_supervisor.c: the supervisor's messages. */

/* Report the session to it. -errno. */
int worker_announce(const struct cks_session *session);
/* Take its messages and further connections until the session ends. */
_Noreturn void worker_obey(void);

/* worker_lanes.c: the client's connections. */

/* Start a detached thread. -errno. */
int worker_thread(void *(*run)(void *), void *data);
/* Start to serve connection @fd, which joins or links; owns it. */
void worker_join(int fd);
/* The caller's lane is the one on which the client waits for words: it takes none of the program's
 * places. Once. */
void worker_listens(void);
/* Open the connection of the hello. -errno. */
int worker_open_first(struct first_lane *first);
/* The session outlives its connections for @seconds from now on: the one of the hello is the first
 * that lasts. 0: it does not. -errno. */
int worker_outlive(struct first_lane *first, unsigned int seconds);
/* Serve the connection of the hello as a lane. -errno. */
int worker_serve_first(struct first_lane *first);

/* --- a client arrives: its identity, and the terms of that (client_identity.c) */

/*
 * Take the messages that come first (messages.h): the user to become, the account to count in.
 * Before any byte of the client is read. *@options become those of the session, in which the terms
 * of its identity come before the server's options. -errno.
 */
int cks_client_identity_apply(const struct cks_options **options, struct ck_output *output);

/* --- a worker that is started before its client connects (spare.c) */

/*
 * Load and initialise the driver, report it, and wait. Make the configured contexts when told to.
 * Returns when a client has connected: its connection is CK_WORKER_CONNECTION, its hello unread. If
 * something fails, this process becomes a fresh worker with @argv, its own arguments. Without a
 * client it exits: with CK_SPARE_FAILED, or with 0 when the server stops.
 */
void cks_spare_wait(const struct cks_options *options, char **argv);

#endif
