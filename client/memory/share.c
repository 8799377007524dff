/*
 * client/memory/share.c - exported memory: a descriptor of a small memory file that names the
 * object and its session, or 64 bytes that do so for a pointer.
 *
 * A driver's descriptor belongs to the server's process and cannot cross the wire. The one made
 * here can be passed on and imported while the object lives: in this process by its id, in another
 * session of the same server by the ticket of the object that the server has deposited with its
 * memory broker.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/link/client.h"
#include "client/memory/share.h"
#include "util/log.h"

CK_LOG_DEFINE("client");

#define MARK "cricket shared\n" /* with its NUL 16 bytes */

struct ticket {
	char mark[16];
	unsigned char session[CK_ID];
	uint64_t kind, id, unique;
	struct ckc_ticket shared;
};

/* A pool's pointer, in CUDA's 64 bytes. */
struct pointer {
	char mark[8];
	unsigned char session[CK_ID];
	uint64_t address;
	struct ckc_ticket shared;
	unsigned char unused[8];
};

#define POINTER_MARK "ck pool" /* with its NUL 8 bytes */
_Static_assert(sizeof(struct pointer) == sizeof(CUmemPoolPtrExportData), "as CUDA has them");

uint64_t ckc_share_unique(void)
{
	static _Atomic uint64_t last;

	return atomic_fetch_add(&last, 1) + 1;
}

struct ckc_ticket ckc_ticket_take(void *bytes, size_t size)
{
	struct ckc_ticket ticket = {0};

	if (size == sizeof(ticket))
		memcpy(&ticket, bytes, sizeof(ticket));
	free(bytes);
	return ticket;
}

static bool is_ours(const unsigned char session[CK_ID])
{
	return memcmp(session, ckc_client_current()->hello.session, CK_ID) == 0;
}

/* SUCCESS if it can be imported: it is of this session, or was deposited. */
static CUresult check_importable(const struct ckc_shared *shared)
{
	if (shared->here || shared->ticket.number)
		return CUDA_SUCCESS;
	ck_warn("memory of another process cannot be imported: the server has no broker");
	return CUDA_ERROR_NOT_SUPPORTED;
}

static bool is_ticket(const struct ticket *t, uint64_t kind)
{
	return memcmp(t->mark, MARK, sizeof(t->mark)) == 0 && t->kind == kind;
}

/* Make a descriptor for the object, which the caller owns; -1: failed. */
static int make_descriptor(const struct ckc_object *object, uint64_t unique,
			   const struct ckc_ticket *ticket)
{
	/* a raw system call: the descriptor belongs to the program, but kernel-loader records those
	 * that memfd_create returns here, and would close it with the client's */
	int fd = (int)syscall(SYS_memfd_create, "cricket-shared", MFD_CLOEXEC);
	struct ticket t = {.mark = MARK,
			   .kind = object->kind,
			   .id = object->id,
			   .unique = unique,
			   .shared = *ticket};

	if (fd < 0) {
		ck_err("no descriptor for exported memory: %m");
		return -1;
	}
	memcpy(t.session, ckc_client_current()->hello.session, sizeof(t.session));
	if (write(fd, &t, sizeof(t)) != (ssize_t)sizeof(t)) {
		close(fd);
		return -1;
	}
	return fd;
}

CUresult ckc_share_export(uint64_t ctx, const struct ckc_object *object, uint64_t unique,
			  CUmemAllocationHandleType type, void *handle)
{
	struct ckc_ticket ticket;
	void *bytes = NULL;
	size_t size = 0;
	CUresult err = ck_wire_export(ctx, object->id, type, &bytes, &size);
	int fd;

	if (err)
		return err;
	ticket = ckc_ticket_take(bytes, size);
	fd = make_descriptor(object, unique, &ticket);
	memcpy(handle, &fd, sizeof(fd));
	return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult ckc_share_read(int fd, enum ckc_object_kind kind, struct ckc_shared *shared)
{
	struct ticket t;

	if (fd < 0 || pread(fd, &t, sizeof(t), 0) != (ssize_t)sizeof(t) || !is_ticket(&t, kind))
		return CUDA_ERROR_INVALID_VALUE;
	*shared = (struct ckc_shared){
		.here = is_ours(t.session), .id = t.id, .unique = t.unique, .ticket = t.shared};
	return check_importable(shared);
}

void ckc_share_pointer_make(CUmemPoolPtrExportData *data, CUdeviceptr address,
			    const struct ckc_ticket *ticket)
{
	struct pointer p = {.mark = POINTER_MARK, .address = address, .shared = *ticket};

	memcpy(p.session, ckc_client_current()->hello.session, sizeof(p.session));
	memcpy(data, &p, sizeof(p));
}

CUresult ckc_share_pointer_read(const CUmemPoolPtrExportData *data, struct ckc_shared *shared)
{
	struct pointer p;

	memcpy(&p, data, sizeof(p));
	if (memcmp(p.mark, POINTER_MARK, sizeof(p.mark)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	*shared = (struct ckc_shared){
		.here = is_ours(p.session), .id = p.address, .ticket = p.shared};
	return check_importable(shared);
}

int ckc_share_ordinal(int server_ordinal)
{
	for (int i = 0; i < ckc_client_root()->gpu_count; i++) {
		if (ckc_gpu_client(i) == ckc_client_current() &&
		    ckc_gpu(i)->server_ordinal == server_ordinal)
			return i;
	}
	return -1;
}
