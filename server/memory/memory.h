/*
 * server/memory/memory.h - every device allocation of a session: address, size, device, context.
 *
 * All device memory is obtained and given back here. Safe from all threads of a session.
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
	uint64_t ctx;	/* id of the context that it belongs to; 0: of a pool, or mapped */
	bool mapped;	/* by cuMemMap, or another session's that was opened */
	CUmemGenericAllocationHandle physical; /* that is mapped; 0: none */
	bool graph;	/* by each launch of a graph: it stays, however often it is freed */
};

int ck_memory_create(struct ck_memory **memory);
void ck_memory_destroy(struct ck_memory *memory); /* gives no device memory back */

/* Allocate in the thread's current context, whose id is @ctx; errors are the driver's. */
CUresult ck_memory_alloc(struct ck_memory *memory, uint64_t ctx, size_t size, CUdeviceptr *out);
CUresult ck_memory_alloc_pitch(struct ck_memory *memory, uint64_t ctx, size_t width, size_t height,
			       unsigned int element, CUdeviceptr *out, size_t *pitch);

/* The same from a pool (NULL: the device's current one), in the order of @stream. */
CUresult ck_memory_alloc_async(struct ck_memory *memory, size_t size, CUmemoryPool pool,
			       CUstream stream, CUdeviceptr *out);
CUresult ck_memory_free_async(struct ck_memory *memory, CUdeviceptr address, CUstream stream);

/* Enter memory that the driver has given, or give it back to it: OUT_OF_MEMORY. */
CUresult ck_memory_note(struct ck_memory *memory, uint64_t ctx, CUdeviceptr address, size_t size);

/* Note what launches of a graph allocate; without a note it cannot be freed outside of them. */
void ck_memory_graph(struct ck_memory *memory, CUdeviceptr address, size_t size);

/* The driver has mapped memory, or unmapped what is in a range: OUT_OF_MEMORY. */
CUresult ck_memory_map(struct ck_memory *memory, CUdeviceptr address, size_t size,
		       CUmemGenericAllocationHandle physical);
/* Memory of another session is at @address in context @ctx; it goes by ck_memory_unmap. */
CUresult ck_memory_import(struct ck_memory *memory, uint64_t ctx, CUdeviceptr address, size_t size);
/* Whether @physical is mapped somewhere. */
bool ck_memory_shows(struct ck_memory *memory, CUmemGenericAllocationHandle physical);
void ck_memory_unmap(struct ck_memory *memory, CUdeviceptr address, size_t size);

/* Give back. INVALID_VALUE: no allocation begins at @address. Address 0 is nothing to free. */
CUresult ck_memory_free(struct ck_memory *memory, CUdeviceptr address);

/* The allocation that holds @address; false when none of this session does. */
bool ck_memory_find(struct ck_memory *memory, CUdeviceptr address, struct ck_allocation *out);

/*
 * Whether @size bytes from @address on lie in one piece of device memory: an allocation of this
 * session, its mappings side by side, or what else the driver knows there (a module's variable).
 * Where nobody knows, true: the driver's own answer to the copy decides.
 */
bool ck_memory_covers(struct ck_memory *memory, CUdeviceptr address, size_t size);

/* The context has gone, and its memory with it. */
void ck_memory_drop_context(struct ck_memory *memory, uint64_t ctx);

/* Bytes allocated now. */
size_t ck_memory_total(struct ck_memory *memory);

#endif
