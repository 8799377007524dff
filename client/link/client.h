/*
 * client/link/client.h - the state of a session and the functions that many files share.
 *
 * A session is one struct ckc_client. Each folder's state.h declares the folder's part of it:
 * link/state.h is embedded in the structure, the parts of higher folders are allocated separately.
 * link/locks.h lists the locks, outermost first. A function that the application calls, or that
 * gets no session from its caller, begins with ckc_client_current().
 */
#ifndef CK_CLIENT_LINK_CLIENT_H
#define CK_CLIENT_LINK_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/link/object.h"
#include "client/link/state.h"
#include "client/link/stub.h"
#include "cricket.h"
#include "gen/api.h"
#include "gen/wire.h"

enum ckc_state {
	CK_STATE_FRESH, /* cuInit not called, or not successful yet */
	CK_STATE_READY,
	CK_STATE_LOST,	  /* the server is gone: DEVICE_UNAVAILABLE for good */
	CK_STATE_FORKED,  /* child of a process that had a session */
	CK_STATE_EXITING, /* the process is running its exit handlers */
};

/* A device as the application sees it (after CUDA_VISIBLE_DEVICES), from the hello reply. */
struct ckc_gpu {
	int server_ordinal;
	const ck_device *facts;	     /* owned by the session */
	struct ckc_context *primary; /* a placeholder until it is retained */
	unsigned int primary_flags;
	const int *attributes; /* by CUdevice_attribute; valid where has_attribute */
	const bool *has_attribute;
};

#define CK_ATTRIBUTE_END 512
#define CK_CUDA_VERSION_ON_TABLE 13050 /* the table has all calls of it */

struct ckc_client {
	unsigned int index;	  /* among the sessions of the process (servers.h) */
	_Atomic int state;	  /* enum ckc_state */
	_Atomic bool initialized; /* cuInit succeeded */
	bool passes_fds;	  /* descriptors can be sent: the server is on this host */
	ck_hello_res hello;
	ck_hello_more offers; /* empty: the server did not send it */
	ck_hello_rules rules;
	ck_hello_shadows shadows_offer;
	ck_hello_lanes lanes_offer;   /* 0: the server does not say how many there may be */
	uint64_t offered_ns;	      /* when it was asked */
	_Atomic bool prints;	      /* code with printf has been loaded: waits bring its text */
	_Atomic unsigned int watched; /* copies to come by which another server sees its work */
	_Atomic unsigned int shadows; /* ranges whose changes come with replies (rpc/pinned.h) */
	atomic_bool shares;	      /* other processes may see this session's work (rpc/proc.h) */
	bool missing[CK_PROC_END]; /* messages that the server lacks, and that have been reported */
	/* There are or were streams that do not wait for the legacy one, or several contexts. */
	_Atomic bool unordered_streams;
	int driver_version; /* reported to the application; never changes */
	/* All devices of the process; of its first session only. */
	int gpu_count;
	struct ckc_gpu *gpus;

	struct ckc_connection connection;
	struct ckc_loss loss;
	struct ckc_waiting waiting;
	struct ckc_departed departed;
	struct ckc_keeping keeping;
	struct ckc_lanes lanes;
	struct ckc_command command;
	struct ckc_deliveries deliveries;
	struct ckc_watches watches;
	struct ckc_suspicion suspicion;
	struct ckc_spreading spreading;
	struct ckc_compression packing;
	struct ckc_answers answers;
	struct ckc_named named;

	/* The parts of the higher folders; see CK_CLIENT_PART in link/hooks.h. */
	struct ckc_objects *objects;
	struct ckc_managed_state *managed;
	struct ckc_memory *memory;
	struct ckc_copying *copying;
	struct ckc_modules *modules;
	struct ckc_graphs *graphs;
	struct ckc_nvml *nvml;
	struct ckc_cupti *cupti;
	struct ckc_nccl *nccl;
};

/* --- session_create.c: which session */

