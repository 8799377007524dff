/*
 * client/share.c - what a program gets when it exports memory: a descriptor of a small file in
 * memory that names the object and its session, or 64 bytes that do so for a pointer.
 *
 * A descriptor of the driver belongs to the server's process and cannot cross the wire. The one
 * made here can be handed about inside the process and imported again, as long as the object
 * lives. Another process has another session, which cannot reach the memory.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/share.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define MARK "cricket shared\n" /* with its NUL 16 bytes */

struct ticket {
	char mark[16];
	unsigned char session[CK_ID];
	uint64_t kind, id, unique;
};

_Static_assert(sizeof(struct ticket) <= sizeof(CUmemPoolPtrExportData), "one stands for a pointer");

uint64_t ck_share_unique(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

static void ticket_make(struct ticket *t, uint64_t kind, uint64_t id, uint64_t unique)
{
	memset(t, 0, sizeof(*t));
	memcpy(t->mark, MARK, sizeof(t->mark));
	memcpy(t->session, ck_client.hello.session, sizeof(t->session));
	t->kind = kind;
	t->id = id;
	t->unique = unique;
}

static CUresult ticket_check(const struct ticket *t, uint64_t kind)
{
	if (memcmp(t->mark, MARK, sizeof(t->mark)) != 0 || t->kind != kind)
		return CUDA_ERROR_INVALID_VALUE;
	if (memcmp(t->session, ck_client.hello.session, sizeof(t->session)) == 0)
		return CUDA_SUCCESS;
	ck_warn("memory that another process exported cannot be imported: it is in another "
		"session");
	return CUDA_ERROR_NOT_SUPPORTED;
}

int ck_share_make(const struct ck_object *object, uint64_t unique)
{
	int fd = memfd_create("cricket-shared", MFD_CLOEXEC);
	struct ticket t;

	if (fd < 0) {
		ck_err("no descriptor for exported memory: %m");
		return -1;
	}
	ticket_make(&t, object->kind, object->id, unique);
	if (write(fd, &t, sizeof(t)) != (ssize_t)sizeof(t)) {
		close(fd);
		return -1;
	}
	return fd;
}

CUresult ck_share_read(int fd, enum ck_object_kind kind, uint64_t *id, uint64_t *unique)
{
	struct ticket t;
	CUresult err;

	if (fd < 0 || pread(fd, &t, sizeof(t), 0) != (ssize_t)sizeof(t))
		return CUDA_ERROR_INVALID_VALUE;
	err = ticket_check(&t, kind);
	*id = t.id;
	*unique = t.unique;
	return err;
}

void ck_share_pointer_make(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
	struct ticket t;

	ticket_make(&t, CK_OBJECT_NONE, pointer, 0);
	memset(data, 0, sizeof(*data));
	memcpy(data, &t, sizeof(t));
}

CUresult ck_share_pointer_read(const CUmemPoolPtrExportData *data, CUdeviceptr *pointer)
{
	struct ticket t;
	CUresult err;

	memcpy(&t, data, sizeof(t));
	err = ticket_check(&t, CK_OBJECT_NONE);
	*pointer = t.id;
	return err;
}
