/*
 * client/wire/command.h - the command stream, for those who start and end it; to send, see client/wire/stub.h.
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
/* At exit: what is buffered goes out. False: somebody is in the middle of a message and stays there,
 * as this thread, should a signal have come then, whose handler has called exit(). */
bool ck_command_stop(struct ck_client *c);

/* The server has closed the stream, and with it the session. */
bool ck_command_over(const struct ck_client *c);
/* The result of a message, a call or not, that could not be encoded for @ret. */
CUresult ck_unsent(const struct ck_proc *p, int ret);
/* Of the last command sent, which a call waits for. */
uint64_t ck_command_number(const struct ck_client *c);
void ck_command_flush(struct ck_client *c);	/* it is on its way to the server on return */
void ck_command_forked(struct ck_client *c);	/* in a child: as ck_lane_forked */
void ck_command_forget(struct ck_client *c); /* in a child that starts anew: end the parent's */
void ck_command_abandon(struct ck_client *c);	/* wake whoever writes: the session is over */

#endif
