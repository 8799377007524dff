/*
 * emu/core/emu_api.h - prototypes of the driver calls that libcuda-emu.so carries out.
 *
 * They are those of rpc/driver.api. A call without a definition here is refused, or another name of
 * a call (gen/emu_calls.c). All calls may be made from any thread.
 */
#ifndef CK_EMU_CORE_EMU_API_H
#define CK_EMU_CORE_EMU_API_H

#pragma GCC visibility push(default)

/* In this library a name means its body; gen/emu_calls.c exports the name. Tests call functions
 * that are exported. */
#ifndef CK_EMU_EXPORTED
#include "gen/emu_bodies.h"
#endif

#include "gen/api.h"

/* The table refuses these to clients, so it has no prototypes: a client does not know its
 * worker. */
CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid);
CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state);
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args);
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args);
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args);
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args);

/* Cricket's own: 0 means that this driver takes PTX text, not cubins. */
int ckDriverAcceptsCubin(void);

#pragma GCC visibility pop

#endif
