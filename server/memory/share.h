/*
 * server/memory/share.h - a worker's way to the memory broker, and what sessions share through it.
 */
#ifndef CK_SERVER_MEMORY_SHARE_H
#define CK_SERVER_MEMORY_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "m3/message.h"

/* What names a deposit: whoever has it gets what was left there. It is what clients pass about. */
struct ck_ticket {
	uint64_t number;
	unsigned char key[CK_M3_KEY];
};

/*
 * m3.c: the connection to the broker, made when it is first needed. @path NULL: there is no broker;
 * @client is the descriptor of the client's connection, which says for whom the worker acts.
 */
void ck_broker_link(const char *path, int client);

/* A further connection that has said for whom it is, the caller's: m3_status. */
int ck_broker_connect(int *sock);
/* A request on it and the status that comes back; M3_EIO: it is lost. */
int ck_broker_exchange(int sock, const struct ck_m3_request *request);

/* A request of our own and its answer's data; *fd the descriptor that came, or -1. m3_status. */
int ck_broker_ask(struct ck_m3_request *request, const void *data, int fd_out, void *back,
		  size_t room, size_t *size, int *fd, uint64_t *number);

/* The CUresult for a status of the broker's. */
CUresult ck_broker_error(int status);

/* share.c: get what another session left. */
CUresult ck_share_claim(const void *ticket, size_t ticket_size, void *bytes, size_t room,
			size_t *size, int *fd);

/* The ticket of a handle that is @size bytes, of the memory that begins at @address; 0: of none. */
CUresult ck_share_handle(CUdeviceptr address, const void *bytes, size_t size,
			 struct ck_ticket *ticket);
/* That memory is freed, or that pool is destroyed: its handles open nothing any more. */
void ck_share_freed(uint64_t owner);

/* The ticket of exported memory: NOT_PERMITTED for what may only be read; that of a pool. */
CUresult ck_share_physical(CUmemGenericAllocationHandle handle, int fd, struct ck_ticket *ticket);
CUresult ck_share_pool(CUmemoryPool pool, int fd, struct ck_ticket *ticket);

struct ck_request;

/* Memory has been released or unmapped: take back the descriptors of what is no more. */
void ck_share_check(struct ck_request *q);
/* Memory that may only be mapped for reading. */
bool ck_share_is_read_only(CUmemGenericAllocationHandle handle);
/* As ck_physical_adopt, for memory that is for reading only or, if it was, for writing too. */
CUresult ck_share_adopt(struct ck_request *q, uint64_t id, CUmemGenericAllocationHandle handle,
			bool read_only, char *prop);

/* A ticket as the answer's bytes: OUT_OF_MEMORY. */
CUresult ck_ticket_answer(const struct ck_ticket *ticket, char **bytes, unsigned int *size);

/* virtual.c: note a handle under @id and tell what memory it is; release it when that fails. */
CUresult ck_physical_adopt(struct ck_request *q, uint64_t id, CUmemGenericAllocationHandle handle,
			   char *prop);

#endif
