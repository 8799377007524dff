/*
 * m3/shim.h - how libm3 goes through a Cricket session when the driver of its process is Cricket's
 * client.
 *
 * The client has an export table of its own, which cuGetExportTable gives for the UUID below;
 * another driver does not know it. Requests then travel to the session's worker, which has a
 * connection to the broker of its host, and memory comes as handles of the session in place of
 * descriptors.
 */
#ifndef CK_M3_SHIM_H
#define CK_M3_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

#define CK_M3_SHIM_UUID                                                                            \
	{                                                                                          \
		{                                                                                  \
			0x63, 0x72, 0x69, 0x63, 0x6b, 0x65, 0x74, 0x2d, 0x6d, 0x33, 0x2d, 0x73,    \
				0x68, 0x69, 0x6d, 0x31                                             \
		}                                                                                  \
	} /* "cricket-m3-shim1" */

struct ck_m3_shim {
	size_t size; /* of this structure */
	/*
	 * A request of message.h with its data to the broker, its reply with its data back. 0 or
	 * -errno.
	 */
	int (*call)(const void *question, size_t size, void *answer, size_t room, size_t *got);
	/* A handle of region @rid, which the session has open, for mapping with @access. */
	CUresult (*import)(uint64_t rid, unsigned int access, CUmemGenericAllocationHandle *handle);
};

#endif
