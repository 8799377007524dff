/*
 * client/link/hooks.h - hook lists, by which a lower folder of client/ calls higher ones.
 *
 * A folder calls only itself and lower ones (enum ckc_layer). If an event in a lower folder
 * concerns higher ones, the lower folder declares a list and runs it; a higher folder adds hooks to
 * the list. The linker collects the hooks of a list in one section. So no constructor has to run
 * first: a program's libraries may call CUDA before the constructors of a preloaded library run.
 */
#ifndef CK_CLIENT_LINK_HOOKS_H
#define CK_CLIENT_LINK_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

struct ckc_client;
struct ckc_context;
struct ckc_stream;
struct ckc_thread;

/* The layers of client/, the lowest first, as in tools/layers. */
enum ckc_layer {
	CK_LAYER_LINK,
	CK_LAYER_WIRE,
	CK_LAYER_OBJECTS,
	CK_LAYER_MANAGED,
	CK_LAYER_MEMORY,
	CK_LAYER_COPY,
	CK_LAYER_MODULES,
	CK_LAYER_GRAPHS,
	CK_LAYER_NVML,
	CK_LAYER_CUPTI,
	CK_LAYER_NCCL,
	CK_LAYER_COUNT
};

/* Weak: a list may be empty. */
#define CK_HOOK_LIST(list)                                                                         \
	extern const struct ckc_hook_##list __start_ck_##list[]                                    \
		__attribute__((weak, visibility("hidden")));                                       \
	extern const struct ckc_hook_##list __stop_ck_##list[]                                     \
		__attribute__((weak, visibility("hidden")))

