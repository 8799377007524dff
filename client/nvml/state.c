/*
 * client/nvml/state.c - NVML's part of a session; see client/nvml/state.h.
 */
#include "client/nvml/state.h"
#include "client/link/hooks.h"

static void init_nvml(void *part)
{
	struct ckc_nvml *s = part;

	s->lock = (struct ck_mutex)CK_MUTEX(CK_RANK_NVML);
}
CK_CLIENT_PART(nvml, struct ckc_nvml, init_nvml);
