/*
 * server/door/broker.h - the process that owns memory shared by name, started on demand.
 */
#ifndef CK_SERVER_DOOR_BROKER_H
#define CK_SERVER_DOOR_BROKER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "server/options/options.h"

struct cks_state;

#define CK_BROKER_FD 3 /* the broker's listening socket in its process */

struct cks_broker;

/*
 * Listen at --m3, or beside the server's @unix_path, or else where only workers find it. NULL:
 * failed.
 */
struct cks_broker *cks_broker_create(const struct cks_options *options, const char *unix_path);
/* The broker has outlived its supervisor: its socket, id, pidfd, and the connection that ends with
 * it, which are taken. -errno. */
int cks_broker_return(struct cks_broker *broker, int socket, pid_t pid, int process, int leash);
/* Save it in @state, or continue with the one that is saved there; NULL: there is none. */
void cks_broker_save(const struct cks_broker *broker, struct cks_state *state);
struct cks_broker *cks_broker_resume(const struct cks_state *state,
				     const struct cks_options *options);
void cks_broker_driver(struct cks_broker *broker, const char *driver); /* keeps the pointer */
void cks_broker_destroy(struct cks_broker *broker);		       /* kills it; accepts NULL */
const char *cks_broker_path(const struct cks_broker *broker);

/* @fds has room for one descriptor; returns the number filled in. Run when it is readable: start
 * the broker, or note the end of one that is no child. */
size_t cks_broker_poll(struct cks_broker *broker, struct pollfd *fds, int *timeout_ms);
void cks_broker_run(struct cks_broker *broker);
bool cks_broker_ended(struct cks_broker *broker, pid_t pid,
		      int status); /* false: another process */

/* broker_main.c: run the process `--m3-broker DRIVER FOLDER SECONDS USERS`, of which FOLDER and
 * USERS may be empty; its listening socket is descriptor 3. With @folder, that of --state-dir, it
 * outlives its supervisor by @seconds. Returns the exit status. */
int cks_broker_main(const char *driver, const char *folder, unsigned int seconds,
		    const char *users);

#endif