/* The process's first session; NULL until a call needs it. For signal handlers. */
extern struct ckc_client *ckc_client_default __attribute__((visibility("hidden")));
/* The session that the calling thread's messages go to; NULL: the first one (servers.h). */
extern __thread struct ckc_client *ckc_thread_client
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
struct ckc_client *ckc_client_first(void);
/* The process's first session, which also has the objects of all. */
static inline struct ckc_client *ckc_client_root(void)
{
	struct ckc_client *c = __atomic_load_n(&ckc_client_default, __ATOMIC_ACQUIRE);

	return likely(c != NULL) ? c : ckc_client_first();
}
/* The session of the calling thread. */
static inline struct ckc_client *ckc_client_current(void)
{
	return unlikely(ckc_thread_client != NULL) ? ckc_thread_client : ckc_client_root();
}
/* Make a session that has not connected yet. NULL: out of memory. */
struct ckc_client *ckc_client_create(void);

/* --- session.c: connection to the server; exit.c: its end */

/* Connect @c if it is not yet connected. Returns 0 or the error for cuInit; an error is printed
 * once. */
CUresult ckc_session_open(struct ckc_client *c);
/* -errno of a channel, in words for the user. */
const char *ckc_wire_error(int ret);
/* Give up the session: @why is printed once, and then every call returns DEVICE_UNAVAILABLE.
 * Returns when that is the case, so that no program ends between the error and the line. */
void ckc_session_lost(struct ckc_client *c, const char *why);
/* End a session that the process does not use after all. */
void ckc_session_leave(struct ckc_client *c);
/* The server's address, as the user wrote it. */
const char *ckc_session_server(const struct ckc_client *c);
/* State to error, for entries; CUDA_SUCCESS in READY. Before cuInit: NOT_INITIALIZED. */
CUresult ckc_session_check(void);
/* The same for calls that need no session in particular: one that is not lost suffices. */
CUresult ckc_process_check(void);
/* Does the server hold the image with this hash? From now on it counts as held. */
bool ckc_session_has_image(struct ckc_client *c, const unsigned char hash[32]);

/* Does the server know message @proc? One that does not tell is taken to know all. */
static inline bool ckc_session_offers(const struct ckc_client *c, uint32_t proc)
{
	u_int length = c->offers.procedures.procedures_len;
	const unsigned char *bits = (unsigned char *)c->offers.procedures.procedures_val;

	return length == 0 || (proc / 8 < length && (bits[proc / 8] >> proc % 8 & 1));
}
/* --- refuse.c: NOT_SUPPORTED, for a message that the server does not know; told once of each. */
CUresult ckc_not_offered(struct ckc_client *c, uint32_t proc);

/* --- command.c: the one ordered stream of one-way messages (D4); the rest is in command.h */
/* Counts enqueued work: commands, and calls that enqueue work. A fact noted about a stream at count
 * N holds while the count is still N. */
uint64_t ckc_command_last(void);
/* The same count at the last command that is not quiet (rpc/proc.h). */
uint64_t ckc_command_loud(void);
void ckc_command_called(void); /* a call that has enqueued work has returned */

/* --- thread.c: the state of one thread of the application */

#define CK_CONTEXT_STACK 64
#define CK_THREAD_ROOM 4096

struct ckc_lane;

struct ckc_thread {
	struct ckc_context *stack[CK_CONTEXT_STACK];
	unsigned int depth;
	CUstream default_stream; /* stream 0 is 0 (legacy) or CU_STREAM_PER_THREAD */
	bool in_legacy;		 /* the stream that was named last is the legacy one */
	CUstreamCaptureMode capture_mode;
	struct ckc_lane *lane;		 /* client/link/lane.h */
	struct ckc_stream **own_streams; /* CU_STREAM_PER_THREAD of each context used */
	unsigned int own_stream_count;
	uint64_t aside_after; /* see ckc_aside */
	unsigned int room_used;
	_Alignas(16) unsigned char room[CK_THREAD_ROOM]; /* see ckc_room_take */
};

struct ckc_thread *ckc_thread(void); /* of the calling thread; NULL: out of memory */
/* Memory for the length of a function, because threads may have a stack of 16 KiB, of which TLS
 * needs 6. Give it back in reverse order. NULL: out of memory. */
void *ckc_room_take(size_t size);
void ckc_room_give(void *room);
/* This thread runs a host function of a stream: CUDA calls return NOT_PERMITTED. */
extern __thread bool ckc_inside_callback __attribute__((tls_model("initial-exec")));
/* A host function may wait for this thread's calls. Later commands may wait for that function, so
 * the calls wait only for commands up to aside_after of the thread. */
extern __thread bool ckc_aside __attribute__((tls_model("initial-exec")));
/* Start a detached client thread with signals blocked: signals are for the application. -errno. */
int ckc_thread_start(void *(*run)(void *), void *arg);
/* Start a thread that makes calls. Its lane is opened first, so it cannot fail later for lack of
 * descriptors. */
