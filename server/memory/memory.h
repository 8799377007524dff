/*
 * server/memory/memory.h - the device allocations of a session: address, size, device, context.
 *
 * All device memory is allocated and freed here. Safe from all threads of a session.
 */
#ifndef CK_SERVER_MEMORY_MEMORY_H
#define CK_SERVER_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

struct cks_memory;

struct cks_allocation {
	struct cks_allocation *next; /* for lists, off the table */
	CUdeviceptr address;
	size_t size; /* bytes */
	CUdevice device;
	uint64_t ctx;			       /* id of its context; 0: from a pool, or mapped */
	bool mapped;			       /* by cuMemMap, or opened from another session */
	CUmemGenericAllocationHandle physical; /* the mapped memory; 0: none */
	bool leased;			       /* a unit of a lease; also mapped */
	bool whole; /* all of @physical is mapped here, and the server can make it again */
	bool graph; /* allocated by each launch of a graph: stays here even if freed */
};

int cks_memory_create(struct cks_memory **memory);
void cks_memory_destroy(struct cks_memory *memory); /* frees no device memory */

/*
 * Is the location a GPU, or none at all, which the driver refuses? Clients have memory of the host
 * that their program runs on: the driver would take that of this host, which nothing bounds.
 */
static inline bool cks_location_allowed(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ||
	       location->type == CU_MEM_LOCATION_TYPE_INVALID;
}

/* The same for a pool, whose memory does not move to the host, either. */
static inline bool cks_pool_allowed(const CUmemPoolProps *props)
{
	return cks_location_allowed(&props->location) &&
	       props->allocType <= CU_MEM_ALLOCATION_TYPE_PINNED;
}

/* --- memory.c: from the driver, and back to it */

/* Allocate in the thread's current context, whose id is @ctx; returns the driver's errors. */
CUresult cks_memory_alloc(struct cks_memory *memory, uint64_t ctx, size_t size, CUdeviceptr *out);

/* Free. INVALID_VALUE: no allocation begins at @address. Freeing address 0 does nothing. */
CUresult cks_memory_free(struct cks_memory *memory, CUdeviceptr address);

/* --- allocation.c: the table */

/* Note memory from the driver; if that fails, free it: OUT_OF_MEMORY. */
CUresult cks_memory_note(struct cks_memory *memory, uint64_t ctx, CUdeviceptr address, size_t size);

/* Note memory that launches of a graph allocate; otherwise it cannot be freed outside of them. */
void cks_memory_graph(struct cks_memory *memory, CUdeviceptr address, size_t size);

/* Note that the driver has mapped memory, or unmapped a range: OUT_OF_MEMORY. */
CUresult cks_memory_map(struct cks_memory *memory, CUdeviceptr address, size_t size,
			CUmemGenericAllocationHandle physical, bool whole);
/* Physical memory of @size bytes has been created under @id, or @id has been released. */
void cks_memory_created(struct cks_memory *memory, uint64_t id, size_t size);
void cks_memory_released(struct cks_memory *memory, uint64_t id);
/* Is @size the whole of the memory created under @id? */
bool cks_memory_is_whole(struct cks_memory *memory, uint64_t id, size_t size);
/* @physical, under @id, has got another use than its mapping: it cannot be made again. */
void cks_memory_tie(struct cks_memory *memory, uint64_t id, CUmemGenericAllocationHandle physical);
/* Memory of another session was opened at @address in context @ctx; removed by cks_memory_unmap. */
CUresult cks_memory_import(struct cks_memory *memory, uint64_t ctx, CUdeviceptr address,
			   size_t size);
/* Note a unit of a lease: OUT_OF_MEMORY. Removed by cks_memory_unmap. */
CUresult cks_memory_lease(struct cks_memory *memory, CUdevice device, CUdeviceptr address,
			  size_t size, CUmemGenericAllocationHandle physical);
/* The first memory that ends behind @from; false: there is none. */
bool cks_memory_after(struct cks_memory *memory, CUdeviceptr from, struct cks_allocation *out);
/* The memory that is mapped at @address is @physical now. */
void cks_memory_renew(struct cks_memory *memory, CUdeviceptr address,
		      CUmemGenericAllocationHandle physical);
/* Does any memory of the session overlap [address, address+size)? */
bool cks_memory_overlaps(struct cks_memory *memory, CUdeviceptr address, size_t size);
/* Does any of it belong to a lease? */
bool cks_memory_leased(struct cks_memory *memory, CUdeviceptr address, size_t size);
/* How often @physical is mapped. */
size_t cks_memory_mappings(struct cks_memory *memory, CUmemGenericAllocationHandle physical);
void cks_memory_unmap(struct cks_memory *memory, CUdeviceptr address, size_t size);

/* Remove the allocation that begins at @address from the table, before it is freed; false: there is
 * none. One of a graph stays in the table. */
bool cks_memory_take(struct cks_memory *memory, CUdeviceptr address);

/* The allocation that contains @address; false: none of this session does. */
bool cks_memory_find(struct cks_memory *memory, CUdeviceptr address, struct cks_allocation *out);

/*
 * Are @size bytes from @address on in one piece of device memory? That is an allocation of this
 * session, adjacent mappings, or other memory known to the driver (a module's variable). True if
 * unknown: the driver's result of the copy decides.
 */
bool cks_memory_covers(struct cks_memory *memory, CUdeviceptr address, size_t size);

/* The context has ended, with its memory. */
void cks_memory_drop_context(struct cks_memory *memory, uint64_t ctx);

/* Bytes allocated now, and the most so far. */
size_t cks_memory_total(struct cks_memory *memory);
size_t cks_memory_peak(struct cks_memory *memory); /* takes no lock */

/* --- window.c: addresses for memory that has the same address in the client's process and on the
 * device, reserved before the client asks for them. */

struct cks_session;

/* Reserve them for the session to come, if the driver can. */
void cks_window_prepare(void);
/* They belong to @session from now on, which has them in window_lo and window_hi. False: none are
 * reserved. */
bool cks_window_offer(struct cks_session *session);

#endif
