/*
 * emu/memory/arena.h - memory: the table of address ranges that an application holds.
 */
#ifndef CK_EMU_MEMORY_ARENA_H
#define CK_EMU_MEMORY_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "emu/core/emu.h"

/* Stream memory operations in a batch, as CUDA documents (memop.c). */
#define CK_EMU_MEMORY_OPERATIONS 256

enum ck_emu_memory_kind {
	CK_EMU_MEMORY_DEVICE,	  /* cuMemAlloc */
	CK_EMU_MEMORY_MANAGED,	  /* cuMemAllocManaged, __managed__ variables */
	CK_EMU_MEMORY_VARIABLE,	  /* of a module */
	CK_EMU_MEMORY_HEAP,	  /* malloc in a kernel */
	CK_EMU_MEMORY_ARRAY,	  /* of an array: its address is not revealed */
	CK_EMU_MEMORY_HOST,	  /* cuMemHostAlloc */
	CK_EMU_MEMORY_REGISTERED, /* cuMemHostRegister */
	CK_EMU_MEMORY_VIRTUAL,	  /* cuMemMap: of no context */
	CK_EMU_MEMORY_GRAPH,	  /* of an allocation node: only addresses */
	CK_EMU_MEMORY_POOL,	  /* cuMemAllocAsync: of no context */
	CK_EMU_MEMORY_IPC,	  /* cuIpcOpenMemHandle: another process's */
};

/* One range of addresses; the functions below give a copy of it. */
struct ck_emu_memory {
	uint64_t lo;
	size_t size; /* bytes asked for */
	enum ck_emu_memory_kind kind;
	struct ck_emu_context *context; /* to compare with; it may have gone since */
	int device;			/* its context's; where mapped memory lies */
	const void *owner;		/* a variable's module, a mapping's memory, a pool */
	unsigned int flags;		/* of cuMemHostAlloc or cuMemHostRegister */
	unsigned int readers, writers;	/* of a mapping, of a pool's memory: masks of devices */
	bool retired;			/* a stream will free it: the host no longer names it */
	bool host;			/* of a pool in the host */
	bool shared;			/* a handle for other processes was made of it */
	signed char memops;		/* SYNC_MEMOPS as set by the program, +1; 0: not set */
	uint64_t id;
};

/* Is it pinned memory of the host? */
static inline bool ck_emu_memory_in_host(const struct ck_emu_memory *memory)
{
	return memory->kind == CK_EMU_MEMORY_HOST || memory->kind == CK_EMU_MEMORY_REGISTERED ||
	       memory->host;
}

/* Once, with the devices there: 0 or -errno. */
int ck_emu_arena_init(void);
/*
 * Device memory, contents undefined: 0 when there is none left. Aligned to 512 bytes; from 1 MiB
 * on, to 2 MiB.
 */
uint64_t ck_emu_arena_alloc(struct ck_emu_context *context, size_t size,
			    enum ck_emu_memory_kind kind, const void *owner);
/* The same in no context: it stays until ck_emu_arena_sweep_unbound(). */
uint64_t ck_emu_arena_alloc_unbound(int device, size_t size, enum ck_emu_memory_kind kind,
				    const void *owner);
void ck_emu_arena_sweep_unbound(const void *owner);
/* Enter host memory in the table: 0 or -errno (-EEXIST: overlaps, -EINVAL: wraps round). */
int ck_emu_arena_add_host(struct ck_emu_context *context, uint64_t lo, size_t size,
			  enum ck_emu_memory_kind kind, unsigned int flags);
/* The range that holds @address: false when there is none. */
bool ck_emu_arena_find(uint64_t address, struct ck_emu_memory *memory);
/* The last range that begins at @address or before it, in the same table. */
bool ck_emu_arena_find_before(uint64_t address, struct ck_emu_memory *memory);
/* Take out the range that starts at @lo, if its kind is @kind. */
bool ck_emu_arena_remove(uint64_t lo, enum ck_emu_memory_kind kind, struct ck_emu_memory *memory);
/* Take out all ranges of a context, or those of one owner in it when that is not NULL. */
void ck_emu_arena_sweep(const struct ck_emu_context *context, const void *owner);
/* The file that a device's memory is, or -1, and where in it an address of it lies. */
int ck_emu_arena_file(int device);
uint64_t ck_emu_arena_offset(int device, uint64_t address);
/* A handle of the range that starts at @lo has been made for other processes. */
void ck_emu_arena_note_shared(uint64_t lo);
/* The program sets SYNC_MEMOPS of the memory that contains @address; false: it is not known. */
bool ck_emu_arena_set_memops(uint64_t address, bool on);
/*
 * Call @visit with each range of device memory, in the order of addresses, and with the place in
 * the device's file where it lies (*@file -1: in none), until it returns an error.
 */
int ck_emu_arena_walk(int (*visit)(const struct ck_emu_memory *memory, int file, uint64_t offset));
/* Count all device memory of this process as unused; and as used again. False: a device has too
 * little left; then nothing has changed. */
void ck_emu_arena_vacate(void);
bool ck_emu_arena_reclaim(void);
void ck_emu_arena_info(const struct ck_emu_device *device, size_t *used);
/* Count @size bytes as used on a device; false: it has too little left. The reverse. */
bool ck_emu_arena_take(int device, size_t size);
void ck_emu_arena_give(int device, size_t size);
/* Enter a mapping: *@memory in its final form, except for its id. 0 or -errno as of add_host. */
int ck_emu_arena_add_mapping(struct ck_emu_memory *memory);
/* Set the rights of the devices of @mask on the mapping, or a pool's memory, at @lo. */
void ck_emu_arena_grant(uint64_t lo, unsigned int mask, bool read, bool write);
/* A free of the range that starts at @lo has been queued: false when one had been before. */
bool ck_emu_arena_retire(uint64_t lo);
/* memory_access.c: true when the driver may touch [@address, +@size): inside one range that
 * applications hold. */
bool ck_emu_arena_covers(uint64_t address, size_t size);
/* Whether kernels, copies, and fills and memory operations of @context may use @memory. */
bool ck_emu_memory_usable(const struct ck_emu_memory *memory, const struct ck_emu_context *context);
bool ck_emu_memory_copyable(const struct ck_emu_memory *memory,
			    const struct ck_emu_context *context);
bool ck_emu_memory_fillable(const struct ck_emu_memory *memory,
			    const struct ck_emu_context *context);

/* --- memory of other processes that this one has opened (ipc.c) */

/* Unmap the pages that ipc.c has mapped for a range of kind IPC. */
void ck_emu_ipc_unmap(uint64_t address, size_t size);

#endif
