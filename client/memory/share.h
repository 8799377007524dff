/*
 * client/memory/share.h - file descriptors that stand for objects of this or another session of the
 * server.
 */
#ifndef CK_CLIENT_MEMORY_SHARE_H
#define CK_CLIENT_MEMORY_SHARE_H

#include <stdbool.h>

#include "client/link/object.h"

/* A number that is unique among objects. */
uint64_t ckc_share_unique(void);

/* The name of an object deposited with the server's broker; all zeros: none was. */
struct ckc_ticket {
	uint64_t number;
	unsigned char key[16];
};

/* Decode a ticket from the server, and free its bytes. */
struct ckc_ticket ckc_ticket_take(void *bytes, size_t size);

/* Export an object whose number is @unique: store a descriptor for it, which the program owns, at
 * @handle. */
CUresult ckc_share_export(uint64_t ctx, const struct ckc_object *object, uint64_t unique,
			  CUmemAllocationHandleType type, void *handle);

/* The object of a descriptor. */
struct ckc_shared {
	bool here; /* of this session: see id and unique; else see the ticket */
	uint64_t id, unique;
	struct ckc_ticket ticket;
};

/*
 * Find the object of @fd. INVALID_VALUE: not a descriptor from here, or of another kind;
 * NOT_SUPPORTED, logged: the object is of another session, and its server has no broker.
 */
CUresult ckc_share_read(int fd, enum ckc_object_kind kind, struct ckc_shared *shared);

/* The same for the 64 bytes of a pointer; its id is the pointer. */
void ckc_share_pointer_make(CUmemPoolPtrExportData *data, CUdeviceptr pointer,
			    const struct ckc_ticket *ticket);
CUresult ckc_share_pointer_read(const CUmemPoolPtrExportData *data, struct ckc_shared *shared);

/* The application's ordinal of a server device; -1: the device is not visible. */
int ckc_share_ordinal(int server_ordinal);

#endif