int ckc_thread_start_calling(struct ckc_client *c, void *(*run)(void *client));
/* Top of the calling thread's stack; separate, because most calls need nothing else of the
 * thread. */
extern __thread struct ckc_context *ckc_thread_context __attribute__((tls_model("initial-exec")));
/* Current context of the calling thread or NULL. */
static inline struct ckc_context *ckc_context_current(void)
{
	return ckc_thread_context;
}
/* Make @context current: OUT_OF_MEMORY when the stack is full. */
CUresult ckc_context_push(struct ckc_context *context);
/* Pop the top context off the stack. NULL: the stack is empty. */
struct ckc_context *ckc_context_pop(void);
/* The current context, if it accepts work; else INVALID_CONTEXT or CONTEXT_IS_DESTROYED. */
CUresult ckc_context_usable(struct ckc_context **context);

/* --- context.c */
/* Note the result of a call in context @ctx: some errors stay with the context (D7). */
void ckc_context_outcome(uint64_t ctx, CUresult err);
/* Context of a handle; a NULL handle means the current one. NULL: none or not valid. */
struct ckc_context *ckc_context_from(CUcontext handle);

/* --- stream.c */
/* Stream of a handle; *@stream is NULL for the legacy stream. INVALID_HANDLE. */
CUresult ckc_stream_from(CUstream handle, struct ckc_stream **stream);
/* The same, with its id, for work that may be captured: STREAM_CAPTURE_... */
CUresult ckc_stream_work(CUstream handle, struct ckc_stream **stream, uint64_t *id);
/* The same, with the context of the stream, which may differ from the current one and must be
 * usable. */
CUresult ckc_stream_enter(CUstream handle, struct ckc_context **context,
			  struct ckc_stream **stream);
/* The context that work in @stream belongs to; the legacy one's (NULL) is the current one. */
static inline struct ckc_context *ckc_stream_home(const struct ckc_stream *stream)
{
	return stream ? stream->object.context : ckc_context_current();
}
/*
 * May an event or a function of @context be used in @stream (NULL: the legacy one)? Only if the
 * stream is of the same context. Objects of a green context count as the primary context's.
 */
bool ckc_stream_takes(const struct ckc_stream *stream, const struct ckc_context *context);
/* Current context, stream id and device, for work that cannot be captured. */
CUresult ckc_stream_uncaptured(CUstream handle, struct ckc_context **ctx, uint64_t *id,
			       CUdevice *device);
/* Does the stream still exist that had this id (0: legacy) at command @number? */
bool ckc_stream_lives(uint64_t id, uint64_t number);
/* Has a synchronise covered command @number in stream @id (0: legacy) of @context? The stream may
 * be destroyed. */
bool ckc_stream_waited(struct ckc_context *context, uint64_t id, uint64_t number);
/* Could an event that was recorded in stream @id at command @number still wait for the legacy
 * stream? A wait for the event's own stream does not tell. */
bool ckc_stream_follows(const struct ckc_context *context, uint64_t id, uint64_t number);
/* The same, known from a query, or from a wait for an event; the program has waited for neither. */
bool ckc_stream_passed(struct ckc_context *context, uint64_t id, uint64_t number);
void ckc_stream_pass(struct ckc_context *context, uint64_t id, uint64_t number);
/* Nothing has been enqueued since a synchronise covered @stream (NULL: legacy). */
bool ckc_stream_idle(struct ckc_context *context, struct ckc_stream *stream);
/* cuStreamSynchronize(), for a call that is as safe as work in that stream. */
CUresult ckc_stream_synchronize(CUstream handle);
/* The priority that a stream has if @asked is requested: the nearest one that exists. */
int ckc_stream_priority(int asked);
/*
 * Wait for all that an operation would wait for if it were enqueued in @stream now. Operations of
 * blocking streams follow those of the legacy one, for which cuStreamSynchronize() does not wait.
 */
CUresult ckc_stream_reach(struct ckc_context *context, struct ckc_stream *stream);
bool ckc_stream_reached(struct ckc_context *context, struct ckc_stream *stream);
/* For a call that is as safe as work in that stream. */
CUresult ckc_stream_take_turn(CUstream handle);
void ckc_stream_synced(struct ckc_context *context, struct ckc_stream *stream, uint64_t command);
/* Wait for all work in @stream (NULL: legacy), and note it. */
CUresult ckc_stream_wait(struct ckc_context *context, struct ckc_stream *stream);

