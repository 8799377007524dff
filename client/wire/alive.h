/*
 * client/wire/alive.h - a call waits, and nothing comes: does the kernel run for long, or does the server
 * not respond?
 *
 * A thread of ours asks the server on a lane of its own, which every thread of the worker but a
 * stopped one can answer, whatever the GPU does. It is started by the first wait that lasts a second,
 * and asks only while somebody waits.
 */
#ifndef CK_CLIENT_WIRE_ALIVE_H
#define CK_CLIENT_WIRE_ALIVE_H

/* The caller has waited for the server for a second, or for a second more. Takes no time; any lock may be held. */
void ck_alive_suspect(void *unused);

/* In a child that starts anew: there is no such thread. */
void ck_alive_forget(void);

#endif
