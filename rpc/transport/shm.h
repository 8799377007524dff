/*
 * rpc/transport/shm.h - the memory that a connection continues in, for shm.c and shm_file.c alone.
 */
#ifndef CK_RPC_TRANSPORT_SHM_H
#define CK_RPC_TRANSPORT_SHM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/pipe.h"
#include "util/process/private_fds.h"

/* The file's first page; the rings' bytes follow it, to the server first. */
struct ck_shm_header {
	uint32_t magic, layout;
	uint32_t size[2];		/* of the rings, powers of two */
	_Atomic uint32_t taken;		/* set by the server: it will use the rings */
	struct ck_pipe_control ring[2]; /* to the server, to the client */
};

struct ck_shm {
	struct ck_shm_header *header;
	struct ck_private_fd file; /* until the other end has it */
	bool client;
	struct ck_pipe in, out;
};

/* Unmap and close all of it; NULL is allowed. */
void ck_shm_free(struct ck_shm *shm);

#endif
