/*
 * emu/core/mps.h - the behaviour of NVIDIA's driver under MPS, for tests with a stand-in for
 * NVIDIA's control daemon (tests/e2e/mps_daemon.py).
 *
 * If a daemon listens in the folder of CUDA_MPS_PIPE_DIRECTORY when the driver is initialised, the
 * process is its client, for as long as the daemon lives. A fault of one client ends all.
 */
#ifndef CK_EMU_CORE_MPS_H
#define CK_EMU_CORE_MPS_H

#include <stdbool.h>

/* Look for a daemon, and become its client. False: it takes none now. */
bool ck_emu_mps_join(void);
/* Have the daemon, or the fault of another client, ended this one? False if there was none. */
bool ck_emu_mps_lost(void);
/* A context has a fault. */
void ck_emu_mps_fault(void);
/* How many of @count multiprocessors the process may use (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE). */
int ck_emu_mps_part(int count);

#endif
