/*
 * client/wire/command.h - start and end of the command stream; to send, see client/wire/stub.h.
 */
#ifndef CK_CLIENT_WIRE_COMMAND_H
#define CK_CLIENT_WIRE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

struct ck_chan;
struct ck_client;
struct ck_proc;

int ck_command_start(struct ck_client *c, struct ck_chan *chan); /* owns @chan on success */
/* At exit: send the buffered messages. False: a thread is in the middle of a message and cannot
 * finish. That may be this thread, if exit() was called in a signal handler. */
bool ck_command_stop(struct ck_client *c);

/* The server has closed the stream, and so the session. */
bool ck_command_over(const struct ck_client *c);
/* CUresult for a message or call that could not be encoded: @ret says why. */
CUresult ck_unsent(const struct ck_proc *p, int ret);
/* Number of the last command sent; a call waits for this command. */
uint64_t ck_command_number(const struct ck_client *c);
void ck_command_flush(struct ck_client *c);	/* it is on its way to the server on return */
void ck_command_forked(struct ck_client *c);	/* in a child: as ck_lane_forked */
void ck_command_forget(struct ck_client *c); /* in a child that starts anew: end the parent's */
void ck_command_abandon(struct ck_client *c);	/* wake blocked writers: the session is over */

#endif
