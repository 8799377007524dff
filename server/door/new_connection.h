/*
 * server/door/new_connection.h - new connections, whose purpose is not yet known.
 */
#ifndef CK_SERVER_DOOR_NEW_CONNECTION_H
#define CK_SERVER_DOOR_NEW_CONNECTION_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server/options/options.h"
#include "server/policy/token.h"

struct cks_audit;
struct cks_absent_sessions;
struct cks_queue;
struct cks_front_process;
struct cks_state;
struct cks_state_fresh;
struct cks_workers;

#define CK_NEW_CONNECTION_MAX 2048

struct cks_new_connection_list;

struct cks_new_connection_list *cks_new_connection_create(struct cks_workers *workers,
							  const struct cks_options *options,
							  const struct cks_absent_sessions *away,
							  struct cks_audit *audit,
							  struct cks_front_process *fronts);
void cks_new_connection_destroy(struct cks_new_connection_list *list);

/* The driver of the sessions, for clients that ask what there is (offers.h); keeps the pointer. */
void cks_new_connection_driver(struct cks_new_connection_list *list, const char *driver);

/* Save all in @state, which owns the list: -errno. */
int cks_new_connection_save(const struct cks_new_connection_list *list, struct cks_state *state);
void cks_new_connection_adopt(struct cks_new_connection_list *list,
			      const struct cks_state_fresh *saved);

/* Clients that wait for a session. */
const struct cks_queue *cks_new_connection_queue(const struct cks_new_connection_list *list);

/* A child has ended; false: it is none of these connections'. */
bool cks_new_connection_ended(struct cks_new_connection_list *list, pid_t pid);

/* Read the token file again, however little it seems to have changed. -errno: @why is the
 * reason. */
int cks_new_connection_reload(struct cks_new_connection_list *list, char why[CK_TOKEN_WHY]);

/* Refuse new sessions from now on; connections of existing ones are still passed on. */
void cks_new_connection_drain(struct cks_new_connection_list *list);

/* Is there room for another one? If not, others wait in the listeners' queues. */
bool cks_new_connection_has_room(const struct cks_new_connection_list *list);

/* Add an accepted socket; check for room first. If there are too many, in total or of one peer, a
 * silent one is closed. */
void cks_new_connection_add(struct cks_new_connection_list *list, int fd);

/* @fds has room for CK_NEW_CONNECTION_MAX; returns the number filled in. Lowers @timeout_ms to the
 * next time at which cks_new_connection_run must be called. */
size_t cks_new_connection_poll(struct cks_new_connection_list *list, struct pollfd *fds,
			       int *timeout_ms);

/* Note the results of poll(2) in the @fds of cks_new_connection_poll; call before adding
 * connections. */
void cks_new_connection_polled(struct cks_new_connection_list *list, const struct pollfd *fds);

/* Handle new connections, and those with bytes or an expired pause. */
void cks_new_connection_run(struct cks_new_connection_list *list);

#endif
