/*
 * client/wire/client.h - the state of a session and the services its files give each other.
 *
 * A session is one struct ck_client. What the files of a folder keep of it is in the folder's
 * state.h: wire/state.h is part of the structure, the higher folders' parts hang on it. The locks,
 * outermost first, are listed in wire/locks.h. A function that is called by the application, or by
 * one that knows no session, begins with ck_client_current().
 */
#ifndef CK_CLIENT_WIRE_CLIENT_H
#define CK_CLIENT_WIRE_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/object.h"
#include "client/wire/state.h"
#include "client/wire/stub.h"
#include "cricket.h"
#include "gen/api.h"
#include "gen/wire.h"

enum ck_state {
	CK_STATE_FRESH,			/* cuInit not called, or not successful yet */
	CK_STATE_READY,
	CK_STATE_LOST,			/* the server is gone: DEVICE_UNAVAILABLE for good */
	CK_STATE_FORKED,		/* child of a process that had a session */
	CK_STATE_EXITING,		/* the process is running its exit handlers */
};

/* A device as the application sees it (after CUDA_VISIBLE_DEVICES), from the hello reply. */
struct ck_gpu {
	int server_ordinal;
	const ck_device *facts;		/* owned by the session */
	struct ck_context *primary;	/* a placeholder until someone retains it */
	unsigned int primary_flags;
	const int *attributes;		/* by CUdevice_attribute; valid where has_attribute */
	const bool *has_attribute;
};

#define CK_ATTRIBUTE_END 512
#define CK_CUDA_VERSION_ON_TABLE 13000	/* of which the table knows all calls */

struct ck_client {
	_Atomic int state;		/* enum ck_state */
	_Atomic bool initialized;	/* cuInit succeeded */
	bool passes_fds;		/* descriptors can be sent to the server: it is on this host */
	ck_hello_res hello;
	bool missing[CK_PROC_END];	/* messages that the server lacks, and that have been reported */
	/* There are or were streams that do not wait for the legacy one, or several contexts. */
	_Atomic bool unordered_streams;
	int driver_version;		/* told to the application; never changes */
	int gpu_count;
	struct ck_gpu *gpus;

	struct ck_connection connection;
	struct ck_lanes lanes;
	struct ck_command command;
	struct ck_deliveries deliveries;
	struct ck_watches watches;
	struct ck_suspicion suspicion;
	struct ck_spreading spreading;
	struct ck_answers answers;
	struct ck_named named;

	/* The parts of the higher folders: CK_CLIENT_PART of wire/hooks.h. */
	struct ck_objects *objects;
	struct ck_managed_state *managed;
	struct ck_memory *memory;
	struct ck_copying *copying;
	struct ck_modules *modules;
	struct ck_graphs *graphs;
	struct ck_nvml *nvml;
};

/* --- root.c: which session */

/* The process's session; NULL before anything has asked for it. For signal handlers. */
extern struct ck_client *ck_client_default __attribute__((visibility("hidden")));
struct ck_client *ck_client_first(void);
/* The session of the calling thread. */
static inline struct ck_client *ck_client_current(void)
{
	struct ck_client *c = __atomic_load_n(&ck_client_default, __ATOMIC_ACQUIRE);

	return likely(c != NULL) ? c : ck_client_first();
}
/* A session that has not connected yet; NULL: out of memory. */
struct ck_client *ck_client_create(void);

/* --- session.c: connection to the server */

/* Connect if that has not been done. 0, or the error cuInit shall return; told once on stderr. */
CUresult ck_session_open(struct ck_client *c);
/* Give up the session: every later call returns DEVICE_UNAVAILABLE. @why is printed once. */
void ck_session_lost(struct ck_client *c, const char *why);
/* The server's address, as the user knows it. */
const char *ck_session_server(const struct ck_client *c);
/* State to error, for entries; CUDA_SUCCESS in READY. Before cuInit: NOT_INITIALIZED. */
CUresult ck_session_check(void);
/* Does the server hold the image of this hash? Notes that it does from now on. */
bool ck_session_has_image(struct ck_client *c, const unsigned char hash[32]);

/* Does the server know message @proc? One that does not tell is taken to know all. */
static inline bool ck_session_offers(const struct ck_client *c, uint32_t proc)
{
	u_int length = c->hello.procedures.procedures_len;
	const unsigned char *bits = (unsigned char *)c->hello.procedures.procedures_val;

	return length == 0 || (proc / 8 < length && (bits[proc / 8] >> proc % 8 & 1));
}
/* --- refuse.c: NOT_SUPPORTED, for a message that the server does not know; told once of each. */
CUresult ck_not_offered(struct ck_client *c, uint32_t proc);

