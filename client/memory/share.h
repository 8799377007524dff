/*
 * client/memory/share.h - file descriptors that stand for objects, of this session or of another one of
 * the server.
 */
#ifndef CK_CLIENT_MEMORY_SHARE_H
#define CK_CLIENT_MEMORY_SHARE_H

#include <stdbool.h>

#include "client/wire/object.h"

/* A number that no other object has. */
uint64_t ck_share_unique(void);

/* What names an object that has been left with the server's broker; all zeros: nothing has been. */
struct ck_ticket {
	uint64_t number;
	unsigned char key[16];
};

/* A ticket as the server has sent it, whose bytes are freed. */
struct ck_ticket ck_ticket_take(void *bytes, size_t size);

/* A new descriptor, the caller's, that stands for the object; -1: none can be made. */
int ck_share_make(const struct ck_object *object, uint64_t unique, const struct ck_ticket *ticket);

/* What a descriptor stands for. */
struct ck_shared {
	bool here; /* in this session: id and unique say which; else the ticket does */
	uint64_t id, unique;
	struct ck_ticket ticket;
};

/*
 * What @fd stands for. INVALID_VALUE: nothing of ours, or of another kind; NOT_SUPPORTED, with a
 * line in the log: an object of another session, and its server has no broker.
 */
CUresult ck_share_read(int fd, enum ck_object_kind kind, struct ck_shared *shared);

/* The same for the 64 bytes that stand for a pointer, which is the id. */
void ck_share_pointer_make(CUmemPoolPtrExportData *data, CUdeviceptr pointer,
			   const struct ck_ticket *ticket);
CUresult ck_share_pointer_read(const CUmemPoolPtrExportData *data, struct ck_shared *shared);

/* The application's number of a device of the server; -1: one that it does not see. */
int ck_share_ordinal(int server_ordinal);

/*
 * virtual.c: part @part of region @rid of M3, which the session has open, as a handle for mapping
 * with @access.
 */
CUresult ck_physical_import(uint64_t rid, unsigned int part, unsigned int access,
			    CUmemGenericAllocationHandle *handle);

#endif
