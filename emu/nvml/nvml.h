/*
 * emu/nvml/nvml.h - the emulated driver's own NVML: shared by its files.
 *
 * The real driver comes with a management library. This one has the calls that report the same of
 * the emulated devices as the driver's calls do. gen/emu_nvml.c exports the other names of
 * rpc/nvml.api: older names of calls, and calls that are not supported.
 */
#ifndef CK_EMU_NVML_NVML_H
#define CK_EMU_NVML_NVML_H

#include "emu/core/emu.h"

#pragma GCC visibility push(default)
#include "gen/nvml_api.h"
#pragma GCC visibility pop

/* Is the library started, @out not NULL and @device (unless @any) one of ours? Then the device. */
nvmlReturn_t ck_emu_nvml_begin(nvmlDevice_t device, const void *out, struct ck_emu_device **found);

/* The result of a call that is not supported, without a device and with one: the errors of such a
 * call come first. */
nvmlReturn_t ck_emu_nvml_lacks(const void *out);
nvmlReturn_t ck_emu_nvml_device_lacks(nvmlDevice_t device, const void *out);

#endif
