/*
 * client/nvml/state.h - NVML's session state. Its handles are addresses, so they belong to the
 * process.
 */
#ifndef CK_CLIENT_NVML_STATE_H
#define CK_CLIENT_NVML_STATE_H

#include <stdatomic.h>

#include "client/link/client.h"

struct ckc_nvml {
	struct ck_mutex lock;
	_Atomic unsigned int initialized; /* calls of nvmlInit without a matching nvmlShutdown */
};

#endif
