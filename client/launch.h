/*
 * client/launch.h - what launches and kernel nodes of graphs have in common.
 */
#ifndef CK_CLIENT_LAUNCH_H
#define CK_CLIENT_LAUNCH_H

#include "client/client.h"

/*
 * The parameter block of @f, *@size bytes at *@block: packed from @params into @room, which has
 * CK_KERNEL_PARAM_MAX + 4 bytes, or as @extra gives it. INVALID_VALUE.
 */
CUresult ck_launch_params(const struct ck_function *f, void **params, void **extra,
			  unsigned char *room, const void **block, size_t *size);

#endif
