/*
 * client/share.h - file descriptors that stand for objects of the session.
 */
#ifndef CK_CLIENT_SHARE_H
#define CK_CLIENT_SHARE_H

#include "client/object.h"

/* A number that no other object has. */
uint64_t ck_share_unique(void);

/* A new descriptor, the caller's, that stands for the object; -1: none can be made. */
int ck_share_make(const struct ck_object *object, uint64_t unique);

/*
 * What @fd stands for. INVALID_VALUE: nothing of ours, or of another kind; NOT_SUPPORTED, with a
 * line in the log: an object of another process.
 */
CUresult ck_share_read(int fd, enum ck_object_kind kind, uint64_t *id, uint64_t *unique);

/* The same for the 64 bytes that stand for a pointer. */
void ck_share_pointer_make(CUmemPoolPtrExportData *data, CUdeviceptr pointer);
CUresult ck_share_pointer_read(const CUmemPoolPtrExportData *data, CUdeviceptr *pointer);

#endif
