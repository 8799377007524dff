/*
 * server/nvml/nvml_device.h - NVML's handles of CUDA's devices.
 */
#ifndef CK_SERVER_NVML_NVML_DEVICE_H
#define CK_SERVER_NVML_NVML_DEVICE_H

#include "cuda/nvml.h"
#include "gen/nvml_server.h"
#include "server/nvml/nvml.h"

/*
 * NVML's handle of CUDA's device @ordinal: by its UUID, which a part of a GPU (MIG) has too, else
 * by its PCI address. NVML numbers devices in its own way. 0, or an nvmlReturn_t.
 */
int cks_nvml_of_device(int ordinal, nvmlDevice_t *device);

#endif
