/*
 * client/memory/share.h - file descriptors that stand for objects of this or another session of the
 * server.
 */
#ifndef CK_CLIENT_MEMORY_SHARE_H
#define CK_CLIENT_MEMORY_SHARE_H

#include <stdbool.h>

#include "client/wire/object.h"

/* A number that is unique among objects. */
uint64_t ck_share_unique(void);

/* The name of an object deposited with the server's broker; all zeros: none was. */
struct ck_ticket {
	uint64_t number;
	unsigned char key[16];
};

/* Decode a ticket from the server, and free its bytes. */
struct ck_ticket ck_ticket_take(void *bytes, size_t size);

/* Make a descriptor for the object, which the caller owns; -1: failed. */
int ck_share_make(const struct ck_object *object, uint64_t unique, const struct ck_ticket *ticket);

/* The object of a descriptor. */
struct ck_shared {
	bool here; /* of this session: see id and unique; else see the ticket */
	uint64_t id, unique;
	struct ck_ticket ticket;
};

/*
 * Find the object of @fd. INVALID_VALUE: not a descriptor from here, or of another kind;
 * NOT_SUPPORTED, logged: the object is of another session, and its server has no broker.
 */
CUresult ck_share_read(int fd, enum ck_object_kind kind, struct ck_shared *shared);

/* The same for the 64 bytes of a pointer; its id is the pointer. */
void ck_share_pointer_make(CUmemPoolPtrExportData *data, CUdeviceptr pointer,
			   const struct ck_ticket *ticket);
CUresult ck_share_pointer_read(const CUmemPoolPtrExportData *data, struct ck_shared *shared);

/* The application's ordinal of a server device; -1: the device is not visible. */
int ck_share_ordinal(int server_ordinal);

/*
 * virtual.c: part @part of M3 region @rid, which the session has open, as a handle that can be
 * mapped with @access.
 */
CUresult ck_physical_import(uint64_t rid, unsigned int part, unsigned int access,
			    CUmemGenericAllocationHandle *handle);

#endif
