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

struct ck_memory;

struct ck_allocation {
	CUdeviceptr address;
	size_t size;	/* bytes */
	CUdevice device;
	uint64_t ctx;	/* id of its context; 0: from a pool, or mapped */
	bool mapped;	/* by cuMemMap, or opened from another session */
	CUmemGenericAllocationHandle physical; /* the mapped memory; 0: none */
	bool graph;	/* allocated by each launch of a graph: stays here even if freed */
};

int ck_memory_create(struct ck_memory **memory);
void ck_memory_destroy(struct ck_memory *memory); /* frees no device memory */

/* Allocate in the thread's current context, whose id is @ctx; returns the driver's errors. */
CUresult ck_memory_alloc(struct ck_memory *memory, uint64_t ctx, size_t size, CUdeviceptr *out);
CUresult ck_memory_alloc_pitch(struct ck_memory *memory, uint64_t ctx, size_t width, size_t height,
			       unsigned int element, CUdeviceptr *out, size_t *pitch);

/* The same from a pool (NULL: the device's current one), in stream order. */
CUresult ck_memory_alloc_async(struct ck_memory *memory, size_t size, CUmemoryPool pool,
			       CUstream stream, CUdeviceptr *out);
CUresult ck_memory_free_async(struct ck_memory *memory, CUdeviceptr address, CUstream stream);

/* Note memory from the driver; if that fails, free it: OUT_OF_MEMORY. */
CUresult ck_memory_note(struct ck_memory *memory, uint64_t ctx, CUdeviceptr address, size_t size);

/* Note memory that launches of a graph allocate; otherwise it cannot be freed outside of them. */
void ck_memory_graph(struct ck_memory *memory, CUdeviceptr address, size_t size);

/* Note that the driver has mapped memory, or unmapped a range: OUT_OF_MEMORY. */
CUresult ck_memory_map(struct ck_memory *memory, CUdeviceptr address, size_t size,
		       CUmemGenericAllocationHandle physical);
/* Memory of another session was opened at @address in context @ctx; removed by ck_memory_unmap. */
CUresult ck_memory_import(struct ck_memory *memory, uint64_t ctx, CUdeviceptr address, size_t size);
/* Is @physical mapped anywhere? */
bool ck_memory_shows(struct ck_memory *memory, CUmemGenericAllocationHandle physical);
void ck_memory_unmap(struct ck_memory *memory, CUdeviceptr address, size_t size);

/* Free. INVALID_VALUE: no allocation begins at @address. Freeing address 0 does nothing. */
CUresult ck_memory_free(struct ck_memory *memory, CUdeviceptr address);

/* The allocation that contains @address; false: none of this session does. */
bool ck_memory_find(struct ck_memory *memory, CUdeviceptr address, struct ck_allocation *out);

/*
 * Are @size bytes from @address on in one piece of device memory? That is an allocation of this
 * session, adjacent mappings, or other memory known to the driver (a module's variable). True if
 * unknown: the driver's result of the copy decides.
 */
bool ck_memory_covers(struct ck_memory *memory, CUdeviceptr address, size_t size);

/* The context has ended, with its memory. */
void ck_memory_drop_context(struct ck_memory *memory, uint64_t ctx);

/* Bytes allocated now. */
size_t ck_memory_total(struct ck_memory *memory);

#endif
