/*
 * emu/nvml.h - the emulated driver's own NVML: shared by its two files.
 *
 * The real driver comes with a management library. This one has the calls that report the same of
 * the emulated devices as the driver's calls do. A name that is not here is not supported.
 */
#ifndef CK_EMU_NVML_H
#define CK_EMU_NVML_H

#include "emu/emu.h"

#pragma GCC visibility push(default)
#include "gen/nvml_api.h"
#pragma GCC visibility pop

/* Is the library started, @out not NULL and @device (unless @any) one of ours? Then the device. */
nvmlReturn_t ck_emu_nvml_begin(nvmlDevice_t device, const void *out, struct ck_emu_device **found);

#endif
