/*
 * wcm.h - chunked memory: one allocation spread over the GPUs of several ranks.
 *
 * A group has up to 16 ranks. Each has a GPU, and is a process, or a thread of one; natively, or as
 * a client of one Cricket server, where each process is a session. Memory of a group is made of
 * chunks of equal size, one on each rank's GPU, and every rank's kernels can use all of them: by a
 * WholeChunkedMemoryHandle in device memory and PtrGen (whole_chunked_memory.cuh), or by
 * wcm_gather, wcm_scatter and wcm_embedding, which need no compiler.
 *
 * Every call returns 0 or a negative wcm_status, and none ends the process. A call that returns an
 * error leaves its outputs as they were. Sizes and offsets are bytes unless said otherwise; streams
 * are CUstream (cudaStream_t), NULL being the legacy default stream. The library uses the primary
 * context of the rank's device, as the CUDA runtime does, and leaves the calling thread's current
 * context as it was. All threads of a rank may call it; calls that ranks do together
 * ("collective") are one after another.
 *
 * When a rank ends or is killed, collective calls that it should take part in return
 * WCM_EPEERLOST in all others. None waits for longer than the group's time-out, and five seconds
 * more where rank 0's process is stopped and does not say how it stands.
 */
#ifndef WCM_H
#define WCM_H

#include <stddef.h>
#include <stdint.h>

#include "wcm_handle.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WCM_API __attribute__((visibility("default")))
#define WCM_ANY_DEVICE (-1)
#define WCM_HOST (-1)	      /* of wcm_device_handle: a handle that the CPU reads */
#define WCM_GROUP_NAME_MAX 80 /* bytes of a group's name, with its NUL */

typedef enum wcm_status {
	WCM_OK = 0,
	WCM_EINVAL = -1,    /* an argument makes no sense, or is outside of the memory */
	WCM_ENOMEM = -2,    /* a rank's device (or host) has no more */
	WCM_EMISMATCH = -3, /* the ranks did not ask for the same, or wait for each other */
	WCM_EPEERLOST = -4, /* a rank that is needed has gone */
	WCM_ENOPEER = -5,   /* a rank's device cannot reach another's memory */
	WCM_ENOTSUP = -6,   /* the driver cannot do this */
	WCM_ETIMEDOUT = -7, /* not all ranks came in time */
	WCM_EBUSY = -8,	    /* that group, or that rank of it, is there already */
	WCM_ENODRIVER = -9, /* no CUDA driver, or no device */
	WCM_EIO = -10,	    /* a call of the driver, or of the system, failed: see the log */
	WCM_EPERM = -11,    /* at the meeting place is a process of another user */
	WCM_EVERSION = -12, /* the ranks' libraries do not match */
} wcm_status;

enum wcm_backing {
	WCM_AUTO = 0, /* the one that works in a trial at the start: ipc, else vmm */
	WCM_IPC = 1,  /* cuMemAlloc and CUDA's IPC handles */
	WCM_VMM = 2,  /* cuMemCreate, exported as descriptors */
};

enum wcm_type {
	WCM_INT8,
	WCM_INT16,
	WCM_INT32,
	WCM_INT64, /* unsigned ones, bool: as these */
	WCM_HALF,
	WCM_BFLOAT16,
	WCM_FLOAT,
	WCM_DOUBLE,
	WCM_TYPES
};

enum wcm_mode { WCM_SUM, WCM_MEAN };

typedef struct wcm_group wcm_group;
typedef struct WholeChunkedMemory *WholeChunkedMemory_t;
typedef WholeChunkedMemory_t wcm_t;

typedef struct wcm_opts {
	/*
	 * Where the ranks meet: the same for all, and for no other group of the user on this host.
	 * NULL: CRICKET_WCM=group=NAME, else what tells MPI's, Slurm's or torchrun's jobs apart,
	 * else the parent process, which the ranks of one script have in common.
	 */
	const char *group;
	int device;  /* or WCM_ANY_DEVICE: the current context's, else number rank modulo
			devices */
	int backing; /* enum wcm_backing; WCM_AUTO: CRICKET_WCM decides, else a trial */
	unsigned int timeout_ms; /* of collective calls; 0: as CRICKET_WCM says, else 60 s */
} wcm_opts;

