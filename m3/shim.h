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
				0x68, 0x69, 0x6d, 0x32                                             \
		}                                                                                  \
	} /* "cricket-m3-shim1" */

/* The 64 bytes of a cuIpc handle under Cricket's client: a ticket of the broker's. */
struct ck_ipc_handle {
	char mark[12];
	uint32_t kind; /* enum ck_ipc_kind */
	uint64_t number;
	unsigned char key[16];
	char unused[24];
};

enum ck_ipc_kind { CK_IPC_MEMORY = 1, CK_IPC_EVENT };
#define CK_IPC_MARK "cricket ipc" /* with its NUL 12 bytes */

struct ck_m3_shim {
	size_t size; /* of this structure */
	/*
	 * A request of message.h with its data to the broker, its reply with its data back. 0 or
	 * -errno.
	 */
	int (*call)(const void *question, size_t size, void *answer, size_t room, size_t *got);
	/* A handle of part @part of region @rid, open in the session, for mapping with @access. */
	CUresult (*import)(uint64_t rid, unsigned int part, unsigned int access,
			   CUmemGenericAllocationHandle *handle);
	/*
	 * News of the broker for this process; @number names the subscription. news waits for one,
	 * a minute at most: 0 with *event 0 when there was none, -ENODATA when it is over, -EPIPE
	 * when the broker has gone.
	 */
	int (*subscribe)(unsigned int mask, unsigned int *number);
	int (*news)(unsigned int number, unsigned int *event, uint64_t *rid);
	void (*unsubscribe)(unsigned int number);
};

#endif
