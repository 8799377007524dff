/*
 * nccl/library.h - how the stand-in library finds the functions of Cricket's client.
 *
 * The client has an export table, which cuGetExportTable gives for the UUID below; another driver
 * does not know it. The table is generated from rpc/nccl.api (build folder, gen/nccl_wire.h).
 * Client and library may be of different releases: a function exists if the table is long enough
 * for it.
 */
#ifndef CK_NCCL_LIBRARY_H
#define CK_NCCL_LIBRARY_H

#include <stddef.h>

#include "gen/nccl_wire.h"

#define CK_NCCL_CLIENT_UUID                                                                        \
	{                                                                                          \
		{                                                                                  \
			0x63, 0x72, 0x69, 0x63, 0x6b, 0x65, 0x74, 0x2d, 0x6e, 0x63, 0x63, 0x6c,    \
				0x2d, 0x31, 0x2e, 0x30                                             \
		}                                                                                  \
	} /* "cricket-nccl-1.0" */

#define CK_NCCL_HAS(table, function)                                                               \
	((table) && (table)->size >= offsetof(struct ck_nccl_table, function) +                    \
					     sizeof((table)->function) &&                          \
	 (table)->function)

/* The client's table; NULL: the driver of this process is not Cricket's client. */
const struct ck_nccl_table *ck_nccl_table(void);
/* The results of calls that the client does not have; says so once. */
ncclResult_t ck_nccl_absent(void);
const char *ck_nccl_absent_text(void);

#endif