typedef struct wcm_info {
	uint64_t size;	     /* as asked for */
	uint64_t total_size; /* rounded up to chunk_size * chunk_count */
	uint64_t chunk_size, granularity;
	int32_t chunk_count;
	int32_t chunk;		      /* this rank's own, 0 to chunk_count - 1 */
	int32_t backing;	      /* WCM_IPC or WCM_VMM */
	int32_t device;		      /* of this rank */
	int32_t ranks[WCM_RANKS_MAX]; /* whose chunk each is */
	uint64_t lost; /* bit i: chunk i's rank has gone; its bytes are not to be relied on */
	uint64_t bad_indices; /* rows that were asked for and are not there, so far */
} wcm_info;

/* A table of rows in chunked or in plain device memory. All counts are of elements. */
typedef struct wcm_table {
	wcm_t chunked; /* NULL: plain */
	void *plain;   /* device memory, when chunked is NULL */
	int type;      /* enum wcm_type */
	int64_t rows, columns;
	int64_t stride; /* from a row to the next; 0: columns */
	int64_t offset; /* of the first row */
} wcm_table;

/* Indices, or where bags begin: device memory with WCM_INT32 or WCM_INT64. */
typedef struct wcm_indices {
	const void *data;
	int type;
	int64_t count;
} wcm_indices;

/* Rows in plain device memory that are read or written. Counts are of elements. */
typedef struct wcm_rows {
	void *data;
	int type;	/* enum wcm_type; float types are converted into each other */
	int64_t stride; /* 0: the table's columns */
} wcm_rows;

/* --- groups */

/*
 * Collective, of all @size ranks (1 to 16; -1 and 0: rank and size are what mpirun, srun or
 * torchrun says): meet, and find out how memory can be shared. @opts may be NULL; group and backing
 * must be the same for all. Rank 0's process has the meeting place: when it is killed, all other
 * ranks have lost their peers; when it exits, it waits for them, no longer than the time-out. The
 * group becomes the calling thread's current one, and the process's if it has none.
 */
WCM_API int wcm_init(const wcm_opts *opts, int rank, int size, wcm_group **group);

/*
 * Not collective. Frees the rest of the group's memory in this rank, and the group. Chunks that
 * other ranks still use are waited for, no longer than the time-out. NULL is nothing.
 */
WCM_API int wcm_finalize(wcm_group *group);

/* The current group of this thread, else the first of the process, or NULL. */
WCM_API wcm_group *wcm_current(void);
WCM_API void wcm_set_current(wcm_group *group); /* of this thread; NULL: none of its own */

WCM_API int wcm_rank(const wcm_group *group); /* negative: WCM_EINVAL, of NULL */
WCM_API int wcm_size(const wcm_group *group);
WCM_API int wcm_device(const wcm_group *group);
WCM_API int wcm_backing_of(const wcm_group *group); /* WCM_IPC or WCM_VMM */

/* A name for wcm_opts.group that no other has: of one rank, which tells the others. */
WCM_API int wcm_unique_name(char *name, size_t room);

/* Collective, of all ranks: returns when all have called it. */
WCM_API int wcm_barrier(wcm_group *group);

/*
 * Collective, of all ranks. wcm_all_gather: @size bytes of each, in the order of the ranks, into
 * @all, which has room for them. wcm_all_to_all: part i of @send, @size bytes, goes to rank i;
 * @receive gets the ranks' parts for this one. wcm_aggregate: the sum of all @value, and of those
 * of lower ranks; each output may be NULL.
 */
WCM_API int wcm_all_gather(wcm_group *group, const void *mine, size_t size, void *all);
WCM_API int wcm_all_to_all(wcm_group *group, const void *send, size_t size, void *receive);
WCM_API int wcm_aggregate(wcm_group *group, uint64_t value, uint64_t *sum, uint64_t *before);

/* --- memory */

