/*
 * client/objects/callback.h - functions of the application that the server's driver calls from a stream.
 *
 * The server knows a function by an id. Threads of ours fetch what is to be called and call it;
 * the first is started with the first function. In these threads CUDA calls are NOT_PERMITTED.
 */
#ifndef CK_CLIENT_OBJECTS_CALLBACK_H
#define CK_CLIENT_OBJECTS_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* What is to be called, and how: @run casts @function to what it is. */
struct ck_callback {
	void (*run)(const struct ck_callback *callback, int status, uint64_t value);
	void (*function)(void);
	void *data;
	void *handle;	/* a stream, an object: of use to run */
	bool persistent; /* may be called any number of times, and is kept */
	bool on_loss;	/* called with an error when the server is lost */
	bool ours;	/* of this library, not of the application: may make calls aside */
	bool in_stream;	/* its stream waits until it has returned */
	uint64_t round;	/* of waiting in which it was added; set by ck_callback_add */
};

/* Note a callback and see to it that a thread waits for work. OUT_OF_MEMORY, OPERATING_SYSTEM. */
CUresult ck_callback_add(const struct ck_callback *callback, uint64_t *id);
/* It will not be called (any more). */
void ck_callback_drop(uint64_t id);

/* The id of a pair of function and data that is kept: the same pair has the same id. OUT_OF_MEMORY,
 * OPERATING_SYSTEM. */
CUresult ck_callback_keep(const struct ck_callback *callback, uint64_t *id);

/* The pair behind the id of a host function that is kept; false: there is none. */
bool ck_callback_find(uint64_t id, CUhostFn *fn, void **data);

/*
 * Wait until the functions that streams wait for by now have returned; not for long, and for none a second time: they may
 * themselves wait for this thread.
 */
void ck_callbacks_let_return(void);

/* May some function yet be called? Then what it writes may not be there. */
bool ck_callback_pending(void);

#endif
