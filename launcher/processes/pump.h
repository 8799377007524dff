/*
 * launcher/processes/pump.h - the requests of a batch to a daemon, and which of them still want a
 * reply.
 *
 * A session whose daemon has died closes its connection just as one that has finished. So the
 * client counts the replies: every request has one, except for `quit` and `defaults`; an
 * asynchronous launch also has its result, whether it was asked for or not.
 */
#ifndef CK_LAUNCHER_PROCESSES_PUMP_H
#define CK_LAUNCHER_PROCESSES_PUMP_H

#include <stdbool.h>
#include <stddef.h>

struct ckl_pump;

/* The state of an asynchronous launch by its reply. */
enum ckl_pump_status {
	CK_PUMP_NONE,
	CK_PUMP_QUEUED,
	CK_PUMP_DONE, /* its result, or it was cancelled */
};

/*
 * Send all of stdin to @sock, by a thread, because replies come while it is still read; then
 * shut down that direction. NULL: no memory, or no thread. It lasts as long as the process, which
 * may end while stdin is waited for.
 */
struct ckl_pump *ckl_pump_start(int sock);

/* A reply has come. */
void ckl_pump_replied(struct ckl_pump *pump, enum ckl_pump_status status);

/* How many replies are missing. *all: everything was sent that can have one. */
size_t ckl_pump_missing(struct ckl_pump *pump, bool *all);

/* Wait for input: stdin need not be one that reading waits for. */
void ckl_pump_await(void);

#endif
