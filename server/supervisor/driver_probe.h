/*
 * server/supervisor/driver_probe.h - the choice of the driver, in a process of its own.
 */
#ifndef CK_SERVER_SUPERVISOR_DRIVER_PROBE_H
#define CK_SERVER_SUPERVISOR_DRIVER_PROBE_H

#include "server/session/driver.h"

/* Choose the driver for --driver @which, with a process `--probe` that may load drivers; @gpus: see
 * cks_driver_gpus. NULL: none works (logged). */
const char *cks_driver_choose(const char *which, char gpus[CK_DRIVER_GPUS]);

/* Run the process `--probe WHICH`: it writes the answer to descriptor 3; returns the exit
 * status. */
int cks_driver_probe_main(const char *which);

#endif
