/*
 * emu/core/emu.h - shared by the files of the emulated driver: objects, devices, contexts, streams.
 *
 * Every handle an application holds points to a struct that starts with ck_emu_object. A live
 * object is in one table, so a garbage pointer is never followed; ck_emu_object_get() checks a
 * handle and takes a reference, which keeps the struct until ck_emu_object_put().
 *
 * Locks: object.c has the table of handles, engine.h the queues, event.c the events, arena.c the
 * address ranges, print.c a context's text; under these no other is taken, but for object.c's
 * counts, which are atomic. primary.c (a device's primary context) and library.c (loading into a
 * context) hold theirs while they do work that takes the former. Memory of a destroyed object
 * goes when its last command has run.
 */
#ifndef CK_EMU_CORE_EMU_H
#define CK_EMU_CORE_EMU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "emu/core/emu_api.h"
#include "emu/core/locks.h"
#include "util/util.h"
#include "util/wait.h"

#define CK_EMU_MAX_DEVICES 8
#define CK_EMU_VERSION 13050
#define CK_EMU_SM_COUNT 16
#define CK_EMU_SHARED_DEFAULT 49152u /* bytes a block may use without asking */
#define CK_EMU_SHARED_OPTIN 232448u  /* bytes a block may use at all */
#define CK_EMU_SHARED_SM 233472u     /* bytes of one multiprocessor */
#define CK_EMU_SHARED_RESERVED 1024u /* bytes the system keeps of each block */
#define CK_EMU_LIMITS 12	     /* limit numbers 0 to 11 have an answer */
#define CK_EMU_PRIORITY_LEAST 0
#define CK_EMU_PRIORITY_GREATEST (-5)

/* --- objects: handles, their table, reference counts (object.c) --- */

enum ck_emu_kind {
	CK_EMU_CONTEXT = 0x43545831, /* also the magic number in the struct */
	CK_EMU_MODULE = 0x4d4f4431,
	CK_EMU_LIBRARY = 0x4c494231,
	CK_EMU_FUNCTION = 0x46554e31, /* CUfunction and CUkernel */
	CK_EMU_STREAM = 0x53545231,
	CK_EMU_EVENT = 0x45565431,
	CK_EMU_LINK = 0x4c4e4b31,
	CK_EMU_RESOURCES = 0x52455331,
	CK_EMU_GREEN = 0x47524e31,
	CK_EMU_VIEW = 0x56494531,     /* a green context as a context */
	CK_EMU_PHYSICAL = 0x50485931, /* of cuMemCreate */
	CK_EMU_GRAPH = 0x47525031,
	CK_EMU_NODE = 0x4e4f4431,
	CK_EMU_EXEC = 0x45584331,
	CK_EMU_USER_OBJECT = 0x55534f31,
	CK_EMU_POOL = 0x504f4f31,
	CK_EMU_ARRAY = 0x41525231,
	CK_EMU_MIPMAP = 0x4d495031,
	CK_EMU_TEXTURE = 0x54455831,
	CK_EMU_SURFACE = 0x53524631,
	CK_EMU_TEXREF = 0x54524631,
	CK_EMU_SURFREF = 0x53524632,
	CK_EMU_NOTICE = 0x4e4f5431, /* a registration for notifications of a device */
};

struct ck_emu_command;
struct ck_emu_context;

struct ck_emu_object {
	enum ck_emu_kind kind;
	atomic_uint refs;
	struct ck_emu_object *owner;	/* counts references in our place: a function's module */
	struct ck_emu_context *context; /* NULL for contexts and libraries; holds a reference */
	void (*free)(struct ck_emu_object *object);
	/* Ends the handles of its parts; NULL: it has none. */
	void (*retract)(struct ck_emu_object *object);
};

/*
 * A handle that stands for another context, as the one a green context is converted to. Where a
 * context is expected, ck_emu_object_get() returns the other one.
 */
struct ck_emu_view {
	struct ck_emu_object base;
	struct ck_emu_context *under;
	unsigned int sm_count;
};

/* Fill in a new object with one reference, the creator's. */
void ck_emu_object_init(struct ck_emu_object *object, enum ck_emu_kind kind,
			struct ck_emu_context *context, void (*free)(struct ck_emu_object *object));
/* Make it a handle. CONTEXT_IS_DESTROYED when its context has gone, or OUT_OF_MEMORY. */
CUresult ck_emu_object_publish(struct ck_emu_object *object);
/* The object behind a handle, with a reference, or NULL when it is not a live @kind. */
void *ck_emu_object_get(const void *handle, enum ck_emu_kind kind);
/*
 * End a handle, with those of the object's parts: true for the one caller that took it out of the
 * table.
 */
