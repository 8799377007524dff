/*
 * client/nvml/state.h - what NVML keeps of a session. Its handles are addresses, of the process.
 */
#ifndef CK_CLIENT_NVML_STATE_H
#define CK_CLIENT_NVML_STATE_H

#include <stdatomic.h>

#include "client/wire/client.h"

struct ck_nvml {
	struct ck_mutex lock;
	_Atomic unsigned int initialized; /* calls of nvmlInit without their nvmlShutdown */
};

#endif