/*
 * Collective, of the ranks in @ranks (@count of them, all different, the caller among them; NULL
 * and 0: all), which ask for the same. Chunk i is rank ranks[i]'s.
 *
 * @granularity bytes are never divided between chunks when it is a size of theirs: a row of a
 * table. 0 and divisors of 256 count as 256; the rest is doubled until it is a multiple of 16.
 * @size is then rounded up to a multiple of it times @count; 0 is as 1. The memory's content is
 * undefined. Either all ranks get it or all get an error.
 */
WCM_API int wcm_malloc(wcm_group *group, size_t size, size_t granularity, const int *ranks,
		       int count, wcm_t *memory);

/*
 * The same with @granularity as it is: 1 or more. An element of 16 bytes needs a multiple of 16.
 */
WCM_API int wcm_malloc_exact(wcm_group *group, size_t size, size_t granularity, const int *ranks,
			     int count, wcm_t *memory);

/*
 * Not collective: this rank no longer uses it, after the work of its device so far. Other ranks may
 * continue; a chunk is released when the last of them has freed it or has gone. In any order. After
 * a barrier that all ranks have entered after their wcm_free, the memory is released. NULL is a
 * no-op; an unknown or freed pointer is WCM_EINVAL.
 */
WCM_API int wcm_free(wcm_t memory);

/*
 * A number for it that is never used again, for those who cannot carry a pointer safely, and back:
 * NULL when it was freed.
 */
WCM_API uint64_t wcm_id(wcm_t memory);
WCM_API wcm_t wcm_from_id(uint64_t id);

/* The memory that a handle (of the device or the host) is of, or NULL; the group of a memory. */
WCM_API wcm_t wcm_from_handle(const WholeChunkedMemoryHandle *handle);
WCM_API wcm_group *wcm_group_of(wcm_t memory);

/*
 * The handle that kernels on @device (this rank's) take, in device memory, or, for WCM_HOST, one
 * that the CPU can read. It belongs to the memory and goes with it.
 */
WCM_API int wcm_device_handle(wcm_t memory, int device, WholeChunkedMemoryHandle **handle);

/* This rank's own chunk; that of chunk number @chunk, as this rank's device sees it. */
WCM_API int wcm_local(wcm_t memory, void **address, size_t *size);
WCM_API int wcm_chunk(wcm_t memory, int chunk, void **address, size_t *size);

WCM_API int wcm_stat(wcm_t memory, wcm_info *info);

/*
 * Copies in stream order between chunked memory at @offset and @data: host memory of any kind, or
 * device memory. They wait as cuMemcpyAsync does.
 */
WCM_API int wcm_copy_to(wcm_t memory, size_t offset, const void *data, size_t size, void *stream);
WCM_API int wcm_copy_from(void *data, wcm_t memory, size_t offset, size_t size, void *stream);

/* --- rows, by kernels in stream order */

/*
 * rows[i] = table[indices[i]]; and the other way. Types are equal, or both float types. A row that
 * is not in the table is read as zeros, and not written; wcm_stat counts them. Two equal indices in
 * a scatter: one of the rows stays.
 */
WCM_API int wcm_gather(const wcm_table *table, const wcm_indices *indices, const wcm_rows *rows,
		       void *stream);
WCM_API int wcm_scatter(const wcm_table *table, const wcm_indices *indices, const wcm_rows *rows,
			void *stream);

/*
 * An embedding: row b of @rows is the sum or the mean of the table's rows that indices[bags[b]] to
 * indices[bags[b + 1]] (the last: to the end) name; of an empty bag, zeros. Float types; sums are
 * made in float (double where table and rows are), in the order of the indices.
 */
WCM_API int wcm_embedding(const wcm_table *table, const wcm_indices *indices,
			  const wcm_indices *bags, int mode, const wcm_rows *rows, void *stream);

WCM_API size_t wcm_type_size(int type); /* 0: there is no such type */
WCM_API const char *wcm_strerror(int status);
WCM_API const char *wcm_version(void);

#ifdef __cplusplus
}
#endif
#endif