bool ck_emu_object_retract(struct ck_emu_object *object);
void ck_emu_object_ref(struct ck_emu_object *object);
void ck_emu_object_put(struct ck_emu_object *object);
/* A live object for which @match holds, with a reference, or NULL. @match must not block. */
struct ck_emu_object *ck_emu_object_search(bool (*match)(const struct ck_emu_object *object,
							 const void *key),
					   const void *key);

/* --- the state of the driver (state.c) --- */

enum ck_emu_state {
	CK_EMU_NEW, /* before cuInit */
	CK_EMU_READY,
	CK_EMU_NO_DEVICE,
	CK_EMU_BROKEN,
	CK_EMU_BAD_LIST, /* of devices */
	CK_EMU_FORKED,
};

enum ck_emu_state ck_emu_state(void);
void ck_emu_state_set(enum ck_emu_state now);
/* True from the start of process exit on. */
bool ck_emu_exiting(void);
void ck_emu_exiting_set(void);
/* True on a worker that is inside the application's callback. */
bool ck_emu_thread_in_callback(void);
void ck_emu_thread_callback(bool inside);
/* The start of a call: NOT_INITIALIZED, DEINITIALIZED or NOT_PERMITTED. */
CUresult ck_emu_enter_bare(void);
/* The state of one context, as the end of ck_emu_enter() reports it. */
CUresult ck_emu_context_state(const struct ck_emu_context *context);
/* Why something could not be made in a context: its state, or OUT_OF_MEMORY. */
CUresult ck_emu_context_refusal(const struct ck_emu_context *context);

/* --- devices (device.c, device_query.c) --- */

#define CK_EMU_NAME "Cricket Emulated GPU"

struct ck_emu_device {
	int ordinal; /* as the application counts: see CUDA_VISIBLE_DEVICES */
	int number;  /* the same device, whoever counts */
	int bus;     /* of PCI; a process that moves to another device keeps its number */
	unsigned char uuid[16];
	size_t memory_total;   /* bytes */
	size_t context_memory; /* of it that each context takes */
	struct ck_emu_context *primary;
	struct ck_mutex primary_lock; /* retain, release, reset */
	unsigned int primary_count;
};

/* Set up the devices that the environment asks for; once. 0 or -errno; -EINVAL: a bad list. */
int ck_emu_devices_init(void);
int ck_emu_device_count(void);
/* NULL for a bad ordinal. */
struct ck_emu_device *ck_emu_device_at(CUdevice ordinal);
/* For NVML, which names all of the machine: number, bus, UUID and size alone. NULL for a bad
 * index. */
struct ck_emu_device *ck_emu_board_at(int index);
/* The bus in a PCI address; -EINVAL: it is none, -ENODEV: no device can have it. */
long ck_emu_bus_of(const char *address);
/*
 * Move the devices of this process, which is locked, to where @pairs lead; @gpus: GPUs of the
 * machine that they are in. INVALID_VALUE, and nothing has changed: they do not name each GPU of
 * the machine that it comes from, or two lead to one. And undo the last move.
 */
CUresult ck_emu_devices_move(const CUcheckpointGpuPair *pairs, unsigned int count,
			     unsigned int gpus);
void ck_emu_devices_move_undo(void);
/* GPUs of this machine, also those that the application does not see. Is there one of this UUID? */
int ck_emu_machine_count(void);
bool ck_emu_machine_has(const CUuuid *uuid);
/* Whether CRICKET_EMU=check=... has the word @name; ck_env_check reports others. */
bool ck_emu_check_asked(const char *name);
/* Whether a device can use another's memory: all can, without CRICKET_EMU=no-peers. */
bool ck_emu_device_reaches(CUdevice from, CUdevice to);
/* The value of an attribute that is known to exist. */
int ck_emu_attribute(const struct ck_emu_device *device, CUdevice_attribute number);

/* --- contexts (context.c, thread.c) --- */

