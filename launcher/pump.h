/*
 * launcher/pump.h - the requests of a batch to a daemon, and which of them still want a reply.
 *
 * A session whose daemon has died closes its connection just as one that has finished. So the
 * client counts the replies: every request has one, except for `quit` and `defaults`; an
 * asynchronous launch also has its result, whether it was asked for or not.
 */
#ifndef CK_LAUNCHER_PUMP_H
#define CK_LAUNCHER_PUMP_H

#include <stdbool.h>
#include <stddef.h>

struct ck_pump;

/* The state of an asynchronous launch by its reply. */
enum ck_pump_status {
	CK_PUMP_NONE,
	CK_PUMP_QUEUED,
	CK_PUMP_DONE, /* its result, or it was cancelled */
};

/*
 * Send all of stdin to @sock, by a thread, because replies come while it is still read; then
 * shut down that direction. NULL: no memory, or no thread. It lasts as long as the process, which
 * may end while stdin is waited for.
 */
struct ck_pump *ck_pump_start(int sock);

/* A reply has come. */
void ck_pump_replied(struct ck_pump *pump, enum ck_pump_status status);

/* How many replies are missing. *all: everything was sent that can have one. */
size_t ck_pump_missing(struct ck_pump *pump, bool *all);

/* Wait for input: stdin need not be one that reading waits for. */
void ck_pump_await(void);

#endif