/* --- device.c */
struct ckc_gpu *ckc_gpu(CUdevice device); /* NULL: no such device */
/* The session of @device; NULL: no such device. */
struct ckc_client *ckc_gpu_client(CUdevice device);
/* Attribute of @device; 0 if the driver does not report it. */
int ckc_gpu_attribute(CUdevice device, CUdevice_attribute attribute);

/* --- device_list.c */
CUresult ckc_devices_build(void); /* gpus of the process from the replies to hello */

/* --- address_reservation.c */
/*
 * Reserve [address, address+size), device memory of the current session, in this process, so that
 * unified addressing holds (D9). False: the range is already in use here, or by another session.
 */
bool ckc_address_claim(uint64_t address, size_t size);
/* The server's driver has released a reservation: the range may be used here again. */
void ckc_address_release(uint64_t address, size_t size);

/* --- allocation.c: the table of known memory */

enum ckc_memory_kind {
	CK_MEMORY_DEVICE,     /* cuMemAlloc, or a module's variable */
	CK_MEMORY_HOST_ALLOC, /* cuMemHostAlloc: pages of this process */
	CK_MEMORY_HOST_REGISTERED,
	CK_MEMORY_MANAGED, /* see client/managed/managed.h */
};

/* A handle of physical memory, which may have been released since. */
struct ckc_physical_name {
	uint64_t id, unique;
};

struct ckc_allocation {
	uint64_t base, size;
	enum ckc_memory_kind kind;
	struct ckc_context *context;
	int device;
	CUmemLocation location; /* mapped: of the memory, as the program has named it */
	unsigned int flags;	/* of cuMemHostAlloc, cuMemHostRegister */
	uint64_t buffer_id;
	bool variable;	    /* of a module: freed with it, not by cuMemFree */
	bool pooled;	    /* of a memory pool: of no context */
	bool mapped;	    /* by cuMemMap: of no context, ends with cuMemUnmap */
	bool opened;	    /* by cuIpcOpenMemHandle: another session's */
	bool arena;	    /* laid out by the client (client/memory/arena.h) */
	bool left;	    /* the server keeps a handle of it for other processes */
	bool graph;	    /* made by each launch of a graph */
	bool shared;	    /* pinned: the worker has it too (client/memory/pinned.h) */
	bool copied;	    /* pinned: a copy has named it (hostmem.c) */
	signed char memops; /* SYNC_MEMOPS as set by the program, +1; 0: not set */
	uint64_t pool;	    /* arena, pooled: id of the pool; 0: the device's default */
	uint64_t access;    /* mapped: a bit per device that may use it */
	struct ckc_physical_name physical; /* mapped: of the handle */
	unsigned int handle_types;	   /* mapped, pooled: allowed export types */
};

CUresult ckc_allocation_add(uint64_t base, size_t size, enum ckc_memory_kind kind,
			    struct ckc_context *context, unsigned int flags, bool variable);
/* Note a copy of @what, also for memory without a context. */
CUresult ckc_allocation_note(const struct ckc_allocation *what);
/* Has any graph of the session allocated memory? */
bool ckc_allocation_by_graphs(void);
/* Grant the devices in @gained access to mappings in [base, base+size), and revoke @lost. */
void ckc_allocation_access(uint64_t base, size_t size, uint64_t gained, uint64_t lost);
/* From now on, the worker shares the registered memory that begins at @base. */
void ckc_allocation_share(uint64_t base);
/* A copy has named the pinned memory that contains @address. */
void ckc_allocation_copied(uint64_t address);
/* The program sets SYNC_MEMOPS of the memory that contains @address; false: it is not known. */
bool ckc_allocation_memops(uint64_t address, bool on);
/* The server keeps a handle of the device memory that begins at @base. */
void ckc_allocation_left(uint64_t base);
/* Forget the mappings in [base, base+size). */
void ckc_allocation_unmap(uint64_t base, size_t size);
/* Is anything mapped in [base, base+size)? */
bool ckc_allocation_mapped(uint64_t base, size_t size);
/* Copy the first allocation on a device that begins at @from or behind it; false: there is none. */
bool ckc_allocation_next(uint64_t from, struct ckc_allocation *found);
/*
 * Copy the allocation that contains @address; false: no known one does. One of the current session
 * is preferred; then the other sessions are searched.
 */
