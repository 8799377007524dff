/*
 * server/supervisor/mps.h - the warning about MPS.
 */
#ifndef CK_SERVER_SUPERVISOR_MPS_H
#define CK_SERVER_SUPERVISOR_MPS_H

/* Log a warning if NVIDIA's MPS runs, and how to stop it. */
void cks_mps_check(void);

#endif
