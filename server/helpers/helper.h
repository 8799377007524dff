/*
 * server/helpers/helper.h - processes that do long work for the supervisor.
 *
 * `cricket-rpc-server ARGUMENT` gets its request as one JSON object on a socket, its descriptor 3,
 * and sends its reply, an object as of the control socket, the same way.
 */
#ifndef CK_SERVER_HELPERS_HELPER_H
#define CK_SERVER_HELPERS_HELPER_H

#include <jansson.h>
#include <stdbool.h>

#define CK_CHECKPOINTER_ARGUMENT "--checkpointer"
#define CK_RESTORER_ARGUMENT "--restorer"

#define CK_HELPER_SOCKET 3

/* Exit status of a restorer that has made no worker. */
#define CK_RESTORE_FAILED 4

/* The request; NULL: there is none (logged). */
json_t *cks_helper_request(void);

/*
 * News before the reply, each a line {NAME: ...}. `folder`: where files are written; `filed`:
 * memory of the worker is in a file there, and the worker is to drop it; `goes_on`: the wait is
 * over, and the rest of the work goes on; `round`: the worker is to copy changed memory, or, false,
 * to leave: another request follows; `memory`: a copy needs the memory of the checkpoint with this
 * hash.
 */
void cks_helper_began(const char *folder);
void cks_helper_filed(void);
void cks_helper_goes_on(void);
void cks_helper_round(bool more);
void cks_helper_memory(const char *hash);

/* Send the reply, which it takes, and close the socket. */
void cks_helper_answer(json_t *reply);

/*
 * checkpointer.c: write a parked worker into files. Before a move, while the worker runs: rounds,
 * its process id, criu, driver, address: of the other server, format and lanes
 * (checkpoint/lanes.h): of the exchange. It asks for rounds then, each with an answer: known and
 * pool (pool_table.h), where known is 0 if there was none. The request: criu, directory, driver,
 * pid, session, id, program, memory, table, saved and pool (server/processes/pool_table.h), keep,
 * replace (checkpoint.h), move: to the server that descriptor 4 leads to, instead of into a folder,
 * and format of that exchange.
 * Or, after such a process was killed (checkpoint.h): recover: its folder, directory, pid, table,
 * filed, keep, pooled. Or, with only a folder to remove: remove; with only GPUs to describe:
 * describe, which is the driver, and criu. Returns the exit status.
 */
int cks_checkpointer_main(void);

/*
 * restorer.c: make a worker again. The request: criu, directory, driver, copy, and gpu: this
 * server's, if criu was checked and they were described before. Descriptor 4 becomes the worker's
 * control socket. The process stays as the worker's parent, and ends as it does. Or, for copies:
 * directory, memory: read the memory of the checkpoint with this hash into the file that is
 * descriptor 4.
 */
int cks_restorer_main(void);

#endif
