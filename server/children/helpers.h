/*
 * server/children/helpers.h - starts helper processes (server/helpers/helper.h), and takes their
 * replies.
 */
#ifndef CK_SERVER_CHILDREN_HELPERS_H
#define CK_SERVER_CHILDREN_HELPERS_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cks_server;

#define CK_HELPERS_MAX 16 /* that have not replied */

struct cks_helpers;

struct cks_helper {
	const char *argument;
	json_t *request; /* taken */
	int control;	 /* becomes descriptor 4; -1: there is none */
	/* Called once, from cks_helpers_run, with the reply, which it takes: {"ok": false, "error":
	 * ...} if the process has ended without one. */
	void (*done)(struct cks_server *server, json_t *reply, void *data);
	/* called before, with each line of news (server/helpers/helper.h); NULL: there are none */
	void (*news)(struct cks_server *server, const json_t *line, void *data);
	void *data;
};

/* NULL: out of memory. */
struct cks_helpers *cks_helpers_create(void);
/* The processes go on. Frees nothing of their @data. Accepts NULL. */
void cks_helpers_destroy(struct cks_helpers *helpers);

/* Start one. Its process id, or -errno: then done() is not called. -EBUSY: there are too many. */
pid_t cks_helpers_start(struct cks_helpers *helpers, const struct cks_helper *helper);

/* To the one with @data, which has not replied: send it a line, which this takes (false: it has
 * ended); or close its socket, and expect nothing more of it. */
bool cks_helpers_send(struct cks_helpers *helpers, const void *data, json_t *line);
void cks_helpers_forget(struct cks_helpers *helpers, const void *data);

/* Fill in CK_HELPERS_MAX descriptors; and handle poll(2)'s results for them. */
size_t cks_helpers_poll(const struct cks_helpers *helpers, struct pollfd *fds);
void cks_helpers_run(struct cks_helpers *helpers, const struct pollfd *fds,
		     struct cks_server *server);

/* Process @pid has ended; false: it is none of these. Its reply may still be there to read. */
bool cks_helpers_ended(struct cks_helpers *helpers, pid_t pid);

#endif
