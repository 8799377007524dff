/*
 * command/exporter/watch.h - a server's reports, fresh and of the last hour, for all requests.
 */
#ifndef CK_COMMAND_EXPORTER_WATCH_H
#define CK_COMMAND_EXPORTER_WATCH_H

#include <jansson.h>
#include <stdbool.h>

#define CKX_STEP_S 10  /* between points of the history */
#define CKX_POINTS 360 /* of it: an hour */

struct ckx_watch;

/* @server: as for ckx_control_open. NULL: out of memory. */
struct ckx_watch *ckx_watch_create(const char *server);
void ckx_watch_destroy(struct ckx_watch *watch); /* accepts NULL */

/* A report with GPUs, at most half a second old. The caller owns the reference, and changes
 * nothing. NULL: the server does not answer. Safe from all threads, as is the rest. */
json_t *ckx_watch_report(struct ckx_watch *watch);

/* Add a point to the history. */
void ckx_watch_step(struct ckx_watch *watch);

/* The history, to be freed: {"step": seconds, "points": [{"sessions", "calls", "bytes", "gpus":
 * [{"used", "utilization"}]}, or null where the server did not answer]}, the oldest first. NULL:
 * out of memory. @all: with calls and bytes, which are of all users. */
char *ckx_watch_history(struct ckx_watch *watch, bool all);

#endif
