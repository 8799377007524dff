/*
 * client/memory/state.h - the session state of client/memory.
 */
#ifndef CK_CLIENT_MEMORY_STATE_H
#define CK_CLIENT_MEMORY_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/link/client.h"
#include "util/process/private_fds.h"
#include "util/wait.h"

struct ck_map;
struct ck_ranges;
struct ckc_heap;
struct ckc_page_allocator;

struct ckc_allocations { /* allocation.c */
	struct ck_mutex lock;
	struct ck_ranges *device_set, *host_set;
	_Atomic bool graphs; /* some graph allocates memory */
};

struct ck_pinned_file { /* pinned.c */
	struct ck_mutex lock;
	bool tried;
	struct ck_private_fd file;
	uint64_t base;
	struct ckc_page_allocator *space;
	_Atomic unsigned int count; /* shared allocations */
};

struct ckc_reservations { /* reservation.c */
	struct ck_mutex lock;
	struct ck_ranges *parts; /* parts of the arena in use */
	uint64_t arena_lo, arena_hi;
	uint64_t offered; /* the beginning of the arena, if the server offered it; or 0 */
	uint64_t next;	  /* where the search starts: freed parts rest for a while */
	bool tried;
};

/* The arena's records of one device. */
struct ckc_arena_device {
	struct ckc_heap *heap; /* NULL: none */
	bool tried;	       /* to make the heap */
	bool held;	       /* work did not end while an allocation waited for it */
	uint64_t context;      /* the id of one that has allocated */
	/* arena_lease.c */
	unsigned int asking; /* threads that ask for more memory than they take */
	uint64_t hold_until; /* no thread asks in advance, up to this time */
	bool recalled;	     /* recall_size has been looked up */
	size_t recall_size;  /* the bytes of earlier runs */
	unsigned int level;  /* how much this run has used */
	/* pool_use.c */
	struct ckc_pool_use standard; /* of the default pool */
	_Atomic uint64_t current;     /* id of the current pool; 0: the default */
};

struct ckc_arena { /* arena.c */
	struct ck_mutex lock;
	struct ckc_arena_device devices[CK_MAX_DEVICES]; /* by the application's ordinal */
	struct ck_cond answered;	       /* a thread that asked for memory has an answer */
	_Atomic uint64_t takes, takes_at_rest; /* allocations; when last found idle */
	_Atomic bool watching; /* the server tells when another session needs memory */
	bool off;	       /* the server lays out all memory */
	_Atomic bool asked;    /* the server has allocated from a pool for this session */
	_Atomic bool values;   /* some stream was told to wait for a value */
};

struct ckc_host_pools { /* pools/host_pool.c */
	struct ck_mutex lock;
	struct ckc_kept_piece *kept;
	struct ckc_host_place *places;
};

struct ck_ipc_memory { /* ipc.c */
	struct ck_mutex lock;
	struct ckc_ipc_opened *opened;
};

struct ckc_textures { /* texture.c */
	struct ck_mutex lock;
	struct ck_map *objects; /* by context, number, kind */
};

struct ckc_tensor_maps { /* tensor_map.c */
	struct ck_mutex lock;
	struct ckc_tensor_map *known; /* NULL until the first is encoded */
	unsigned int turn;	      /* which one makes room */
};

struct ckc_busy_memory_list { /* busy_memory.c */
	struct ck_mutex lock;
	struct ck_cond ended;
	struct ckc_busy_memory *first;
	_Atomic unsigned int count;
};

struct ckc_memory {
	struct ckc_busy_memory_list busy;
	struct ckc_allocations allocations;
	struct ck_mutex host_map_lock; /* hostmem.c: mapping device memory behind pinned memory */
	struct ck_pinned_file pinned;
	struct ckc_reservations reservations;
	struct ckc_arena arena;
	struct ckc_host_pools host_pools;
	struct ck_ipc_memory ipc;
	struct ckc_textures textures;
	struct ckc_tensor_maps tensor_maps;
	_Atomic uint64_t inmates; /* array.c: objects that belong to others; usually 0 */
};

#endif
