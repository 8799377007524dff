/*
 * server/processes/process.h - processes that are no children, by their pidfd.
 */
#ifndef CK_SERVER_PROCESSES_PROCESS_H
#define CK_SERVER_PROCESSES_PROCESS_H

#include <stdbool.h>

void cks_process_kill(int process);
/* Wait for its end, at most so long; false: it has not ended. */
bool cks_process_wait(int process, int ms);

#endif
