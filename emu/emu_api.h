/*
 * emu/emu_api.h - prototypes of the driver calls that libcuda-emu.so carries out.
 *
 * They are those of rpc/driver.api. A call without a definition here is a generated refusal, or
 * another name of a call (gen/emu_variants.c). All calls may be made from any thread.
 */
#ifndef CK_EMU_EMU_API_H
#define CK_EMU_EMU_API_H

#pragma GCC visibility push(default)

#include "gen/api.h"

/* Cricket's own: 0 means that this driver takes PTX text, not cubins. */
int ckDriverAcceptsCubin(void);

#pragma GCC visibility pop

#endif
