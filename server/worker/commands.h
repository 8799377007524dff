/*
 * server/worker/commands.h - the command stream of a session, and the threads that carry it out.
 *
 * The command thread reads commands from their connection and carries them out, in order. In shared
 * memory a lane may do that in its place. A program launches and then waits: if one thread does
 * both, neither the hand-over between two threads nor the driver's lines of cache that move between
 * two processors cost time. So a lane whose client may send commands next polls both rings. There
 * is at most one such lane. It carries out the commands that cannot wait for the device, and leaves
 * the others to the command thread, as all commands while it answers a call.
 */
#ifndef CK_SERVER_WORKER_COMMANDS_H
#define CK_SERVER_WORKER_COMMANDS_H

#include "server/worker/lane.h"

/* Carry out the commands of @l's connection until it ends. 0 or -errno; -EPROTO is logged. */
int cks_commands_run(struct cks_lane *l);

/*
 * For a lane between two calls: look for commands and carry them out, until a call has come or
 * spinning does not pay any more. The caller ends @turn after it has read the call.
 */
void cks_commands_poll(struct cks_lane *l, struct ck_spin_turn *turn);

/* A call that comes after command @seq: carry out the commands up to there that @l has not left to
 * another thread. Then it polls no more. */
void cks_commands_finish(struct cks_lane *l, uint64_t seq);

#endif
