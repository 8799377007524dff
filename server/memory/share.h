/*
 * server/memory/share.h - a worker's connection to the memory broker, and sharing between sessions
 * through it.
 */
#ifndef CK_SERVER_MEMORY_SHARE_H
#define CK_SERVER_MEMORY_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include <sys/types.h>

#include "m3/message.h"
#include "util/hash.h"

/* The name of a deposit: its holder can claim the deposit. Clients pass tickets on. */
struct cks_ticket {
	uint64_t number;
	unsigned char key[CK_M3_KEY];
};

/*
 * m3.c: the connection to the broker, made on first use. @path NULL: there is no broker. @client is
 * the descriptor of the client's connection, which determines the principal; of a client on another
 * host it is @server, the server's user.
 */
void cks_broker_link(const char *path, int client, uid_t server);
/* Regions of the session count for the identity with @key, if the policy has a quota. Before the
 * first request. */
void cks_broker_set_account(const struct ck_hash *key);
/* May the session use memory that is shared by name? */
bool cks_broker_has_m3(void);

/* Open a further connection, with its hello done, owned by the caller: m3_status. */
int cks_broker_connect(int *sock);
/* Send a request on it and return the status; M3_EIO: the connection is lost. */
int cks_broker_exchange(int sock, const struct ck_m3_request *request);

/* Send a request of the worker, and return the answer's data; *fd is the received descriptor, or
 * -1. m3_status. */
int cks_broker_ask(struct ck_m3_request *request, const void *data, int fd_out, void *back,
		   size_t room, size_t *size, int *fd, uint64_t *number);

/* Translate a status of the broker to a CUresult. */
CUresult cks_broker_error(int status);

/* share.c: claim the deposit of another session. */
CUresult cks_share_claim(const void *ticket, size_t ticket_size, void *bytes, size_t room,
			 size_t *size, int *fd);

/* The ticket of a handle of @size bytes, for the memory that begins at @address; 0: for none. */
CUresult cks_share_handle(CUdeviceptr address, const void *bytes, size_t size,
			  struct cks_ticket *ticket);
/* The same with a file. */
CUresult cks_share_list(CUdeviceptr address, int fd, const void *bytes, size_t size,
			struct cks_ticket *ticket);
/* Is it the ticket of a deposit of this session? */
bool cks_share_is_own(const struct cks_ticket *ticket);
/* The memory is freed, or the pool destroyed: its handles become invalid. */
void cks_share_freed(uint64_t owner);

/* The ticket of exported memory, or of a pool. NOT_PERMITTED: the memory is read-only. */
CUresult cks_share_physical(CUmemGenericAllocationHandle handle, int fd, struct cks_ticket *ticket);
CUresult cks_share_pool(CUmemoryPool pool, int fd, struct cks_ticket *ticket);

struct cks_request;

/* Memory was released or unmapped: take back deposits of memory no longer in use. */
void cks_share_check(struct cks_request *q);
/* May the memory be mapped only for reading? */
bool cks_share_is_read_only(CUmemGenericAllocationHandle handle);
/* Like cks_physical_adopt, for memory that is read-only, or no longer so. */
CUresult cks_share_adopt(struct cks_request *q, uint64_t id, CUmemGenericAllocationHandle handle,
			 bool read_only, char *prop);

/* Encode a ticket for a reply: OUT_OF_MEMORY. */
CUresult cks_ticket_answer(const struct cks_ticket *ticket, char **bytes, unsigned int *size);

/* virtual.c: note a handle under @id and return the properties of its memory; on failure, release
 * it. */
CUresult cks_physical_adopt(struct cks_request *q, uint64_t id, CUmemGenericAllocationHandle handle,
			    char *prop);

#endif