/* --- command.c: the one ordered stream of one-way messages (D4); the rest is in command.h */
/* How much work has been enqueued: it grows with each command and each call that enqueues some.
 * What was true of a stream when it was so much is true while it still is. */
uint64_t ck_command_last(void);
void ck_command_called(void);			/* a call that has enqueued work has returned */

/* --- thread.c: what belongs to one thread of the application */

#define CK_CONTEXT_STACK 64

struct ck_lane;

struct ck_thread {
	struct ck_context *stack[CK_CONTEXT_STACK];
	unsigned int depth;
	CUstream default_stream;	/* what stream 0 means: 0 (legacy) or CU_STREAM_PER_THREAD */
	CUstreamCaptureMode capture_mode;
	struct ck_lane *lane;		/* client/wire/lane.h */
	struct ck_stream **own_streams;	/* CU_STREAM_PER_THREAD of each context used */
	unsigned int own_stream_count;
};

struct ck_thread *ck_thread(void);		/* of the calling thread; NULL: out of memory */
/* The thread runs a host function of a stream: CUDA calls are NOT_PERMITTED there. */
extern __thread bool ck_inside_callback __attribute__((tls_model("initial-exec")));
/* The thread's calls are for a host function, which later commands may wait for: they wait for
 * no command. */
extern __thread bool ck_aside __attribute__((tls_model("initial-exec")));
/* Start a detached thread of our own: it takes no signals, which are the application's. -errno. */
int ck_thread_start(void *(*run)(void *), void *arg);
/* One that makes calls: it has its lane from the beginning, and does not find later that there are no descriptors. */
int ck_thread_start_calling(struct ck_client *c, void *(*run)(void *client));
/* Top of the calling thread's stack: most calls need it and nothing else of the thread. */
extern __thread struct ck_context *ck_thread_context __attribute__((tls_model("initial-exec")));
/* Current context of the calling thread or NULL. */
static inline struct ck_context *ck_context_current(void)
{
	return ck_thread_context;
}
/* Make @context current: OUT_OF_MEMORY when the stack is full. */
CUresult ck_context_push(struct ck_context *context);
/* Take the context on top off the stack: NULL when the stack is empty. */
struct ck_context *ck_context_pop(void);
/* Current context that can take work: INVALID_CONTEXT, CONTEXT_IS_DESTROYED otherwise. */
CUresult ck_context_usable(struct ck_context **context);

/* --- context.c */
/* Note what a call in context @ctx ended with: some errors stay with the context (D7). */
void ck_context_outcome(uint64_t ctx, CUresult err);
/* A context from a handle, NULL (of the calling thread) included; NULL: none or not valid. */
struct ck_context *ck_context_from(CUcontext handle);

/* --- stream.c */
/* Stream behind a handle: *@stream is NULL for the legacy stream. INVALID_HANDLE. */
CUresult ck_stream_from(CUstream handle, struct ck_stream **stream);
/* The same, and the context of its work, which need not be the current one; that must be usable. */
CUresult ck_stream_enter(CUstream handle, struct ck_context **context, struct ck_stream **stream);
/*
 * May an event or a function of @context go into @stream (NULL: the legacy one)? Of its own context,
 * that is; what green contexts hold is the primary context's.
 */
bool ck_stream_takes(const struct ck_stream *stream, const struct ck_context *context);
/* The current context, @handle's id and its device, for work that no capture can hold. */
CUresult ck_stream_uncaptured(CUstream handle, struct ck_context **ctx, uint64_t *id,
			      CUdevice *device);
/* Has a synchronise covered command @number in the stream of @id (0: legacy) of @context? The stream may be gone. */
bool ck_stream_waited(struct ck_context *context, uint64_t id, uint64_t number);
/* Nothing has been enqueued since a synchronise covered @stream (NULL: legacy). */
bool ck_stream_idle(struct ck_context *context, struct ck_stream *stream);
/* cuStreamSynchronize() for a call that is no less safe than work in that stream. */
CUresult ck_stream_settle(CUstream handle);
void ck_stream_synced(struct ck_context *context, struct ck_stream *stream, uint64_t command);
/* Wait for all that is in @stream (NULL: legacy), and note it. */
CUresult ck_stream_wait(struct ck_context *context, struct ck_stream *stream);

/* --- device.c */
CUresult ck_devices_build(struct ck_client *c); /* gpus of the session from hello */
struct ck_gpu *ck_gpu(CUdevice device);		/* NULL: no such device */
/* Attribute of @device, 0 where the driver has none. */
int ck_gpu_attribute(CUdevice device, CUdevice_attribute attribute);

/* --- address.c */
/*
 * Keep [address, address+size), the server's device memory, free of anything of this process from
 * now on, so that unified addressing holds (D9). False: something of ours lies there already.
 */