#define CK_HOOK(list, name, ...)                                                                   \
	static const struct ckc_hook_##list ck_hook_of_##name __attribute__((                      \
		used, aligned(sizeof(void *)), section("ck_" #list))) = {__VA_ARGS__}

/* Run the statement that follows for each hook @h of @list. */
#define ckc_each_hook(list, h)                                                                     \
	for (const struct ckc_hook_##list *h = __start_ck_##list; h < __stop_ck_##list; h++)

/*
 * --- a session begins (link/session_create.c): allocate a folder's part of it, zeroed. @slot is
 * the offset of its pointer in struct ckc_client. The parts of the process's first session are
 * static.
 */
struct ckc_hook_part {
	size_t slot, size;
	void *first;
	void (*begin)(void *part);
};
CK_HOOK_LIST(part);
#define CK_CLIENT_PART(member, type, begin)                                                        \
	static type first_##member;                                                                \
	CK_HOOK(part, member, offsetof(struct ckc_client, member), sizeof(type), &first_##member,  \
		begin)

/* --- a context ends (objects/context.c): forget its objects, the highest layer first */
struct ckc_hook_context_end {
	enum ckc_layer layer;
	void (*run)(struct ckc_context *context);
};
CK_HOOK_LIST(context_end);
#define CK_ON_CONTEXT_END(layer, function) CK_HOOK(context_end, function, layer, function)

/* --- a context is about to end (objects/context.c): it still works */
struct ckc_hook_context_closing {
	void (*run)(struct ckc_context *context);
};
CK_HOOK_LIST(context_closing);
#define CK_ON_CONTEXT_CLOSING(function) CK_HOOK(context_closing, function, function)

/* --- may work write memory that the program keeps when its context ends (objects/stream.c)? */
struct ckc_hook_context_writes {
	bool (*any)(const struct ckc_client *c);
};
CK_HOOK_LIST(context_writes);
#define CK_ON_CONTEXT_WRITES(function) CK_HOOK(context_writes, function, function)

/* --- a thread of the application ends (link/thread.c) */
struct ckc_hook_thread_end {
	void (*run)(struct ckc_thread *thread);
};
CK_HOOK_LIST(thread_end);
#define CK_ON_THREAD_END(function) CK_HOOK(thread_end, function, function)

/* --- the application destroys a stream (objects/stream.c) */
struct ckc_hook_stream_end {
	void (*run)(const struct ckc_stream *stream);
};
CK_HOOK_LIST(stream_end);
#define CK_ON_STREAM_END(function) CK_HOOK(stream_end, function, function)

/*
 * --- the program learns that earlier work of the device is done: from a wait, a query, or a
 * function of it that a stream calls (objects/). No lock is held.
 */
struct ckc_hook_work_done {
	void (*run)(void);
};
CK_HOOK_LIST(work_done);
#define CK_ON_WORK_DONE(function) CK_HOOK(work_done, function, function)

static inline CUresult ckc_work_done(CUresult err)
{
	if (!err)
		ckc_each_hook(work_done, h) h->run();
	return err;
}

/* --- this process is the child of a fork (wire/session.c): reset state that the parent's threads
 * held */
struct ckc_hook_fork {
	void (*run)(struct ckc_client *c);
};
CK_HOOK_LIST(fork);
#define CK_ON_FORK(function) CK_HOOK(fork, function, function)

/*
 * --- an answer is not in the cache, or has been put there (wire/cache.c). Find: earlier sessions
 * of the program have learned it. Learn: tell the server, for later ones.
 */
struct ckc_hook_recall {
	bool (*find)(const void *key, size_t key_size, void *value, size_t value_size);
	void (*learn)(const void *key, size_t key_size, const void *value, size_t value_size);
};
CK_HOOK_LIST(recall);

/*
 * --- an answer is neither in the cache nor recalled. True: the hook has asked the server for it,
 * and for others that the program is likely to ask for next; those it has put into the cache
 * (ckc_cache_put_ahead()).
 */
struct ckc_hook_inquire {
	bool (*run)(const void *key, size_t key_size, void *value, size_t value_size);
};
CK_HOOK_LIST(inquire);

/* --- the process ends (wire/exit.c). True: kernels may have printed text that was not fetched. */
struct ckc_hook_exit {
	bool (*run)(struct ckc_client *c);
};
CK_HOOK_LIST(exit);

/* --- the process ends (wire/exit.c), and may still make calls if @can_call */
struct ckc_hook_leave {
	void (*run)(struct ckc_client *c, bool can_call);
};
CK_HOOK_LIST(leave);

/* --- a stream will wait for a function, once the caller has sent the command for it
 * (objects/callback.c) */
struct ckc_hook_function_added {
	void (*run)(void);
};
CK_HOOK_LIST(function_added);
#define CK_ON_FUNCTION_ADDED(function) CK_HOOK(function_added, function, function)

/* --- a function of the application, called for the server, has returned (objects/callback.c) */
struct ckc_hook_function_end {
	void (*run)(void);
};
CK_HOOK_LIST(function_end);
#define CK_ON_FUNCTION_END(function) CK_HOOK(function_end, function, function)

/* --- a thread that waits for work from the server has had none for a while (objects/callback.c) */
struct ckc_hook_rest {
	void (*run)(struct ckc_client *c);
};
CK_HOOK_LIST(rest);
#define CK_ON_REST(function) CK_HOOK(rest, function, function)

/*
 * --- a message is about to read (@write: to write) the application's [@data, @data+@size)
 * (wire/call.c, wire/command.c). The hook returns an address where the bytes can be accessed
 * without a page fault.
 */
struct ckc_hook_payload {
	void *(*run)(const void *data, size_t size, bool write);
};
CK_HOOK_LIST(payload);
#define CK_ON_PAYLOAD(function) CK_HOOK(payload, function, function)

static inline void *ckc_payload_reach(const void *data, size_t size, bool write)
{
	if (size > 0)
		ckc_each_hook(payload, h) data = h->run(data, size, write);
	return (void *)(uintptr_t)data;
}

/*
 * --- the server had no memory for a message in context @ctx (wire/call.c). True: it has more now,
 * and the call is made again. Any lock may be held.
 */
struct ckc_hook_shortage {
	bool (*run)(struct ckc_client *c, uint64_t ctx);
};
CK_HOOK_LIST(shortage);
#define CK_ON_SHORTAGE(function) CK_HOOK(shortage, function, function)

/* --- a thread has waited for the server for a second; runs each second. Any lock may be held. */
struct ckc_hook_quiet {
	void (*run)(struct ckc_client *c);
};
CK_HOOK_LIST(quiet);
#define CK_ON_QUIET(function) CK_HOOK(quiet, function, function)

static inline void ckc_quiet(struct ckc_client *c)
{
	ckc_each_hook(quiet, h) h->run(c);
}

/*
 * --- bytes that no call asked for arrive ahead of a reply (link/lane_exchange.c). place() returns
 * where they belong, given the results ahead of them (NULL: protocol error). Then arrived() runs,
 * or broken() if the connection broke. The closure is a struct ckc_along. wait() returns when all
 * bytes up to the rank of a reply have arrived, or with an error if they never will.
 */
struct ckc_along {
	struct ckc_client *client;
	void *own[3]; /* for the hook's use; NULL at first */
};
struct ckc_hook_along {
	void *(*place)(void *closure, const void *results, size_t size);
	void (*arrived)(const void *closure, const void *results);
	void (*broken)(const void *closure);
	CUresult (*wait)(struct ckc_client *c, uint32_t rank);
};
CK_HOOK_LIST(along);

/* --- changes of shadowed memory (rpc/pinned.h) have arrived (wire/delivery.c). Any lock may be
 * held. */
struct ckc_hook_changes {
	void (*run)(struct ckc_client *c, const void *list, size_t size);
};
CK_HOOK_LIST(changes);
#define CK_ON_CHANGES(function) CK_HOOK(changes, function, function)

/*
 * --- a profiler is on, and a message has been sent or answered (wire/profile.h). clock() gives the
 * time at which its call began. No lock is held that a message needs.
 */
struct ckc_message {
	uint32_t proc;
	bool waits;  /* there was a reply */
	uint64_t id; /* its number on the server (rpc/activity.h) */
	uint64_t began;
	CUresult err;
	size_t sent, received; /* bytes on the wire, without strings */
};
struct ckc_hook_message {
	uint64_t (*clock)(void);
	void (*run)(const struct ckc_message *m);
};
CK_HOOK_LIST(message);

/* --- the program calls the driver, and a profiler watches (wire/profile.h, build/gen/watched.c) */
struct ckc_call {
	const char *name;
	uint32_t number;   /* CUPTI's number of the call */
	const void *given; /* the arguments, as a structure; NULL: none */
	CUresult result;   /* when it is left */
};
struct ckc_hook_call {
	void (*enter)(const struct ckc_call *call);
	void (*leave)(const struct ckc_call *call);
	uint32_t (*number)(void);      /* of the program's call that this thread is in; 0: none */
	void (*help)(uint32_t number); /* this thread works for that call; 0: no longer */
};
CK_HOOK_LIST(call);

/* --- a library of ours asks for its table by cuGetExportTable (memory/m3_shim.c) */
struct ckc_hook_own_table {
	CUuuid id;
	const void *table;
};
CK_HOOK_LIST(own_table);

/* --- cuInit has succeeded (objects/init.c); may run more than once */
struct ckc_hook_ready {
	void (*run)(struct ckc_client *c);
};
CK_HOOK_LIST(ready);
#define CK_ON_READY(function) CK_HOOK(ready, function, function)

/* --- a thread has faulted at @address (managed/fault.c). True: it can access it now. */
struct ckc_hook_fault {
	bool (*run)(uintptr_t address);
};
CK_HOOK_LIST(fault);
#define CK_ON_FAULT(function) CK_HOOK(fault, function, function)

#endif
