/*
 * client/wire/command.h - start and end of the command stream; to send, see client/link/stub.h.
 */
#ifndef CK_CLIENT_WIRE_COMMAND_H
#define CK_CLIENT_WIRE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "cuda/types.h"

struct ck_proc;

/* Owns @chan from then on. @accepted: the reply to its join has been read. */
int ckc_command_start(struct ckc_client *c, struct ck_chan *chan, bool accepted);
/* At exit: send the buffered messages. False: a thread is in the middle of a message and cannot
 * finish. That may be this thread, if exit() was called in a signal handler. */
bool ckc_command_stop(struct ckc_client *c);

/* CUresult for a message or call that could not be encoded: @ret says why. */
CUresult ckc_unsent(const struct ck_proc *p, int ret);
/* Number of the last command sent; a call waits for this command. */
uint64_t ckc_command_number(const struct ckc_client *c);
void ckc_command_flush(struct ckc_client *c); /* it is on its way to the server on return */
/* The last command that a call of this thread, which has a lane, comes after. 0: none. */
uint64_t ckc_command_before(struct ckc_client *c);
void ckc_command_forked(struct ckc_client *c);	/* in a child: as ckc_lane_forked */
void ckc_command_forget(struct ckc_client *c);	/* in a child that starts anew: end the parent's */
void ckc_command_abandon(struct ckc_client *c); /* wake blocked writers: the session is over */

#endif
