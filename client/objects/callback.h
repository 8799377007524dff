/*
 * client/objects/callback.h - functions of the application that the server's driver calls from a
 * stream.
 *
 * The server knows a function by an id. Client threads fetch the calls and make them; the first
 * thread starts with the first function. CUDA calls in these threads return NOT_PERMITTED.
 */
#ifndef CK_CLIENT_OBJECTS_CALLBACK_H
#define CK_CLIENT_OBJECTS_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* In the flags of ck_host_function: it waits for another server, and its server may have to serve
 * that first. */
#define CKC_FUNCTION_HELD 4u

/* A function to call: @run casts @function to its real type. */
struct ckc_callback {
	void (*run)(const struct ckc_callback *callback, int status, uint64_t value);
	void (*function)(void);
	void *data;
	void *handle;	 /* a stream or an object, for run */
	bool persistent; /* kept: may be called any number of times */
	bool on_loss;	 /* called with an error when the server is lost */
	bool ours;	 /* of this library, not of the application: may call ckc_call_aside */
	bool in_stream;	 /* its stream blocks until it returns */
	uint64_t stream; /* ours in a stream: which; an id */
	uint64_t round;	 /* the round of waiting it was added in; set by ckc_callback_add */
};

/*
 * Note a callback and make sure that a thread waits for work. OUT_OF_MEMORY, OPERATING_SYSTEM. One
 * of ours in a stream first waits, a second at most, until no other stream has a function to come:
 * NVIDIA's driver runs the functions of all streams one after the other, so this one could keep
 * back one that it waits for.
 */
CUresult ckc_callback_add(const struct ckc_callback *callback, uint64_t *id);
/* Drop a callback: it will not be called (again). */
void ckc_callback_drop(uint64_t id);

/* The id for a pair of function and data, which is kept: an equal pair has the same id.
 * OUT_OF_MEMORY, OPERATING_SYSTEM. */
CUresult ckc_callback_keep(const struct ckc_callback *callback, uint64_t *id);

/* The function and data of a kept host function; false: there is none. */
bool ckc_callback_find(uint64_t id, CUhostFn *fn, void **data);

/*
 * Wait, for a limited time, until the functions that streams are blocked on now have returned. If
 * the wait times out, these functions are not waited for again: they may be waiting for this
 * thread.
 */
void ckc_callbacks_let_return(void);

/* Does a stream wait for a function, now or whenever a graph is launched? A call that such a
 * function needs must not wait for commands, which may wait for its stream. */
bool ckc_callback_blocks(void);

/* Is any function outstanding that may write the program's data? Then the data may not be there
 * yet. */
bool ckc_callback_pending(void);

#endif