bool ckc_allocation_find(uint64_t address, struct ckc_allocation *found);
/* Remove the allocation of @kind that begins at @base; false: there is none. */
bool ckc_allocation_remove(uint64_t base, enum ckc_memory_kind kind, struct ckc_allocation *gone);
/*
 * Remove the last allocation of @context below index *@at, which is SIZE_MAX at first, and return a
 * copy: of memory on a device, or of the host's. False: there is none.
 */
bool ckc_allocation_take(const struct ckc_context *context, bool on_device, size_t *at,
			 struct ckc_allocation *taken);
/* memory.c: free the memory of @context, which ends. */
void ckc_allocation_forget(struct ckc_context *context);
/* Does the device know memory of @kind by its address? True for all but pure host memory. */
static inline bool ckc_kind_on_device(enum ckc_memory_kind kind)
{
	return kind == CK_MEMORY_DEVICE || kind == CK_MEMORY_MANAGED;
}

/* A mapping of physical memory of the host (client/memory/virtual.c). */
static inline bool ckc_allocation_in_host(const struct ckc_allocation *a)
{
	return a->mapped && a->kind == CK_MEMORY_MANAGED;
}
/* Is @address in known device memory? Any other address counts as host memory. */
bool ckc_on_device(uint64_t address);
/* CUDA_SUCCESS if [address, address+size) lies in one device allocation, or in adjacent
 * mappings. */
CUresult ckc_device_range(uint64_t address, size_t size);

/* --- copy_3d.c */
/* Largest part of a box in one message; larger boxes are split. Only tests change it. */
extern size_t ckc_copy_part;

/* --- hostmem.c */
/* Get pages for pinned memory that is not in the table yet, mapped for the device if its flags say
 * so. */
CUresult ckc_hostmem_obtain(struct ckc_allocation *a);
/* Free the pages of pinned or managed memory that was removed from the table. */
void ckc_hostmem_dispose(const struct ckc_allocation *a);
/* The device may still use memory that is about to be freed: wait for it, as the driver does; but
 * not during a capture. */
CUresult ckc_hostmem_await(struct ckc_context *context);
/*
 * Map pinned memory for the device, if @address, a word of a kernel's parameters, points to some.
 * From then on each access of the program waits for the device. @structure: the word is in a large
 * structure, where it may be left over from an earlier use of the stack; memory that copies have
 * named is a buffer of theirs, and is not mapped then.
 */
CUresult ckc_hostmem_expose(uint64_t address, bool structure);
/* A copy by message names @host: if it is pinned, it is a buffer of copies. */
void ckc_hostmem_copied(const void *host);
/* Find the pinned memory at @p; false for any other memory, including device memory. */
bool ckc_hostmem_find(const void *p, struct ckc_allocation *found);
/* Is [@to, @to+@size) pinned and untracked, so that a copy may be written there later? */
bool ckc_hostmem_takes_delivery(const void *to, size_t size);
/* CUDA_SUCCESS if the device can use [address, address+size) directly: device memory, or pinned
 * memory, which is then mapped as for a kernel. */
CUresult ckc_device_reach(uint64_t address, size_t size);
/* A copy in @stream is about to read @source. Wait until the host functions ahead of it, which may
 * write @source, have run. */
CUresult ckc_hostmem_await_writers(struct ckc_context *context, struct ckc_stream *stream,
				   const void *source);
/* A copy in @stream is about to write there, as soon as its bytes come. Wait until those of earlier
 * copies have come. */
CUresult ckc_hostmem_await_delivery(struct ckc_context *context, struct ckc_stream *stream,
				    const void *to, size_t size);

/* --- module.c, function.c */
/* The function behind a CUfunction or a CUkernel; NULL: none. */
struct ck_function *ckc_function_from(const void *handle);
/* The function's id on the wire. Announces the function to the server before first use. */
CUresult ckc_function_announce(struct ck_function *function, uint64_t *id);

/*
 * Check that the grid and the kernel allow the clusters of a launch's attributes: INVALID_VALUE,
 * INVALID_CLUSTER_SIZE (cluster.c).
 */
CUresult ckc_cluster_check(CUfunction function, const unsigned int *grid,
			   const CUlaunchAttribute *attributes, unsigned int count);

#endif
