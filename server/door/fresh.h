/*
 * server/door/fresh.h - new connections, whose purpose is not yet known.
 */
#ifndef CK_SERVER_DOOR_FRESH_H
#define CK_SERVER_DOOR_FRESH_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server/options/options.h"
#include "server/policy/token.h"

struct cks_audit;
struct cks_away;
struct cks_queue;
struct cks_fronts;
struct cks_state;
struct cks_state_fresh;
struct cks_workers;

#define CK_FRESH_MAX 2048

struct cks_fresh_list;

struct cks_fresh_list *cks_fresh_create(struct cks_workers *workers,
					const struct cks_options *options,
					const struct cks_away *away, struct cks_audit *audit,
					struct cks_fronts *fronts);
void cks_fresh_destroy(struct cks_fresh_list *list);

/* The driver of the sessions, for clients that ask what there is (offers.h); keeps the pointer. */
void cks_fresh_driver(struct cks_fresh_list *list, const char *driver);

/* Save all in @state, which owns the list: -errno. */
int cks_fresh_save(const struct cks_fresh_list *list, struct cks_state *state);
void cks_fresh_adopt(struct cks_fresh_list *list, const struct cks_state_fresh *saved);

/* Clients that wait for a session. */
const struct cks_queue *cks_fresh_queue(const struct cks_fresh_list *list);

/* A child has ended; false: it is none of these connections'. */
bool cks_fresh_ended(struct cks_fresh_list *list, pid_t pid);

/* Read the token file again, however little it seems to have changed. -errno: @why is the
 * reason. */
int cks_fresh_reload(struct cks_fresh_list *list, char why[CK_TOKEN_WHY]);

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

#endif
