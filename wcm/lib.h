/*
 * wcm/lib.h - the library's files for each other.
 */
#ifndef CK_WCM_LIB_H
#define CK_WCM_LIB_H

#include <pthread.h>
#include <stdbool.h>

#include "util/wait.h"
#include "wcm/driver.h"
#include "wcm/link.h"
#include "wcm/rendezvous.h"
#include "wcm/wcm.h"

/* --- pieces: a chunk as one rank has it (chunk.c) */

enum ck_wcm_how {
	CK_WCM_NONE,	 /* not at all */
	CK_WCM_MADE,	 /* own: cuMemAlloc */
	CK_WCM_CREATED,	 /* own: cuMemCreate, mapped */
	CK_WCM_NEAR,	 /* of another rank of this process: its address */
	CK_WCM_OPENED,	 /* of another process: by an IPC handle */
	CK_WCM_IMPORTED, /* of another process: by a descriptor, mapped */
};

struct ck_wcm_chunk {
	enum ck_wcm_how how;
	CUdeviceptr address;
	size_t size; /* of the mapping, for CREATED and IMPORTED */
};

/* A rank's description of its piece for the others; a descriptor may go with it. */
struct ck_wcm_offer {
	int32_t status; /* of making it */
	int32_t device; /* in the owner's numbers */
	uint64_t process[2];
	uint64_t address, size;
	uint64_t context;
	CUuuid uuid; /* of the device */
	CUipcMemHandle handle;
};

/*
 * The group's context is current in all of these. Make a piece of @size bytes, with @fd to be sent
 * along, or -1, which is the caller's to close; open another rank's offer; give it up.
 */
int ck_wcm_chunk_make(const wcm_group *g, int backing, size_t size, struct ck_wcm_chunk *piece,
		      struct ck_wcm_offer *offer, int *fd);
int ck_wcm_chunk_open(const wcm_group *g, const struct ck_wcm_offer *offer, int fd,
		      struct ck_wcm_chunk *piece);
void ck_wcm_chunk_close(const wcm_group *g, struct ck_wcm_chunk *piece);

/* --- groups (group.c) */

/* A chunk of ours that other ranks may still use. */
struct ck_wcm_kept {
	struct ck_wcm_kept *next;
	uint64_t number;
	struct ck_wcm_chunk piece;
};

struct ck_wcm_kernels;

struct wcm_group {
	struct wcm_group *next;
	const struct ck_wcm_driver *driver;
	struct ck_wcm_link *link;
	struct ck_wcm_rendezvous *meet; /* of rank 0 */
	int rank, size, device, backing;
	unsigned int timeout_ms;
	CUcontext context;    /* NULL: not retained yet */
	pthread_mutex_t lock; /* the data that follows */
	struct ck_cond changed;
	struct ck_wcm_kept *kept;
	unsigned int busy;		/* pieces that are just being given back */
	uint32_t lost;			/* ranks */
	bool over;			/* the meeting place has gone */
	struct ck_wcm_kernels *kernels; /* rows.c: when first needed */
};

/* Whether it is one that has been made and not finalised. */
bool ck_wcm_group_ok(const wcm_group *group);

/* Add it to the process's groups, as the current one; remove it: false, it is none of them. */
void ck_wcm_group_register(wcm_group *group);
bool ck_wcm_group_unregister(wcm_group *group);

/* Make the group's context current, and restore the former one. */
int ck_wcm_enter(const wcm_group *group);
void ck_wcm_leave(const wcm_group *group);

/*
 * Exchange @size bytes among the ranks of @mask, all into @all; no descriptors. @number may be
 * NULL.
 */
int ck_wcm_exchange(wcm_group *group, uint32_t mask, const void *give, size_t size, void *all,
		    uint64_t *number);

/*
 * The common result of all ranks of @mask: WCM_OK when each one's @status is, else the first other
 * one.
 */
int ck_wcm_agree(wcm_group *group, uint32_t mask, int status);

/* Done with object @number; @own is closed when all ranks are. */
void ck_wcm_give_up(wcm_group *group, uint64_t number, uint32_t mask, struct ck_wcm_chunk *own);
/* Functions for a link. */
extern const struct ck_wcm_link_ops ck_wcm_released_ops;
/* Wait until other ranks have nothing of this one any more, or the time is up. */
void ck_wcm_released_wait(wcm_group *group);
/* Without the meeting place there is no report that memory is unused. Release the memory of this
 * rank now, and never the memory that other ranks use. */
void ck_wcm_released_end(wcm_group *group);

uint32_t ck_wcm_all_ranks(const wcm_group *group);

/* --- the backing of memory (backing_probe.c) */

/* The backing in options and environment: an enum wcm_backing, or -1 for an invalid one. */
int ck_wcm_backing_wanted(const wcm_opts *opts);

/* Collective: find a backing that works, of those that all want. */
int ck_wcm_backing_choose(wcm_group *group, int wanted);

/* --- where ranks meet, and which one this is (rank_address.c) */

int ck_wcm_rank_address(const char *given, char name[WCM_GROUP_NAME_MAX]);
int ck_wcm_rank_address_rank(int *rank, int *size);

/* --- memory (memory.c) */

struct WholeChunkedMemory {
	struct WholeChunkedMemory *next;
	unsigned int refs; /* the table's and of calls that use it */
	uint64_t id;
	wcm_group *group;
	uint64_t number; /* of the object, for the meeting place */
	uint32_t mask;	 /* its ranks */
	wcm_info info;
	struct ck_wcm_chunk pieces[WCM_RANKS_MAX]; /* by chunk */
	WholeChunkedMemoryHandle host;
	CUdeviceptr device_handle; /* with the count of bad indices behind it */
};

#define CK_WCM_BAD_OFFSET 192 /* of that count, in the memory of the handle */
#define CK_WCM_HANDLE_ROOM 256

/* The arguments of wcm_malloc; equal on all ranks. */
struct ck_wcm_wish {
	int32_t status; /* WCM_OK, or why this rank cannot take part */
	int32_t backing, count;
	int32_t ranks[WCM_RANKS_MAX];
	uint64_t size, granularity;
};

/*
 * Chunked memory of @wish->ranks, with a granularity that is used as it is. It is in no table yet.
 */
int ck_wcm_memory_make(wcm_group *group, const struct ck_wcm_wish *wish, wcm_t *memory);
void ck_wcm_memory_end(wcm_t memory);

/* Memory that is not freed while it is used; NULL: it is none. */
wcm_t ck_wcm_memory_get(wcm_t memory);
void ck_wcm_memory_put(wcm_t memory);

/* Free all of the group's. */
void ck_wcm_memory_free_all(wcm_group *group);

/* --- kernels (rows.c) */

void ck_wcm_kernels_free(wcm_group *group);

#endif