bool ck_address_claim(uint64_t address, size_t size);
/* The server's driver has given up a reservation: the addresses may be used here again. */
void ck_address_release(uint64_t address, size_t size);

/* --- allocation.c: what is known of memory */

enum ck_memory_kind {
	CK_MEMORY_DEVICE,		/* cuMemAlloc, or a module's variable */
	CK_MEMORY_HOST_ALLOC,		/* cuMemHostAlloc: pages of this process */
	CK_MEMORY_HOST_REGISTERED,
	CK_MEMORY_MANAGED,		/* of the device and of this process: client/managed/managed.h */
};

struct ck_allocation {
	uint64_t base, size;
	enum ck_memory_kind kind;
	struct ck_context *context;
	int device;
	unsigned int flags;		/* of cuMemHostAlloc, cuMemHostRegister */
	uint64_t buffer_id;
	bool variable;			/* of a module: goes with it, not by cuMemFree */
	bool pooled;			/* of a memory pool: of no context */
	bool mapped;			/* by cuMemMap: of no context, ends with cuMemUnmap */
	bool opened;			/* by cuIpcOpenMemHandle: another session's */
	bool graph;			/* of launches of a graph: each makes it anew, freed or not */
	bool shared;			/* pinned: the worker has it too (client/memory/pinned.h) */
	uint64_t access;		/* mapped: a bit per device that may use it */
	unsigned int handle_types;	/* mapped, pooled: how it may be exported */
};

CUresult ck_allocation_add(uint64_t base, size_t size, enum ck_memory_kind kind,
			   struct ck_context *context, unsigned int flags, bool variable);
/* The same of memory that is of no context; what is set in @what is kept. */
CUresult ck_allocation_note(const struct ck_allocation *what);
/* What is mapped in [base, base+size) may be used by the devices of @gained, not those of @lost. */
void ck_allocation_access(uint64_t base, size_t size, uint64_t gained, uint64_t lost);
/* The registered memory that begins at @base is shared with the worker from now on. */
void ck_allocation_share(uint64_t base);
/* Forget what is mapped in [base, base+size). */
void ck_allocation_unmap(uint64_t base, size_t size);
/* Is anything mapped in [base, base+size)? */
bool ck_allocation_mapped(uint64_t base, size_t size);
/* A copy of what holds @address; false: nothing known does. */
bool ck_allocation_find(uint64_t address, struct ck_allocation *found);
/* Remove the one that begins at @base and is of @kind; false when there is none. */
bool ck_allocation_remove(uint64_t base, enum ck_memory_kind kind, struct ck_allocation *gone);
void ck_allocation_forget(struct ck_context *context);
/* Does the device know memory of @kind by its address? All that is not the host's alone. */
static inline bool ck_kind_on_device(enum ck_memory_kind kind)
{
	return kind == CK_MEMORY_DEVICE || kind == CK_MEMORY_MANAGED;
}
/* Is @address in known device memory? Anything else counts as the host's. */
bool ck_on_device(uint64_t address);
/* CUDA_SUCCESS when [address, address+size) lies in one device allocation, or in mappings that
 * lie side by side. */
CUresult ck_device_range(uint64_t address, size_t size);

/* --- copy_3d.c */
/* Most bytes of a box in one message; larger ones go in parts. Changed by tests alone. */
extern size_t ck_copy_part;

/* --- hostmem.c */
/* Pages of pinned or managed memory that has been taken out of the table. */
void ck_hostmem_dispose(const struct ck_allocation *a);
/* Have the device reach pinned memory that a word of a kernel's parameters may point to. */
CUresult ck_hostmem_expose(uint64_t address);
/* Are [@to, @to+@size) pinned and no tracked pages, so that a copy may be written there later? */
bool ck_hostmem_takes_delivery(const void *to, size_t size);
/* CUDA_SUCCESS when the device can use [address, address+size) as its own: its memory, or pinned
 * memory, which it then reaches as a kernel does. */
CUresult ck_device_reach(uint64_t address, size_t size);
/* Wait, if need be, until @source, which a copy in @stream is to read now, can have been written by
 * the functions in front of it. */
CUresult ck_hostmem_settle(struct ck_context *context, struct ck_stream *stream,
			     const void *source);

/* --- module.c, function.c */
/* The function behind a CUfunction or a CUkernel; NULL: none. */
struct ck_function *ck_function_from(const void *handle);
/* Its id on the wire, announced to the server before it is first used. */
CUresult ck_function_announce(struct ck_function *function, uint64_t *id);

/*
 * Whether a launch's attributes ask for clusters that the grid and the kernel can have: INVALID_VALUE,
 * INVALID_CLUSTER_SIZE (cluster.c).
 */
CUresult ck_cluster_check(CUfunction function, const unsigned int *grid,
			  const CUlaunchAttribute *attributes, unsigned int count);

#endif