struct ck_emu_context {
	struct ck_emu_object base;
	struct ck_emu_device *device;
	uint64_t id;
	bool is_primary;
	atomic_bool live;      /* not destroyed; a primary context: active */
	atomic_bool cancelled; /* running grids should stop */
	atomic_uint attached;  /* cuCtxAttach, less cuCtxDetach */
	atomic_int fault;      /* sticky CUresult of a kernel */
	atomic_uint flags, cache_config, shared_config;
	atomic_uint peers; /* mask of devices that kernels may reach */
	atomic_size_t limits[CK_EMU_LIMITS];
	atomic_size_t heap_used; /* bytes taken by malloc in kernels */
	size_t memory;		 /* bytes of the device that it takes itself */
	/* owned by engine.c, under engine.h's lock */
	struct ck_emu_stream *legacy;
	struct ck_emu_stream *gate; /* its commands are waited for by all others; NULL: none yet */
	unsigned int workers;	    /* threads that work for a stream */
	/* owned by print.c */
	struct ck_mutex print_lock;
	char *print_text;
	size_t print_size, print_room;
};

/* Create a context that is live, not published. NULL when out of memory. */
struct ck_emu_context *ck_emu_context_create(struct ck_emu_device *device, unsigned int flags);
/* Stop the work of a context and free all that is in it, for one caller; then it is not live. */
bool ck_emu_context_clear(struct ck_emu_context *context);
/* Make a cleared primary context fit for use again: 0 or -ENOMEM. */
int ck_emu_context_reset(struct ck_emu_context *context);
/* Make the primary context of each device, not active: 0 or -ENOMEM. Once (primary.c). */
int ck_emu_primaries_init(void);

/*
 * The start of a call that needs a context: NOT_INITIALIZED, NOT_PERMITTED in a host callback,
 * INVALID_CONTEXT without one, CONTEXT_IS_DESTROYED, or the context's sticky fault.
 */
CUresult ck_emu_enter(struct ck_emu_context **context);
/*
 * The same for calls that release an object of a context: without a current one *@context is NULL,
 * whose state is good.
 */
CUresult ck_emu_enter_owned(struct ck_emu_context **context);
/* This thread's stack of contexts; entries hold references. push returns -ENOMEM or 0. */
struct ck_emu_context *ck_emu_thread_context(void);
int ck_emu_thread_push(struct ck_emu_context *context, CUcontext handle);
CUcontext ck_emu_thread_handle(void); /* by which the application made the context current */
struct ck_emu_context *ck_emu_thread_pop(void); /* the caller gets the reference */
/* This thread's own stream of @context, made at need, with a reference; NULL: out of memory. */
struct ck_emu_stream *ck_emu_thread_stream(struct ck_emu_context *context);
/* The meaning of a null handle in this thread's current call: CU_STREAM_PER_THREAD, or NULL. */
CUstream ck_emu_thread_default(void);
/* Swap that: in front of a call and behind it, in the forms for per-thread default streams. */
CUstream ck_default_stream_set(CUstream stream);
/*
 * Work that this thread queues goes to @take, which then owns it, until @take is NULL again: a node
 * of a graph is made of the command that its call would queue.
 */
typedef CUresult ck_emu_take_fn(struct ck_emu_command *command);
void ck_emu_thread_redirect(ck_emu_take_fn *take);
ck_emu_take_fn *ck_emu_thread_redirected(void); /* NULL: to the stream, as usual */
/* Swap this thread's capture mode. */
CUstreamCaptureMode ck_emu_thread_capture_mode(CUstreamCaptureMode mode);

/* Wait until no command runs, a second at most. */
void ck_emu_engine_exit(void);

/* --- streams (engine.c, wait.c) --- */

/* A point in a stream's order: reached once the command of that number is done. */
struct ck_emu_point {
	struct ck_emu_stream *stream; /* holds a reference; NULL: reached */
	uint64_t number;
};

/*
 * A queued piece of work; the first member of each file's own struct. @run is called by the
 * stream's thread, in order; a result other than 0 becomes the context's sticky fault. After a
 * fault, or when the context ends, @run is called only when @always is set. @free releases the
 * command; it is called once, whether it ran or not.
 */
union ck_cupti_record;

struct ck_emu_command {
	struct ck_emu_command *next;
	uint64_t number;
	bool always;
	CUresult (*run)(struct ck_emu_command *command, struct ck_emu_context *context);
	void (*free)(struct ck_emu_command *command);
	/* For a profiler (objects/activity.h): the record of it, without times and place; NULL: it
	 * has none. */
	void (*describe)(const struct ck_emu_command *command, union ck_cupti_record *record);
	uint32_t correlation;	    /* its number there; 0: none */
	struct ck_emu_point *after; /* prerequisites besides its predecessor */
	unsigned int after_count;
};

