/*
 * server/memory/lease_share.c - cuIpc handles of leased memory.
 *
 * The driver has no handles for it. Each unit is exported on its own, as CUDA exports mapped
 * memory, and left with the broker. The handle's deposit is a file that lists the units' tickets.
 * The session that opens the handle maps all of them side by side.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/handlers.h"
#include "server/memory/lease.h"
#include "server/memory/memory.h"
#include "server/memory/share.h"
#include "server/memory/virtual.h"
#include "server/session/session.h"

#define UNITS_MAX 65536

/* One unit in the file. */
struct listed {
	struct cks_ticket ticket;
	uint64_t size; /* bytes of the unit */
	uint64_t skip; /* of the first unit: bytes ahead of the memory */
};

/* --- making a handle */

static CUresult export_unit(const struct cks_allocation *unit, struct cks_ticket *ticket)
{
	CUresult err;
	int fd = -1;

	if (!ck_driver.cuMemExportToShareableHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	err = ck_driver.cuMemExportToShareableHandle(&fd, unit->physical,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	if (err)
		return err;
	err = cks_share_physical(unit->physical, fd, ticket);
	close(fd);
	return err;
}

/* Export the units that hold [at, at+size), and list them in the file @fd. */
static CUresult list_units(struct cks_memory *m, CUdeviceptr at, size_t size, int fd)
{
	CUdeviceptr end = at + size;
	struct cks_allocation unit;
	CUresult err = CUDA_SUCCESS;

	while (!err && at < end) {
		struct listed one = {.size = 0};

		if (!cks_memory_find(m, at, &unit) || !unit.leased)
			return CUDA_ERROR_INVALID_VALUE;
		one.size = unit.size;
		one.skip = at - unit.address;
		err = export_unit(&unit, &one.ticket);
		if (!err && write(fd, &one, sizeof(one)) != sizeof(one))
			err = CUDA_ERROR_OUT_OF_MEMORY;
		at = unit.address + unit.size;
	}
	return err;
}

CUresult cks_lease_handle(struct cks_session *s, CUdeviceptr at, size_t size,
			  struct cks_ticket *ticket)
{
	int fd = memfd_create("lease", MFD_CLOEXEC);
	uint64_t bytes = size;
	CUresult err;

	if (size == 0 || at + size < at)
		return CUDA_ERROR_INVALID_VALUE;
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	err = list_units(s->memory, at, size, fd);
	if (!err)
		err = cks_share_list(at, fd, &bytes, sizeof(bytes), ticket);
	close(fd);
	return err;
}

CUresult ck_serve_lease_private(struct cks_request *q, ck_lease_private_args *a, void *res)
{
	(void)q;
	(void)res;
	cks_share_freed(a->ptr);
	return CUDA_SUCCESS;
}

/* --- opening it */

/* Memory that is open: where it is mapped, and where the client's memory begins in it. */
struct cks_lease_opened {
	struct cks_lease_opened *next;
	struct cks_ticket ticket;
	CUdeviceptr base, at;
	size_t total, size;
	unsigned int count;
};

static CUresult map_unit(const struct listed *unit, CUdeviceptr at)
{
	CUmemGenericAllocationHandle handle = 0;
	char nothing[CK_M3_BLOB_MAX];
	size_t size = 0;
	int fd = -1;
	CUresult err = cks_share_claim(&unit->ticket, sizeof(unit->ticket), nothing,
				       sizeof(nothing), &size, &fd);

	if (err)
		return err;
	if (fd < 0)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
						       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	close(fd);
	if (err)
		return err;
	err = ck_driver.cuMemMap(at, unit->size, 0, handle, 0);
	ck_driver.cuMemRelease(handle); /* the mapping keeps the memory */
	return err;
}

static CUresult map_units(const struct listed *units, size_t count, CUdeviceptr at, size_t total)
{
	CUmemAccessDesc access = {
		.location.type = CU_MEM_LOCATION_TYPE_DEVICE,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUdeviceptr end = at;
	CUresult err = ck_driver.cuCtxGetDevice(&access.location.id);

	for (size_t i = 0; !err && i < count; i++) {
		err = map_unit(&units[i], end);
		if (!err)
			end += units[i].size;
	}
	if (!err)
		err = ck_driver.cuMemSetAccess(at, total, &access, 1);
	for (size_t i = 0; err && at < end; at += units[i++].size)
		ck_driver.cuMemUnmap(at, units[i].size);
	return err;
}

/* Map the units somewhere. Call with the lock held. */
static CUresult place_units(struct cks_request *q, const struct listed *units, size_t count,
			    struct cks_lease_opened *o)
{
	CUresult err;

	for (size_t i = 0; i < count; i++) {
		if (units[i].size == 0 || units[i].size % CK_LEASE_CHUNK ||
		    units[i].size > SIZE_MAX / UNITS_MAX)
			return CUDA_ERROR_INVALID_HANDLE;
		o->total += units[i].size;
	}
	if (units[0].skip >= units[0].size || o->size > o->total - units[0].skip)
		return CUDA_ERROR_INVALID_HANDLE;
	err = ck_driver.cuMemAddressReserve(&o->base, o->total, 0, 0, 0);
	if (err)
		return err;
	o->at = o->base + units[0].skip;
	err = map_units(units, count, o->base, o->total);
	if (!err)
		err = cks_memory_import(q->session->memory, q->ctx, o->at, o->size);
	if (err)
		ck_driver.cuMemAddressFree(o->base, o->total);
	return err;
}

/* Read the list of units; the caller frees it. NULL: not a list. */
static struct listed *read_list(int fd, size_t *count)
{
	struct listed *units = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size % (off_t)sizeof(*units) ||
	    st.st_size > (off_t)(UNITS_MAX * sizeof(*units)))
		return NULL;
	units = malloc((size_t)st.st_size);
	if (units && pread(fd, units, (size_t)st.st_size, 0) != st.st_size) {
		free(units);
		units = NULL;
	}
	*count = (size_t)st.st_size / sizeof(*units);
	return units;
}

/* Call with the lock held. */
static CUresult open_new(struct cks_request *q, const struct cks_ticket *ticket, int fd,
			 size_t size, struct cks_lease_opened **out)
{
	size_t count = 0;
	struct listed *units = read_list(fd, &count);
	struct cks_lease_opened *o = units ? calloc(1, sizeof(*o)) : NULL;
	CUresult err = units ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;

	if (o) {
		o->ticket = *ticket;
		o->size = size;
		err = place_units(q, units, count, o);
	}
	free(units);
	if (err) {
		free(o);
		return err;
	}
	o->next = q->session->leases->opened;
	q->session->leases->opened = o;
	*out = o;
	return CUDA_SUCCESS;
}

CUresult cks_lease_open(struct cks_request *q, const struct cks_ticket *ticket, int fd, size_t size,
			CUdeviceptr *at)
{
	struct cks_leases *l = q->session->leases;
	struct cks_lease_opened *o;
	CUresult err = CUDA_SUCCESS;

	if (!cks_virtual_supported() || !ck_driver.cuMemImportFromShareableHandle)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (cks_share_is_own(ticket))
		return CUDA_ERROR_INVALID_CONTEXT; /* as the driver does */
	ck_lock(&l->lock);
	for (o = l->opened; o; o = o->next) {
		if (memcmp(&o->ticket, ticket, sizeof(*ticket)) == 0)
			break;
	}
	if (!o)
		err = open_new(q, ticket, fd, size, &o);
	if (!err) {
		o->count++;
		*at = o->at;
	}
	ck_unlock(&l->lock);
	return err;
}

/* Wait first: unmapping memory that running work uses would break the context. */
static void unmap_units(struct cks_request *q, const struct cks_lease_opened *o)
{
	cks_context_wait(q->session, q->ctx);
	cks_memory_unmap(q->session->memory, o->at, 1);
	ck_driver.cuMemUnmap(o->base, o->total);
	ck_driver.cuMemAddressFree(o->base, o->total);
}

bool cks_lease_close(struct cks_request *q, CUdeviceptr at)
{
	struct cks_leases *l = q->session->leases;
	struct cks_lease_opened **link, *o;
	bool found, last;

	ck_lock(&l->lock);
	for (link = &l->opened; *link && (*link)->at != at;)
		link = &(*link)->next;
	o = *link;
	found = o != NULL;
	last = found && --o->count == 0;
	if (last)
		*link = o->next;
	ck_unlock(&l->lock);
	if (last) { /* the work to wait for may need another thread, and that one the lock */
		unmap_units(q, o);
		free(o);
	}
	return found;
}