struct ck_emu_stream {
	struct ck_emu_object base;
	unsigned int flags;
	atomic_int priority;
	uint64_t id;
	_Atomic(struct ck_emu_capture_end *) capture; /* capture.c's, while the stream captures */
	/* the rest under the engine's lock */
	struct ck_cond work, done;
	struct ck_emu_command *head, **tail;
	uint64_t submitted, completed;
	bool closing, listed, threaded;
	bool is_legacy;	  /* set before anybody else knows of it */
	CUgreenCtx green; /* whose it is, or NULL; may have gone since */
	struct ck_emu_stream *next;
};

/* A flag of streams of our own: a command waits for all that the context has queued before it. */
#define CK_EMU_STREAM_AFTER_ALL 0x100u

/* A stream, not published; the creator's reference. NULL when out of memory or too late. */
struct ck_emu_stream *ck_emu_stream_create(struct ck_emu_context *context, unsigned int flags,
					   int priority);
/*
 * The stream behind an application's handle (0, legacy, per thread or created), with a reference,
 * after ck_emu_enter(): INVALID_HANDLE, or the stream's context's fault.
 */
CUresult ck_emu_stream_get(CUstream handle, struct ck_emu_context *context,
			   struct ck_emu_stream **stream);
/* Whether a handle means the legacy stream here. */
bool ck_emu_stream_is_legacy(CUstream handle);
/*
 * Queue @command, which the engine then owns, also on error. @point, unless NULL, becomes the
 * command's place, with a reference. @after, unless NULL, is copied. A thread may divert what it
 * queues (ck_emu_thread_redirect()). Refused when stream capture forbids it: a call that can be
 * captured does not come here with a capturing stream.
 */
CUresult ck_emu_stream_submit(struct ck_emu_stream *stream, struct ck_emu_command *command,
			      const struct ck_emu_point *after, struct ck_emu_point *point);
/*
 * Wait for the stream's work queued so far; with @order, and for the legacy stream, for all that a
 * command queued now would wait for. Shows printed text. The context's state.
 */
CUresult ck_emu_stream_wait(struct ck_emu_stream *stream, bool order);
/* True when cuStreamSynchronize() would not wait. */
bool ck_emu_stream_idle(struct ck_emu_stream *stream);
bool ck_emu_stream_closing(struct ck_emu_stream *stream);
/* The stream on which all later work of the context waits, with a reference; NULL: out of memory,
 * or the context is going. */
struct ck_emu_stream *ck_emu_context_gate(struct ck_emu_context *context);
/* No new commands; the stream goes when its queue is empty. */
void ck_emu_stream_close(struct ck_emu_stream *stream);
/* Wait for all work of the context queued so far; shows printed text. Its state. */
CUresult ck_emu_context_wait(struct ck_emu_context *context);
/* Run and free @command once all work queued in @context is done; without work, only free it. */
void ck_emu_context_then(struct ck_emu_context *context, struct ck_emu_command *command);
/* Give the context the stream of its null handle: 0 or -ENOMEM. */
int ck_emu_context_start(struct ck_emu_context *context);
/* Before its end: wait for its work, but not for a kernel that never ends. */
void ck_emu_context_drain(const struct ck_emu_context *context);
/* Close every stream of the context and wait until no thread works for it. */
void ck_emu_context_stop(struct ck_emu_context *context);
/* Wait for all work in all contexts queued so far (host memory is about to go). */
CUresult ck_emu_all_wait(void);
/* The same until @until (CLOCK_MONOTONIC; NULL: without a limit); false: some still runs. */
bool ck_emu_all_wait_until(const struct timespec *until);

bool ck_emu_point_reached(const struct ck_emu_point *point);
void ck_emu_point_wait(const struct ck_emu_point *point);
void ck_emu_point_ref(const struct ck_emu_point *point);
void ck_emu_point_put(struct ck_emu_point *point);

/* Record an event by its handle at the end of @stream (event.c). */
CUresult ck_emu_event_record(CUevent handle, struct ck_emu_stream *stream);
/* Let @stream wait for an event's last record. */
CUresult ck_emu_event_wait(CUevent handle, struct ck_emu_stream *stream);
/* The same two with the object of an event. */
CUresult ck_emu_event_record_object(struct ck_emu_object *event, struct ck_emu_stream *stream);
CUresult ck_emu_event_wait_object(struct ck_emu_object *event, struct ck_emu_stream *stream);
/* Call the application from the thread of a stream (callback.c). */
void ck_emu_callback_call(CUhostFn function, void *data, struct ck_emu_context *context);

/* --- the output of kernels (print.c) --- */

void ck_emu_print(struct ck_emu_context *context, const char *text, size_t size);
/* Write it to stdout; at every point where the host waits for a device. */
void ck_emu_print_flush(struct ck_emu_context *context);

#endif
